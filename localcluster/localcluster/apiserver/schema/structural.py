"""The structural-schema rules that a CRD's schema must keep before the server accepts it.

Source: the Kubernetes documentation, "Specifying a structural schema", and the apiextensions validation for `v1`.
"""

import re
from collections.abc import Iterator
from typing import Any

import jsonschema_rs

from localcluster.apiserver import cel
from localcluster.apiserver.builtin_schemas import Json
from localcluster.apiserver.errors import Cause, forbidden, invalid, not_supported, required
from localcluster.apiserver.schema.rules import Rule, compile_rule
from localcluster.apiserver.schema.values import validator, value_causes

REASONS = ("FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate")
_FIELD_STEP = re.compile(r"(\.([A-Za-z_][A-Za-z0-9_]*)|\['([^']+)'\])")
TYPES = ("array", "boolean", "integer", "number", "object", "string")
_FORBIDDEN = {
    "$ref": "$ref is not supported",
    "definitions": "definitions is not supported",
    "dependencies": "dependencies is not supported",
    "patternProperties": "patternProperties is not supported",
    "additionalItems": "additionalItems is not supported",
    "id": "id is not supported",
    "$schema": "$schema is not supported",
}
_OUTSIDE_JUNCTORS = (
    "type", "default", "nullable", "title", "description", "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string", "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys", "x-kubernetes-map-type", "additionalProperties",
)  # fmt: skip


def structural_causes(schema: Json, path: str) -> list[Cause]:
    """Why the schema is not structural, with field paths below `path`; empty when the server would accept it."""
    found = []
    if schema.get("type") != "object":
        wrong = "must be object at the root"
        found.append(invalid(f"{path}.type", schema["type"], wrong) if "type" in schema else required(f"{path}.type", wrong))
    return found + list(_node(schema, path, correlatable=True))


def _node(node: Any, path: str, *, correlatable: bool) -> Iterator[Cause]:
    if not isinstance(node, dict):
        yield invalid(path, node, "must be an object that holds a schema")
        return
    own = list(_shape(node, path))
    yield from own
    yield from _list_map(node, path)
    yield from _rules(node, path, correlatable)
    for where, inner in _junctors(node, path):
        yield from _junctor(inner, where, node)
    for where, below, kept in _children(node, path):
        yield from _node(below, where, correlatable=correlatable and kept)
    if not own:
        yield from _values(node, path)


def _children(node: Json, path: str) -> Iterator[tuple[str, Any, bool]]:
    """(path, schema, whether old values below can be correlated)."""
    for key, below in (node.get("properties") or {}).items():
        yield f"{path}.properties[{key}]", below, True
    if isinstance(node.get("additionalProperties"), dict):
        yield f"{path}.additionalProperties", node["additionalProperties"], True
    if isinstance(node.get("items"), dict):
        yield f"{path}.items", node["items"], node.get("x-kubernetes-list-type") == "map"


def _shape(node: Json, path: str) -> Iterator[Cause]:
    for key, why in _FORBIDDEN.items():
        if key in node:
            yield forbidden(f"{path}.{key}", why)
    free = node.get("x-kubernetes-int-or-string") or node.get("x-kubernetes-preserve-unknown-fields")
    kind = node.get("type")
    if kind is None and not free:
        yield required(f"{path}.type", "must not be empty for specified object fields")
    elif kind is not None and kind not in TYPES:
        yield not_supported(f"{path}.type", kind, TYPES)
    if node.get("x-kubernetes-int-or-string") and kind is not None:
        yield invalid(f"{path}.type", kind, "must be empty if x-kubernetes-int-or-string is true")
    if kind == "array" and "items" not in node:
        yield required(f"{path}.items", "must be specified")
    if isinstance(node.get("items"), list):
        yield forbidden(f"{path}.items", "items must be a schema object and not an array")
    if node.get("additionalProperties") is False:
        yield forbidden(f"{path}.additionalProperties", "additionalProperties cannot be set to false")
    if node.get("properties") and node.get("additionalProperties", True) is not True:
        yield forbidden(f"{path}.additionalProperties", "additionalProperties and properties are mutual exclusive")
    if node.get("uniqueItems"):
        yield forbidden(
            f"{path}.uniqueItems", "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        )
    if node.get("x-kubernetes-embedded-resource"):
        if kind != "object":
            yield invalid(f"{path}.type", kind or "", "must be object if x-kubernetes-embedded-resource is true")
        if not node.get("properties") and not node.get("x-kubernetes-preserve-unknown-fields"):
            why = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"
            yield required(f"{path}.properties", why)
    if node.get("x-kubernetes-preserve-unknown-fields") is False:
        yield invalid(f"{path}.x-kubernetes-preserve-unknown-fields", False, "must be true or undefined")


def _list_map(node: Json, path: str) -> Iterator[Cause]:
    kind, keys = node.get("x-kubernetes-list-type"), node.get("x-kubernetes-list-map-keys")
    if kind is None and keys is None:
        return
    if node.get("type") != "array":
        yield invalid(f"{path}.type", node.get("type", ""), "must be array if x-kubernetes-list-type is specified")
        return
    if kind not in ("atomic", "set", "map"):
        yield not_supported(f"{path}.x-kubernetes-list-type", kind, ("atomic", "map", "set"))
    if kind != "map":
        if keys:
            yield forbidden(f"{path}.x-kubernetes-list-map-keys", "must be empty if x-kubernetes-list-type is not map")
        return
    if not keys:
        why = "must not be empty if x-kubernetes-list-type is map"
        yield required(f"{path}.x-kubernetes-list-map-keys", why)
        return
    below = node.get("items")
    properties = below.get("properties", {}) if isinstance(below, dict) else {}
    for index, key in enumerate(keys):
        if key not in properties:
            why = "entries must all be names of item properties"
            yield invalid(f"{path}.x-kubernetes-list-map-keys[{index}]", key, why)
        elif isinstance(below, dict) and key not in below.get("required", ()) and "default" not in properties[key]:
            why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
            yield required(f"{path}.items.properties[{key}].default", why)


def _junctors(node: Json, path: str) -> Iterator[tuple[str, Any]]:
    for key in ("allOf", "anyOf", "oneOf"):
        for index, inner in enumerate(node.get(key) or ()):
            yield f"{path}.{key}[{index}]", inner
    if "not" in node:
        yield f"{path}.not", node["not"]


def _junctor(inner: Any, path: str, outer: Json) -> Iterator[Cause]:
    if not isinstance(inner, dict):
        yield invalid(path, inner, "must be an object that holds a schema")
        return
    for key in _OUTSIDE_JUNCTORS:
        # The one pattern the documentation excepts: the two types of an int-or-string.
        if key in inner and not (key == "type" and outer.get("x-kubernetes-int-or-string")):
            yield forbidden(f"{path}.{key}", "must be empty to be structural")
    for key, below in (inner.get("properties") or {}).items():
        known = (outer.get("properties") or {}).get(key)
        if known is None:
            yield required(f"{path.rsplit('.', 1)[0]}.properties[{key}]", f"because it is defined in {path}.properties[{key}]")
        else:
            yield from _junctor(below, f"{path}.properties[{key}]", known)
    if isinstance(inner.get("items"), dict) and isinstance(outer.get("items"), dict):
        yield from _junctor(inner["items"], f"{path}.items", outer["items"])
    for where, deeper in _junctors(inner, path):
        yield from _junctor(deeper, where, outer)


def _values(node: Json, path: str) -> Iterator[Cause]:
    """Pattern and default; each node is tried alone so that the cause names it."""
    if "pattern" in node:
        try:
            jsonschema_rs.Draft202012Validator({"pattern": node["pattern"]}, pattern_options=jsonschema_rs.RegexOptions())
        except ValueError as error:
            why = f"must be a valid regular expression, but isn't: {str(error).splitlines()[0]}"
            yield invalid(f"{path}.pattern", node["pattern"], why)
            return
    if "default" in node:
        try:
            for cause in value_causes(validator(node), node["default"]):
                yield Cause(cause.reason, f"{path}.default{'.' if cause.field else ''}{cause.field}", cause.message)
        except ValueError:
            return  # a pattern further down does not compile; it is reported there


def _rules(node: Json, path: str, correlatable: bool) -> Iterator[Cause]:
    for index, source in enumerate(node.get("x-kubernetes-validations") or ()):
        where = f"{path}.x-kubernetes-validations[{index}]"
        if not isinstance(source, dict) or not str(source.get("rule", "")).strip():
            yield required(f"{where}.rule", "rule is not specified")
            continue
        if "\n" in source.get("message", "").strip():
            yield invalid(f"{where}.message", source["message"], "message must not contain line breaks")
        if "\n" in source["rule"].strip() and not source.get("message"):
            yield required(f"{where}.message", "message must be specified if rule contains line breaks")
        try:
            rule = compile_rule(source)
        except cel.CelError as error:
            yield invalid(f"{where}.rule", source["rule"], str(error))
            continue
        yield from _transition(rule, where, correlatable)
        yield from _told(node, source, where)


def _transition(rule: Rule, where: str, correlatable: bool) -> Iterator[Cause]:
    if rule.uses_old and not correlatable:
        why = "oldSelf cannot be used on the uncorrelatable portion of the schema within a list that is not a map"
        yield invalid(f"{where}.rule", rule.source["rule"], why)
    elif rule.source.get("optionalOldSelf") and not rule.uses_old:
        why = "may not be set if oldSelf is not used in rule"
        yield invalid(f"{where}.optionalOldSelf", True, why)


def _told(node: Json, source: Json, where: str) -> Iterator[Cause]:
    """Where and how a failed rule is reported."""
    if "reason" in source and source["reason"] not in REASONS:
        yield not_supported(f"{where}.reason", source["reason"], REASONS)
    if "fieldPath" in source and not _leads_to_field(node, str(source["fieldPath"])):
        yield invalid(f"{where}.fieldPath", source["fieldPath"], "fieldPath must be a valid path to a field of this schema")


def _leads_to_field(node: Json, path: str) -> bool:
    steps = _FIELD_STEP.findall(path)
    if not steps or "".join(whole for whole, *_ in steps) != path:
        return False
    for _, plain, quoted in steps:
        properties, rest = node.get("properties") or {}, node.get("additionalProperties")
        found = properties.get(plain or quoted, rest if isinstance(rest, dict) else None)
        if found is None:
            return False
        node = found
    return True
