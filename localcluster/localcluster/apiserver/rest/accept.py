"""The checks of a written object that come before all others: its kind, its fields, its metadata."""

from collections.abc import Sequence
from typing import Any

from localcluster.apiserver import typed
from localcluster.apiserver.call import Call
from localcluster.apiserver.errors import Cause, bad_request, invalid
from localcluster.apiserver.json_values import json_copy
from localcluster.apiserver.names import (
    check,
    check_annotations,
    check_labels,
    check_name,
    dns1123_subdomain,
    qualified_name,
)
from localcluster.apiserver.resource import Resource

Obj = dict[str, Any]

#: The only finalizers without a prefix that the real server admits on core kinds.
_PLAIN_FINALIZERS = ("orphan", "foregroundDeletion", "kubernetes")


def accept(call: Call, obj: Obj) -> Obj:
    """`obj` decoded as the resource's kind: unknown fields dropped (or refused, by fieldValidation), nulls gone.

    The result shares nothing mutable with `obj`, which may be a patched view of a stored object.

    Raises 400 ApiErrors for a wrong kind, version, namespace or type; under Strict for an unknown field, too.
    """
    if call.resource.custom and not (obj.get("kind") and obj.get("apiVersion")):
        raise bad_request("the object in the request must name its apiVersion and its kind")
    resource = call.resource
    _check_type(resource, obj)
    meta = obj.get("metadata")
    if meta is None:
        meta = {}
    if not isinstance(meta, dict):
        raise bad_request("metadata: it must be an object")
    if call.info.subresource == "status" and call.query.get("fieldValidation") != "Strict":
        # The rest is replaced by what is stored, so it is not decoded.
        obj = {"status": obj["status"]} if "status" in obj else {}
    obj = {**obj, "apiVersion": resource.api_version, "kind": resource.kind, "metadata": dict(meta)}
    if resource.custom:
        obj = json_copy(obj)
        unknown = [] if resource.schema is None else resource.schema.prune(obj)
        obj["metadata"] = typed.decode_metadata(resource.kind, obj["metadata"])
    else:
        obj, unknown = typed.decode(resource.group, resource.version, resource.kind, obj)
    _place(call, obj["metadata"])
    _report_unknown(call, unknown)
    return obj


def _check_type(resource: Resource, obj: Obj) -> None:
    version = obj.get("apiVersion") or resource.api_version
    kind = obj.get("kind") or resource.kind
    if kind != resource.kind:
        raise bad_request(f'{kind} in version "{resource.version}" cannot be handled as a {resource.kind}')
    if version != resource.api_version:
        raise bad_request(
            f"the API version in the data ({version}) does not match the expected API version ({resource.api_version})"
        )


def _place(call: Call, meta: Obj) -> None:
    """Fill in the namespace from the path. Raises a 400 ApiError when the object names another one."""
    if not call.resource.namespaced:
        meta.pop("namespace", None)
        return
    if meta.get("namespace") not in (None, "", call.info.namespace):
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    meta["namespace"] = call.info.namespace


def _report_unknown(call: Call, unknown: Sequence[str]) -> None:
    mode = call.query.get("fieldValidation") or "Warn"
    if mode not in ("Strict", "Warn", "Ignore"):
        raise bad_request(f'fieldValidation: Unsupported value: "{mode}": supported values: "Ignore", "Strict", "Warn"')
    if not unknown or mode == "Ignore":
        return
    texts = [f'unknown field "{path}"' for path in unknown]
    if mode == "Warn":
        call.warnings += texts
        return
    problem = f"strict decoding error: {', '.join(texts)}"
    if not call.resource.custom:
        kind = call.resource.kind
        problem = f'{kind} in version "{call.resource.version}" cannot be handled as a {kind}: {problem}'
    raise bad_request(problem)


def check_metadata(resource: Resource, meta: Obj) -> list[Cause]:
    """The rules of ObjectMeta that hold for every kind."""
    causes: list[Cause] = []
    if meta.get("generateName"):
        causes += check(dns1123_subdomain, "metadata.generateName", meta["generateName"].rstrip("-."))
    causes += check_name(resource.strategy.validate_name or dns1123_subdomain, meta)
    causes += check_labels(meta.get("labels") or {}, "metadata.labels")
    causes += check_annotations(meta.get("annotations") or {}, "metadata.annotations")
    for finalizer in meta.get("finalizers") or ():
        causes += check(qualified_name, "metadata.finalizers", finalizer)
        if "/" not in finalizer and finalizer not in _PLAIN_FINALIZERS and not resource.group:
            detail = "name is neither a standard finalizer name nor is it fully qualified"
            causes.append(invalid("metadata.finalizers[0]", finalizer, detail))
    return causes + _check_owners(meta.get("ownerReferences") or ())


def _check_owners(owners: Sequence[Obj]) -> list[Cause]:
    causes: list[Cause] = []
    controllers = []
    for owner in owners:
        causes += [
            invalid(f"metadata.ownerReferences.{name}", "", f"{name} must not be empty")
            for name in ("apiVersion", "kind", "name", "uid")
            if not owner.get(name)
        ]
        if owner.get("controller"):
            controllers.append(f"{owner.get('kind')}/{owner.get('name')}")
    if len(controllers) > 1:
        told = " and ".join(controllers[:2])
        detail = f'Only one reference can have Controller set to true. Found "true" in references for {told}'
        causes.append(invalid("metadata.ownerReferences", list(owners), detail))
    return causes
