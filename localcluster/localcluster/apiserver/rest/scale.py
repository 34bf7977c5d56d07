"""The scale subresource: replicas of a Deployment or custom resource as an autoscaling/v1 Scale."""

from collections.abc import Callable, Mapping
from typing import Any

from localcluster.apiserver.call import Call
from localcluster.apiserver.errors import invalid, invalid_object, not_found_cause
from localcluster.apiserver.json_values import at, json_copy
from localcluster.apiserver.resource import Scale
from localcluster.apiserver.rest.patch import apply_patch, media_of, merge
from localcluster.apiserver.rest.update import replace
from localcluster.request import Response

Obj = dict[str, Any]


def _paths(call: Call) -> Scale:
    if call.resource.scale is None:
        raise call.missing()
    return call.resource.scale


def _scale_of(call: Call) -> Obj:
    live, paths = call.live(), _paths(call)
    meta = live.obj["metadata"]
    shown = {key: meta[key] for key in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp") if key in meta}
    selector = at(live.obj, paths.selector) if paths.selector else ""
    replicas = at(live.obj, paths.replicas)
    if replicas is None and call.resource.group == "apps":
        replicas = 1  # the real server's default, which is not stored here
    if replicas is None:
        causes = [not_found_cause(f".{paths.replicas}", "")]
        raise invalid_object(call.resource.kind, call.resource.group, live.name, causes)
    status = {"replicas": at(live.obj, paths.status_replicas) or 0, **({"selector": selector} if selector else {})}
    scale = {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": shown}
    # autoscaling/v1 leaves out a zero.
    return {**scale, "spec": {"replicas": replicas} if replicas else {}, "status": status}


def get(call: Call) -> Response:
    """GET …/scale."""
    return call.answer(_scale_of(call))


def patch(call: Call) -> Response:
    """PATCH …/scale."""
    wanted, path = apply_patch(call, media_of(call), _scale_of(call)), _paths(call).replicas
    replicas = (wanted.get("spec") or {}).get("replicas", 0)
    if type(replicas) is not int or replicas < 0:
        # It is refused in its own name, with the path of its definition too.
        causes = [
            invalid("spec.replicas", replicas, "must be greater than or equal to 0"),
            invalid(f".{path}", replicas, "should be a non-negative integer"),
        ]
        raise invalid_object(call.resource.kind, call.resource.group, call.info.name, causes)
    change: Any = replicas
    for part in reversed(path.split(".")):
        change = {part: change}
    live = call.live()
    version = {"resourceVersion": (wanted.get("metadata") or {}).get("resourceVersion")}
    replace(call, live, json_copy(merge(call.resource.typed(live.obj), {**change, "metadata": version})))
    return get(call)


HANDLERS: Mapping[str, Callable[[Call], Response]] = {"get": get, "patch": patch}
