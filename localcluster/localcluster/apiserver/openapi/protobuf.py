"""/openapi/v2 as gnostic's ``openapi.v2.Document``: kubectl reads that document as protobuf only.

kubectl falls back to it when /openapi/v3 does not know a kind, and kubectl before 1.27 always asks for it. The numbers are
those of OpenAPIv2.proto in google/gnostic-models. What our documents never hold has no row.
"""

import json
import struct
from collections.abc import Callable, Mapping
from typing import Any

Json = dict[str, Any]
Row = tuple[int, Callable[[Any], bytes] | str]

#: The names that clients ask for. The first is older and not a valid media type; answers have the last.
MEDIA_TYPES = (
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
)


def encode(document: Json) -> bytes:
    """A document as `v2_document` makes it."""
    return _message("Document", document)


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _block(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _string(value: str) -> bytes:
    return str(value).encode()


def _any(value: Any) -> bytes:
    # The field is named yaml, and JSON is YAML.
    return _block(2, json.dumps(value).encode())


def _message(name: str, value: Mapping[str, Any]) -> bytes:
    rows, out = _MESSAGES[name], []
    for key, item in value.items():
        if key.startswith("x-"):
            out.append(_block(rows["x-"][0], _block(1, key.encode()) + _block(2, _any(item))))
        elif key in rows:
            out.append(_field(*rows[key], item))
    return b"".join(out)


def _field(number: int, code: Callable[[Any], bytes] | str, value: Any) -> bytes:
    if code == "number":
        return _varint(number << 3 | 1) + struct.pack("<d", float(value))
    if code == "integer":
        return _varint(number << 3) + _varint(int(value))
    if isinstance(code, str):
        return _block(number, _message(code, value))
    repeated = value if isinstance(value, list) else [value]
    return b"".join(_block(number, code(item)) for item in repeated)


def _named(entry: Callable[[Any], bytes], number: int = 1) -> Callable[[Json], bytes]:
    """A map, as protobuf 2 spells it: a list of names with values."""
    return lambda value: b"".join(
        _block(number, _block(1, name.encode()) + _block(2, entry(item))) for name, item in value.items()
    )


def _schema(value: Json) -> bytes:
    return _message("Schema", value)


def _types(value: Any) -> bytes:
    return b"".join(_block(1, one.encode()) for one in (value if isinstance(value, list) else [value]))


def _additional(value: Json | bool) -> bytes:
    return _block(1, _schema(value)) if isinstance(value, dict) else _varint(2 << 3) + _varint(value)


def _parameter(value: Json) -> bytes:
    if value["in"] == "body":
        return _block(1, _block(1, _message("BodyParameter", value)))
    where, message = (3, "QueryParameter") if value["in"] == "query" else (4, "PathParameter")
    return _block(1, _block(2, _block(where, _message(message, value))))


def _response(value: Json) -> bytes:
    return _block(1, _message("Response", value))


_MESSAGES: Mapping[str, Mapping[str, Row]] = {
    "Document": {
        "swagger": (1, _string), "info": (2, "Info"), "paths": (8, _named(lambda value: _message("PathItem", value), 2)),
        "definitions": (9, _named(_schema)), "x-": (16, _any),
    },
    "Info": {"title": (1, _string), "version": (2, _string), "x-": (7, _any)},
    "PathItem": {
        "get": (2, "Operation"), "put": (3, "Operation"), "post": (4, "Operation"), "delete": (5, "Operation"),
        "patch": (8, "Operation"), "parameters": (9, _parameter), "x-": (10, _any),
    },
    "Operation": {
        "description": (3, _string), "operationId": (5, _string), "produces": (6, _string), "consumes": (7, _string),
        "parameters": (8, _parameter), "responses": (9, _named(_response)), "x-": (13, _any),
    },
    "BodyParameter": {
        "description": (1, _string), "name": (2, _string), "in": (3, _string), "required": (4, "integer"),
        "schema": (5, "Schema"), "x-": (6, _any),
    },
    "QueryParameter": {
        "required": (1, "integer"), "in": (2, _string), "description": (3, _string), "name": (4, _string),
        "type": (6, _string), "x-": (23, _any),
    },
    "PathParameter": {
        "required": (1, "integer"), "in": (2, _string), "description": (3, _string), "name": (4, _string),
        "type": (5, _string), "x-": (22, _any),
    },
    "Response": {"description": (1, _string), "schema": (2, lambda value: _block(1, _schema(value))), "x-": (5, _any)},
    "Schema": {
        "$ref": (1, _string), "format": (2, _string), "title": (3, _string), "description": (4, _string),
        "default": (5, _any), "multipleOf": (6, "number"), "maximum": (7, "number"), "exclusiveMaximum": (8, "integer"),
        "minimum": (9, "number"), "exclusiveMinimum": (10, "integer"), "maxLength": (11, "integer"),
        "minLength": (12, "integer"), "pattern": (13, _string), "maxItems": (14, "integer"), "minItems": (15, "integer"),
        "uniqueItems": (16, "integer"), "maxProperties": (17, "integer"), "minProperties": (18, "integer"),
        "required": (19, _string), "enum": (20, _any), "additionalProperties": (21, _additional), "type": (22, _types),
        "items": (23, lambda value: _block(1, _schema(value))), "properties": (25, _named(_schema)), "x-": (31, _any),
    },
}  # fmt: skip
