"""Walking a schema beside a value: cutting it down to the nodes that matter, pruning and defaulting in place."""

from collections.abc import Callable
from typing import Any

from localcluster.apiserver.builtin_schemas import Json, resolve
from localcluster.apiserver.json_values import json_copy


def trim(node: Json, wanted: Callable[[Json], bool]) -> Json | None:
    """The schema without every subtree in which no node is wanted; None when nothing is left. Types are kept as they
    are.
    """
    below: Json = {}
    properties = {key: found for key, one in node.get("properties", {}).items() if (found := trim(one, wanted))}
    if properties:
        below["properties"] = properties
    for key in ("additionalProperties", "items"):
        one = node.get(key)
        if isinstance(one, dict) and (found := trim(one, wanted)):
            below[key] = found
    if not below and not wanted(node):
        return None
    kept = {key: value for key, value in node.items() if key not in ("properties", "additionalProperties", "items")}
    return {**kept, **below}


def branches(node: Json, value: Any) -> list[tuple[Json, str | int, Any]]:
    """The (schema, key or index, value) of every child value that the schema node has a say in."""
    if isinstance(value, dict):
        properties, rest = node.get("properties", {}), node.get("additionalProperties")
        if rest:
            return [(properties.get(key, rest), key, item) for key, item in value.items()]
        return [(one, key, value[key]) for key, one in properties.items() if key in value]
    if isinstance(value, list) and "items" in node:
        return [(node["items"], index, item) for index, item in enumerate(value)]
    return []


def step(node: Json, path: str, key: str | int) -> str:
    """The field path one level down, as the real server writes it: ``.field``, ``[key]`` of a map, ``[index]``."""
    if isinstance(key, str) and key in node.get("properties", {}):
        return f"{path}.{key}" if path else key
    return f"{path}[{key}]"


def prune(node: Json, value: Any, path: str = "") -> list[str]:
    """Drops every field the structural schema does not have and returns their paths.

    `x-kubernetes-preserve-unknown-fields` keeps what is unknown at its node; below a known field pruning goes on.
    """
    if "$ref" in node:
        return _prune_metadata(node, value, path)
    dropped = []
    if isinstance(value, dict) and not node.get("x-kubernetes-preserve-unknown-fields"):
        properties = node.get("properties", {})
        if not node.get("additionalProperties"):
            for key in [key for key in value if key not in properties]:
                del value[key]
                dropped.append(f"{path}.{key}" if path else key)
    if isinstance(value, dict):
        properties, rest = node.get("properties", {}), node.get("additionalProperties")
        for key in [key for key, item in value.items() if item is None]:
            below = properties.get(key, rest)
            if isinstance(below, dict) and not below.get("nullable") and not {"default", "$ref"} & below.keys():
                # A null means unset, and nothing here gives it a value.
                del value[key]
    for below, key, item in branches(node, value):
        if isinstance(item, dict | list):
            # Map keys are joined with dots here, as the real server does in its unknown-field warnings.
            where = f"{path}[{key}]" if isinstance(key, int) else f"{path}.{key}" if path else key
            dropped += prune(below, item, where) if isinstance(below, dict) else []
    return dropped


def _prune_metadata(node: Json, value: Any, path: str) -> list[str]:
    """ObjectMeta is the server's own type: unknown keys are pruned, the values of known ones are kept unchecked."""
    if not isinstance(value, dict):
        return []
    known = resolve(node)["properties"]
    unknown = [key for key in value if key not in known]
    for key in unknown:
        del value[key]
    return [f"{path}.{key}" for key in unknown]


def default(node: Json, value: Any) -> None:
    """Sets defaults; a null in a field that is not nullable counts as missing. `node` may be trimmed to nodes with
    defaults.
    """
    if isinstance(value, dict):
        for key, below in node.get("properties", {}).items():
            null = key in value and value[key] is None and not below.get("nullable")
            if "default" in below and (key not in value or null):
                value[key] = json_copy(below["default"])
    for below, _, item in branches(node, value):
        if isinstance(item, dict | list):
            default(below, item)
