"""Validation of values: types, limits, patterns, formats, required fields, and the uniqueness of sets and list maps.

The checking is jsonschema-rs'; this module writes the schema in JSON Schema's words and its errors in the API server's.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import jsonschema_rs

from localcluster.apiserver import names
from localcluster.apiserver.builtin_schemas import Json
from localcluster.apiserver.errors import Cause, duplicate, invalid, not_supported, required
from localcluster.apiserver.schema.walk import branches, step

_DURATION = re.compile(r"[+-]?((\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h|d|w))+|[+-]?0")


#: The formats that are not JSON Schema's own, or not the same.
FORMATS = {"duration": lambda text: _DURATION.fullmatch(text) is not None}
_COPIED = (
    "pattern", "format", "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties",
    "multipleOf", "required",
)  # fmt: skip
_TEXT = {
    "minimum": "should be greater than or equal to {}",
    "exclusiveMinimum": "should be greater than {}",
    "maximum": "should be less than or equal to {}",
    "exclusiveMaximum": "should be less than {}",
    "multipleOf": "should be a multiple of {}",
    "minLength": "should be at least {} chars long",
    "minItems": "should have at least {} items",
    "minProperties": "should have at least {} properties",
    "pattern": "should match '{}'",
}
_COMPOSED = {
    "oneOf": "must validate one and only one schema (oneOf)",
    "anyOf": "must validate at least one schema (anyOf)",
    "not": "must not validate the schema (not)",
}
_EMBEDDED: Json = {"properties": {"apiVersion": {"type": "string", "minLength": 1}, "kind": {"type": "string", "minLength": 1}}}


def json_schema(node: Json) -> Json:
    """The structural schema in the words of JSON Schema 2020-12."""
    if "$ref" in node:
        return {"type": "object"}  # ObjectMeta: checked by the server itself
    result: Json = {key: node[key] for key in _COPIED if key in node}
    types = ["integer", "string"] if node.get("x-kubernetes-int-or-string") else [node["type"]] if "type" in node else []
    nullable = bool(node.get("nullable"))
    if types:
        result["type"] = [*types, "null"] if nullable else types
    if "enum" in node:
        result["enum"] = [*node["enum"], None] if nullable else node["enum"]
    for limit in ("minimum", "maximum"):
        if limit in node:
            strict = node.get("exclusive" + limit.capitalize())
            result["exclusive" + limit.capitalize() if strict else limit] = node[limit]
    if node.get("x-kubernetes-embedded-resource"):
        result["required"] = sorted({*node.get("required", ()), "apiVersion", "kind"})
        node = {**node, "properties": {**node.get("properties", {}), **_EMBEDDED["properties"]}}
    if "properties" in node:
        result["properties"] = {key: json_schema(one) for key, one in node["properties"].items()}
    for key in ("items", "additionalProperties", "not"):
        if isinstance(node.get(key), dict):
            result[key] = json_schema(node[key])
    for key in ("allOf", "anyOf", "oneOf"):
        if key in node:
            result[key] = [json_schema(one) for one in node[key]]
    return result


def validator(node: Json) -> jsonschema_rs.Draft202012Validator:
    """A compiled validator for the structural schema; raises ValueError for a pattern that does not compile."""
    # Linear-time regular expressions are what the real server has (RE2), and a user's pattern cannot hang the server.
    return jsonschema_rs.Draft202012Validator(
        json_schema(node), validate_formats=True, formats=FORMATS, pattern_options=jsonschema_rs.RegexOptions()
    )


def value_causes(compiled: jsonschema_rs.Draft202012Validator, value: Any) -> list[Cause]:
    """What is wrong with the value, by field; empty when it is valid."""
    if compiled.is_valid(value):
        return []
    return [cause for error in compiled.iter_errors(value) for cause in _causes(error)]


def _path(parts: list[str | int]) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)
    return text.removeprefix(".")


def _type_name(value: Any) -> str:
    names = {bool: "boolean", int: "integer", float: "number", str: "string", dict: "object", list: "array"}
    return names.get(type(value), "null")


def _causes(error: Any) -> Iterator[Cause]:
    parts, keyword, limit, value = list(error.instance_path), error.kind.name, error.kind.value, error.instance
    path = _path(parts)
    if keyword == "required":
        yield required(_path([*parts, limit]))
    elif keyword == "type":
        wanted, found = _wanted(limit), _type_name(value)
        detail = f'{path} in body must be of type {wanted}: "{found}"'
        yield Cause("FieldValueTypeInvalid", path, f'Invalid value: "{found}": {detail}')
    elif keyword == "enum":
        yield not_supported(path, value, [one for one in limit if one is not None])
    elif keyword == "maxLength":
        yield Cause("FieldValueTooLong", path, f"Too long: may not be more than {limit} bytes")
    elif keyword in ("maxItems", "maxProperties"):
        detail = f"must have at most {limit} items"
        yield Cause("FieldValueTooMany", path, f"Too many: {len(value)}: {detail}")
    elif keyword in _COMPOSED:
        yield invalid(path or "<nil>", "", f'"{path}" {_COMPOSED[keyword]}')
    elif keyword == "format" and limit in names.FORMATS:
        yield from names.check(names.FORMATS[limit], path, value) if value else (required(path),)
    elif keyword == "format":
        # A wrong format is an error of type, with the value where other errors of type name the type.
        cause = invalid(path, value, f"{path} in body must be of type {limit}: {json.dumps(value)}")
        yield Cause("FieldValueTypeInvalid", path, cause.message)
    else:
        text = _TEXT[keyword].format(limit) if keyword in _TEXT else error.message
        yield invalid(path, value, f"{path} in body {text}")


def _wanted(limit: Any) -> str:
    types = limit if isinstance(limit, list) else [limit]
    return ",".join(one for one in types if one != "null")


def has_unique_items(node: Json) -> bool:
    """Whether the node is a list whose items must differ (a set, or a map by its keys)."""
    return node.get("x-kubernetes-list-type") in ("set", "map")


def list_causes(node: Json, value: Any, path: str = "") -> Iterator[Cause]:
    """Duplicates in sets and list maps; `node` may be trimmed to such lists."""
    if isinstance(value, list) and has_unique_items(node):
        keys = node.get("x-kubernetes-list-map-keys")
        seen = set()
        for index, item in enumerate(value):
            found = {key: item.get(key) for key in keys if key in item} if keys and isinstance(item, dict) else item
            identity = json.dumps(found, sort_keys=True)
            if identity in seen:
                yield duplicate(f"{path}[{index}]", found)
            seen.add(identity)
    for below, key, item in branches(node, value):
        yield from list_causes(below, item, step(node, path, key))
