"""DELETE: preconditions, finalizers, propagation and graceful deletion."""

from dataclasses import dataclass
from typing import Any

from localcluster.apiserver.call import Call, decode
from localcluster.apiserver.errors import ApiError, Cause, bad_request, conflict, invalid_object, success_status
from localcluster.apiserver.storage import Item
from localcluster.finalizers import FOREGROUND, ORPHAN
from localcluster.request import Response
from localcluster.timestamps import format_time, parse_time

Obj = dict[str, Any]

#: See testutil/sim/assumptions.toml.
ASSUMES = ("grace", "moved-deletion", "grace-of-ended", "finalizers", "preconditions")
_POLICIES = {"Foreground": FOREGROUND, "Orphan": ORPHAN, "Background": ""}
_DEFAULT_GRACE = 30


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """The options of a deletion. `policy` is empty for the kind's default."""

    uid: str = ""
    version: str = ""
    grace: int | None = None
    policy: str = ""


def options_of(call: Call, given: Obj | None = None) -> DeleteOptions:
    """DeleteOptions from the body or, when there is none, the query. Raises 400 and 422 ApiErrors."""
    found: Obj = given or {}
    if given is None and call.request.body:
        found = decode(call.request.body, call.request.content_type)
        if found.get("kind", "DeleteOptions") != "DeleteOptions":
            raise bad_request(f"the body of a delete must be DeleteOptions, not {found['kind']}")
    query = {} if found else call.query
    preconditions = found.get("preconditions") or {}
    policy = found.get("propagationPolicy") or query.get("propagationPolicy") or ""
    if policy and policy not in _POLICIES:
        message = f'Unsupported value: "{policy}": supported values: "Foreground", "Background", "Orphan", "nil"'
        cause = Cause("FieldValueNotSupported", "propagationPolicy", message)
        raise invalid_object("DeleteOptions", "meta.k8s.io", "", [cause])
    grace = found.get("gracePeriodSeconds", query.get("gracePeriodSeconds"))
    if grace is not None:
        try:
            grace = int(grace)
        except (TypeError, ValueError):
            raise bad_request(f"gracePeriodSeconds must be a number of seconds, not {grace!r}") from None
    return DeleteOptions(preconditions.get("uid") or "", str(preconditions.get("resourceVersion") or ""), grace, policy)


def delete(call: Call) -> Response:
    """DELETE of one object."""
    options = options_of(call)
    dry_run = _dry_run(call)
    live = call.live()
    shown, gone = delete_object(call, live, options, dry_run)
    if gone and not call.resource.returns_deleted:
        resource = call.resource
        return call.answer(success_status(call.info.name, resource.group, resource.plural, shown["metadata"]["uid"]))
    return call.answer(shown)


def _dry_run(call: Call) -> bool:
    if not call.request.body:
        return call.dry_run
    return bool(decode(call.request.body, call.request.content_type).get("dryRun"))


def delete_object(call: Call, live: Item, options: DeleteOptions, dry_run: bool = False) -> tuple[Obj, bool]:
    """Delete `live`, or mark it for deletion; returns its last state and whether it was removed. Raises a 409 ApiError."""
    resource = call.resource
    check_preconditions(call, live, options)
    meta = dict(live.obj["metadata"])
    new: Obj = {**live.obj, "metadata": meta}
    finalizers = _finalizers(meta.get("finalizers") or [], options.policy)
    if finalizers:
        meta["finalizers"] = finalizers
    else:
        meta.pop("finalizers", None)
    grace = _grace(resource.plural, live.obj, options) if resource.group == "" else None
    pending = (meta.get("deletionGracePeriodSeconds") or 0) if "deletionTimestamp" in meta else 0
    if grace is not None and pending:
        if options.grace is None or options.grace >= pending:
            # It is terminating already, and this deletion would not shorten its grace period.
            return resource.typed(live.obj), False
        # A negative period means the shortest one.
        grace = options.grace if options.grace >= 0 else 1
    if "deletionTimestamp" in meta and not meta.get("deletionGracePeriodSeconds"):
        # Its grace period is over and only finalizers keep it: it is not marked again.
        grace = None
    _mark(call, meta, grace, bool(finalizers))
    if resource.plural == "namespaces":
        _terminate_namespace(new)
    held = bool(finalizers) or (resource.plural == "namespaces" and bool(new["spec"].get("finalizers")))
    if dry_run:
        return resource.typed(new), not held and not grace
    table = resource.storage_key
    # A pod is always marked before it is removed, so that watchers see MODIFIED and then DELETED.
    if new != live.obj and (held or grace is not None):
        stored = call.storage.put(table, live.namespace, live.name, new)
    else:
        stored = live
    if held or grace:
        return resource.typed(stored.obj), False
    return resource.typed(call.storage.remove(table, live.namespace, live.name).obj), True


def check_preconditions(call: Call, live: Item, options: DeleteOptions) -> None:
    """Raise a 409 ApiError if a precondition does not hold."""
    resource = call.resource
    if options.uid and options.uid != live.uid:
        why = (
            f"Precondition failed: the UID in the precondition ({options.uid}) does not match the UID in record ({live.uid}). "
            "The object might have been deleted and then recreated"
        )
        # This message alone names the kind, not the resource.
        raise conflict(resource.kind, resource.group, live.name, why)
    if options.version and options.version != str(live.rv):
        why = (
            f"Precondition failed: the ResourceVersion in the precondition ({options.version}) does not match the "
            f"ResourceVersion in record ({live.rv}). The object might have been modified"
        )
        raise conflict(resource.kind, resource.group, live.name, why)


def _finalizers(current: list[str], policy: str) -> list[str]:
    if not policy:
        return current
    kept = [name for name in current if name not in (FOREGROUND, ORPHAN)]
    wanted = _POLICIES[policy]
    return [*kept, wanted] if wanted else kept


def _grace(plural: str, obj: Obj, options: DeleteOptions) -> int | None:
    """Seconds a pod may take to end; None for the kinds that are not deleted gracefully."""
    if plural != "pods":
        return None
    if not obj.get("spec", {}).get("nodeName") or obj.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    grace = options.grace
    if grace is None:
        grace = int(obj.get("spec", {}).get("terminationGracePeriodSeconds", _DEFAULT_GRACE))
    # A negative period means the shortest one.
    return grace if grace >= 0 else 1


def _mark(call: Call, meta: Obj, grace: int | None, held: bool) -> None:
    if grace is None and not held and call.resource.plural != "namespaces":
        return
    now = call.env.now()
    seconds = grace or 0
    if "deletionTimestamp" not in meta:
        meta["deletionTimestamp"] = format_time(now + seconds)
        meta["deletionGracePeriodSeconds"] = seconds
        if meta.get("generation"):
            meta["generation"] += 1
        return
    before = meta.get("deletionGracePeriodSeconds") or 0
    if seconds < before:
        # A second deletion can only shorten the period, and never moves the time into the past. The kubelet's last DELETE has
        # period 0: a pod that a finalizer keeps then shows the time of that DELETE, not of the first one. A period that is
        # over already becomes the shortest one, because the kubelet still has to end the pod.
        ends = parse_time(meta["deletionTimestamp"]) - before + seconds
        if ends < now:
            ends, seconds = now, min(seconds, 1)
        meta["deletionTimestamp"] = format_time(ends)
        meta["deletionGracePeriodSeconds"] = seconds


def _terminate_namespace(new: Obj) -> None:
    if new["metadata"]["name"] in ("default", "kube-system", "kube-public"):
        name = new["metadata"]["name"]
        raise ApiError(403, "Forbidden", f'namespaces "{name}" is forbidden: this namespace may not be deleted')
    new["metadata"].pop("deletionGracePeriodSeconds", None)
    new["status"] = {**new.get("status", {}), "phase": "Terminating"}
