"""How a schema divides an object into fields with an owner each, and which of them differ between two objects.

Lists that the schema does not call a map or a set are atomic: they are owned as a whole, and so are atomic maps.
Source: sigs.k8s.io/structured-merge-diff, whose behaviour the real server has.
"""

from collections.abc import Set
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import msgspec

from localcluster.apiserver import builtin_schemas
from localcluster.apiserver.builtin_schemas import Json
from localcluster.apiserver.field_sets import LEAF, SELF, Path


class FieldSetSchema:
    """What field ownership needs of a schema node. The nodes below are resolved when they are first needed.

    `whole` marks a map that is owned as a whole. `keys` are those of a list map, empty for a set, None for an atomic list.
    """

    __slots__ = ("_children", "_item", "_node", "_rest", "declared", "keys", "whole")

    def __init__(self, node: Json) -> None:
        self._node = node = builtin_schemas.resolve(node)
        self.whole = node.get("x-kubernetes-map-type") == "atomic"
        self.keys = _list_keys(node)
        self.declared: Set[str] = node.get("properties", {}).keys()
        self._children: dict[str, FieldSetSchema] = {}
        self._rest: FieldSetSchema | None = None
        self._item: FieldSetSchema | None = None

    def child(self, key: str) -> "FieldSetSchema":
        """The schema of a field or map entry."""
        found = self._children.get(key)
        if found is not None:
            return found
        if key in self.declared:
            found = self._children[key] = FieldSetSchema(builtin_schemas.child(self._node, key))
            return found
        # The number of keys that the schema does not name is unlimited: they share one node.
        if self._rest is None:
            self._rest = FieldSetSchema(builtin_schemas.child(self._node, key))
        return self._rest

    @property
    def item(self) -> "FieldSetSchema":
        """The schema of a list's items."""
        if self._item is None:
            self._item = FieldSetSchema(builtin_schemas.items(self._node))
        return self._item

    def default(self, key: str) -> Any:
        """The default of a field; None when it has none."""
        return builtin_schemas.child(self._node, key).get("default")

    def is_atomic(self, value: Any) -> bool:
        """Whether the value is owned as a whole."""
        if isinstance(value, dict):
            return self.whole
        return not isinstance(value, list) or self.keys is None

    def element(self, item: Any) -> str:
        """The path element of one item of a granular list; a list-map key that is left out counts with its default.

        Raises ValueError for an item without a key.
        """
        if not self.keys:
            return f"v:{_encoded(item)}"
        if not isinstance(item, dict):
            raise ValueError(f"list items need the keys {', '.join(self.keys)}; this one is not an object: {_encoded(item)}")
        values = []
        for key in self.keys:
            value = item.get(key)
            if value is None:
                value = self.item.default(key)
            if value is None:
                raise ValueError(f"list item without its key {key!r}: {_encoded(item)}")
            values.append(value)
        try:
            return _keyed(self.keys, *values)
        except TypeError:
            # A key that is not a scalar; validation refuses it later.
            return f"k:{_encoded(dict(zip(self.keys, values, strict=True)))}"

    def parts(self, value: Any) -> dict[str, tuple["FieldSetSchema", Any]]:
        """The children of a granular map or list: path element -> (schema, value). The first of equal items counts."""
        if isinstance(value, dict):
            return {f"f:{key}": (self.child(key), item) for key, item in value.items()}
        found: dict[str, tuple[FieldSetSchema, Any]] = {}
        for item in value:
            found.setdefault(self.element(item), (self.item, item))
        return found

    def items(self, value: list[Any]) -> dict[str, Any]:
        """The items of a granular list by path element; those with one element make a tuple. Raises ValueError."""
        found: dict[str, Any] = {}
        for item in value:
            name = self.element(item)
            if name in found:
                known = found[name]
                found[name] = (*known, item) if isinstance(known, tuple) else (known, item)
            else:
                found[name] = item
        return found


def _list_keys(node: Json) -> tuple[str, ...] | None:
    kind = node.get("x-kubernetes-list-type")
    if kind is None and "merge" in str(node.get("x-kubernetes-patch-strategy", "")):
        key = node.get("x-kubernetes-patch-merge-key")
        return (key,) if key else ()
    if kind == "map":
        return tuple(sorted(node.get("x-kubernetes-list-map-keys", ())))
    return () if kind == "set" else None


@cache
def builtin(group: str, version: str, kind: str) -> FieldSetSchema:
    """The schema of a built-in kind; of one without a published schema, that of anything."""
    return FieldSetSchema(builtin_schemas.root(group, version, kind) or {})


@lru_cache(maxsize=8192, typed=True)
def _keyed(keys: tuple[str, ...], *values: Any) -> str:
    return f"k:{_encoded(dict(zip(keys, values, strict=True)))}"


def _encoded(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def owned_by(schema: FieldSetSchema, value: Any) -> set[Path]:
    """The paths that applying this object claims. Raises ValueError for a list item without its key."""
    found: set[Path] = set()
    _claim(schema, value, (), found)
    return found


def _claim(schema: FieldSetSchema, value: Any, path: Path, found: set[Path]) -> None:
    if value == {} or schema.is_atomic(value):
        if path:
            found.add(path)
        return
    declared = schema.declared if isinstance(value, dict) else ()
    for name, (below, item) in schema.parts(value).items():
        where = (*path, name)
        if name[2:] not in declared and path:
            found.add(where)
        _claim(below, item, where, found)


def with_named_fields(schema: FieldSetSchema, paths: Set[Path]) -> set[Path]:
    """The paths, and all fields above them that the schema names: those exist only to contain others."""
    found = set(paths)
    for path in paths:
        at = schema
        for length, name in enumerate(path[:-1], 1):
            kind, key = name[0], name[2:]
            if kind == "f" and key in at.declared:
                found.add(path[:length])
            at = at.child(key) if kind == "f" else at.item
    return found


@dataclass(frozen=True, slots=True)
class Changes:
    """The sets of fields that a new object has with another value than the old one, and those that it lacks."""

    written: Json
    removed: Json

    def __bool__(self) -> bool:
        return bool(self.written or self.removed)


UNCHANGED = Changes({}, {})


def compare(schema: FieldSetSchema, old: Json, new: Json) -> Changes:
    """What `new` writes and removes; the order of a granular list is not a change."""
    written, removed = _compare(schema, old, new)
    # The object itself has no owner.
    return Changes(_below(written), _below(removed))


def _below(tree: Json | None) -> Json:
    return {name: below for name, below in (tree or {}).items() if name != SELF}


def _compare(schema: FieldSetSchema, old: Any, new: Any) -> tuple[Json | None, Json | None]:
    """The sets written and removed of a value that differs; None for none at all."""
    if isinstance(old, tuple) or isinstance(new, tuple):
        # Equal items are treated as one item without parts.
        return grown(schema, new), None if isinstance(new, tuple) and isinstance(old, tuple) else grown(schema, old)
    # An explicit null is present, but empty.
    old, new = (_empty(new) if old is None else old), (_empty(old) if new is None else new)
    if type(old) is not type(new) or schema.is_atomic(new):
        return LEAF, None
    if isinstance(new, dict):
        before = {f"f:{key}": item for key, item in old.items() if key not in new or not _same(item, new[key])}
        after = {f"f:{key}": item for key, item in new.items() if key not in old or f"f:{key}" in before}
        shapes = {name: schema.child(name[2:]) for name in {**before, **after}}
    else:
        try:
            left, right = schema.items(old), schema.items(new)
        except ValueError:
            # An old object may contain items without keys; then the list is owned as a whole.
            return LEAF, None
        shapes = dict.fromkeys([*left, *right], schema.item)
        before, after = left, right
    written: Json = {}
    removed: Json = {}
    for name, item in before.items():
        if name not in after:
            removed[name] = grown(shapes[name], item)
    for name, item in after.items():
        if name not in before:
            written[name] = grown(shapes[name], item)
        elif not _same(before[name], item):
            one, two = _compare(shapes[name], before[name], item)
            if one is not None:
                written[name] = one
            if two is not None:
                removed[name] = two
    return written or None, removed or None


def _same(old: Any, new: Any) -> bool:
    return old is new or (old == new and type(old) is type(new))


def _empty(value: Any) -> Any:
    return type(value)() if isinstance(value, dict | list) else None


def grown(schema: FieldSetSchema, value: Any) -> Json:
    """The set of every field in a value that was not there before, the value itself included."""
    if isinstance(value, dict):
        if not value or schema.whole:
            return LEAF
        below = {SELF: LEAF}
        for key, item in value.items():
            below[f"f:{key}"] = grown(schema.child(key), item) if isinstance(item, dict | list) else LEAF
        return _shared(below)
    if not isinstance(value, list) or schema.keys is None or not value:
        return LEAF
    try:
        return _shared({SELF: LEAF, **{name: grown(schema.item, item) for name, item in schema.items(value).items()}})
    except ValueError:
        return LEAF


#: Trees by their keys and the identities of the trees below them, which live as long as the tree does.
_SHARED: dict[tuple[tuple[str, ...], tuple[int, ...]], Json] = {}
_MOST_SHARED = 8192


def _shared(tree: Json) -> Json:
    """The tree itself, or one like it: the pods of a job have one schema, and one set of fields for all keeps them small."""
    if len(_SHARED) > _MOST_SHARED:
        _SHARED.clear()
    return _SHARED.setdefault((tuple(tree), tuple(map(id, tree.values()))), tree)


def added(schema: FieldSetSchema, before: Json, obj: Json) -> Json:
    """The set of the fields of `obj` that are not in `before`, or are another value there; `before` has no further fields."""
    tree = {}
    for key, item in obj.items():
        inner = schema.child(key)
        whole = not isinstance(item, dict | list) or inner.is_atomic(item)
        if key not in before or (whole and item != before[key]):
            tree[f"f:{key}"] = grown(inner, item)
            continue
        if whole:
            continue
        below = added(inner, before[key] or {}, item) if isinstance(item, dict) else _below(grown(inner, item))
        if below:
            tree[f"f:{key}"] = _shared(below)
    return _shared(tree)


def without(schema: FieldSetSchema, value: Any, paths: Set[Path]) -> Any:
    """The value without what the paths name; shares what is untouched."""
    above = {path[:length] for path in paths for length in range(len(path))}
    return _without(schema, value, paths, above, ())


def _without(schema: FieldSetSchema, value: Any, paths: Set[Path], above: Set[Path], path: Path) -> Any:
    if path not in above or not isinstance(value, dict | list) or schema.is_atomic(value):
        return value
    kept = {
        name: _without(below, item, paths, above, (*path, name))
        for name, (below, item) in schema.parts(value).items()
        if (*path, name) not in paths
    }
    return {name[2:]: item for name, item in kept.items()} if isinstance(value, dict) else list(kept.values())
