"""The schema that the API server serves for a kind: whether it has every field of the status.

It is read from OpenAPI, which every client may read, unlike the CustomResourceDefinition itself.
"""

from typing import Any

import msgspec

from jobcommon.api.decoding import decoder
from jobcommon.client.errors import ClientError
from jobcommon.client.request import Request, Transport
from jobcommon.controller.unstored import undeclared
from jobcommon.framework import Framework


class _Kind(msgspec.Struct):
    group: str = ""
    version: str = ""
    kind: str = ""


class _Schema(msgspec.Struct):
    kinds: list[_Kind] = msgspec.field(default=[], name="x-kubernetes-group-version-kind")
    properties: dict[str, msgspec.Raw] = {}


class _Components(msgspec.Struct):
    schemas: dict[str, _Schema] = {}


class _Document(msgspec.Struct):
    components: _Components = msgspec.field(default_factory=_Components)


_document = decoder(_Document)
_status = decoder(dict[str, Any])


async def undeclared_status_fields(transport: Transport, framework: Framework) -> frozenset[str] | None:
    """The status fields that the served schema of the framework's kind drops; None if the schema cannot be read."""
    group, _, version = framework.api_version.partition("/")
    try:
        response = await transport.send(Request("GET", f"/openapi/v3/apis/{framework.api_version}"))
        if response.status != 200:
            return None
        for schema in _document(response.body).components.schemas.values():
            if any((k.group, k.version, k.kind) == (group, version, framework.kind) for k in schema.kinds):
                return undeclared(_status(schema.properties["status"])) if "status" in schema.properties else None
    except (ClientError, msgspec.DecodeError, AttributeError):
        return None
    return None
