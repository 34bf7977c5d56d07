"""PUT, and what PUT and PATCH share: the rules for replacing a live object."""

from typing import Any

from localcluster.apiserver import admission
from localcluster.apiserver.call import Call, version_number
from localcluster.apiserver.errors import (
    STALE,
    ApiError,
    Cause,
    conflict,
    forbidden,
    invalid,
    invalid_object,
)
from localcluster.apiserver.json_values import json_copy
from localcluster.apiserver.rest.accept import accept
from localcluster.apiserver.rest.create import prepare, validate
from localcluster.apiserver.storage import Item
from localcluster.request import Response

Obj = dict[str, Any]

#: Metadata that only the server writes.
_SERVER_OWNED = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink")


def update(call: Call) -> Response:
    """PUT of an object or of its status."""
    obj = accept(call, call.body())
    meta = obj["metadata"]
    call.check_name(obj)
    table = call.storage.table(call.resource.storage_key)
    live = table.get(call.namespace, call.info.name)
    if live is None:
        raise call.missing()
    if meta.get("uid") and meta["uid"] != live.uid:
        why = f"Precondition failed: UID in precondition: {meta['uid']}, UID in object meta: {live.uid}"
        raise conflict(call.resource.plural, call.resource.group, call.info.name, why)
    if version_number(meta) == 0 and not call.resource.unconditional_update:
        causes = [invalid("metadata.resourceVersion", 0, "must be specified for an update")]
        # The message names the resource, because the store does not know the kind.
        raise invalid_object(call.resource.plural, call.resource.group, call.info.name, causes)
    return call.answer(replace(call, live, obj))


def replace(call: Call, live: Item, obj: Obj) -> Obj:
    """Make an accepted object the new state of `live` and give the result as the version shows it.

    An update that changes nothing is not written. Removing the last finalizer of an object that is being deleted deletes it;
    the result then still carries the old resourceVersion (never a barrier), as with the real server.
    Raises 409 and 422 ApiErrors.
    """
    resource = call.resource
    version = version_number(obj["metadata"])
    if version is None:
        told = obj["metadata"]["resourceVersion"]
        raise ApiError(500, "", f'strconv.ParseUint: parsing "{told}": invalid syntax')
    if version not in (0, live.rv):
        raise conflict(resource.plural, resource.group, call.info.name, STALE)
    new = resource.bare(obj)
    old = live.obj
    if call.info.subresource == "status":
        new = _with_status_of(call, old, new)
    elif resource.status:
        # Outside the status subresource, status is the server's.
        new.pop("status", None)
        if "status" in old:
            new["status"] = old["status"]
    causes = _settle_metadata(new["metadata"], old["metadata"], resource.custom)
    new["metadata"].pop("managedFields", None)
    resource.strategy.on_update(new, old)
    if call.info.subresource != "status" or resource.custom:
        # A built-in kind has no defaults in its status, and the rest of it is the stored object's, which is not to be changed.
        prepare(call, new)
    if new == old and not ends_deletion(call, new) and not causes:
        return resource.typed(old)
    admission.admit_update(call, new)
    _count_generation(call, new, old)
    validate(call, new, old, causes)
    if new == old and not ends_deletion(call, new):
        return resource.typed(old)
    return resource.typed(commit(call, live, new))


def commit(call: Call, live: Item, new: Obj) -> Obj:
    """Store the new state, or delete the object if this update removed its last finalizer."""
    if ends_deletion(call, new):
        if not call.dry_run:
            call.storage.remove(call.resource.storage_key, live.namespace, live.name)
        return new
    if call.dry_run:
        return new
    return call.storage.put(call.resource.storage_key, live.namespace, live.name, new).obj


def ends_deletion(call: Call, new: Obj) -> bool:
    """Whether `new` is to be deleted now: it is terminating and no finalizer is left."""
    meta = new["metadata"]
    if "deletionTimestamp" not in meta or meta.get("finalizers"):
        return False
    if call.resource.plural == "namespaces":
        return not new.get("spec", {}).get("finalizers")
    return not meta.get("deletionGracePeriodSeconds")


def _with_status_of(call: Call, old: Obj, new: Obj) -> Obj:
    meta = new["metadata"]
    if call.resource.custom:
        # Only status is taken; metadata is the live one entirely, so a wrong uid in a patch is ignored.
        meta = dict(old["metadata"])
    else:
        kept_out = ("ownerReferences", "deletionTimestamp") if call.resource.plural == "pods" else ("ownerReferences",)
        meta = {key: value for key, value in meta.items() if key not in kept_out}
        if "ownerReferences" in old["metadata"]:
            meta["ownerReferences"] = old["metadata"]["ownerReferences"]
    result = {**old, "metadata": meta}
    result.pop("status", None)
    if "status" in new:
        result["status"] = new["status"]
    if call.resource.custom:
        # Defaults may change fields beside them; metadata has none, and what was sent belongs to the request.
        return {key: one if key in ("metadata", "status") else json_copy(one) for key, one in result.items()}
    return result


def _settle_metadata(meta: Obj, old: Obj, custom: bool) -> list[Cause]:
    causes = []
    if meta.get("uid", old["uid"]) != old["uid"]:
        causes.append(invalid("metadata.uid", meta["uid"], "field is immutable"))
    if not custom and meta.get("name", old["name"]) != old["name"]:
        causes.append(invalid("metadata.name", meta["name"], "field is immutable"))
    changed = [] if "deletionTimestamp" in old or meta.get("deletionTimestamp") is None else ["deletionTimestamp"]
    if meta.get("deletionGracePeriodSeconds") not in (None, old.get("deletionGracePeriodSeconds")):
        changed.append("deletionGracePeriodSeconds")
    causes += [invalid(f"metadata.{name}", meta[name], "field is immutable") for name in changed]
    for name in _SERVER_OWNED:
        meta.pop(name, None)
        if name in old:
            meta[name] = old[name]
    meta["resourceVersion"] = old["resourceVersion"]
    added = set(meta.get("finalizers") or ()) - set(old.get("finalizers") or ())
    if "deletionTimestamp" in old and added:
        listed = ", ".join(f'"{name}"' for name in sorted(added))
        detail = "no new finalizers can be added if the object is being deleted, found new finalizers []string{" + listed + "}"
        causes.append(forbidden("metadata.finalizers", detail))
    for name in ("labels", "annotations", "finalizers", "ownerReferences"):
        # Empty and absent are one state, so that a no-op stays one.
        if name in meta and not meta[name]:
            del meta[name]
    return causes


def _count_generation(call: Call, new: Obj, old: Obj) -> None:
    if not call.resource.generation or call.info.subresource == "status":
        return
    ignored = {"metadata", "status"} if call.resource.status or not call.resource.custom else {"metadata"}
    keys = (set(new) | set(old)) - ignored
    if any(new.get(key) != old.get(key) for key in keys):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
