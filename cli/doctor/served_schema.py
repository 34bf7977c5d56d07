"""The fields that a served schema drops. Every client may read it from OpenAPI, unlike the definition itself."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from jobcommon.api.model import model_schema
from jobcommon.api.status import JobStatus
from jobcommon.api.view import decoder
from jobcommon.client.errors import ClientError
from jobcommon.client.request import Request, Transport
from jobcommon.controller.unstored import children, schema_of_entries
from jobcommon.framework import Framework

PRESERVES = "x-kubernetes-preserve-unknown-fields"


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
                return (
                    missing_fields(model_schema(JobStatus), _status(schema.properties["status"]))
                    if "status" in schema.properties
                    else None
                )
    except (ClientError, msgspec.DecodeError, AttributeError):
        return None
    return None


def missing_fields(wanted: Mapping[str, Any], served: Mapping[str, Any]) -> frozenset[str]:
    """The names of those fields of the schema `wanted` that the schema `served` drops; of an object that it drops, no more."""
    return frozenset(_undeclared(wanted, served, ""))


def _undeclared(wanted: Mapping[str, Any], served: Mapping[str, Any], path: str) -> Iterator[str]:
    if served.get(PRESERVES):
        return
    declared = served.get("properties") or {}
    for name, below, child in children(wanted, path):
        if name in declared:
            yield from _undeclared(child, declared[name], below)
        else:
            yield below
    if (of_entries := schema_of_entries(wanted)) is not None:
        found = schema_of_entries(served)
        if found is not None:
            yield from _undeclared(of_entries, found, path)
        elif served.get("type") == "object" and not served.get("additionalProperties"):
            yield path
