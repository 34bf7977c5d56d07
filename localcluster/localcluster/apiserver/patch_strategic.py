"""Kubernetes strategic merge patch for built-in kinds.

The rules are those of k8s.io/apimachinery/pkg/util/strategicpatch: which lists merge, and by which key, is said by
`x-kubernetes-patch-strategy` and `x-kubernetes-patch-merge-key` of the published schema.
"""

from collections.abc import Callable
from typing import Any

from localcluster.apiserver.builtin_schemas import Json, child, items, resolve
from localcluster.apiserver.list_order import interleave

DIRECTIVE = "$patch"
RETAIN_KEYS = "$retainKeys"
SET_ORDER = "$setElementOrder/"
DELETE_PRIMITIVES = "$deleteFromPrimitiveList/"


class StrategicPatchError(ValueError):
    """The patch is not a valid strategic merge patch for this kind; the message says where. The server answers 400."""


def strategic_merge(node: Json, current: Json, patch: Json) -> Json:
    """The object after the patch, for an object of the built-in schema `node`; neither argument is changed.

    Raises `StrategicPatchError` for an unknown directive, a list item without its merge key, or an order list that does
    not fit the patch.
    """
    return _merge_map(resolve(node), current, patch, "")


def _is_directive(key: str) -> bool:
    return key.startswith("$") and (key in (DIRECTIVE, RETAIN_KEYS) or key.startswith((SET_ORDER, DELETE_PRIMITIVES)))


def _without_directives(value: Any) -> Any:
    if isinstance(value, dict):
        if value.get(DIRECTIVE) == "delete":
            return {}
        return {key: _without_directives(item) for key, item in value.items() if item is not None and not _is_directive(key)}
    if isinstance(value, list):
        kept = (item for item in value if not (isinstance(item, dict) and DIRECTIVE in item))
        return [_without_directives(item) for item in kept]
    return value


def _merge_map(node: Json, current: Json, patch: Json, path: str) -> Json:
    directive = patch.get(DIRECTIVE, "merge")
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != DIRECTIVE}
    if directive == "delete":
        return {}
    if directive != "merge":
        raise StrategicPatchError(f"{path or 'patch'}: unknown patch type: {directive}")
    result = _retained(current, patch, path)
    fields = [key for key in patch if not _is_directive(key)]
    for prefix in (SET_ORDER, DELETE_PRIMITIVES) if len(fields) < len(patch) else ():
        named = (key.removeprefix(prefix) for key in patch if key.startswith(prefix))
        fields += [field for field in named if field not in fields]
    for field in fields:
        _merge_field(node, result, patch, field, f"{path}.{field}" if path else field)
    return result


def _retained(current: Json, patch: Json, path: str) -> Json:
    if RETAIN_KEYS not in patch:
        return dict(current)
    retained = patch[RETAIN_KEYS]
    if not isinstance(retained, list):
        raise StrategicPatchError(f"{path}: {RETAIN_KEYS} must be a list of field names")
    for key, value in patch.items():
        if value is not None and not _is_directive(key) and key not in retained:
            raise StrategicPatchError(f"{path}.{key}: a patched field must be listed in {RETAIN_KEYS}")
    return {key: value for key, value in current.items() if key in retained}


def _merge_field(node: Json, result: Json, patch: Json, field: str, path: str) -> None:
    order, removed = patch.get(SET_ORDER + field), patch.get(DELETE_PRIMITIVES + field)
    present = field in patch
    value = patch.get(field)
    if present and value is None:
        result.pop(field, None)
        return
    if not isinstance(result.get(field), dict | list) or (present and type(value) is not type(result[field])):
        if present:
            result[field] = _without_directives(value)
        return
    below = child(node, field)
    if isinstance(result[field], dict):
        if not isinstance(value, dict):
            return  # list directives on a map say nothing
        replaced = "replace" in _strategies(below, node, field)
        result[field] = _without_directives(value) if replaced else _merge_map(below, result[field], value, path)
        return
    field_node = node.get("properties", {}).get(field, {})
    if "merge" not in _strategies(below, node, field):
        if present:
            result[field] = _without_directives(value)
        return
    key = field_node.get("x-kubernetes-patch-merge-key")
    original = [one for one in result[field] if one not in removed] if removed else result[field]
    if order is None:
        # What the patch names comes in its order, and before what it does not name where nothing else decides.
        order = [one for one in value or [] if not (isinstance(one, dict) and DIRECTIVE in one)]
    if key is None:
        result[field] = _ordered(_merge_primitives(original, value or []), original, order, lambda one: one)
    else:
        merged = _merge_items(items(below), original, value or [], key, path)
        result[field] = _ordered(merged, original, order, lambda one: _key_of(one, key, path))


def _strategies(below: Json, node: Json, field: str) -> list[str]:
    source = node.get("properties", {}).get(field, below)
    return str(source.get("x-kubernetes-patch-strategy", "")).split(",")


def _key_of(item: Any, key: str, path: str) -> Any:
    if not isinstance(item, dict):
        raise StrategicPatchError(f"{path}: every item must be an object with the merge key {key!r}, not {item!r}")
    if key not in item:
        raise StrategicPatchError(f"{path}: map: {item} does not contain declared merge key: {key}")
    return item[key]


def _merge_primitives(original: list[Any], added: list[Any]) -> list[Any]:
    return original + [one for index, one in enumerate(added) if one not in original and one not in added[:index]]


def _merge_items(node: Json, original: list[Any], patch: list[Any], key: str, path: str) -> list[Any]:
    for item in patch:
        if isinstance(item, dict) and item.get(DIRECTIVE) == "replace" and key not in item:
            return [_without_directives(one) for one in patch if one is not item]
    result = list(original)
    for item in patch:
        wanted = _key_of(item, key, path)
        matches = [index for index, one in enumerate(result) if _key_of(one, key, path) == wanted]
        if item.get(DIRECTIVE) == "delete":
            result = [one for index, one in enumerate(result) if index not in matches]
        elif matches:
            result[matches[0]] = _merge_map(node, result[matches[0]], item, f"{path}[{wanted}]")
        else:
            result.append(_without_directives(item))
    return result


def _ordered(merged: list[Any], original: list[Any], order: Any, key: Callable[[Any], Any]) -> list[Any]:
    """`merged` in the patch's order, with items only the server has kept in their old place relative to the others."""
    if not isinstance(order, list):
        raise StrategicPatchError(f"{SET_ORDER}… must be a list")
    wanted = [key(one) for one in order]
    before = [key(one) for one in original]
    keyed = [(key(one), one) for one in merged]
    ours = sorted((pair for pair in keyed if pair[0] in wanted), key=lambda pair: wanted.index(pair[0]))
    theirs = [pair for pair in keyed if pair[0] not in wanted]
    return [one for _, one in interleave(theirs, ours, lambda pair: before.index(pair[0]) if pair[0] in before else None)]
