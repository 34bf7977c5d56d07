"""Server-side apply requests; the algorithm is `localcluster.apiserver.apply`."""

from typing import Any

from localcluster.apiserver.apply import ApplyConflictError, ApplyError, Manager, UntypableError
from localcluster.apiserver.apply import apply as merge
from localcluster.apiserver.call import Call
from localcluster.apiserver.errors import ApiError, bad_request, invalid_object, required
from localcluster.apiserver.rest.accept import accept, decode
from localcluster.apiserver.rest.create import create_object
from localcluster.apiserver.rest.update import replace
from localcluster.apiserver.storage import Item
from localcluster.apiserver.typed import UndecodableError
from localcluster.request import Response

Obj = dict[str, Any]


def apply(call: Call) -> Response:
    """PATCH with an apply configuration: update, or create if there is no object. Raises 400, 404, 409, 422 ApiErrors."""
    if not call.query.get("fieldManager"):
        causes = [required("fieldManager", "is required for apply patch")]
        raise invalid_object("PatchOptions", "meta.k8s.io", "", causes)
    asked = call.body()
    if not asked.get("apiVersion") or not asked.get("kind"):
        raise bad_request("an applied configuration needs apiVersion and kind")
    if call.info.subresource:
        # A missing object has no status: a 404, before any error of the configuration.
        call.live()
    config = _typed(call, asked)
    name = config["metadata"].setdefault("name", call.info.name)
    if name != call.info.name:
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({call.info.name})")
    live = call.storage.table(call.resource.storage_key).get(call.namespace, name)
    merged = accept(call, _merge(call, live, config))
    return call.answer(create_object(call, merged), 201) if live is None else call.answer(replace(call, live, merged))


def _typed(call: Call, config: Obj) -> Obj:
    """The configuration as its schema has it. A field whose owner cannot be tracked is an error with any fieldValidation."""
    try:
        accepted, unknown = decode(call, config)
        problems = [f".{path}: field not declared in schema" for path in unknown]
    except UndecodableError as error:
        problems = [error.problem]
    if problems:
        raise _untyped(call, ", ".join(problems))
    return accepted


def _untyped(call: Call, problem: str) -> ApiError:
    resource = call.resource
    what = f"{call.info.namespace}/{call.info.name}; {resource.group}/{resource.version}, Kind={resource.kind}"
    return ApiError(500, "", f"failed to create typed patch object ({what}): {problem}")


def _scoped(call: Call, config: Obj) -> Obj:
    """The part of the configuration that the path is about: all but the status, or the status."""
    if call.info.subresource == "status":
        meta = config["metadata"]
        identity = {key: value for key, value in meta.items() if not call.resource.custom or key in ("name", "namespace")}
        return {**{key: config[key] for key in ("apiVersion", "kind", "status") if key in config}, "metadata": identity}
    return {key: value for key, value in config.items() if key != "status"} if call.resource.status else config


def _merge(call: Call, live: Item | None, config: Obj) -> Obj:
    resource = call.resource
    try:
        return merge(
            resource.node, None if live is None else resource.typed(live.obj), _scoped(call, config),
            me=Manager(call.query["fieldManager"], call.info.subresource), now=call.env.timestamp(),
            force=call.query.get("force") == "true",
        )  # fmt: skip
    except ApplyConflictError as error:
        raise ApiError(409, "Conflict", error.message, {"causes": error.causes}) from None
    except UntypableError as error:
        raise _untyped(call, str(error)) from None
    except ApplyError as error:
        raise bad_request(str(error)) from None
