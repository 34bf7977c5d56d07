"""POST: a new object."""

from collections.abc import Sequence
from typing import Any

import msgspec

from localcluster.apiserver import admission
from localcluster.apiserver.call import OBJECT_LIMIT, Call, version_number
from localcluster.apiserver.errors import ApiError, Cause, already_exists, invalid, invalid_object
from localcluster.apiserver.json_values import at
from localcluster.apiserver.resource import Resource
from localcluster.apiserver.rest.accept import accept, check_metadata
from localcluster.request import Response

Obj = dict[str, Any]

#: The alphabet of generated names: no vowels and no look-alikes, so that no words appear.
_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH = 5
#: As the real server: then the client gets the 409.
_NAME_ATTEMPTS = 8
_NAME_BASE_LIMIT = 63 - _SUFFIX_LENGTH


def create(call: Call) -> Response:
    """POST to a collection."""
    return call.answer(create_object(call, accept(call, call.body())), 201)


def create_object(call: Call, obj: Obj) -> Obj:
    """Store an accepted object (which the server keeps) as a new one; returns it in the request's version.

    Raises 403, 404, 409 and 422 ApiErrors.
    """
    resource = call.resource
    new = resource.bare(obj)
    given_version = version_number(new["metadata"])
    # Refusals that come before a name is generated name its beginning.
    asked_name = new["metadata"].get("name") or new["metadata"].get("generateName", "")
    meta = new["metadata"] = _fresh_metadata(call, new["metadata"])
    if resource.status and not resource.keeps_status:
        # Status belongs to the controllers: a creator's is dropped.
        new.pop("status", None)
    admission.check_namespace(call, asked_name)
    prepare(call, new)
    resource.strategy.on_create(new)
    admission.admit_new(call, asked_name, new)
    validate(call, new, None)
    admission.check_quota(call, new)
    if given_version and not call.dry_run:
        raise ApiError(500, "", "resourceVersion should not be set on objects to be created")
    _refuse_existing(call, meta.get("name", ""))
    if resource.creation_warning:
        call.warnings.append(resource.creation_warning)
    return resource.typed(_store(call, new))


def prepare(call: Call, obj: Obj) -> None:
    """Defaults: the kind's own, or those of the custom resource's schema."""
    resource = call.resource
    resource.strategy.default(obj)
    if resource.schema is not None:
        shown = resource.typed(obj)
        resource.schema.default(shown)
        obj.update(resource.bare(shown))


def validate(call: Call, new: Obj, old: Obj | None, known: Sequence[Cause] = ()) -> None:
    """Raise a 422 ApiError with every broken rule, those `known` included."""
    resource = call.resource
    causes = [*known, *check_metadata(resource, new["metadata"])]
    if call.info.subresource != "status":
        causes += resource.strategy.validate(new)
        causes += resource.strategy.validate_new(new) if old is None else resource.strategy.validate_update(new, old)
    if resource.schema is not None:
        causes += resource.schema.validate(resource.typed(new), None if old is None else resource.typed(old), causes)
        causes += _check_replicas(resource, new)
    if causes:
        name = new["metadata"].get("name") or ""
        raise invalid_object(resource.kind, resource.group, name, causes)
    body = msgspec.json.encode(new)
    if len(body) > OBJECT_LIMIT:
        raise ApiError(500, "", "etcdserver: request is too large")


def _check_replicas(resource: Resource, obj: Obj) -> list[Cause]:
    """The fields that the scale subresource reads must be counts, whatever the schema allows."""
    causes = []
    for path in () if resource.scale is None else (resource.scale.replicas, resource.scale.status_replicas):
        value = at(obj, path)
        if value is not None and type(value) is not int:
            causes.append(invalid(f".{path}", 0, f".{path} accessor error: {value} is not an integer"))
        elif value is not None and value < 0:
            causes.append(invalid(f".{path}", value, "should be a non-negative integer"))
    return causes


def _fresh_metadata(call: Call, given: Obj) -> Obj:
    env = call.env
    meta = dict(given)
    # The real server wipes the deletion fields of what is posted, not of what a PUT or an apply creates.
    deletion = ("deletionTimestamp", "deletionGracePeriodSeconds") if call.info.verb == "create" else ()
    # A resourceVersion given to an object that is not stored is returned as it is; so is a generation of an uncounted kind.
    counted = ("generation",) if call.resource.generation or call.resource.custom else ()
    version = () if call.dry_run else ("resourceVersion",)
    for name in ("uid", "selfLink", "managedFields", *version, *counted, *deletion):
        meta.pop(name, None)
    if not meta.get("name") and meta.get("generateName"):
        meta["name"] = _generate_name(call, meta["generateName"])
    meta["uid"] = env.uuid()
    meta["creationTimestamp"] = env.timestamp()
    if call.resource.generation:
        meta["generation"] = 1
    return meta


def _generate_name(call: Call, base: str) -> str:
    table = call.storage.table(call.resource.storage_key)
    for _ in range(_NAME_ATTEMPTS):
        suffix = "".join(call.env.random.choice(_SUFFIX_ALPHABET) for _ in range(_SUFFIX_LENGTH))
        name = base[:_NAME_BASE_LIMIT] + suffix
        if table.get(call.namespace, name) is None:
            break
    return name


def _refuse_existing(call: Call, name: str) -> None:
    resource = call.resource
    existing = call.storage.table(resource.storage_key).get(call.namespace, name)
    if existing is not None:
        deleting = "deletionTimestamp" in existing.obj["metadata"]
        raise already_exists(resource.plural, resource.group, name, deleting)


def _store(call: Call, new: Obj) -> Obj:
    if call.dry_run:
        return new
    return call.storage.put(call.resource.storage_key, call.namespace, new["metadata"]["name"], new).obj
