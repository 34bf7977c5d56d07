"""What the models of Kubernetes rest on is named where it is relied on, and each name has a case that ran on a real one."""

import ast
import tomllib

from jobcommon.testutil.real.rows import ROWS
from localcluster.conformance import table
from tests.architecture.source import ROOT, modules, tree

ASSUMPTIONS = tomllib.loads((ROOT / "testutil" / "sim" / "assumptions.toml").read_text(encoding="utf-8"))


def relied_on() -> set[str]:
    """The assumptions that modules, or classes in them, name."""
    found = set[str]()
    for module in modules():
        if "ASSUMES" not in (ROOT / module).read_text(encoding="utf-8"):
            continue
        for node in ast.walk(tree(module)):
            match node:
                case (
                    ast.Assign(targets=[ast.Name(id="ASSUMES")], value=ast.Tuple() as value)
                    | ast.AnnAssign(target=ast.Name(id="ASSUMES"), value=ast.Tuple() as value)
                ):
                    found.update(ast.literal_eval(value))
    return found


def test_every_assumption_has_a_case_that_exists() -> None:
    cases, rows = {case.name for case in table()}, {row.name for row in ROWS}
    for name, assumption in ASSUMPTIONS.items():
        assert {*assumption} - {"says"}, f"{name}: an assumption without a case is a guess"
        assert {*assumption.get("cases", ())} <= cases, name
        assert {*assumption.get("rows", ())} <= rows, name


def test_named_assumptions_are_exactly_those_relied_on() -> None:
    assert relied_on() == ASSUMPTIONS.keys()
