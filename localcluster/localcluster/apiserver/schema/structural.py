"""What a CRD's schema must be before the server accepts it: the shape of a structural schema, and rules that compile.

Source: the Kubernetes documentation, "Specifying a structural schema". The shape is itself a JSON Schema.
"""

from collections.abc import Iterator
from typing import Any

from localcluster.apiserver import cel
from localcluster.apiserver.builtin_schemas import Json
from localcluster.apiserver.errors import Cause, invalid, required
from localcluster.apiserver.schema.rules import compile_rule
from localcluster.apiserver.schema.values import validator

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_FREE = ("x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields")
_UNSUPPORTED = ("$ref", "definitions", "dependencies", "patternProperties", "additionalItems", "id", "$schema")
_NODE: Json = {"$ref": "#/$defs/node"}
#: To be put under ``$defs`` of a schema that refers to `_NODE`.
DEFINITIONS: Json = {
    "node": {
        "type": "object",
        "properties": {
            "type": {"enum": [*_TYPES]},
            "properties": {"type": "object", "additionalProperties": _NODE},
            "items": _NODE,
            "additionalProperties": {"anyOf": [{"const": True}, _NODE]},
            "uniqueItems": {"const": False},
            "x-kubernetes-preserve-unknown-fields": {"const": True},
            "x-kubernetes-list-type": {"enum": ["atomic", "set", "map"]},
            "x-kubernetes-validations": {"items": {"type": "object", "required": ["rule"]}},
        },
        "allOf": [
            {"not": {"anyOf": [{"required": [name]} for name in _UNSUPPORTED]}},
            {"not": {"required": ["properties", "additionalProperties"]}},
            {"anyOf": [{"required": [name]} for name in ("type", *_FREE)]},
            {"if": {"properties": {"type": {"const": "array"}}, "required": ["type"]}, "then": {"required": ["items"]}},
            {
                "if": {"properties": {"x-kubernetes-list-type": {"const": "map"}}, "required": ["x-kubernetes-list-type"]},
                "then": {"required": ["x-kubernetes-list-map-keys"]},
            },
        ],
    }
}
ROOT: Json = {"allOf": [_NODE, {"required": ["type"], "properties": {"type": {"const": "object"}}}]}


def rule_causes(schema: Json, path: str) -> list[Cause]:
    """What is wrong with the patterns, list keys and CEL rules of a schema of the right shape."""
    try:
        validator(schema)
    except ValueError as error:
        return [invalid(path, "", f"must be a valid schema, but isn't: {str(error).splitlines()[0]}")]
    return list(_node(schema, path, correlatable=True))


def _node(node: Json, path: str, *, correlatable: bool) -> Iterator[Cause]:
    for index, source in enumerate(node.get("x-kubernetes-validations") or ()):
        where = f"{path}.x-kubernetes-validations[{index}].rule"
        try:
            uses_old = compile_rule(source).uses_old
        except cel.CelError as error:
            yield invalid(where, source["rule"], str(error))
            continue
        if uses_old and not correlatable:
            why = "oldSelf cannot be used on the uncorrelatable portion of the schema within a list that is not a map"
            yield invalid(where, source["rule"], why)
    below: Any = node.get("items") or {}
    for key in node.get("x-kubernetes-list-map-keys") or ():
        if key not in below.get("required", ()) and "default" not in below.get("properties", {}).get(key, {}):
            why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
            yield required(f"{path}.items.properties[{key}].default", why)
    for key, one in (node.get("properties") or {}).items():
        yield from _node(one, f"{path}.properties[{key}]", correlatable=correlatable)
    if isinstance(node.get("additionalProperties"), dict):
        yield from _node(node["additionalProperties"], f"{path}.additionalProperties", correlatable=correlatable)
    if below:
        kept = correlatable and node.get("x-kubernetes-list-type") == "map"
        yield from _node(below, f"{path}.items", correlatable=kept)
