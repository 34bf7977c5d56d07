"""metadata.managedFields: one entry per manager, operation, version and subresource, with the set of fields it owns."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from localcluster.apiserver.builtin_schemas import Json
from localcluster.apiserver.field_sets import Path, from_fields_v1, to_fields_v1

APPLY, UPDATE = "Apply", "Update"
# Fields that identify the object or belong to the server are nobody's.
_UNOWNED_META = (
    "name", "namespace", "creationTimestamp", "selfLink", "uid", "generation", "managedFields", "resourceVersion",
    "deletionTimestamp", "deletionGracePeriodSeconds",
)  # fmt: skip


@dataclass(frozen=True)
class Manager:
    """Whose entry it is."""

    name: str
    operation: str
    version: str
    subresource: str = ""


@dataclass(frozen=True)
class Entry:
    """What a manager owns, and when that last changed (RFC 3339)."""

    fields: frozenset[Path]
    time: str

    def less(self, paths: set[Path]) -> "Entry":
        """The entry without these paths; its time stays, as on the real server."""
        return replace(self, fields=self.fields - paths) if self.fields & paths else self


Managers = dict[Manager, Entry]


def read(meta: Mapping[str, Any]) -> Managers:
    """The entries of an object's metadata; ones of the wrong shape are left out."""
    found: Managers = {}
    for entry in meta.get("managedFields") or ():
        if isinstance(entry, dict) and entry.get("manager") is not None and entry.get("operation") in (APPLY, UPDATE):
            key = Manager(entry["manager"], entry["operation"], entry.get("apiVersion", ""), entry.get("subresource", ""))
            found[key] = Entry(frozenset(from_fields_v1(entry.get("fieldsV1"))), entry.get("time", ""))
    return found


def write(managers: Managers) -> list[Json]:
    """The wire form: Apply before Update, then by time and name; entries that own nothing are dropped."""
    ordered = sorted(managers.items(), key=lambda row: (row[0].operation, row[1].time, row[0].name, row[0].subresource))
    return [_entry(manager, entry) for manager, entry in ordered if entry.fields]


def _entry(manager: Manager, entry: Entry) -> Json:
    row = {
        "manager": manager.name,
        "operation": manager.operation,
        "apiVersion": manager.version,
        "time": entry.time,
        "fieldsType": "FieldsV1",
        "fieldsV1": to_fields_v1(entry.fields),
    }
    return {**row, "subresource": manager.subresource} if manager.subresource else row


def ownable(item: Json) -> Json:
    """The object without what nobody can own."""
    kept = {key: value for key, value in item.items() if key not in ("apiVersion", "kind", "metadata")}
    meta = {key: value for key, value in (item.get("metadata") or {}).items() if key not in _UNOWNED_META}
    return {"metadata": meta, **kept} if meta else kept
