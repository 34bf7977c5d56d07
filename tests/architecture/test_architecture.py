"""ARCHITECTURE.md traces one reconcile; every hop exists, and each calls the next one's module in that order."""

import ast
import re
from pathlib import Path

from tests.architecture.source import ROOT, functions, tree

HOP = re.compile(r"^(\d+)\. `([\w/]+\.py):([\w.]+)`", re.MULTILINE)
MAX_HOPS = 9


def hops() -> list[tuple[Path, str]]:
    """File and function of each hop, in order."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    found = HOP.findall(text)
    assert [int(number) for number, _, _ in found] == list(range(1, len(found) + 1)), "the hops are numbered from 1"
    return [(Path(module), function) for _, module, function in found]


def names_in(module: Path, function: str) -> set[str]:
    """Every name and attribute a function mentions."""
    node = dict(functions(module))[function]
    names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    return names | {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}


def aliases(module: Path, name: str) -> set[str]:
    """The names under which a module imports `name`, itself included."""
    imported = [a for n in ast.walk(tree(module)) if isinstance(n, ast.ImportFrom) for a in n.names]
    return {name} | {a.asname for a in imported if a.name == name and a.asname}


def test_a_reconcile_is_traced_in_a_few_hops() -> None:
    assert 4 <= len(hops()) <= MAX_HOPS


def test_every_hop_exists() -> None:
    missing = [f"{m}:{f}" for m, f in hops() if not (ROOT / m).exists() or f not in dict(functions(m))]
    assert not missing


def test_each_hop_is_reached_from_one_before_it() -> None:
    """A hop's function is named in the body of an earlier hop: the trace is a path through the code, not a list of files."""
    trace = hops()
    unreached = []
    for position, (_, function) in enumerate(trace[1:], start=1):
        name = function.rpartition(".")[2]
        if not any(aliases(m, name) & names_in(m, f) for m, f in trace[:position]):
            unreached.append(function)
    assert not unreached
