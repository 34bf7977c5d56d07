"""Status fields that the API server drops silently, because the CustomResourceDefinition it serves lacks them.

Helm never replaces a definition, so an older one, or another operator's of the same kind, may be in place. What is not
stored must not count as recorded.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import msgspec

from jobcommon.api.decoding import decoder
from jobcommon.api.status import JobStatus
from jobcommon.client.errors import ClientError

PRESERVES = "x-kubernetes-preserve-unknown-fields"
MOST_NAMED = 5


class PrunedError(ClientError):
    """A status was written, but not all of it was stored. `fields` are the names of what was dropped, with dots."""

    def __init__(self, fields: frozenset[str]) -> None:
        super().__init__(f"the API server dropped {in_short(fields)}")
        self.fields = fields


class _Answer(msgspec.Struct):
    status: dict[str, Any] = {}


_answer = decoder(_Answer)


def check_stored(sent: Mapping[str, Any], body: bytes) -> None:
    """Raise PrunedError if the status in the response to a write lacks fields of ours that were sent."""
    try:
        stored = _answer(body).status
    except msgspec.DecodeError:
        return
    # The usual case costs one comparison.
    if stored != sent and (fields := frozenset(_dropped(_status_schema(), sent, stored, ""))):
        raise PrunedError(fields)


def undeclared(schema: Mapping[str, Any]) -> frozenset[str]:
    """The names of those fields of a job's status that the `schema` of a status drops."""
    return missing_fields(_status_schema(), schema)


def missing_fields(wanted: Mapping[str, Any], served: Mapping[str, Any]) -> frozenset[str]:
    """The names of those fields of the schema `wanted` that the schema `served` drops; of an object that it drops, no more."""
    return frozenset(_undeclared(wanted, served, ""))


def fields_of(status: Mapping[str, Any]) -> frozenset[str]:
    """The names of the fields that a status has."""
    return frozenset(_fields(_status_schema(), status, ""))


def in_short(fields: frozenset[str]) -> str:
    """Some of the names, for messages."""
    names = [f"status.{name}" for name in sorted(fields)]
    more = f" and {len(names) - MOST_NAMED} more fields" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


# -- walks along the schema of our own model ---------------------------------------------------------------------------


@cache
def _status_schema() -> Mapping[str, Any]:
    schema = JobStatus.model_json_schema(by_alias=True)
    resolved: Mapping[str, Any] = _resolved(schema, schema.get("$defs", {}))
    return resolved


def _resolved(node: Any, definitions: Mapping[str, Any]) -> Any:
    """The schema with its references put in, and without the alternative of null."""
    if isinstance(node, list):
        return [_resolved(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _resolved(definitions[node["$ref"].rpartition("/")[2]], definitions)
    if "anyOf" in node:
        return _resolved(node["anyOf"][0], definitions)
    return {key: _resolved(value, definitions) for key, value in node.items() if key != "$defs"}


def _children(node: Mapping[str, Any], path: str) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """The declared fields of an object: name, path and schema."""
    for name, child in (node.get("properties") or {}).items():
        yield name, f"{path}.{name}" if path else name, child


def _entry(node: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The schema of the entries of a list or map; None of anything else."""
    found = node.get("items") if node.get("type") == "array" else node.get("additionalProperties")
    return found if isinstance(found, Mapping) else None


def _undeclared(wanted: Mapping[str, Any], served: Mapping[str, Any], path: str) -> Iterator[str]:
    if served.get(PRESERVES):
        return
    declared = served.get("properties") or {}
    for name, below, child in _children(wanted, path):
        if name in declared:
            yield from _undeclared(child, declared[name], below)
        else:
            yield below
    if (entry := _entry(wanted)) is not None:
        found = _entry(served)
        if found is not None:
            yield from _undeclared(entry, found, path)
        elif served.get("type") == "object" and not served.get("additionalProperties"):
            yield path


def _dropped(wanted: Mapping[str, Any], sent: Any, stored: Any, path: str) -> Iterator[str]:
    if isinstance(sent, Mapping) and isinstance(stored, Mapping):
        entry = _entry(wanted) if "properties" not in wanted else None
        known = ((name, path, entry) for name in sent) if entry is not None else _children(wanted, path)
        for name, below, child in known:
            if name in stored:
                yield from _dropped(child, sent.get(name), stored[name], below)
            elif sent.get(name) not in (None, {}, []):
                yield below
    elif isinstance(sent, list) and isinstance(stored, list) and (entry := _entry(wanted)) is not None:
        for one, other in zip(sent, stored, strict=False):
            yield from _dropped(entry, one, other, path)


def _fields(wanted: Mapping[str, Any], sent: Any, path: str) -> Iterator[str]:
    if path:
        yield path
    if isinstance(sent, Mapping):
        entry = _entry(wanted) if "properties" not in wanted else None
        known = ((name, path, entry) for name in sent) if entry is not None else _children(wanted, path)
        for name, below, child in known:
            if name in sent:
                yield from _fields(child, sent[name], below)
    elif isinstance(sent, list) and (entry := _entry(wanted)) is not None:
        for one in sent:
            yield from _fields(entry, one, path)
