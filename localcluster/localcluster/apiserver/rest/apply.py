"""Server-side apply requests; the algorithm is `localcluster.apiserver.apply`."""

from collections.abc import Sequence
from typing import Any

from localcluster.apiserver.apply import ApplyConflictError, ApplyError, UntypableError
from localcluster.apiserver.apply import apply as merge
from localcluster.apiserver.call import Call
from localcluster.apiserver.errors import ApiError, Cause, bad_request, conflict, invalid_object, required
from localcluster.apiserver.rest.accept import accept, decode
from localcluster.apiserver.rest.create import create_object
from localcluster.apiserver.rest.managers import field_sets_of, manager_of, reset
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
    merged = _merge(call, live, config)
    if live is not None:
        return call.answer(replace(call, live, accept(call, merged)))
    uid = config["metadata"].get("uid")
    if uid:
        why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        raise conflict(call.resource.plural, call.resource.group, name, why)
    return call.answer(create_object(call, accept(call, merged)), 201)


def _typed(call: Call, config: Obj) -> Obj:
    """The configuration as its schema has it. A field whose owner cannot be tracked is an error with any fieldValidation."""
    try:
        accepted, unknown = decode(call, config)
        problems = [f".{path}: field not declared in schema" for path in unknown]
        if call.resource.schema is not None:
            causes = call.resource.schema.validate(accepted)
            problems += [f".{cause.field}: {cause.message}" for cause in causes if _untypable(cause)]
    except UndecodableError as error:
        problems = [error.problem]
    if problems:
        raise _untyped(call, problems)
    return accepted


def _untypable(cause: Cause) -> bool:
    # A field for numbers and text (IntOrString) has no type that ownership depends on.
    mixed = "must be of type integer,string" in cause.message
    return cause.reason in ("FieldValueTypeInvalid", "FieldValueDuplicate") and not mixed


def _untyped(call: Call, problems: Sequence[str]) -> ApiError:
    resource = call.resource
    what = f"{call.info.namespace}/{call.info.name}; {resource.group}/{resource.version}, Kind={resource.kind}"
    told = problems[0] if len(problems) == 1 else "errors:\n" + "\n".join(f"  {problem}" for problem in problems)
    return ApiError(500, "", f"failed to create typed patch object ({what}): {told}")


def _merge(call: Call, live: Item | None, config: Obj) -> Obj:
    resource = call.resource
    try:
        return merge(
            field_sets_of(resource), None if live is None else resource.typed(live.obj), config, manager=manager_of(call),
            now=call.env.timestamp(), force=call.query.get("force") == "true", subresource=call.info.subresource,
            status_subresource=resource.status, custom=resource.custom, reset=reset(call),
        )  # fmt: skip
    except ApplyConflictError as error:
        raise ApiError(409, "Conflict", error.message, {"causes": error.causes}) from None
    except UntypableError as error:
        raise _untyped(call, [str(error)]) from None
    except ApplyError as error:
        raise bad_request(str(error)) from None
