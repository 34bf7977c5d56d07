"""metadata.managedFields: one entry per manager, operation, version and subresource, with the set of fields it owns."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from localcluster.apiserver.builtin_schemas import Json
from localcluster.apiserver.field_sets import Path, difference, from_fields_v1, to_fields_v1, union

APPLY, UPDATE = "Apply", "Update"
_MOST_UPDATERS, _ANCIENT = 10, "ancient-changes"
# Fields that identify the object or belong to the server have no manager.
_UNOWNED_META = frozenset((
    "name", "namespace", "creationTimestamp", "selfLink", "uid", "generation", "managedFields", "resourceVersion",
))  # fmt: skip
_TYPE = frozenset(("apiVersion", "kind"))


@dataclass(frozen=True, slots=True)
class Manager:
    """The identity of an entry. A manager that applies is the same in every version."""

    name: str
    operation: str
    version: str = ""
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """What a manager owns in which version, and when that last changed (RFC 3339; empty: unknown).

    `tree` is the set in the form of FieldsV1. It is shared and must not be changed.
    """

    version: str
    tree: Json
    time: str

    @staticmethod
    def of(version: str, paths: Iterable[Path], time: str) -> "Entry":
        """The entry of a set of paths."""
        return Entry(version, to_fields_v1(paths), time)

    @property
    def fields(self) -> frozenset[Path]:
        """The paths of the set."""
        return frozenset(from_fields_v1(self.tree))

    def less(self, tree: Json) -> "Entry":
        """The entry without the members of a set; its time stays, as on the real server."""
        tree = difference(self.tree, tree)
        return self if tree is self.tree else replace(self, tree=tree)


Managers = dict[Manager, Entry]


def read(entries: Any, *, trusted: bool = True) -> Managers:
    """The entries of an object's managedFields; none when one of them is of the wrong shape.

    Those of a stored object are trusted to hold sets; those that a client sends are not.
    """
    found: Managers = {}
    for entry in entries or ():
        if not isinstance(entry, dict) or entry.get("operation") not in (APPLY, UPDATE) or not entry.get("apiVersion"):
            return {}
        if entry.get("fieldsType") != "FieldsV1" or not (trusted or _is_set(entry.get("fieldsV1", {}))):
            return {}
        version, operation = entry["apiVersion"], entry["operation"]
        # Of two with one identity, which a scale leaves behind, the last one counts.
        key = Manager(entry.get("manager", ""), operation, version if operation == UPDATE else "", entry.get("subresource", ""))
        found[key] = Entry(version, entry.get("fieldsV1", {}), entry.get("time") or "")
    return found


def _is_set(tree: Any) -> bool:
    return isinstance(tree, dict) and all(_is_set(below) for below in tree.values())


def write(managers: Mapping[Manager, Entry] | Iterable[tuple[Manager, Entry]]) -> list[Json]:
    """The wire form: Apply before Update, then by time and name; entries that own nothing are dropped."""
    rows = managers.items() if isinstance(managers, Mapping) else managers
    ordered = sorted(rows, key=lambda row: (row[0].operation, row[1].time, row[0].name, row[1].version, row[0].subresource))
    return [_entry(manager, entry) for manager, entry in ordered if entry.tree]


def capped(managers: Managers) -> Managers:
    """With at most ten updaters: the oldest of a version become one. An update does so, an apply does not."""
    updaters = [manager for manager in managers if manager.operation == UPDATE]
    excess = len(updaters) - _MOST_UPDATERS
    if excess <= 0:
        return managers
    kept, first = dict(managers), dict[str, Manager]()
    for manager in sorted(updaters, key=lambda one: (managers[one].time, one.name, one.version, one.subresource)):
        oldest = first.setdefault(manager.version, manager)
        bucket = Manager(_ANCIENT, UPDATE, manager.version)
        if excess and manager not in (oldest, bucket):
            if bucket not in kept:
                kept[bucket] = kept.pop(oldest)
            entry = kept.pop(manager)
            kept[bucket] = Entry(entry.version, union(entry.tree, kept[bucket].tree), entry.time)
            excess -= 1
    return kept


def _entry(manager: Manager, entry: Entry) -> Json:
    row = {"manager": manager.name, "operation": manager.operation, "apiVersion": entry.version}
    if entry.time:
        row["time"] = entry.time
    found: Json = {**row, "fieldsType": "FieldsV1", "fieldsV1": entry.tree}
    return {**found, "subresource": manager.subresource} if manager.subresource else found


def ownable(item: Json, reset: Sequence[Path] = ()) -> Json:
    """The object without the fields that cannot have a manager or that the write `reset`s (paths of at most two fields)."""
    whole = {path[0][2:] for path in reset if len(path) == 1} | _TYPE
    kept = {key: value for key, value in item.items() if key not in whole}
    if "metadata" in kept:
        unowned = _UNOWNED_META | {path[1][2:] for path in reset if len(path) == 2}
        kept["metadata"] = {key: value for key, value in item["metadata"].items() if key not in unowned}
    return kept
