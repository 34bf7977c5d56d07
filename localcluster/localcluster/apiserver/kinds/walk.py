"""Visits the parts of an object by the types of its schema: what a table says of a type holds wherever the type occurs."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from localcluster.apiserver import builtin_schemas
from localcluster.apiserver.errors import Cause

Obj = dict[str, Any]
#: Gets an object of a type, its path, and the context of the visit.
Action = Callable[[Obj, str, Any], Iterable[Cause]]
#: The fields of an object whose values are not visited.
Unvisited = Callable[[Obj, str, Any], Collection[str]]
_CORE = "io.k8s.api.core.v1."


@dataclass(slots=True)
class _Node:
    actions: Sequence[Action]
    unvisited: Unvisited | None
    #: Field -> the node of its value, and whether the value is a list of such.
    children: dict[str, tuple["_Node", bool]] = field(default_factory=dict)


class Walk:
    """Applies `actions`, by the short name of a type such as ``Container``, to an object and everything below it."""

    def __init__(self, actions: Mapping[str, Sequence[Action]], unvisited: Mapping[str, Unvisited] | None = None) -> None:
        self._actions = actions
        self._unvisited = unvisited or {}
        self._nodes: dict[str, _Node] = {}

    def __call__(self, kind: str, obj: Obj, path: str, context: Any = None) -> list[Cause]:
        """What the actions report about `obj`, of the core type `kind`, parents before children."""
        causes: list[Cause] = []
        self._visit(self._node(_CORE + kind), obj, path, context, causes)
        return causes

    def _node(self, name: str) -> _Node:
        known = self._nodes.get(name)
        if known is not None:
            return known
        short = name.rpartition(".")[2]
        node = self._nodes[name] = _Node(self._actions.get(short, ()), self._unvisited.get(short))
        for key, schema in builtin_schemas.definitions()[name].get("properties", {}).items():
            many = schema.get("type") == "array"
            target = (schema["items"] if many else schema).get("$ref")
            if target is not None:
                child = self._node(target.removeprefix(builtin_schemas.REF_PREFIX))
                # A visit goes only where there is something to do.
                if child.actions or child.children:
                    node.children[key] = (child, many)
        return node

    def _visit(self, node: _Node, obj: Obj, path: str, context: Any, causes: list[Cause]) -> None:
        for action in node.actions:
            causes.extend(action(obj, path, context))
        left_out = node.unvisited(obj, path, context) if node.unvisited is not None else ()
        for key, (child, many) in node.children.items():
            value = obj.get(key)
            if value is None or key in left_out:
                continue
            if many:
                for index, item in enumerate(value):
                    self._visit(child, item, f"{path}.{key}[{index}]", context, causes)
            else:
                self._visit(child, value, f"{path}.{key}", context, causes)
