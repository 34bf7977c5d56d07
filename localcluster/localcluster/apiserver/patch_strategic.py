"""Kubernetes strategic merge patch for built-in kinds.

The rules are those of k8s.io/apimachinery/pkg/util/strategicpatch: which lists merge, and by which key, is said by
`x-kubernetes-patch-strategy` and `x-kubernetes-patch-merge-key` of the published schema. A list keeps its order, and what is
new comes last: `$setElementOrder` is ignored.
"""

from typing import Any

from localcluster.apiserver.builtin_schemas import Json, child, items, resolve

DIRECTIVE = "$patch"
RETAIN_KEYS = "$retainKeys"
DELETE_PRIMITIVES = "$deleteFromPrimitiveList/"


class StrategicPatchError(ValueError):
    """The patch is not a valid strategic merge patch for this kind; the message says where. The server answers 400."""


def strategic_merge(node: Json, current: Json, patch: Json) -> Json:
    """The object after the patch, for an object of the built-in schema `node`; neither argument is changed.

    Raises `StrategicPatchError` for an unknown directive, or a list item without its merge key.
    """
    return _merge_map(resolve(node), current, patch, "")


def _plain(value: Any) -> Any:
    """A new value without nulls and directives."""
    if isinstance(value, dict):
        if value.get(DIRECTIVE) == "delete":
            return {}
        return {key: _plain(item) for key, item in value.items() if item is not None and not key.startswith("$")}
    if isinstance(value, list):
        return [_plain(item) for item in value if not (isinstance(item, dict) and DIRECTIVE in item)]
    return value


def _merge_map(node: Json, current: Json, patch: Json, path: str) -> Json:
    directive = patch.get(DIRECTIVE, "merge")
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != DIRECTIVE}
    if directive == "delete":
        return {}
    if directive != "merge":
        raise StrategicPatchError(f"{path or 'patch'}: unknown patch type: {directive}")
    retained = patch.get(RETAIN_KEYS, current)
    result = {key: value for key, value in current.items() if key in retained}
    named = (key.removeprefix(DELETE_PRIMITIVES) for key in patch)
    for field in dict.fromkeys(name for name in named if not name.startswith("$")):
        _merge_field(node, result, patch, field, f"{path}.{field}" if path else field)
    return result


def _merge_field(node: Json, result: Json, patch: Json, field: str, path: str) -> None:
    value, old, below = patch.get(field), result.get(field), child(node, field)
    # The keys about merging stand beside a reference, and are lost with it.
    rules = node.get("properties", {}).get(field, below)
    strategy = str(rules.get("x-kubernetes-patch-strategy", "")).split(",")
    if field in patch and value is None:
        result.pop(field, None)
    elif isinstance(old, dict) and isinstance(value, dict) and "replace" not in strategy:
        result[field] = _merge_map(below, old, value, path)
    elif isinstance(old, list) and isinstance(value, list | None) and "merge" in strategy:
        result[field] = _merge_list(below, old, patch, field, rules.get("x-kubernetes-patch-merge-key"), path)
    elif field in patch:
        result[field] = _plain(value)


def _merge_list(node: Json, old: list[Any], patch: Json, field: str, key: str | None, path: str) -> list[Any]:
    changes = patch.get(field) or []
    removed = patch.get(DELETE_PRIMITIVES + field) or []
    original = [one for one in old if one not in removed] if removed else old
    if key is None:
        return [*original, *(one for at, one in enumerate(changes) if one not in original and one not in changes[:at])]
    return _merge_items(items(node), original, changes, key, path)


def _key_of(item: Any, key: str, path: str) -> Any:
    if not isinstance(item, dict):
        raise StrategicPatchError(f"{path}: every item must be an object with the merge key {key!r}, not {item!r}")
    if key not in item:
        raise StrategicPatchError(f"{path}: map: {item} does not contain declared merge key: {key}")
    return item[key]


def _merge_items(node: Json, original: list[Any], patch: list[Any], key: str, path: str) -> list[Any]:
    if any(isinstance(item, dict) and item.get(DIRECTIVE) == "replace" and key not in item for item in patch):
        return [_plain(one) for one in patch if DIRECTIVE not in one]
    result = list(original)
    for item in patch:
        wanted = _key_of(item, key, path)
        matches = [index for index, one in enumerate(result) if _key_of(one, key, path) == wanted]
        if item.get(DIRECTIVE) == "delete":
            result = [one for index, one in enumerate(result) if index not in matches]
        elif matches:
            result[matches[0]] = _merge_map(node, result[matches[0]], item, f"{path}[{wanted}]")
        else:
            result.append(_plain(item))
    return result
