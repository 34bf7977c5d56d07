"""Admission webhooks, without the calls themselves.

The core does no I/O. Where a webhook's answer is missing, handling a request ends with `UnansweredError`; the shell asks the
webhook and has the request handled again, from the start, at the same time and with the same random choices. So an answer
counts only if the question is still the same: if another write has changed the object meanwhile, the webhook is asked about the
new state.
"""

import base64
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import jsonpatch
import msgspec
from jsonpointer import JsonPointerException

from localcluster.apiserver import conditions
from localcluster.apiserver.call import Call
from localcluster.apiserver.errors import ApiError, forbidden_error
from localcluster.apiserver.json_copy import json_copy
from localcluster.apiserver.matching import registered, request_of, version_for
from localcluster.apiserver.questions import Question, Replies, Reply, UnansweredError
from localcluster.apiserver.resource import Resource
from localcluster.apiserver.storage import Storage

Obj = dict[str, Any]

_MUTATING, _VALIDATING = "mutatingwebhookconfigurations", "validatingwebhookconfigurations"


def any_registered(storage: Storage) -> bool:
    """Whether there are webhooks at all."""
    return any(
        True for plural in (_MUTATING, _VALIDATING) for _ in storage.table(f"{plural}.admissionregistration.k8s.io").items()
    )


def mutate(call: Call, operation: str, new: Obj | None, old: Obj | None) -> Obj | None:
    """The new state as the mutating webhooks want it, in the request's version; None if they change nothing.

    Raises UnansweredError, and the ApiErrors of a refusal.
    """
    if call.replies is None:
        return None
    hooks = _hooks(call, _MUTATING)
    state, last = new, -1
    for again in (False, True):
        changed_until = last
        for index, hook in enumerate(hooks):
            if again and not (hook.get("reinvocationPolicy") == "IfNeeded" and index < changed_until):
                continue
            asked = _question(call, hook, operation, state, old)
            if asked is None:
                continue
            question, shown = asked
            response = _accepted(call, hook, _replies(call.replies, [question])[0])
            patched = _patched(hook, response, state, shown)
            if patched is not None:
                state, last = patched, index
    return None if state is new or state is None else call.resource.typed(state)


def validate(call: Call, operation: str, new: Obj | None, old: Obj | None) -> None:
    """Ask the validating webhooks. Raises UnansweredError, and the ApiErrors of a refusal."""
    if call.replies is None:
        return
    asked = [(hook, found[0]) for hook in _hooks(call, _VALIDATING) if (found := _question(call, hook, operation, new, old))]
    for (hook, _), reply in zip(asked, _replies(call.replies, [question for _, question in asked]), strict=True):
        _accepted(call, hook, reply)


def _hooks(call: Call, plural: str) -> list[Obj]:
    return [hook for item in registered(call, plural) for hook in item.obj.get("webhooks") or ()]


def _question(call: Call, hook: Obj, operation: str, new: Obj | None, old: Obj | None) -> tuple[Question, Resource] | None:
    """What to ask, and the version in which the webhook sees the object; None if the request is not its business."""
    shown = version_for(call, operation, hook, hook.get("rules") or (), (new, old))
    if shown is None:
        return None
    request = request_of(call, operation, shown, new, old)
    met = conditions.met(hook.get("matchConditions") or (), conditions.variables(call, request))
    if isinstance(met, str):
        if hook["failurePolicy"] == "Ignore":
            return None
        raise forbidden_error(call.resource.plural, call.resource.group, request.get("name", ""), met)
    if not met:
        return None
    request = {"uid": call.env.uuid(), **request}
    review = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
    if "v1" not in hook["admissionReviewVersions"]:
        review["apiVersion"] = "admission.k8s.io/v1beta1"
    address, path, name = _target(call, hook["clientConfig"])
    authority = base64.b64decode(hook["clientConfig"].get("caBundle") or "")
    return Question(address, path, name, authority, hook["timeoutSeconds"], msgspec.json.encode(review)), shown


def _target(call: Call, config: Obj) -> tuple[str, str, str]:
    """Address (empty: there is none), path and name of the server."""
    if config.get("url"):
        parts = urlsplit(config["url"])
        return f"https://{parts.netloc}", parts.path or "/", parts.hostname or ""
    service = config["service"]
    name = f"{service['name']}.{service['namespace']}.svc"
    return _endpoint(call, service), service.get("path") or "/", name


def _endpoint(call: Call, wanted: Obj) -> str:
    """One of the addresses behind a service. There is no proxy: the pods are reached directly."""
    where = wanted["namespace"], wanted["name"]
    service = call.storage.table("services").get(*where)
    endpoints = call.storage.table("endpoints").get(*where)
    names = [
        port.get("name")
        for port in (service.obj["spec"].get("ports") or () if service else ())
        if port["port"] == wanted["port"]
    ]
    for subset in (endpoints.obj.get("subsets") or ()) if endpoints and names else ():
        for port in subset.get("ports") or ():
            if port.get("name") == names[0] and subset.get("addresses"):
                return f"https://{subset['addresses'][0]['ip']}:{port['port']}"
    return ""


def _replies(replies: Replies, questions: list[Question]) -> list[Reply]:
    missing = [question for question in questions if question.key not in replies.found]
    if missing:
        raise UnansweredError(missing)
    return [_checked(question, replies.found[question.key]) for question in questions]


def _checked(question: Question, reply: Reply) -> Reply:
    if isinstance(reply, str):
        return reply
    asked = msgspec.json.decode(question.body)["request"]["uid"]
    if reply.get("uid") != asked:
        return f'expected response.uid="{asked}", got "{reply.get("uid", "")}"'
    return reply


def _accepted(call: Call, hook: Obj, reply: Reply) -> Obj:
    """The response of a webhook that allows the request; an empty one for a failure that is ignored. Raises ApiErrors."""
    if isinstance(reply, str):
        if hook["failurePolicy"] == "Ignore":
            return {}
        message = f'Internal error occurred: failed calling webhook "{hook["name"]}": failed to call webhook: {reply}'
        raise ApiError(500, "InternalError", message, {"causes": [{"message": reply}]})
    call.warnings += reply.get("warnings") or ()
    if not reply.get("allowed"):
        raise _denied(hook["name"], reply.get("status") or {})
    return reply


def _denied(name: str, status: Mapping[str, Any]) -> ApiError:
    denied = f'admission webhook "{name}" denied the request'
    why = status.get("message") or status.get("reason")
    message = f"{denied}: {why}" if why else f"{denied} without explanation"
    return ApiError(max(status.get("code") or 0, 400), status.get("reason") or "", message, status.get("details"))


def _patched(hook: Obj, response: Obj, state: Obj | None, shown: Resource) -> Obj | None:
    """The stored form of `state` with the patch of the response; None if there is no patch."""
    if not response.get("patch") or state is None:
        return None
    try:
        operations = json.loads(base64.b64decode(response["patch"]))
        found = jsonpatch.JsonPatch(operations).apply(json_copy(shown.typed(state)), in_place=True)
    except (ValueError, TypeError, KeyError, jsonpatch.JsonPatchException, JsonPointerException) as error:
        raise ApiError(
            500, "InternalError", f'Internal error occurred: the patch of webhook "{hook["name"]}": {error}'
        ) from None
    return shown.bare(found)
