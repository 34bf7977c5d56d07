"""Sets of fields in the form in which managedFields keeps them (FieldsV1), which is a tree.

A key is an element of a path: ``f:name`` a field or map key, ``k:{"name":"a"}`` an item of a list map, ``v:"x"`` an item of a
set. What a key maps to is the set below it; ``{}`` makes it a member alone, ``.`` a member besides those below.
Trees are shared and never changed. Source: sigs.k8s.io/structured-merge-diff, whose format the real server has.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from localcluster.apiserver.builtin_schemas import Json

Path = tuple[str, ...]
SELF = "."
#: What a key without members below it maps to.
LEAF: Json = {}


def holds(tree: Json, path: Path) -> bool:
    """Whether the set has this path."""
    for name in path:
        if name not in tree:
            return False
        tree = tree[name]
    return _is_member(tree)


def _is_member(below: Json) -> bool:
    return not below or SELF in below


def union(tree: Json, other: Json) -> Json:
    """The members of both sets."""
    if not tree or tree is other:
        return other
    return {**tree, **{name: _either(tree[name], below) if name in tree else below for name, below in other.items()}}


def _either(one: Json, two: Json) -> Json:
    if one is two or not two:
        return _member(one)
    if not one:
        return _member(two)
    return union(one, two)


def _member(below: Json) -> Json:
    return below if _is_member(below) else {SELF: LEAF, **below}


def difference(tree: Json, other: Json) -> Json:
    """The set without the members of another one; `tree` itself when it has none of them."""
    changed = {}
    for name, below in other.items():
        if name != SELF and name in tree:
            left = _less(tree[name], below)
            if left is not tree[name]:
                changed[name] = left
    if not changed:
        return tree
    return {name: below for name, below in {**tree, **changed}.items() if below is not None}


def _less(one: Json, other: Json) -> Json | None:
    """What is left below a key; None when it is neither a member any more nor has members below."""
    left = difference(one, other)
    if not (_is_member(one) and _is_member(other)):
        if left is one:
            return one
        return None if not left else LEAF if left.keys() == {SELF} else left
    return {name: below for name, below in left.items() if name != SELF} or None


def to_fields_v1(paths: Iterable[Path]) -> Json:
    """The set of these paths, which are not empty."""
    tree: Json = {}
    for path in sorted(paths):
        below = tree
        for name in path:
            below = below.setdefault(name, {})
        below[SELF] = LEAF
    return _collapsed(tree)


def _collapsed(tree: Json) -> Json:
    return {
        name: LEAF if not below or below.keys() == {SELF} else _collapsed(below) for name, below in tree.items()
    }  # fmt: skip


def from_fields_v1(tree: Any) -> set[Path]:
    """The paths of a set; parts of the wrong shape are ignored, since clients may write this field."""
    return set(_paths(tree, ()))


def _paths(tree: Any, path: Path) -> Iterator[Path]:
    if not isinstance(tree, dict):
        return
    for name, below in tree.items():
        if name == SELF:
            yield path
        elif not below:
            yield (*path, name)
        else:
            yield from _paths(below, (*path, name))


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
