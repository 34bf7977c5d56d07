"""One request for objects on its way through the server."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from localcluster.apiserver import protobuf
from localcluster.apiserver.authentication import Authenticator, User
from localcluster.apiserver.env import Env
from localcluster.apiserver.errors import (
    ApiError,
    bad_request,
    invalid,
    invalid_object,
    not_found,
    not_supported,
    unsupported_media_type,
)
from localcluster.apiserver.rbac import Authorizer
from localcluster.apiserver.registry import Registry
from localcluster.apiserver.representation import MediaType, negotiate, transform
from localcluster.apiserver.resource import Resource
from localcluster.apiserver.route import RequestInfo
from localcluster.apiserver.storage import Item, Storage
from localcluster.request import APPLY_PATCH, Request, Response

Obj = dict[str, Any]

BODY_LIMIT = 3 * 1024 * 1024
#: etcd's request limit (1.5 MiB): the maximum size of a stored object.
OBJECT_LIMIT = 1536 * 1024

_decoder = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder()


@dataclass(slots=True)
class Call:
    """A request, what the server has found out about it, and what its handler works with.

    `warnings` become Warning headers of the response.
    """

    env: Env
    storage: Storage
    authorizer: Authorizer
    authenticator: Authenticator
    request: Request
    info: RequestInfo
    resource: Resource
    user: User
    query: Mapping[str, str]
    registry: Registry
    warnings: list[str] = field(default_factory=list)

    @property
    def namespace(self) -> str:
        """The namespace of the object; empty for cluster-scoped resources (a namespace's own path names itself)."""
        return self.info.namespace if self.resource.namespaced else ""

    @property
    def dry_run(self) -> bool:
        """Whether nothing may be stored. Raises a 422 ApiError for another value than ``All``."""
        value = self.query.get("dryRun", "")
        if value not in ("", "All"):
            verb = {"POST": "Create", "PUT": "Update", "PATCH": "Patch"}.get(self.request.method, "Delete")
            raise invalid_object(f"{verb}Options", "meta.k8s.io", "", [not_supported("dryRun", value, ["All"])])
        return value == "All"

    @property
    def media(self) -> MediaType:
        """The representation asked for."""
        return negotiate(self.request.headers.get("accept", ""))

    @property
    def included(self) -> str:
        """What the rows of a Table contain of their objects. Raises a 400 ApiError for an unknown value."""
        asked = (self.query.get("includeObject") if self.media == "table" else "") or "Metadata"
        if asked not in ("Object", "Metadata", "None"):
            cause = invalid("includeObject", asked, "must be 'Metadata', 'Object', 'None', or empty")
            raise bad_request(f"Unable to convert to Table as requested: {cause}")
        return asked

    def live(self) -> Item:
        """The stored object that the path names. Raises a 404 ApiError."""
        item = self.storage.table(self.resource.storage_key).get(self.namespace, self.info.name)
        if item is None:
            raise self.missing()
        return item

    def check_name(self, obj: Obj) -> None:
        """Raise a 400 ApiError when the object has another name than the path."""
        name = (obj.get("metadata") or {}).get("name") or ""
        if name != self.info.name:
            raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({self.info.name})")

    def missing(self) -> ApiError:
        """The 404 for the object that the path names."""
        return not_found(self.resource.plural, self.resource.group, self.info.name)

    def body(self) -> Obj:
        """The request's body as an object. Raises 400, 413 or 415 ApiErrors."""
        return decode(self.request.body or b"", self.request.content_type)

    def answer(self, obj: Obj, code: int = 200) -> Response:
        """A response with `obj` (apiVersion and kind included) in the representation asked for."""
        media = self.media
        if media != "json" and obj.get("kind") != "Status":
            meta = obj.get("metadata", {})
            obj = transform(media, self.resource, [obj], meta, now=self.env.now(), single=True, include=self.included)
        return self.respond(_encoder.encode(obj), code)

    def respond(self, body: bytes, code: int = 200) -> Response:
        """A JSON response with the warnings collected so far."""
        headers = {"Content-Type": "application/json"}
        if self.warnings:
            # One header may carry several warnings, separated by commas (RFC 9111, 5.5).
            headers["Warning"] = ", ".join(f"299 - {_quoted(text)}" for text in self.warnings)
        # The real server ends an object's JSON with a line break; some tools count on it.
        return Response(code, body + b"\n", headers)


def version_number(meta: Obj) -> int | None:
    """The resourceVersion in an object's metadata as the store reads it: 0 for none, None for a text that is no number."""
    text = meta.get("resourceVersion") or "0"
    return int(text) if text.isascii() and text.isdigit() else None


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
    return f'"{escaped}"'


def decode(body: bytes, content_type: str) -> Obj:
    """An object from JSON or protobuf. Raises 400, 413 or 415 ApiErrors."""
    if len(body) > BODY_LIMIT:
        message = f"Request entity too large: limit is {BODY_LIMIT}"
        raise ApiError(413, "RequestEntityTooLarge", message)
    media = content_type.partition(";")[0].strip()
    try:
        # An apply configuration may be in YAML; what kubectl and the client libraries send is JSON.
        if media in ("application/json", APPLY_PATCH, ""):
            value = _decoder.decode(body)
        elif media == protobuf.MEDIA_TYPE:
            value = protobuf.decode(body)
        else:
            accepted = f"application/json, {protobuf.MEDIA_TYPE}"
            raise unsupported_media_type(
                f"the body of the request was in an unknown format - accepted media types include: {accepted}"
            )
    except (msgspec.DecodeError, protobuf.ProtobufError, RecursionError) as error:
        raise bad_request(f"the object provided is unrecognized (must be of type Object): couldn't parse it: {error}") from None
    if not isinstance(value, dict):
        raise bad_request("the object provided is unrecognized (must be of type Object): it is not a JSON object")
    return value
