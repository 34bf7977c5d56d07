"""Status fields that the API server drops silently, because the CustomResourceDefinition it serves lacks them.

Helm never replaces a definition, so an older one, or another operator's of the same kind, may be in place. What is not
stored must not count as recorded. There are two sources: the served schema, which the driver reads at the start from OpenAPI
(every client may read that, unlike the definition itself), and the response to each status write. `Unstored` combines them.
While it has fields, each job's condition says so, the process is not ready, and the driver reads the schema again until the
definition is updated.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import msgspec

from jobcommon.api.model import model_schema
from jobcommon.api.status import JobStatus
from jobcommon.api.view import decoder
from jobcommon.client.errors import ClientError
from jobcommon.client.request import Request, Transport
from jobcommon.controller.result import Result, Work
from jobcommon.framework import Framework

PRESERVES = "x-kubernetes-preserve-unknown-fields"
MOST_NAMED = 5


class UnstoredError(ClientError):
    """A status was written, but not all of it was stored. `fields` are the names of the dropped fields, with dots."""

    def __init__(self, fields: frozenset[str]) -> None:
        super().__init__(f"the API server dropped {_in_short(fields)}")
        self.fields = fields


class Unstored:
    """The fields that one kind loses: `undeclared` in the schema that is served, `dropped` by the last writes.

    `on_change` is called when the set of them changes.
    """

    def __init__(self, definition: str, on_change: Callable[[], None]) -> None:
        self.definition = definition
        self._on_change = on_change
        self._undeclared: frozenset[str] = frozenset()
        self._dropped: frozenset[str] = frozenset()

    @property
    def fields(self) -> frozenset[str]:
        """All of them."""
        return self._undeclared | self._dropped

    @property
    def text(self) -> str:
        """The problem and its remedy; "" if every field is stored."""
        if not self.fields:
            return ""
        return (
            f"the CustomResourceDefinition {self.definition} is outdated: {_in_short(self.fields)} cannot be stored. "
            "Update it: jobcommon crds | kubectl apply --server-side -f -"
        )

    def served(self, undeclared: frozenset[str]) -> None:
        """Record the fields that the served schema lacks."""
        # When the definition was repaired, the next write shows whether any field is still dropped.
        repaired = bool(self._undeclared) and not undeclared
        self._set(undeclared, frozenset() if repaired else self._dropped)

    def record(self, work: Work, result: Result) -> None:
        """Record the fields missing from the response to a status write."""
        status = work.plan.status
        if isinstance(result.status_error, UnstoredError):
            self._set(self._undeclared, self._dropped | result.status_error.fields)
        elif self._dropped and status is not None and result.status_version:
            sent = status.to_json()
            if self._dropped & {name for name, _ in _fields(_status_schema(), sent, sent, "")}:
                # All fields are stored now.
                self._set(self._undeclared, frozenset())

    def _set(self, undeclared: frozenset[str], dropped: frozenset[str]) -> None:
        before = self.fields
        self._undeclared, self._dropped = undeclared, dropped
        if self.fields != before:
            self._on_change()


class _Answer(msgspec.Struct):
    status: dict[str, Any] = {}


_answer = decoder(_Answer)


def check_stored(sent: Mapping[str, Any], body: bytes) -> None:
    """Raise UnstoredError if the status in the response to a write lacks fields of ours that were sent."""
    try:
        stored = _answer(body).status
    except msgspec.DecodeError:
        return
    if stored == sent:
        return
    if fields := frozenset(name for name, kept in _fields(_status_schema(), sent, stored, "") if not kept):
        raise UnstoredError(fields)


class _Kind(msgspec.Struct):
    group: str = ""
    version: str = ""
    kind: str = ""


class _Schema(msgspec.Struct):
    kinds: list[_Kind] = msgspec.field(default=[], name="x-kubernetes-group-version-kind")
    properties: dict[str, msgspec.Raw] = {}


class _Components(msgspec.Struct):
    schemas: dict[str, _Schema] = {}


class _Document(msgspec.Struct):
    components: _Components = msgspec.field(default_factory=_Components)


_document = decoder(_Document)
_status = decoder(dict[str, Any])


async def undeclared_status_fields(transport: Transport, framework: Framework) -> frozenset[str] | None:
    """The status fields that the served schema of the framework's kind drops; None if the schema cannot be read."""
    group, _, version = framework.api_version.partition("/")
    try:
        response = await transport.send(Request("GET", f"/openapi/v3/apis/{framework.api_version}"))
        if response.status != 200:
            return None
        for schema in _document(response.body).components.schemas.values():
            if any((k.group, k.version, k.kind) == (group, version, framework.kind) for k in schema.kinds):
                return (
                    missing_fields(_status_schema(), _status(schema.properties["status"]))
                    if "status" in schema.properties
                    else None
                )
    except (ClientError, msgspec.DecodeError, AttributeError):
        return None
    return None


def missing_fields(wanted: Mapping[str, Any], served: Mapping[str, Any]) -> frozenset[str]:
    """The names of those fields of the schema `wanted` that the schema `served` drops; of an object that it drops, no more."""
    return frozenset(_undeclared(wanted, served, ""))


def _in_short(fields: frozenset[str]) -> str:
    names = [f"status.{name}" for name in sorted(fields)]
    more = f" and {len(names) - MOST_NAMED} more fields" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


# -- walks along the schema of our own model ---------------------------------------------------------------------------


@cache
def _status_schema() -> Mapping[str, Any]:
    return model_schema(JobStatus)


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


def _fields(wanted: Mapping[str, Any], sent: Any, stored: Any, path: str) -> Iterator[tuple[str, bool]]:
    """The declared fields that `sent` has, and whether `stored` has them; of an object that is not stored, no more."""
    entry = _entry(wanted) if "properties" not in wanted else None
    if isinstance(sent, list) and isinstance(stored, list) and entry is not None:
        for one, other in zip(sent, stored, strict=False):
            yield from _fields(entry, one, other, path)
    elif isinstance(sent, Mapping) and isinstance(stored, Mapping):
        for name, below, child in [(name, path, entry) for name in sent] if entry is not None else _children(wanted, path):
            if sent.get(name) not in (None, {}, []):
                yield below, name in stored
                yield from _fields(child, sent[name], stored.get(name), below)
