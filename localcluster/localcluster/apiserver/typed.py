"""Decoding of built-in kinds by their published schema, as the real server's typed decoder does it.

A value of the wrong type is a 400; an unknown field is dropped and reported; an explicit null means unset, and so does an empty
list or map, and a zero where the real server's type has no pointer: in storage, it does not distinguish them.
"""

import base64
from functools import cache
from typing import Any

from localcluster.apiserver import builtin_schemas, protobuf
from localcluster.apiserver.errors import bad_request
from localcluster.quantity import canonical
from localcluster.timestamps import parse_time

Obj = dict[str, Any]
_TYPES = {
    "boolean": ((bool,), "bool"),
    "number": ((int, float), "float64"),
    "object": ((dict,), "map"),
    "array": ((list,), "[]"),
}


class _WrongTypeError(Exception):
    """A value that does not fit its field."""


_NAMES = {str: "string", bool: "bool", int: "number", float: "number", list: "array", dict: "object", type(None): "null"}


def _wrong(value: Any, path: str, expected: str) -> _WrongTypeError:
    return _WrongTypeError(f"json: cannot unmarshal {_NAMES[type(value)]} into Go struct field {path} of type {expected}")


def decode(group: str, version: str, kind: str, obj: Obj) -> tuple[Obj, list[str]]:
    """`obj` with only known fields, and the paths of those dropped. Raises a 400 ApiError on a wrong type."""
    unknown: list[str] = []
    return _run(kind, version, str(builtin_schemas.definition_name(group, version, kind)), obj, unknown), unknown


def decode_metadata(kind: str, meta: Obj) -> Obj:
    """The metadata of a custom object, with only known fields. Raises a 400 ApiError on a wrong type."""
    name = builtin_schemas.OBJECT_META["$ref"].removeprefix(builtin_schemas.REF_PREFIX)
    return _run(kind, "", name, meta, [])


def _run(kind: str, version: str, name: str, value: Obj, unknown: list[str]) -> Obj:
    try:
        return _struct(_resolved(builtin_schemas.REF_PREFIX + name), value, "", unknown)
    except _WrongTypeError as error:
        where = f'{kind} in version "{version}"' if version else kind
        raise bad_request(f"{where} cannot be handled as a {kind}: {error}") from None


@cache
def _resolved(reference: str) -> Obj:
    """The node of a definition, with the names of its fields of `plain` text, and of those `unset` if empty or zero."""
    name = reference.removeprefix(builtin_schemas.REF_PREFIX)
    node = builtin_schemas.definitions()[name]
    if name.endswith(".Quantity"):
        return {**node, "format": "quantity"}
    *_, package, version, kind = name.split(".")
    fields = node.get("properties", {}).items()
    plain = {key for key, below in fields if below.get("type") == "string" and "format" not in below}
    collections = {key for key, below in fields if _is_collection(below)}
    unset = collections | protobuf.unset_if_zero(f"{package}/{version}.{kind}")
    return {**node, "plain": plain, "unset": unset - {*node.get("required", ())}}


def _is_collection(node: Obj) -> bool:
    return node.get("type") == "array" or (node.get("type") == "object" and "additionalProperties" in node)


def _struct(node: Obj, value: Any, path: str, unknown: list[str]) -> Obj:
    if not isinstance(value, dict):
        raise _wrong(value, path, "object")
    prefix = f"{path}." if path else ""
    found = {}
    properties, plain, unset = node["properties"], node["plain"], node["unset"]
    for key, one in value.items():
        if key not in properties:
            unknown.append(prefix + key)
        elif one is not None:
            # Most fields are plain text.
            decoded = one if type(one) is str and key in plain else _value(properties[key], one, prefix + key, unknown)
            if decoded or key not in unset:
                found[key] = decoded
    return found


def _value(node: Obj, value: Any, path: str, unknown: list[str]) -> Any:
    if "$ref" in node:
        node = _resolved(node["$ref"])
    if "properties" in node:
        return _struct(node, value, path, unknown)
    kind = node.get("type", "")
    if kind == "string":
        return _text(node.get("format", ""), value, path)
    if kind == "integer":
        return _integer(node.get("format", "int32"), value, path)
    types, name = _TYPES.get(kind, ((object,), ""))
    if types != (object,) and type(value) not in types:
        raise _wrong(value, path, name)
    below = node.get("items" if kind == "array" else "additionalProperties")
    if not isinstance(below, dict):
        return value
    # A null is the zero value: an empty text, or an object without fields.
    text = below.get("type") == "string" and "format" not in below
    if kind == "array":
        zero: Any = "" if text else {}
        return [_value(below, zero if one is None else one, f"{path}[{at}]", unknown) for at, one in enumerate(value)]
    given = {key: "" if one is None and text else one for key, one in value.items()}
    return {key: _value(below, one, f"{path}.{key}", unknown) for key, one in given.items() if one is not None}


def _text(form: str, value: Any, path: str) -> Any:
    allowed: tuple[type, ...] = (str,)
    name = {"date-time": "Time", "byte": "[]uint8"}.get(form, "string")
    if form == "int-or-string":
        allowed, name = (str, int), "intstr.IntOrString"
    elif form == "quantity":
        allowed, name = (str, int, float), "resource.Quantity"
    if type(value) not in allowed:
        raise _wrong(value, path, name)
    try:
        match form:
            case "quantity":
                return canonical(value)
            case "date-time":
                parse_time(value)
            case "byte":
                # Line breaks are no part of the data, and not stored.
                value = value.replace("\n", "").replace("\r", "")
                base64.b64decode(value, validate=True)
    except ValueError as error:
        problem = {
            "date-time": f'parsing time "{value}" at {path}: it must look like 2006-01-02T15:04:05Z',
            "byte": f"illegal base64 data in Go struct field {path}",
        }.get(form, str(error))
        raise _WrongTypeError(problem) from None
    return value


def _integer(form: str, value: Any, path: str) -> int:
    if type(value) is float and value.is_integer():
        value = int(value)
    if type(value) is not int:
        raise _wrong(value, path, form)
    bits = 63 if form == "int64" else 31
    if not -(1 << bits) <= value < 1 << bits:
        raise _WrongTypeError(f"json: cannot unmarshal number {value} into Go struct field {path} of type {form}")
    return value
