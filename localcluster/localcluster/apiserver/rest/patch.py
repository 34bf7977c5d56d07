"""PATCH: the four patch types, on an object or on one of its subresources."""

from collections.abc import Mapping
from typing import Any

import jsonpatch
import msgspec
from jsonpointer import JsonPointerException

from localcluster.apiserver.call import BODY_LIMIT, Call, decode
from localcluster.apiserver.errors import (
    ApiError,
    bad_request,
    invalid_object,
    required,
    unsupported_media_type,
)
from localcluster.apiserver.json_values import json_copy
from localcluster.apiserver.patch_strategic import StrategicPatchError, strategic_merge
from localcluster.apiserver.rest.accept import accept
from localcluster.apiserver.rest.create import create_object
from localcluster.apiserver.rest.update import replace
from localcluster.request import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Response

Obj = dict[str, Any]


def patch(call: Call) -> Response:
    """PATCH of an object or of its status."""
    media = media_of(call)
    if media == APPLY_PATCH:
        return _apply(call)
    live = call.live()
    shown = call.resource.typed(live.obj)
    patched = apply_patch(call, media, shown)
    call.check_name(patched)
    return call.answer(replace(call, live, accept(call, patched)))


def _apply(call: Call) -> Response:
    """Server-side apply: the configuration is merged into the object, as a forced one is, or becomes a new object.

    No field has an owner: there are no conflicts, and what a configuration leaves out stays. Raises 400, 404, 422 ApiErrors.
    """
    if not call.query.get("fieldManager"):
        raise invalid_object("PatchOptions", "meta.k8s.io", "", [required("fieldManager", "is required for apply patch")])
    config = call.body()
    if not config.get("apiVersion") or not config.get("kind"):
        raise bad_request("an applied configuration needs apiVersion and kind")
    config["metadata"] = {"name": call.info.name, **(config.get("metadata") or {})}
    call.check_name(config)
    live = call.storage.table(call.resource.storage_key).get(call.namespace, call.info.name)
    if live is None and not call.info.subresource:
        return call.answer(create_object(call, accept(call, config)), 201)
    live = call.live()
    shown = call.resource.typed(live.obj)
    merged = merge(shown, config) if call.resource.custom else _strategic(call, shown, config)
    return call.answer(replace(call, live, accept(call, merged)))


def media_of(call: Call) -> str:
    """The patch type, if the resource takes it. Raises a 415 ApiError."""
    media = call.request.content_type.partition(";")[0].strip()
    accepted = [JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH]
    if call.resource.custom:
        # A strategic merge needs the merge keys of a built-in kind.
        accepted.remove(STRATEGIC_PATCH)
    if media not in accepted:
        raise unsupported_media_type(
            "the body of the request was in an unknown format - accepted media types include: " + ", ".join(accepted)
        )
    return media


def apply_patch(call: Call, media: str, obj: Obj) -> Obj:
    """`obj` with the request's patch applied; `obj` itself is not changed. Raises 400 and 422 ApiErrors."""
    body = call.request.body or b""
    if media == JSON_PATCH:
        return _json_patch(body, obj)
    document = decode(body, "application/json")
    if media == MERGE_PATCH:
        merged: Obj = merge(obj, document)
        return merged
    return _strategic(call, obj, document)


def _strategic(call: Call, obj: Obj, document: Obj) -> Obj:
    try:
        return strategic_merge(call.resource.node, obj, document)
    except StrategicPatchError as error:
        raise bad_request(str(error)) from None


def _json_patch(body: bytes, obj: Obj) -> Obj:
    if len(body) > BODY_LIMIT:
        raise ApiError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {BODY_LIMIT}")
    try:
        operations = msgspec.json.decode(body)
        if not isinstance(operations, list):
            raise bad_request("a JSON patch must be a list of operations")
        result = jsonpatch.JsonPatch(operations).apply(json_copy(obj), in_place=True)
    except msgspec.DecodeError as error:
        raise bad_request(f"error decoding patch: {error}") from None
    except (jsonpatch.JsonPatchException, JsonPointerException, TypeError, KeyError) as error:
        # A failed test or a missing path; the real server gives no more than this message.
        message = "the server rejected our request due to an error in our request"
        raise ApiError(422, "Invalid", message, {}) from error
    if not isinstance(result, dict):
        raise bad_request("the patch leaves something that is not an object")
    return result


def merge(target: Any, patched: Any) -> Any:
    """RFC 7386: a new value that shares the parts the patch does not touch."""
    if not isinstance(patched, Mapping):
        return patched
    result = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patched.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result
