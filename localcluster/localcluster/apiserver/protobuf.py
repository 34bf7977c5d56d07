"""Reading of objects that kubectl's and Go's typed clients send as ``application/vnd.kubernetes.protobuf``.

Only reading: every such client takes JSON in answer. The envelope and the rule for zero values are those of
k8s.io/apimachinery: a value field that is zero is on the wire and means absent, a pointer field that is zero means zero.
"""

import base64
import gzip
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import resources
from typing import Any

Obj = dict[str, Any]
Row = list[Any]

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class ProtobufError(ValueError):
    """The bytes are not an object that the server can decode."""


@cache
def _document() -> dict[str, Any]:
    packed = resources.files("localcluster.apiserver").joinpath("protobuf_fields.json.gz").read_bytes()
    document: dict[str, Any] = json.loads(gzip.decompress(packed))
    return document


@cache
def _rows(message: str) -> dict[int, Row]:
    return {row[0]: row for row in _document()["messages"][message]}


@cache
def unset_if_zero(message: str) -> frozenset[str]:
    """The fields of a message whose zero value, such as false or an empty text, means unset: those without a pointer."""
    names: set[str] = set()
    for _, name, code, reference, repeated, pointer in _document()["messages"].get(message, ()):
        if not name and code == "message":
            names |= unset_if_zero(reference)
        elif code in ("string", "bool", "int") and not repeated and not pointer:
            names.add(name)
    return frozenset(names)


def decode(data: bytes) -> Obj:
    """The object in an envelope. Raises ProtobufError for damaged bytes and for a kind that has no field table."""
    if not data.startswith(_MAGIC):
        raise ProtobufError("the body does not start with the Kubernetes protobuf prefix")
    try:
        return _envelope(data[len(_MAGIC) :])
    except (AttributeError, TypeError, IndexError, ValueError, OverflowError, RecursionError) as error:
        # Such as a field of another wire type than its own.
        raise ProtobufError(f"the body cannot be read: {error}") from None


def _envelope(data: bytes) -> Obj:
    type_meta, raw = b"", b""
    for number, value in _fields(data):
        if number == 1:
            type_meta = value
        elif number == 2:
            raw = value
    named = {number: value.decode() for number, value in _fields(type_meta)}
    api_version, kind = named.get(1, ""), named.get(2, "")
    group, _, version = api_version.rpartition("/")
    message = _document()["kinds"].get(f"{group}/{version}/{kind}")
    if message is None:
        raise ProtobufError(f"{api_version} {kind} is not known in protobuf form; send it as JSON")
    return {"apiVersion": api_version, "kind": kind, **_message(message, raw)}


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 63:
            raise ProtobufError("a number is too long")


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            value, position = _varint(data, position)
            yield number, value
            continue
        if wire != 2:
            # No kind has a field of a fixed size.
            raise ProtobufError(f"wire type {wire}")
        length, position = _varint(data, position)
        if position + length > len(data):
            raise ProtobufError("it ends in the middle of a field")
        yield number, data[position : position + length]
        position += length


def _message(name: str, data: bytes) -> Obj:
    rows, found = _rows(name), {}
    for number, value in _fields(data):
        row = rows.get(number)
        if row is None:
            continue
        _, key, code, reference, repeated, pointer = row
        if not key:
            found.update(_message(reference, value))
        elif code == "map":
            entry = dict(_fields(value))
            inner = entry.get(2, 0 if reference[0] in ("int", "bool") else b"")
            found.setdefault(key, {})[entry.get(1, b"").decode()] = _value(reference[0], reference[1], inner)
        elif repeated:
            found.setdefault(key, []).append(_value(code, reference, value))
        else:
            decoded = _value(code, reference, value)
            if pointer or decoded not in ("", 0, None, {}) or code == "message":
                found[key] = decoded
    return {key: value for key, value in found.items() if value is not None}


def _value(code: str, reference: Any, value: Any) -> Any:
    match code:
        case "message":
            return _message(reference, value)
        case "string":
            return value.decode()
        case "int":
            return value - (1 << 64) if value >= 1 << 63 else value
        case "bool":
            return bool(value)
        case "bytes":
            return base64.b64encode(value).decode()
    return _special(code, dict(_fields(value)))


def _special(code: str, fields: dict[int, Any]) -> Any:
    match code:
        case "time":
            if not fields.get(1):
                return None
            moment = _EPOCH + timedelta(seconds=fields[1], microseconds=fields.get(2, 0) // 1000)
            return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ" if fields.get(2) else "%Y-%m-%dT%H:%M:%SZ")
        case "quantity":
            return fields.get(1, b"").decode() or "0"
        case "intstr":
            return fields.get(3, b"").decode() if fields.get(1) else fields.get(2, 0)
    # The fields that a manager owns, and others that the server does not keep.
    return None
