"""One mapping of a polyaxonfile while it is read: each key is read once, and a key that is never read is reported."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from jobcommon.cli.convert.finding import Notes

_HUMP = re.compile(r"(?<=[a-z0-9])([A-Z])")


def snake(key: str) -> str:
    """The snake_case spelling. Polyaxon took both from version 1.0 on."""
    return _HUMP.sub(r"_\1", key).lower()


def scalar_text(value: object) -> str | None:
    """A scalar as the text that YAML would have it; None for anything else."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int | float) else None


class Section:
    """A mapping at `path`. Keys are asked for in snake_case and found in either spelling."""

    def __init__(self, body: Mapping[str, Any], path: str, notes: Notes) -> None:
        self.path = path
        self.notes = notes
        self._left: dict[str, tuple[str, Any]] = {}
        for key, value in body.items():
            name = snake(key)
            if name in self._left:
                notes.error(self.at(key), f"is given twice, also as {self._left[name][0]}")
            self._left[name] = (key, value)

    def at(self, key: str) -> str:
        """The path of a key, in the document's own spelling."""
        spelt = self._left[key][0] if key in self._left else key
        return f"{self.path}.{spelt}" if self.path else spelt

    def has(self, key: str) -> bool:
        """Whether the key is there with a value and not yet taken."""
        return key in self._left and self._left[key][1] is not None

    def take(self, key: str) -> Any:
        """The value, which counts as read from then on; None if there is none."""
        return self._left.pop(key, (key, None))[1]

    def peek(self, key: str) -> Any:
        """The value, which does not count as read by that."""
        return self._left.get(key, (key, None))[1]

    def rest(self) -> dict[str, Any]:
        """All that has not been taken, in the document's spelling; it counts as read."""
        found = dict(self._left.values())
        self._left.clear()
        return found

    def section(self, key: str) -> "Section":
        """The mapping under `key`; an empty one when there is none."""
        path, value = self.at(key), self.take(key)
        if value is not None and not isinstance(value, Mapping):
            self.notes.error(path, "must be a mapping of names to values")
        return Section(value if isinstance(value, Mapping) else {}, path, self.notes)

    def sections(self, key: str) -> Iterator["Section"]:
        """The mappings in the list under `key`; a lone mapping counts as a list of one."""
        path, value = self.at(key), self.take(key)
        entries = [value] if isinstance(value, Mapping) else value
        if entries is not None and not isinstance(entries, list):
            self.notes.error(path, "must be a list of mappings")
            return
        for position, entry in enumerate(entries or ()):
            where = f"{path}[{position}]"
            if isinstance(entry, Mapping):
                yield Section(entry, where, self.notes)
            else:
                self.notes.error(where, "must be a mapping of names to values")

    def text(self, key: str) -> str | None:
        """The text under `key`; numbers and booleans as they are written."""
        path, value = self.at(key), self.take(key)
        found = scalar_text(value)
        if value is not None and found is None:
            self.notes.error(path, "must be text")
        return found

    def texts(self, key: str) -> dict[str, str]:
        """The mapping of names to text under `key`."""
        path, value = self.at(key), self.take(key)
        if value is not None and not isinstance(value, Mapping):
            self.notes.error(path, "must be a mapping of names to text")
        found: dict[str, str] = {}
        for name, entry in value.items() if isinstance(value, Mapping) else ():
            text = scalar_text(entry)
            if text is None:
                self.notes.error(f"{path}.{name}", "must be text")
            else:
                found[name] = text
        return found

    def words(self, key: str) -> list[str]:
        """The list of text under `key`; a lone text counts as a list of one. Each once."""
        path, value = self.at(key), self.take(key)
        entries = value if isinstance(value, list) else [] if value is None else [value]
        found = [scalar_text(entry) for entry in entries]
        if None in found:
            self.notes.error(path, "must be a list of text")
        return list(dict.fromkeys(word for word in found if word is not None))

    def integer(self, key: str, *, least: int = 0, most: int = 2**31 - 1) -> int | None:
        """The whole number under `key`."""
        path, value = self.at(key), self.take(key)
        if value is None:
            return None
        if isinstance(value, str) and re.fullmatch(r"-?\d{1,10}", value, re.ASCII):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            self.notes.error(path, f"must be a whole number from {least} to {most}")
            return None
        return value

    def refuse(self, message: str, *keys: str) -> None:
        """Report those of `keys` that are there as errors."""
        for key in keys:
            path = self.at(key)
            if self.take(key) not in (None, [], {}, ""):
                self.notes.error(path, message)

    def close(self) -> None:
        """Warn of every key that was not read: nothing is dropped silently."""
        for key in list(self._left):
            self.notes.warn(self.at(key), "has no meaning here and is omitted")
        self._left.clear()
