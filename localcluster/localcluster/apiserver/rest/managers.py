"""metadata.managedFields of ordinary writes, for the requests that make them."""

from collections.abc import Sequence
from typing import Any

from localcluster.apiserver import builtin_schemas, ownership
from localcluster.apiserver.apply import manager_name
from localcluster.apiserver.call import Call
from localcluster.apiserver.field_set_schema import FieldSetSchema, builtin
from localcluster.apiserver.field_sets import Path
from localcluster.apiserver.managed_fields import Manager
from localcluster.apiserver.resource import Resource

Obj = dict[str, Any]

_SPEC: Sequence[Path] = (("f:spec",),)
_STATUS: Sequence[Path] = (("f:status",),)
_NOT_OF_A_STATUS: Sequence[Path] = (("f:metadata",), ("f:spec",))
_NOT_OF_A_POD_STATUS: Sequence[Path] = (
    ("f:spec",), ("f:metadata", "f:deletionTimestamp"), ("f:metadata", "f:ownerReferences"),
)  # fmt: skip


def field_sets_of(resource: Resource) -> FieldSetSchema:
    """How its objects divide into fields that are owned one by one."""
    return builtin(*resource.gvk) if resource.schema is None else resource.schema.field_sets


def schema_node(resource: Resource) -> Obj:
    """The schema by which lists merge; an empty one for a kind without."""
    if resource.schema is not None:
        return resource.schema.node
    return builtin_schemas.root(*resource.gvk) or {}


def manager_of(call: Call) -> str:
    """The field manager of a write."""
    return manager_name(call.query.get("fieldManager"), call.request.headers.get("user-agent", ""))


def reset(call: Call) -> Sequence[Path]:
    """The fields that a write does not take from the request, so that the request's manager does not own them."""
    resource = call.resource
    if call.info.subresource != "status":
        return _STATUS if resource.status else ()
    if resource.custom:
        return _NOT_OF_A_STATUS
    return _NOT_OF_A_POD_STATUS if resource.plural == "pods" else _SPEC


def track_created(call: Call, new: Obj, asked: Obj, given: Any) -> None:
    """Set the managedFields of a new object; an apply has already done so.

    `new` has its defaults, but not yet the fields that admission adds; `asked` is the spec of the request, `given` the
    managedFields to start from.
    """
    if call.applying:
        return
    resource = call.resource
    start = ownership.before(resource.kind, custom=resource.custom)
    shown = resource.typed(_as_asked(resource, new, asked))
    now = call.env.timestamp()
    entries = ownership.of_created(field_sets_of(resource), shown, start, _me(call), now, reset(call), given)
    if entries:
        new["metadata"]["managedFields"] = entries


def entries_of_update(call: Call, old: Obj, new: Obj, asked: Obj, given: Any) -> list[Obj]:
    """The managedFields after an update, before admission adds to `new`.

    `asked` is the spec of the request, `given` its managedFields.
    """
    resource = call.resource
    if call.applying:
        # The apply has computed them already.
        return given or []
    shown = resource.typed(new if call.info.subresource else _as_asked(resource, new, asked))
    return ownership.of_updated(
        field_sets_of(resource), resource.typed(old), shown, None if call.info.subresource else given, _me(call),
        call.env.timestamp(), reset(call),
    )  # fmt: skip


def set_entries(new: Obj, old: Obj, entries: list[Obj]) -> None:
    """Give the finished `new` its managedFields."""
    meta, live = new["metadata"], old["metadata"].get("managedFields") or []
    meta.pop("managedFields", None)
    if entries:
        meta["managedFields"] = entries
    if live and entries is not live and ownership.same_but_for_times(entries, live):
        meta["managedFields"] = live
        if new != old:
            # A change of times alone does not count as one.
            meta["managedFields"] = entries


def spec_asked(resource: Resource, obj: Obj) -> Obj:
    """The spec of a request, to be kept before defaults change it; empty for a kind that is assigned nothing."""
    if not resource.strategy.assigned:
        return {}
    return {key: value for key, value in (obj.get("spec") or {}).items() if value not in ("", None, [])}


def _as_asked(resource: Resource, obj: Obj, asked: Obj) -> Obj:
    """The object with the spec as the request and its defaults had it, before the server assigned and dropped fields."""
    groups = resource.strategy.assigned
    if not groups or not isinstance(obj.get("spec"), dict):
        return obj
    unasked = {name for names in groups if not any(one in asked for one in names) for name in names}
    return {**obj, "spec": {**asked, **{key: value for key, value in obj["spec"].items() if key not in unasked}}}


def _me(call: Call) -> Manager:
    return ownership.me(manager_of(call), call.resource.api_version, call.info.subresource)
