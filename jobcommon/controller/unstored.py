"""Status fields that the API server drops silently, because the CustomResourceDefinition it serves lacks them.

Helm never replaces a definition, so an older one, or another operator's of the same kind, may be in place. What is not
stored must not count as recorded, and the response to each status write shows it. While `Unstored` has fields, each job's
condition says so, and the process is not ready; jobs are retried, and the first write that is stored whole ends it.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import msgspec

from jobcommon.api.model import model_schema
from jobcommon.api.status import JobStatus
from jobcommon.api.view import decoder
from jobcommon.client.errors import ClientError
from jobcommon.controller.result import Result, Work

MOST_NAMED = 5


class UnstoredError(ClientError):
    """A status was written, but not all of it was stored. `fields` are the names of the dropped fields, with dots."""

    def __init__(self, fields: frozenset[str]) -> None:
        super().__init__(f"the API server dropped {_in_short(fields)}")
        self.fields = fields


class Unstored:
    """The fields of one kind that the last writes have lost. `on_change` is called when the set of them changes."""

    def __init__(self, definition: str, on_change: Callable[[], None]) -> None:
        self.definition = definition
        self._on_change = on_change
        self.fields: frozenset[str] = frozenset()

    @property
    def text(self) -> str:
        """The problem and its remedy; "" if every field is stored."""
        if not self.fields:
            return ""
        return (
            f"the CustomResourceDefinition {self.definition} is outdated: {_in_short(self.fields)} cannot be stored. "
            "Update it: jobcommon crds | kubectl apply --server-side -f -"
        )

    def record(self, work: Work, result: Result) -> None:
        """Record the fields missing from the response to a status write."""
        status, before = work.plan.status, self.fields
        if isinstance(result.status_error, UnstoredError):
            self.fields |= result.status_error.fields
        elif before and status is not None and result.status_version:
            sent = status.to_json()
            if before & {name for name, _ in _fields(_status_schema(), sent, sent, "")}:
                # All fields are stored now.
                self.fields = frozenset()
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


def _in_short(fields: frozenset[str]) -> str:
    names = [f"status.{name}" for name in sorted(fields)]
    more = f" and {len(names) - MOST_NAMED} more fields" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


# -- walks along the schema of our own model ---------------------------------------------------------------------------


@cache
def _status_schema() -> Mapping[str, Any]:
    return model_schema(JobStatus)


def children(node: Mapping[str, Any], path: str) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """The declared fields of an object: name, path and schema."""
    for name, child in (node.get("properties") or {}).items():
        yield name, f"{path}.{name}" if path else name, child


def schema_of_entries(node: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The schema of the entries of a list or map; None of anything else."""
    found = node.get("items") if node.get("type") == "array" else node.get("additionalProperties")
    return found if isinstance(found, Mapping) else None


def _fields(wanted: Mapping[str, Any], sent: Any, stored: Any, path: str) -> Iterator[tuple[str, bool]]:
    """The declared fields that `sent` has, and whether `stored` has them; of an object that is not stored, no more."""
    of_entries = schema_of_entries(wanted) if "properties" not in wanted else None
    if isinstance(sent, list) and isinstance(stored, list) and of_entries is not None:
        for one, other in zip(sent, stored, strict=False):
            yield from _fields(of_entries, one, other, path)
    elif isinstance(sent, Mapping) and isinstance(stored, Mapping):
        for name, below, child in (
            [(name, path, of_entries) for name in sent] if of_entries is not None else children(wanted, path)
        ):
            if sent.get(name) not in (None, {}, []):
                yield below, name in stored
                yield from _fields(child, sent[name], stored.get(name), below)
