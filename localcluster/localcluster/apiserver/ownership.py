"""The managers of fields after an ordinary write: a create, an update or a patch other than apply.

Every write is tracked, as by the real server: a manager owns the fields it wrote last until another one writes or removes them.
Source: https://kubernetes.io/docs/reference/using-api/server-side-apply/, "Field management".
"""

from collections.abc import Mapping, Sequence
from typing import Any

from localcluster.apiserver import managed_fields
from localcluster.apiserver.builtin_schemas import Json
from localcluster.apiserver.field_set_schema import UNCHANGED, FieldSetSchema, added, compare
from localcluster.apiserver.field_sets import Path, union
from localcluster.apiserver.managed_fields import UPDATE, Entry, Manager, Managers, ownable

#: What an object of any kind has before anything is written to it.
_BARE: Json = {"metadata": {}, "spec": {}, "status": {}}
_BEFORE: Mapping[str, Json] = {
    "Pod": {**_BARE, "spec": {"containers": None}},
    "PersistentVolumeClaim": {**_BARE, "spec": {"resources": {}}},
    "CustomResourceDefinition": {**_BARE, "spec": {"names": {}}},
}
_CLEARED: Sequence[Any] = ([], [{}])


def before(kind: str, *, custom: bool) -> Json:
    """The fields that every object of a kind has from the start, and that have no manager therefore."""
    return {"metadata": {}} if custom else _BEFORE.get(kind, _BARE)


def of_created(
    schema: FieldSetSchema, obj: Json, start: Json, me: Manager, now: str, reset: Sequence[Path] = (), given: Any = None
) -> list[Json]:
    """The managedFields of a new object: its creator owns all but `start` and what the write `reset`s.

    Those `given` keep what the object does not have, as with the real server.
    """
    owned = _owned(schema, obj, start, reset)
    managers = _taken(managed_fields.read(given, trusted=False), me, owned, now)
    return managed_fields.write(managed_fields.capped(managers))


def of_untracked(schema: FieldSetSchema, obj: Json, start: Json, me: Manager, now: str, reset: Sequence[Path] = ()) -> Managers:
    """The managers of an object without managedFields: `me` owns every field."""
    return {me: Entry(me.version, _owned(schema, obj, start, reset), now)}


def _owned(schema: FieldSetSchema, obj: Json, start: Json, reset: Sequence[Path]) -> Json:
    try:
        return added(schema, start, ownable(obj, reset))
    except RecursionError:
        # Nested too deeply to compute the owners; the write itself goes on without them.
        return {}


def of_updated(
    schema: FieldSetSchema, old: Json, new: Json, given: Any, me: Manager, now: str, reset: Sequence[Path] = ()
) -> list[Json]:
    """The managedFields of `new`, an update of `old`.

    `given` are those in the update itself (None: none). They stay as they are if the update changes no field of another
    manager; an empty list in the update ends the tracking.
    """
    live: list[Json] = old["metadata"].get("managedFields") or []
    if given in _CLEARED:
        return []
    managers = managed_fields.read(live)
    try:
        if given and given != live:
            managers = managed_fields.read(given, trusted=False) or managers
        changes = compare(schema, ownable(old, reset), ownable(new, reset))
    except RecursionError:
        changes = UNCHANGED
    if not managers:
        return []
    if not changes and (not given or given == live):
        return live
    managers = {manager: entry.less(changes.removed) for manager, entry in managers.items()}
    if changes.written:
        managers = _taken(managers, me, changes.written, now)
    return managed_fields.write(managed_fields.capped(managers))


def _taken(managers: Managers, me: Manager, fields: Json, now: str) -> Managers:
    """The managers after `me` has written some fields: no other manager keeps them."""
    managers = {manager: entry.less(fields) for manager, entry in managers.items()}
    mine = managers.get(me)
    managers[me] = Entry(me.version, union(mine.tree if mine else {}, fields), now)
    return managers


def same_but_for_times(one: Sequence[Json], other: Sequence[Json]) -> bool:
    """Whether two managedFields differ in their times at most."""
    return [{**entry, "time": ""} for entry in one] == [{**entry, "time": ""} for entry in other]


def me(name: str, version: str, subresource: str) -> Manager:
    """The manager of an ordinary write."""
    return Manager(name, UPDATE, version, subresource)
