"""Sets of fields as managedFields keeps them (FieldsV1), and what changed between two objects in those terms.

A path is a tuple of FieldsV1 elements: ``f:name`` a field or map key, ``k:{"name":"a"}`` an item of a list map,
``v:"x"`` an item of a set. Lists that the schema does not call a map or a set are atomic: one path stands for the whole
list. Source: sigs.k8s.io/structured-merge-diff, whose format and behaviour the real server has.
"""

import json
from collections.abc import Iterable, Set
from dataclasses import dataclass, field
from typing import Any

from localcluster.apiserver.builtin_schemas import Json, child, items, resolve

Path = tuple[str, ...]
_SELF = "."
_MISSING: Any = object()


def list_keys(node: Json) -> list[str] | None:
    """The keys of a list map, an empty list for a set, None for an atomic list."""
    kind = node.get("x-kubernetes-list-type")
    if kind is None and "merge" in str(node.get("x-kubernetes-patch-strategy", "")):
        key = node.get("x-kubernetes-patch-merge-key")
        return [key] if key else []
    if kind == "map":
        return list(node.get("x-kubernetes-list-map-keys", ()))
    return [] if kind == "set" else None


def is_atomic(node: Json, value: Any) -> bool:
    """Whether the value is owned as a whole."""
    if isinstance(value, dict):
        return node.get("x-kubernetes-map-type") == "atomic"
    return not isinstance(value, list) or list_keys(node) is None


def element(node: Json, item: Any) -> str:
    """The path element of one item of a granular list; a list-map key that is left out counts with its default.

    Raises ValueError for an item without a key.
    """
    keys = list_keys(node)
    if not keys:
        return "v:" + json.dumps(item, separators=(",", ":"))
    if not isinstance(item, dict):
        raise ValueError(f"list items need the keys {', '.join(keys)}; this one is no object: {json.dumps(item)}")
    below = items(node)
    found = {}
    for key in sorted(keys):
        value = item.get(key, child(below, key).get("default"))
        if value is None:
            raise ValueError(f"list item without its key {key!r}: {json.dumps(item)}")
        found[key] = value
    return "k:" + json.dumps(found, separators=(",", ":"))


def parts(node: Json, value: Any) -> dict[str, tuple[Json, Any]]:
    """The children of a granular map or list: path element -> (schema, value). The first of equal items counts."""
    if isinstance(value, dict):
        return {f"f:{key}": (child(node, key), item) for key, item in value.items()}
    below = items(node)
    found: dict[str, tuple[Json, Any]] = {}
    for item in value:
        found.setdefault(element(node, item), (below, item))
    return found


def owned_by(node: Json, value: Any) -> set[Path]:
    """The paths that applying this object claims. Raises ValueError for a list item without its key."""
    found: set[Path] = set()
    _claim(resolve(node), value, (), found)
    return found


def _claim(node: Json, value: Any, path: Path, found: set[Path]) -> None:
    if not value or is_atomic(node, value):
        if path:
            found.add(path)
        return
    declared = node.get("properties", {}) if isinstance(value, dict) else {}
    for name, (below, item) in parts(node, value).items():
        where = (*path, name)
        if name[2:] not in declared and path:
            found.add(where)
        _claim(below, item, where, found)


@dataclass
class Changes:
    """Paths that differ between two objects."""

    added: set[Path] = field(default_factory=set)
    modified: set[Path] = field(default_factory=set)
    removed: set[Path] = field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.added or self.modified or self.removed)

    @property
    def written(self) -> set[Path]:
        """What the new object says that the old one did not."""
        return self.added | self.modified


def compare(node: Json, old: Json, new: Json) -> Changes:
    """What `new` adds, modifies and removes; the order of a granular list is not a change."""
    changes = Changes()
    _compare(resolve(node), old, new, (), changes)
    return changes


def _compare(node: Json, old: Any, new: Any, path: Path, changes: Changes) -> None:
    if old is new or (old == new and type(old) is type(new)):
        return
    if old is _MISSING:
        _everything(node, new, path, changes.added)
    elif new is _MISSING:
        _everything(node, old, path, changes.removed)
    elif type(old) is not type(new) or is_atomic(node, new):
        changes.modified.add(path)
    else:
        try:
            before, after = parts(node, old), parts(node, new)
        except ValueError:
            # An old object may hold items without keys; then nobody owns less than the list.
            changes.modified.add(path)
            return
        for name in before.keys() | after.keys():
            below = (after.get(name) or before[name])[0]
            left, right = before.get(name, (below, _MISSING))[1], after.get(name, (below, _MISSING))[1]
            _compare(below, left, right, (*path, name), changes)


def _everything(node: Json, value: Any, path: Path, found: set[Path]) -> None:
    """Every path of a subtree; a struct is not a path of its own, a map, a list item and a leaf are."""
    struct = isinstance(value, dict) and bool(node.get("properties")) and not path[-1].startswith("k:")
    if not (struct and value):
        found.add(path)
    if value and not is_atomic(node, value):
        try:
            below = parts(node, value)
        except ValueError:
            return
        for name, (schema, item) in below.items():
            _everything(schema, item, (*path, name), found)


def without(node: Json, value: Any, paths: Set[Path]) -> Any:
    """The value without what the paths name; shares what is untouched."""
    above = {path[:length] for path in paths for length in range(len(path))}
    return _without(resolve(node), value, paths, above, ())


def _without(node: Json, value: Any, paths: Set[Path], above: Set[Path], path: Path) -> Any:
    if path not in above or not isinstance(value, dict | list) or is_atomic(node, value):
        return value
    kept = {
        name: _without(below, item, paths, above, (*path, name))
        for name, (below, item) in parts(node, value).items()
        if (*path, name) not in paths
    }
    return {name[2:]: item for name, item in kept.items()} if isinstance(value, dict) else list(kept.values())


def to_fields_v1(paths: Iterable[Path]) -> Json:
    """The set in the wire form of managedFields."""
    tree: Json = {}
    for path in sorted(paths):
        node = tree
        for name in path:
            node = node.setdefault(name, {})
        node[_SELF] = {}
    return _collapsed(tree)


def _collapsed(tree: Json) -> Json:
    return {name: {} if below.keys() == {_SELF} else _collapsed(below) for name, below in tree.items()}


def from_fields_v1(tree: Any) -> set[Path]:
    """The set of a FieldsV1 document; parts of the wrong shape are ignored, since clients may write this field."""
    found: set[Path] = set()
    _collect(tree, (), found)
    return found


def _collect(tree: Any, path: Path, found: set[Path]) -> None:
    if not isinstance(tree, dict):
        return
    for name, below in tree.items():
        if name == _SELF:
            found.add(path)
        elif not below:
            found.add((*path, name))
        else:
            _collect(below, (*path, name), found)


def path_text(path: Path) -> str:
    """The path as conflict messages show it: ``.spec.containers[name="a"].image``."""
    text = ""
    for name in path:
        kind, _, rest = name.partition(":")
        if kind == "f":
            text += f".{rest}"
        elif kind == "k":
            text += "[" + ",".join(f"{key}={json.dumps(value)}" for key, value in json.loads(rest).items()) + "]"
        else:
            text += f"[={rest}]" if kind == "v" else f"[{rest}]"
    return text
