"""Server-side apply.

The algorithm is that of Kubernetes' "Server-Side Apply" documentation and sigs.k8s.io/structured-merge-diff: the
applied object is merged onto the live one; fields the manager applied before and leaves out now are removed, unless another
manager owns them; changing a field that another manager owns is a conflict, unless forced.
"""

from collections import defaultdict
from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Any

from localcluster.apiserver import managed_fields, ownership
from localcluster.apiserver.builtin_schemas import Json
from localcluster.apiserver.field_set_schema import (
    Changes,
    FieldSetSchema,
    compare,
    owned_by,
    with_named_fields,
    without,
)
from localcluster.apiserver.field_sets import Path, from_fields_v1, path_text
from localcluster.apiserver.list_order import interleave
from localcluster.apiserver.managed_fields import APPLY, UPDATE, Entry, Manager, Managers, ownable

BEFORE_FIRST_APPLY = "before-first-apply"
_IDENTITY = ("apiVersion", "kind")


class ApplyError(ValueError):
    """The applied object itself is wrong; the server answers 400."""


class UntypableError(ApplyError):
    """The schema cannot be matched with the fields of the applied object; the server answers 500."""


@dataclass
class ApplyConflictError(Exception):
    """Other managers own fields that would change; the server answers 409 with these causes."""

    message: str
    causes: list[Json]

    def __str__(self) -> str:
        return self.message


def manager_name(field_manager: str | None, user_agent: str) -> str:
    """The manager of a write: the request's fieldManager, else the user agent up to the first slash."""
    return field_manager or user_agent.partition("/")[0][:128] or "unknown"


def apply(
    schema: FieldSetSchema,
    live: Json | None,
    config: Json,
    *,
    manager: str,
    now: str,
    force: bool = False,
    subresource: str = "",
    status_subresource: bool = True,
    custom: bool = True,
    reset: Sequence[Path] = (),
) -> Json:
    """The object after `manager` applied `config` to `live` (None: create), with its managedFields.

    Equal to `live` when nothing changes. `now` is RFC 3339. With a status subresource the main resource ignores
    ``status``, and ``status`` ignores all else (but the metadata of a kind that is not `custom`).
    The fields that an ordinary write would `reset` have no owner in an object that was not tracked before. Neither
    argument is changed. Raises `ApplyConflictError` and `ApplyError`.
    """
    if "managedFields" in (config.get("metadata") or {}):
        raise ApplyError("metadata.managedFields must be nil")
    me = Manager(manager, APPLY, subresource=subresource)
    try:
        wanted = _without_nulls(_scoped(config, subresource, status_subresource, custom))
        managers = managed_fields.read((live or {}).get("metadata", {}).get("managedFields"))
        if live is not None and not managers:
            # An object written before tracking began is owned by its former writer, so that overwriting it is a conflict.
            before = Manager(BEFORE_FIRST_APPLY, UPDATE, live.get("apiVersion", ""), subresource)
            start = ownership.before(live.get("kind", ""), custom=custom)
            managers = ownership.of_untracked(schema, live, start, before, now, reset)
        return _apply(schema, live, wanted, managers, me, now, force)
    except RecursionError as error:
        raise ApplyError("the object is nested too deeply") from error


def _apply(
    schema: FieldSetSchema, live: Json | None, wanted: Json, managers: Managers, me: Manager, now: str, force: bool
) -> Json:  # fmt: skip
    current = live or {key: wanted[key] for key in _IDENTITY if key in wanted}
    version = wanted.get("apiVersion", "")
    try:
        claimed = frozenset(owned_by(schema, ownable(wanted)) - {("f:metadata",)})
        merged = _merge(schema, current, wanted)
    except ValueError as error:
        raise UntypableError(str(error)) from error
    last = managers.get(me)
    managers[me] = Entry.of(version, claimed, last.time if last else "")
    if last is not None and last.tree:
        # Identifying fields, such as the name, are claimed here, although they have no owner afterwards.
        others = (entry.fields for manager, entry in managers.items() if manager != me)
        merged = _prune(schema, merged, last.fields, owned_by(schema, wanted).union(*others))
    changes = compare(schema, ownable(current), ownable(merged))
    managers = _settle(managers, me, changes, force=force)
    if merged != current:
        # The time is that of the last change: a manager whose apply changes nothing is listed without one.
        managers[me] = Entry.of(version, claimed, now)
    return _with_managers(merged, managers)


def _scoped(config: Json, subresource: str, status_subresource: bool, custom: bool) -> Json:
    if subresource == "status":
        meta = config.get("metadata") or {}
        identity = {key: value for key, value in meta.items() if not custom or key in ("name", "namespace")}
        kept = {key: config[key] for key in (*_IDENTITY, "status") if key in config}
        return {**kept, "metadata": identity}
    if status_subresource:
        return {key: value for key, value in config.items() if key != "status"}
    return config


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def _merge(schema: FieldSetSchema, live: Any, wanted: Any) -> Any:
    if type(live) is not type(wanted) or schema.is_atomic(wanted) or schema.is_atomic(live):
        return wanted
    before, after = schema.parts(live), schema.parts(wanted)
    merged = {name: _merge(below, before[name][1], item) if name in before else item for name, (below, item) in after.items()}
    if isinstance(wanted, dict):
        return {**live, **{name[2:]: item for name, item in merged.items()}}
    places = {name: index for index, name in enumerate(before)}
    kept = [name for name in before if name not in after]
    order = interleave(kept, list(after), lambda name: places.get(name, len(places)))
    return [merged[name] if name in merged else before[name][1] for name in order]


def _prune(schema: FieldSetSchema, merged: Json, last: frozenset[Path], claimed: Set[Path]) -> Json:
    """Removes the fields that the manager gave up and that are not `claimed`.

    A list item or map entry is removed even if others own fields inside, because it is owned itself. A field that
    the schema names is removed with the last field inside. The steps are those of structured-merge-diff: remove all
    that was applied, add back what is claimed, then what was never applied.
    """

    def fields(value: Json) -> Set[Path]:
        return with_named_fields(schema, owned_by(schema, value))

    whole, given_up = fields(merged), with_named_fields(schema, last)
    left = fields(without(schema, merged, given_up)) | with_named_fields(schema, claimed)
    left = fields(without(schema, merged, whole - left))
    pruned: Json = without(schema, merged, (whole - left) & given_up)
    return pruned


def _settle(managers: Managers, me: Manager, changes: Changes, *, force: bool) -> Managers:
    """The managers and their fields after the apply. Raises `ApplyConflictError` for others' fields."""
    written = from_fields_v1(changes.written)
    conflicts = [(other, path) for other, entry in managers.items() if other != me for path in sorted(entry.fields & written)]
    if conflicts and not force:
        raise _conflict(conflicts, managers)
    return {
        other: entry if other == me else entry.less(changes.written).less(changes.removed) for other, entry in managers.items()
    }


def _conflict(conflicts: list[tuple[Manager, Path]], managers: Managers) -> ApplyConflictError:
    by_manager = defaultdict(list)
    causes = []
    for other, path in conflicts:
        who = _described(other, managers[other])
        by_manager[who].append(path_text(path))
        causes.append({"reason": "FieldManagerConflict", "message": f"conflict with {who}", "field": path_text(path)})
    if len(conflicts) == 1:
        return ApplyConflictError(f"Apply failed with 1 conflict: {causes[0]['message']}: {causes[0]['field']}", causes)
    lines: list[str] = []
    for who, paths in sorted(by_manager.items()):
        lines += [f"conflicts with {who}:", *(f"- {path}" for path in paths)]
    return ApplyConflictError(f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines), causes)


def _described(manager: Manager, entry: Entry) -> str:
    text = f'"{manager.name}"'
    if manager.subresource:
        text += f' with subresource "{manager.subresource}"'
    if manager.operation == UPDATE:
        text += f" using {entry.version}" + (f" at {entry.time}" if entry.time else "")
    return text


def _with_managers(item: Json, managers: Managers) -> Json:
    meta = {key: value for key, value in (item.get("metadata") or {}).items() if key != "managedFields"}
    written = managed_fields.write(managers)
    if written:
        meta["managedFields"] = written
    return {**item, "metadata": meta}
