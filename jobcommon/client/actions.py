"""The requests that carry a plan out, as values."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from jobcommon.client.request import JSON_PATCH, Request
from jobcommon.framework import FINALIZER
from jobcommon.reconcile.plan import Create, Delete, Release, Update

PODS = "pods"

encode = msgspec.json.Encoder().encode


class WrittenMetadata(msgspec.Struct, rename="camel"):
    """What matters of the metadata of an object in a response."""

    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None
    owner_references: list[dict[str, Any]] | None = None

    @property
    def controller_uid(self) -> str:
        """The UID of the controller owner, "" without one."""
        return next((str(o.get("uid", "")) for o in self.owner_references or () if o.get("controller")), "")


class _Written(msgspec.Struct):
    metadata: WrittenMetadata = msgspec.field(default_factory=WrittenMetadata)


_written = msgspec.json.Decoder(_Written).decode


def written(body: bytes) -> WrittenMetadata:
    """The metadata of the object in a response; empty if there is none, as in the Status that answers some deletions."""
    try:
        return _written(body).metadata
    except msgspec.DecodeError:
        return WrittenMetadata()


def collection_path(api_version: str, plural: str, namespace: str) -> str:
    """The path of all objects of a kind in a namespace."""
    root = "/api/v1" if api_version == "v1" else f"/apis/{api_version}"
    return f"{root}/namespaces/{quote(namespace, safe='')}/{plural}"


def object_path(api_version: str, plural: str, namespace: str, name: str) -> str:
    """The path of one object."""
    return f"{collection_path(api_version, plural, namespace)}/{quote(name, safe='')}"


def get(api_version: str, plural: str, namespace: str, name: str) -> Request:
    """A live read: without a resourceVersion the API server answers from a quorum."""
    return Request("GET", object_path(api_version, plural, namespace, name))


def create(action: Create, namespace: str) -> Request:
    """The POST of a new object."""
    return Request("POST", collection_path(action.api_version, action.plural, namespace), body=encode(action.manifest))


def update(action: Update, namespace: str) -> Request:
    """The PUT of an object; its manifest carries uid and resourceVersion."""
    path = object_path(action.api_version, action.plural, namespace, action.name)
    return Request("PUT", path, body=encode(action.manifest))


def delete(action: Delete, namespace: str) -> Request:
    """The DELETE of one incarnation (rule R1). What it owns is left to the garbage collector."""
    preconditions = {"uid": action.uid}
    if action.resource_version is not None:
        preconditions["resourceVersion"] = action.resource_version
    options = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": preconditions,
        "propagationPolicy": "Background",
    }
    path = object_path(action.api_version, action.plural, namespace, action.name)
    return Request("DELETE", path, body=encode(options))


def release(action: Release, namespace: str) -> Request:
    """The PATCH that takes our finalizer off a pod.

    A JSON patch with tests instead of a resourceVersion: the kubelet writes the pod's status all the time, and those
    writes are no reason to fail. The list is replaced as a whole because an index could have shifted.
    """
    patch = [
        {"op": "test", "path": "/metadata/uid", "value": action.uid},
        {"op": "test", "path": "/metadata/finalizers", "value": list(action.finalizers)},
        {"op": "replace", "path": "/metadata/finalizers", "value": [f for f in action.finalizers if f != FINALIZER]},
    ]
    path = object_path("v1", PODS, namespace, action.name)
    return Request("PATCH", path, body=encode(patch), content_type=JSON_PATCH)


def put_status(raw: Mapping[str, Any], plural: str, status: Mapping[str, Any]) -> Request:
    """The PUT of a status, on the very object the decision was made on: its uid and resourceVersion go along (rule R2)."""
    metadata = raw["metadata"]
    path = object_path(raw["apiVersion"], plural, metadata["namespace"], metadata["name"])
    return Request("PUT", f"{path}/status", body=encode({**raw, "status": status}))
