"""The managers of fields after an ordinary write: a create, an update or a patch other than apply.

Every write is tracked, as by the real server: a manager owns the fields it wrote last until another one writes or removes them.
Source: https://kubernetes.io/docs/reference/using-api/server-side-apply/, "Field management".
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from localcluster.apiserver import managed_fields
from localcluster.apiserver.builtin_schemas import Json
from localcluster.apiserver.field_set_schema import UNCHANGED, FieldSetSchema, added, compare
from localcluster.apiserver.field_sets import Path, holds, to_fields_v1, union
from localcluster.apiserver.managed_fields import UPDATE, Entry, Manager, Managers, ownable

#: What an object of any kind has before anything is written to it.
_BARE: Json = {"metadata": {}, "spec": {}, "status": {}}
_TEMPLATE: Json = {"metadata": {}, "spec": {"containers": None}}
_WORKLOAD: Json = {"metadata": {}, "spec": {"template": _TEMPLATE, "strategy": {}, "updateStrategy": {}}, "status": {}}
_BEFORE: Mapping[str, Json] = {
    "Pod": {**_BARE, "spec": {"containers": None}},
    **dict.fromkeys(("Deployment", "ReplicaSet", "DaemonSet", "Job"), _WORKLOAD),
    "StatefulSet": {**_WORKLOAD, "spec": {**_WORKLOAD["spec"], "serviceName": ""}},
    "CronJob": {**_BARE, "spec": {"jobTemplate": {"metadata": {}, "spec": {"template": _TEMPLATE}}, "schedule": ""}},
    "PodTemplate": {"metadata": {}, "template": _TEMPLATE},
    "HorizontalPodAutoscaler": {**_BARE, "spec": {"scaleTargetRef": {"kind": "", "name": ""}, "maxReplicas": 0}},
    "PersistentVolumeClaim": {**_BARE, "spec": {"resources": {}}},
    "CustomResourceDefinition": {**_BARE, "spec": {"names": {}}},
    "NetworkPolicy": {"metadata": {}, "spec": {"podSelector": {}}},
}
SCALE_VERSION = "autoscaling/v1"
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
    if not changes and (not given or given == live) and not doubled(live):
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


def doubled(live: Sequence[Json]) -> bool:
    """Whether two entries have one identity, as a write of the scale leaves them: the next update keeps one of them."""
    return len(live) > 1 and len(managed_fields.read(live)) < len(live)


def same_but_for_times(one: Sequence[Json], other: Sequence[Json]) -> bool:
    """Whether two managedFields differ in their times at most."""
    return [{**entry, "time": ""} for entry in one] == [{**entry, "time": ""} for entry in other]


def me(name: str, version: str, subresource: str) -> Manager:
    """The manager of an ordinary write."""
    return Manager(name, UPDATE, version, subresource)


def of_scaled(live: Any, replicas: Path, version: str, me: Manager, now: str, *, was: int, count: int) -> list[Json]:
    """The managedFields of an object after a write of its scale; `replicas` is where the count is, `version` the object's.

    The real server converts them to the managedFields of a Scale and back, which loses times and the identity of updaters.
    """
    parents = managed_fields.read(live)
    owners = {_of_scale(manager): entry.time for manager, entry in parents.items() if holds(entry.tree, replicas)}
    if owners and was != count:
        # A Scale has no field for a count of zero, so there is nothing then to own.
        owners = {me: now} if count else {}
    rows = []
    for manager, entry in parents.items():
        if manager in owners or not holds(entry.tree, replicas):
            owners.pop(manager, None)
            rows.append((manager, entry))
        else:
            rows.append((manager, entry.less(to_fields_v1([replicas]))))
    rows += [(owner, Entry.of(version, [replicas], "")) for owner in owners]
    return managed_fields.write(rows)


def _of_scale(manager: Manager) -> Manager:
    return replace(manager, version=SCALE_VERSION) if manager.operation == UPDATE else manager
