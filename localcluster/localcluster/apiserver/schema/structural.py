"""What a CRD's schema must be beyond the shape of a structural schema: list keys, patterns and rules that compile.

Source: the Kubernetes documentation, "Specifying a structural schema".
"""

from collections.abc import Iterator
from typing import Any

from localcluster.apiserver import cel
from localcluster.apiserver.builtin_schemas import Json
from localcluster.apiserver.errors import Cause, invalid, required
from localcluster.apiserver.schema.rules import compile_rule
from localcluster.apiserver.schema.values import validator


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
