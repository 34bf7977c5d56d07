"""Decoding of built-in kinds by their published schema, as the real server's typed decoder does it.

A value of the wrong type is a 400; an unknown field is dropped and reported; an explicit null means unset. The walk of each
definition is compiled once into closures, because every write of a pod goes through it.
"""

import base64
from collections.abc import Callable, Set
from functools import cache
from typing import Any

from localcluster.apiserver import builtin_schemas, protobuf
from localcluster.apiserver.errors import ApiError
from localcluster.quantity import canonical
from localcluster.timestamps import parse_time

Obj = dict[str, Any]
#: Decodes a value found at a path, adding the paths of unknown fields to the list.
Decoder = Callable[[Any, str, list[str]], Any]


class _WrongTypeError(Exception):
    """A value that does not fit its field."""


class UndecodableError(ApiError):
    """The 400 for an object with a value of the wrong type; `problem` is the decoder's own word."""

    def __init__(self, kind: str, where: str, problem: str) -> None:
        super().__init__(400, "BadRequest", f"{where} cannot be handled as a {kind}: {problem}")
        self.problem = problem


_NAMES = {str: "string", bool: "bool", int: "number", float: "number", list: "array", dict: "object", type(None): "null"}


def _wrong(value: Any, path: str, expected: str) -> _WrongTypeError:
    return _WrongTypeError(f"json: cannot unmarshal {_NAMES[type(value)]} into Go struct field {path} of type {expected}")


def decode(group: str, version: str, kind: str, obj: Obj) -> tuple[Obj, list[str]]:
    """`obj` with only known fields, and the paths of those dropped. Raises a 400 ApiError on a wrong type.

    A kind without a known schema is passed through unchecked.
    """
    name = builtin_schemas.definition_name(group, version, kind)
    if name is None:
        return obj, []
    unknown: list[str] = []
    return _run(kind, version, _definition(name), obj, unknown), unknown


def decode_metadata(kind: str, meta: Obj) -> Obj:
    """The metadata of a custom object, with only known fields. Raises a 400 ApiError on a wrong type."""
    name = builtin_schemas.OBJECT_META["$ref"].removeprefix(builtin_schemas.REF_PREFIX)
    found: Obj = _run(kind, "", _definition(name), meta, [])
    return found


def _run(kind: str, version: str, decoder: Decoder, value: Any, unknown: list[str]) -> Any:
    try:
        return decoder(value, "", unknown)
    except _WrongTypeError as error:
        where = f'{kind} in version "{version}"' if version else kind
        raise UndecodableError(kind, where, str(error)) from None


@cache
def _definition(name: str) -> Decoder:
    node = builtin_schemas.definitions()[name]
    *_, package, version, kind = name.split(".")
    return _compile(node, protobuf.unset_if_zero(f"{package}/{version}.{kind}") - {*node.get("required", ())})


def _compile(node: Obj, unset_if_zero: Set[str] = frozenset()) -> Decoder:
    if "$ref" in node:
        return _reference(node["$ref"].removeprefix(builtin_schemas.REF_PREFIX))
    if node.get("format") == "int-or-string":
        return _scalar((str, int), "intstr.IntOrString")
    match node.get("type"):
        case "object":
            return _object(node, unset_if_zero) if "properties" in node else _map(node)
        case "array":
            return _array(_compile(node.get("items", {})), _zero(node.get("items", {})))
        case "string":
            return {"date-time": _time, "byte": _bytes}.get(node.get("format", ""), _scalar((str,), "string"))
        case "integer":
            return _integer(node.get("format", "int32"))
        case "boolean":
            return _scalar((bool,), "bool")
        case "number":
            return _scalar((int, float), "float64")
    return lambda value, _path, _unknown: value


def _reference(name: str) -> Decoder:
    if name.endswith(".Quantity"):
        return _quantity
    found: list[Decoder] = []

    def resolve(value: Any, path: str, unknown: list[str]) -> Any:
        # Resolved on first use: definitions refer to themselves (JSONSchemaProps).
        if not found:
            found.append(_definition(name))
        return found[0](value, path, unknown)

    return resolve


def _quantity(value: Any, path: str, _unknown: list[str]) -> Any:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise _wrong(value, path, "resource.Quantity")
    try:
        return canonical(value)
    except ValueError as error:
        raise _WrongTypeError(str(error)) from None


def _bytes(value: Any, path: str, _unknown: list[str]) -> Any:
    if type(value) is not str:
        raise _wrong(value, path, "[]uint8")
    # Line breaks are no part of the data, and not stored.
    value = value.replace("\n", "").replace("\r", "")
    try:
        base64.b64decode(value, validate=True)
    except ValueError:
        raise _WrongTypeError(f"illegal base64 data in Go struct field {path}") from None
    return value


def _scalar(types: tuple[type, ...], name: str) -> Decoder:
    def scalar(value: Any, path: str, _unknown: list[str]) -> Any:
        if type(value) not in types:
            raise _wrong(value, path, name)
        return value

    return scalar


def _time(value: Any, path: str, _unknown: list[str]) -> Any:
    if not isinstance(value, str):
        raise _wrong(value, path, "Time")
    try:
        parse_time(value)
    except ValueError:
        raise _WrongTypeError(f'parsing time "{value}" at {path}: it must look like 2006-01-02T15:04:05Z') from None
    return value


def _integer(name: str) -> Decoder:
    bits = 63 if name == "int64" else 31

    def integer(value: Any, path: str, _unknown: list[str]) -> Any:
        if type(value) is float and value.is_integer():
            value = int(value)
        if type(value) is not int:
            raise _wrong(value, path, name)
        if not -(1 << bits) <= value < 1 << bits:
            raise _WrongTypeError(f"json: cannot unmarshal number {value} into Go struct field {path} of type {name}")
        return value

    return integer


def _zero(node: Obj) -> Any:
    """What a null in a list stands for."""
    if "$ref" in node:
        return "0" if node["$ref"].endswith(".Quantity") else {}
    return {"string": "", "integer": 0, "number": 0, "boolean": False, "object": {}}.get(node.get("type", ""))


def _array(item: Decoder, zero: Any) -> Decoder:
    def array(value: Any, path: str, unknown: list[str]) -> Any:
        if not isinstance(value, list):
            raise _wrong(value, path, "[]")
        return [item(zero if one is None else one, f"{path}[{index}]", unknown) for index, one in enumerate(value)]

    return array


def _map(node: Obj) -> Decoder:
    inner = node.get("additionalProperties")
    decoder = _compile(inner) if isinstance(inner, dict) else None
    plain = _plain_type(inner) if isinstance(inner, dict) else None
    text = isinstance(inner, dict) and inner.get("type") == "string" and "format" not in inner

    def mapping(value: Any, path: str, unknown: list[str]) -> Any:
        if not isinstance(value, dict):
            raise _wrong(value, path, "map")
        if decoder is None:
            return value
        if plain is not None and all(type(one) is plain for one in value.values()):
            return dict(value)
        # A null is the zero value, which of text is the empty one.
        given = {key: "" for key in value if value[key] is None} if text else {}
        return {key: decoder(one, f"{path}.{key}", unknown) for key, one in {**value, **given}.items() if one is not None}

    return mapping


def _object(node: Obj, unset_if_zero: Set[str]) -> Decoder:
    fields = {key: _compile(inner) for key, inner in node["properties"].items()}
    plain = {key: kind for key, inner in node["properties"].items() if (kind := _plain_type(inner)) is not None}
    collections = {key for key, inner in node["properties"].items() if _is_collection(inner)} - set(node.get("required") or ())

    def struct(value: Any, path: str, unknown: list[str]) -> Any:
        if not isinstance(value, dict):
            raise _wrong(value, path, "object")
        prefix = f"{path}." if path else ""
        found = {}
        for key, one in value.items():
            if type(one) is plain.get(key):
                # Most fields; a call for each would cost more than all the rest.
                if one or key not in unset_if_zero:
                    found[key] = one
                continue
            decoder = fields.get(key)
            if decoder is None:
                unknown.append(prefix + key)
            elif one is not None:
                found[key] = decoder(one, prefix + key, unknown)
                if not found[key] and (key in collections or key in unset_if_zero):
                    # An empty list or map is an unset one, too: in storage, the real server does not distinguish them.
                    del found[key]
        return found

    return struct


def _plain_type(node: Obj) -> type | None:
    """The type whose every value fits the node."""
    return {"string": str, "boolean": bool}.get(node.get("type", "")) if not {"$ref", "format"} & node.keys() else None


def _is_collection(node: Obj) -> bool:
    return node.get("type") == "array" or (node.get("type") == "object" and "additionalProperties" in node)
