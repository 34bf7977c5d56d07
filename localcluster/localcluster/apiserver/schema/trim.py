"""Cutting a schema down to the nodes that matter for one purpose.

A pod template has a thousand fields, of which a handful carry defaults or rules; walking only those makes the walk
cheap.
"""

from collections.abc import Callable
from typing import Any

from localcluster.apiserver.builtin_schemas import Json


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
