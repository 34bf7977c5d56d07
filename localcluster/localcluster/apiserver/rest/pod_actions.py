"""The other subresources that write: binding, eviction, token, finalize."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from localcluster.apiserver.authentication import DEFAULT_AUDIENCES
from localcluster.apiserver.call import Call
from localcluster.apiserver.errors import (
    STALE,
    bad_request,
    conflict,
    invalid,
    invalid_object,
    not_found,
    required,
)
from localcluster.apiserver.rest.delete import check_preconditions, delete_object, options_of
from localcluster.apiserver.rest.update import commit
from localcluster.apiserver.storage import Item
from localcluster.request import Response
from localcluster.timestamps import format_time

Obj = dict[str, Any]

#: See testutil/sim/assumptions.toml.
ASSUMES = ("binding", "eviction-api")
_CREATED: Obj = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
_TOKEN_SECONDS = 3600
_SHORTEST_TOKEN = 600


def bind(call: Call) -> Response:
    """POST pods/x/binding: assign the pod to a node, once."""
    body = call.body()
    live = call.live()
    node = (body.get("target") or {}).get("name")
    if not node:
        raise invalid_object("Binding", "", call.info.name, [required("target.name")])
    why = ""
    if assigned := live.obj["spec"].get("nodeName"):
        why = f'is already assigned to node "{assigned}"'
    elif "deletionTimestamp" in live.obj["metadata"]:
        why = "is being deleted, cannot be assigned to a host"
    elif live.obj["spec"].get("schedulingGates"):
        why = "has non-empty .spec.schedulingGates"
    if why:
        raise conflict("pods/binding", "", call.info.name, f"pod {call.info.name} {why}")
    uid = (body.get("metadata") or {}).get("uid")
    if uid and uid != live.uid:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {live.uid}"
        raise conflict("pods", "", call.info.name, why)
    condition = {
        "type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": call.env.timestamp()
    }  # fmt: skip
    status = live.obj.get("status", {})
    others = [one for one in status.get("conditions") or () if one.get("type") != "PodScheduled"]
    spec = {**live.obj["spec"], "nodeName": node}
    commit(call, live, {**live.obj, "spec": spec, "status": {**status, "conditions": [*others, condition]}})
    return call.answer(_CREATED, 201)


def evict(call: Call) -> Response:
    """POST pods/x/eviction: a deletion after which the pod's end is known as a disruption."""
    body = call.body()
    live = call.live()
    given = body.get("deleteOptions") or {}
    options, dry_run = options_of(call, given), call.dry_run or bool(given.get("dryRun"))
    if not dry_run:
        check_preconditions(call, live, options)
        live = _disrupted(call, live)
        # The version asked for was that of the pod before this write of our own.
        options = replace(options, version="")
    delete_object(call, live, options, dry_run)
    return call.answer(_CREATED, 201)


def _disrupted(call: Call, live: Item) -> Item:
    """The pod with the condition by which its end is known as a disruption: a write of its own, before the deletion."""
    status = live.obj.get("status", {})
    condition = {
        "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting",
        "lastProbeTime": None, "lastTransitionTime": call.env.timestamp(),
    }  # fmt: skip
    before = status.get("conditions") or []
    if any(one.get("type") == "DisruptionTarget" and one.get("status") == "True" for one in before):
        return live
    others = [one for one in before if one.get("type") != "DisruptionTarget"]
    commit(call, live, {**live.obj, "status": {**status, "conditions": [*others, condition]}})
    return call.live()


def token(call: Call) -> Response:
    """POST serviceaccounts/x/token: a TokenRequest."""
    body = call.body()
    account = call.live()
    spec = body.get("spec") or {}
    seconds = spec.get("expirationSeconds", _TOKEN_SECONDS)
    if type(seconds) is not int or seconds < _SHORTEST_TOKEN:
        causes = [invalid("spec.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")]
        raise invalid_object("TokenRequest", "authentication.k8s.io", "", causes)
    audiences = spec.get("audiences") or list(DEFAULT_AUDIENCES)
    reference = spec.get("boundObjectRef")
    bound = None if reference is None else _bound(call, reference)
    minted = call.authenticator.mint(account, seconds, audiences, bound)
    answer = {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"name": account.name, "namespace": account.namespace, "creationTimestamp": call.env.timestamp()},
        "spec": {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": reference},
        "status": {"token": minted, "expirationTimestamp": format_time(call.env.now() + seconds)},
    }
    return call.answer(answer, 201)


def _bound(call: Call, reference: Obj) -> Item:
    """The pod that a token is to be bound to. Raises 400, 404 and 409 ApiErrors."""
    kind, name = (reference.get(field) or "" for field in ("kind", "name"))
    if kind != "Pod":
        raise bad_request(f"cannot bind token to object of kind {kind}")
    found = call.storage.table("pods").get(call.namespace, name)
    if found is None or found.obj["spec"].get("serviceAccountName") != call.info.name:
        raise not_found("pods", "", name)
    uid = reference.get("uid")
    if uid and uid != found.uid:
        told = f"the UID in the bound object reference ({uid}) does not match the UID in record"
        raise conflict(kind, "", name, f"{told}. The object might have been deleted and then recreated")
    return found


def finalize(call: Call) -> Response:
    """PUT namespaces/x/finalize: the one way to change spec.finalizers."""
    body = call.body()
    live = call.live()
    version = (body.get("metadata") or {}).get("resourceVersion")
    if version and version != str(live.rv):
        raise conflict("namespaces", "", live.name, STALE)
    finalizers = (body.get("spec") or {}).get("finalizers") or []
    spec = {**live.obj.get("spec", {}), "finalizers": finalizers}
    if not finalizers:
        del spec["finalizers"]
    return call.answer(call.resource.typed(commit(call, live, {**live.obj, "spec": spec})))


HANDLERS: Mapping[tuple[str, str, str], Callable[[Call], Response]] = {
    ("pods", "binding", "create"): bind,
    ("pods", "eviction", "create"): evict,
    ("serviceaccounts", "token", "create"): token,
    ("namespaces", "finalize", "update"): finalize,
}
