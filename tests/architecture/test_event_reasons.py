"""Every event has a constant reason, which docs/events.md explains with the type of the event."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from jobcommon.api import reasons
from tests.architecture.source import ROOT, functions, modules, tree

#: Suffixes of a kind, as the table writes them.
_OF_KIND = ("CREATED", "RUNNING", "RESTARTING", "SUCCEEDED", "FAILED", "SUSPENDED", "RESUMED")
#: The one reason that is not ours: why the kubelet says that a container waits.
_PASSED_ON = {"Event(WARNING, cause.reason)"}
_TYPES = {"NORMAL": "Normal", "WARNING": "Warning"}


def _constants() -> dict[str, str]:
    """The reasons by the names of their constants, as the table writes them."""
    found = {name: value for name, value in vars(reasons).items() if name.isupper()}
    return {name: f"<Kind>{value}" if name in _OF_KIND else value for name, value in found.items()}


def _table() -> dict[str, set[str]]:
    """The types of events by reason, as documented."""
    text = (ROOT / "docs/events.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.*?) \| (.*?) \|", text, flags=re.MULTILINE)
    return {
        reason: {kind for kind in _TYPES.values() if re.search(rf"\b{kind}\b", types)}
        for names, types in rows
        for reason in re.findall(r"`([^`]+)`", names)
    }


def _sources(nodes: Iterable[ast.AST]) -> dict[str, list[ast.expr]]:
    """By name, the expressions among the nodes that it may stand for: values, types, what a loop runs over."""
    found: dict[str, list[ast.expr]] = defaultdict(list)
    for node in nodes:
        match node:
            case ast.Assign(targets=targets, value=value) | ast.For(target=ast.Tuple(elts=targets), iter=value):
                for name in (name for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)):
                    found[name.id].append(value)
            case ast.AnnAssign(target=ast.Name(id=known), annotation=annotation):
                found[known].append(annotation)
            case ast.ClassDef(name=known, body=body):
                found[known] += [statement.value for statement in body if isinstance(statement, ast.Assign)]
    return found


def _reasons_in(expression: ast.expr, *scopes: dict[str, list[ast.expr]]) -> set[str]:
    """The constants that the expression may stand for, through the names that it uses."""
    found, todo, seen = set[str](), [expression], set[str]()
    while todo:
        for node in ast.walk(todo.pop()):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "reasons":
                found |= {node.attr} & _constants().keys()
            elif isinstance(node, ast.Name) and node.id not in seen:
                seen.add(node.id)
                todo += [value for scope in scopes for value in scope.get(node.id, ())]
    return found


def _emitted() -> tuple[dict[str, set[str]], set[str]]:
    """The types with which each reason is emitted; and the events for which no constant was found."""
    types: dict[str, set[str]] = defaultdict(set)
    unknown: set[str] = set()
    for module in (path for path in modules() if path.parts[0] in ("jobcommon", "operators")):
        for _, function in functions(module):
            for call in (node for node in ast.walk(function) if isinstance(node, ast.Call)):
                name, arguments = ast.unparse(call.func), call.args
                if name not in ("Event", "WaitingCause") or not arguments:
                    continue
                waits = name == "WaitingCause"
                kind, reason = ("WARNING", arguments[0]) if waits else (ast.unparse(arguments[0]), arguments[1])
                found = _reasons_in(reason, _sources(ast.walk(function)), _sources(tree(module).body))
                for constant in found:
                    types[_constants()[constant]].add(_TYPES[kind])
                if not found and name == "Event":
                    unknown.add(f"Event({kind}, {ast.unparse(reason)})")
    return types, unknown


def test_every_reason_is_documented() -> None:
    assert _table().keys() == set(_constants().values())


def test_every_event_has_a_constant_reason_of_the_documented_type() -> None:
    types, unknown = _emitted()
    assert unknown <= _PASSED_ON
    assert {reason: kinds for reason, kinds in _table().items() if kinds} == types


def test_every_reason_is_used() -> None:
    names = {
        node.attr
        for module in modules()
        if module != Path("jobcommon/api/reasons.py")
        for node in ast.walk(tree(module))
        if isinstance(node, ast.Attribute)
    }
    assert set(_constants()) <= names
