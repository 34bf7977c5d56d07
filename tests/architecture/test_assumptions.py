"""What the models of Kubernetes rest on is named where it is relied on, and each name has a case that ran on a real one."""

import ast
import os
import tomllib
from collections import defaultdict

from jobcommon.testutil.real.rows import ROWS
from localcluster.conformance import table
from tests.architecture.source import ROOT, modules, tree

DOCUMENT = ROOT / "docs" / "assumptions.md"
ASSUMPTIONS = tomllib.loads((ROOT / "testutil" / "sim" / "assumptions.toml").read_text(encoding="utf-8"))
HEADER = """# What the models assume

<!-- Written from testutil/sim/assumptions.toml by: make golden -->

The simulator and the embedded cluster are models of Kubernetes. This page lists what they assume about it, where that is
relied on, and the cases that compare it with a real API server ([conformance](../localcluster/docs/conformance.md)) or a real
control plane and kubelet (`make real`, [reliability](reliability.md#a-real-control-plane)). Both pass the same cases.

| assumption | relied on in | conformance cases | rows of `make real` |
| --- | --- | --- | --- |
"""


def relied_on() -> dict[str, list[str]]:
    """The modules, with the class if it is said in one, that name each assumption."""
    found = defaultdict(list)
    for module in modules():
        if "ASSUMES" not in (ROOT / module).read_text(encoding="utf-8"):
            continue
        for node in ast.walk(tree(module)):
            if not isinstance(node, ast.Module | ast.ClassDef):
                continue
            for statement in node.body:
                match statement:
                    case (
                        ast.Assign(targets=[ast.Name(id="ASSUMES")], value=ast.Tuple() as value)
                        | ast.AnnAssign(target=ast.Name(id="ASSUMES"), value=ast.Tuple() as value)
                    ):
                        where = str(module) if isinstance(node, ast.Module) else f"{module}:{node.name}"
                        for name in ast.literal_eval(value):
                            found[name].append(where)
    return found


def document() -> str:
    """docs/assumptions.md as it must be."""
    used = relied_on()
    lines = []
    for name, assumption in ASSUMPTIONS.items():
        places = ", ".join(f"`{place}`" for place in sorted(used[name]))
        cells = (assumption["says"], places, "; ".join(assumption.get("cases", ())), "; ".join(assumption.get("rows", ())))
        lines.append(f"| {' | '.join(cells)} |\n")
    return HEADER + "".join(lines)


def test_every_assumption_has_a_case_that_exists() -> None:
    cases, rows = {case.name for case in table()}, {row.name for row in ROWS}
    for name, assumption in ASSUMPTIONS.items():
        assert {*assumption} - {"says"}, f"{name}: an assumption without a case is a guess"
        assert {*assumption.get("cases", ())} <= cases, name
        assert {*assumption.get("rows", ())} <= rows, name


def test_named_assumptions_are_exactly_those_relied_on() -> None:
    assert relied_on().keys() == ASSUMPTIONS.keys()


def test_the_document_is_what_the_registry_says() -> None:
    if os.environ.get("GOLDEN") == "write":
        DOCUMENT.write_text(document(), encoding="utf-8")
    assert DOCUMENT.read_text(encoding="utf-8") == document(), "run: make golden"
