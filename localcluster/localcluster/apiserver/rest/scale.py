"""The scale subresource: replicas of a Deployment or custom resource as an autoscaling/v1 Scale."""

from collections.abc import Callable, Mapping
from typing import Any

from localcluster.apiserver.call import Call
from localcluster.apiserver.errors import (
    STALE,
    bad_request,
    conflict,
    invalid,
    invalid_object,
    not_found_cause,
)
from localcluster.apiserver.json_values import at, json_copy
from localcluster.apiserver.resource import Scale
from localcluster.apiserver.rest.patch import apply_patch, media_of
from localcluster.apiserver.rest.update import replace
from localcluster.request import Response

Obj = dict[str, Any]


def _scale_of(call: Call) -> tuple[Obj, Scale]:
    live = call.live()
    paths = call.resource.scale
    if paths is None:
        raise call.missing()
    meta = live.obj["metadata"]
    shown = {key: meta[key] for key in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp") if key in meta}
    selector = at(live.obj, paths.selector) if paths.selector else ""
    replicas = at(live.obj, paths.replicas)
    if replicas is None and call.resource.group == "apps":
        replicas = 1  # the real server's default, which is not stored here
    if replicas is None:
        causes = [not_found_cause(f".{paths.replicas}", "")]
        raise invalid_object(call.resource.kind, call.resource.group, live.name, causes)
    status: Obj = {"replicas": at(live.obj, paths.status_replicas) or 0}
    if selector:
        status["selector"] = selector
    scale = {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": shown}
    # autoscaling/v1 leaves out a zero.
    return {**scale, "spec": {"replicas": replicas} if replicas else {}, "status": status}, paths


def get(call: Call) -> Response:
    """GET …/scale."""
    return call.answer(_scale_of(call)[0])


def patch(call: Call) -> Response:
    """PATCH …/scale."""
    current, _ = _scale_of(call)
    return _write(call, apply_patch(call, media_of(call), current))


def _write(call: Call, wanted: Obj) -> Response:
    if wanted.get("kind") != "Scale":
        raise bad_request(f"the body of a scale update must be a Scale, not {wanted.get('kind')}")
    _, paths = _scale_of(call)
    live = call.live()
    version = (wanted.get("metadata") or {}).get("resourceVersion")
    if version and version != str(live.rv):
        raise conflict(call.resource.plural, call.resource.group, call.info.name, STALE)
    replicas = (wanted.get("spec") or {}).get("replicas", 0)
    if type(replicas) is not int or replicas < 0:
        # It is refused in its own name, with the path of its definition too.
        causes = [
            invalid("spec.replicas", replicas, "must be greater than or equal to 0"),
            invalid(f".{paths.replicas}", replicas, "should be a non-negative integer"),
        ]
        raise invalid_object(call.resource.kind, call.resource.group, call.info.name, causes)
    obj = json_copy(call.resource.typed(live.obj))
    target = obj
    *parents, last = paths.replicas.split(".")
    for part in parents:
        target = target.setdefault(part, {})
    target[last] = replicas
    replace(call, live, obj)
    return get(call)


HANDLERS: Mapping[str, Callable[[Call], Response]] = {"get": get, "patch": patch}
