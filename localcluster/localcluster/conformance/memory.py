"""What a case has seen of one server, and the values of a step that depend on it."""

import itertools
from collections.abc import Mapping
from typing import Any

from localcluster.conformance.case import After, Json, Ref, Seen, Space


def at(value: Any, path: str) -> Any:
    """The value at a dotted path (list indices are numbers); None when there is none."""
    for part in path.split("."):
        if isinstance(value, list) and part.isdigit():
            value = value[int(part)] if int(part) < len(value) else None
        elif isinstance(value, Mapping):
            value = value.get(part)
        else:
            return None
    return value


def merge(target: Any, change: Any) -> Any:
    """RFC 7386, as a new value."""
    if not isinstance(change, Mapping):
        return change
    result = dict(target) if isinstance(target, Mapping) else {}
    for key, value in change.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


class Memory:
    """The answers of one server to one case, its namespaces by key, and a number for the next watch."""

    def __init__(self, spaces: Mapping[str, str]) -> None:
        self.spaces = dict(spaces)
        self.watches = itertools.count()
        self._seen: dict[str, list[Json]] = {}

    def remember(self, key: str, body: Json) -> None:
        """Keep a version, unless it is the one seen last."""
        versions = self._seen.setdefault(key, [])
        if not versions or versions[-1].get("metadata", {}).get("resourceVersion") != body["metadata"].get("resourceVersion"):
            versions.append(body)
        else:
            versions[-1] = body

    def version(self, key: str, back: int = 0) -> Json | None:
        """A recorded version, or the oldest one if there are fewer."""
        versions = self._seen.get(key)
        return versions[-min(back + 1, len(versions))] if versions else None

    def resolve(self, value: Any) -> Any:
        """`value` with every `Ref`, `Seen` and `Space` in it replaced."""
        if isinstance(value, Ref):
            found = at(self.version(value.key, value.back), value.path)
            return value.otherwise if found is None else found
        if isinstance(value, After):
            return After(self.resolve(value.start), value.seconds)
        if isinstance(value, Seen):
            seen = self.version(value.key, value.back)
            return self.resolve(value.otherwise) if seen is None else merge(seen, self.resolve(dict(value.change)))
        if isinstance(value, Space):
            return self.spaces[value.key]
        if isinstance(value, Mapping):
            return {key: self.resolve(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.resolve(item) for item in value]
        return value
