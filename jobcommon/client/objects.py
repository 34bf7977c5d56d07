"""Requests on Kubernetes objects, as values, and the needed parts of the responses."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import msgspec

from jobcommon.api.view import ObjectView, decoder, object_view
from jobcommon.client.errors import ForeignAnswerError
from jobcommon.client.request import JSON_PATCH, MERGE_PATCH, Request, Response, Transport
from jobcommon.client.responses import response_error

encode = msgspec.json.Encoder().encode

# The last clause is for responses that have no metadata of their own, such as a Status.
_METADATA_ONLY = {"accept": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"}


class WrittenMetadata(msgspec.Struct, rename="camel"):
    """The needed metadata of an object in a response."""

    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None
    owner_references: list[dict[str, Any]] | None = None
    labels: dict[str, Any] | None = None

    @property
    def controller_uid(self) -> str:
        """The UID of the controller owner, "" without one."""
        return next((str(o.get("uid", "")) for o in self.owner_references or () if o.get("controller")), "")

    def controlled_by(self, kind: str, name: str) -> bool:
        """Whether the controller owner is of that kind and name, whatever its UID."""
        return any(o.get("controller") and (o.get("kind"), o.get("name")) == (kind, name) for o in self.owner_references or ())


class _Written(msgspec.Struct):
    kind: str = ""
    metadata: WrittenMetadata = msgspec.field(default_factory=WrittenMetadata)


_written = decoder(_Written)
_document = decoder(dict[str, Any])


def written(body: bytes) -> WrittenMetadata:
    """The metadata of the object in a response; empty if there is none, as in the Status that answers some deletions."""
    try:
        return _written(body).metadata
    except msgspec.DecodeError:
        return WrittenMetadata()


async def sent(transport: Transport, request: Request) -> Response:
    """The answer to a request about one object. Raises ClientError, as `check_answer` does."""
    response = await transport.send(request)
    check_answer(request, response)
    return response


def check_answer(request: Request, response: Response) -> None:
    """Raise StatusError if `response` refuses a request about one object, ForeignAnswerError if no API server answers so."""
    if response.status >= 400:
        raise response_error(response)
    if 200 <= response.status < 300:
        try:
            found = _written(response.body)
        except msgspec.DecodeError:
            found = _Written()
        # A Status answers some deletions; everything else is answered with the object.
        if found.metadata.resource_version or (request.method == "DELETE" and found.kind == "Status"):
            return
    what = f"{response.status} with {response.headers.get('content-type') or 'no content type'}"
    raise ForeignAnswerError(f"{request.method} {request.path}: the answer ({what}) does not come from an API server")


def reduced_to(body: bytes, fields: Iterable[str]) -> ObjectView | None:
    """The object in a response, with its metadata and `fields` only; None if there is none."""
    kept = {"apiVersion", "kind", "metadata", *fields}
    try:
        document = _document(body)
        return object_view(encode({key: value for key, value in document.items() if key in kept}))
    except msgspec.DecodeError:
        return None


def collection_path(api_version: str, plural: str, namespace: str | None) -> str:
    """The path of all objects of a kind in a namespace; without one in all of them, or of a kind that belongs to none.

    The `plural` may be qualified by its group, as in kubectl.
    """
    plural = plural.partition(".")[0]
    root = "/api/v1" if api_version == "v1" else f"/apis/{api_version}"
    return f"{root}/namespaces/{quote(namespace, safe='')}/{plural}" if namespace is not None else f"{root}/{plural}"


def object_path(api_version: str, plural: str, namespace: str, name: str) -> str:
    """The path of one object."""
    return f"{collection_path(api_version, plural, namespace)}/{quote(name, safe='')}"


def metadata_only(request: Request) -> Request:
    """The same request, answered with no more than the object's metadata: the server has less to encode, and we to read."""
    # dataclasses.replace takes several times as long, and this is done for nearly every request.
    headers = {**request.headers, **_METADATA_ONLY}
    return Request(request.method, request.path, request.query, request.body, request.content_type, headers)


def get(path: str) -> Request:
    """A live read: without a resourceVersion the API server answers from a quorum."""
    return Request("GET", path)


def create(path: str, manifest: Mapping[str, Any]) -> Request:
    """The POST of a new object to the collection's path."""
    return Request("POST", path, body=encode(manifest))


def replace(path: str, manifest: Mapping[str, Any]) -> Request:
    """The PUT of an object, whose manifest carries uid and resourceVersion."""
    return Request("PUT", path, body=encode(manifest))


def merge(path: str, patch: Mapping[str, Any]) -> Request:
    """A PATCH by JSON Merge Patch (RFC 7396)."""
    return Request("PATCH", path, body=encode(patch), content_type=MERGE_PATCH)


def modify(path: str, operations: Sequence[Mapping[str, Any]]) -> Request:
    """A PATCH by JSON Patch (RFC 6902)."""
    return Request("PATCH", path, body=encode(operations), content_type=JSON_PATCH)


def delete(path: str, uid: str, resource_version: str | None = None, grace: int | None = None) -> Request:
    """The DELETE of one incarnation (rule R1), with `resource_version` only if unchanged.

    `grace`: its grace period in seconds, unless the object's own holds. What it owns is left to the garbage collector.
    """
    preconditions = {"uid": uid}
    if resource_version is not None:
        preconditions["resourceVersion"] = resource_version
    options: dict[str, Any] = {} if grace is None else {"gracePeriodSeconds": grace}
    options |= {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": preconditions,
        "propagationPolicy": "Background",
    }
    return Request("DELETE", path, body=encode(options))
