"""metadata.managedFields of ordinary writes."""

from typing import Any

from localcluster.apiserver import builtin_schemas
from localcluster.apiserver.apply import manager_name, track_update
from localcluster.apiserver.call import Call
from localcluster.apiserver.resource import Resource

Obj = dict[str, Any]


def schema_node(resource: Resource) -> Obj:
    """The schema by which lists merge and fields are owned; an empty one for a kind without."""
    if resource.schema is not None:
        return resource.schema.node
    return builtin_schemas.root(*resource.gvk) or {}


def manager_of(call: Call) -> str:
    """The field manager of a write."""
    return manager_name(call.query.get("fieldManager"), call.request.headers.get("user-agent", ""))


def track(call: Call, old: Obj | None, new: Obj) -> Obj:
    """`new` with managedFields brought up to date; an apply has already done so."""
    if call.applying:
        return new
    manager = manager_of(call)
    tracked = "managedFields" in new["metadata"] or (old is not None and "managedFields" in old["metadata"])
    if not tracked and not manager.startswith("kubectl"):
        return new
    resource = call.resource
    shown = resource.typed({**new, "metadata": dict(new["metadata"])})
    before = None if old is None else resource.typed(old)
    now = call.server.env.timestamp()
    track_update(schema_node(resource), before, shown, manager=manager, now=now, subresource=call.info.subresource)
    return resource.bare(shown)
