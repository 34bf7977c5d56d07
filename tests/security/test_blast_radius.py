"""S26: what an attacker can do with an operator's token, as golden files."""

import os
from pathlib import Path

import pytest

from jobcommon.crd import rbac
from jobcommon.crd.rbac import Rule
from tests.charts.charts import OPERATORS

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "rights"
CHARTS = [(chart, exec_) for chart in OPERATORS for exec_ in ((False, True) if "mpi-operator" in chart else (False,))]
IDS = [f"{chart}{'-exec' if exec_ else ''}" for chart, exec_ in CHARTS]
FORBIDDEN = {
    *("*", "nodes", "pods/portforward", "pods/attach", "pods/ephemeralcontainers", "secrets [list]", "secrets [watch]"),
    *("customresourcedefinitions", "validatingwebhookconfigurations", "mutatingwebhookconfigurations"),
}
Right = tuple[str, str, str]


def rights(rules: tuple[Rule, ...]) -> set[Right]:
    """(resource and group, name, verb) of each thing that may be done."""
    return {(named(rule), name, verb) for rule in rules for verb in rule.verbs for name in rule.names or ("",)}


def named(rule: Rule) -> str:
    """The resource as kubectl writes it."""
    resource, slash, subresource = rule.resource.partition("/")
    return f"{resource}.{rule.group}{slash}{subresource}" if rule.group else rule.resource


def written(found: set[Right]) -> str:
    """The rights as text, a line for each resource and name."""
    lines = sorted({(resource, name) for resource, name, _ in found})
    return "".join(
        f"{resource}{f' {name}' if name else ''}: {' '.join(sorted(v for r, n, v in found if (r, n) == (resource, name)))}\n"
        for resource, name in lines
    )


@pytest.mark.parametrize(("chart", "mpi_exec"), CHARTS, ids=IDS)
def test_s26_the_rights_of_an_operator_are_these_and_no_others(chart: str, mpi_exec: bool) -> None:
    """Where its jobs are; a change of the file is a change of what a stolen token is good for."""
    text = written(rights(rbac.operator_rules(OPERATORS[chart], grants=mpi_exec)))
    path = GOLDEN / f"{chart}{'-exec' if mpi_exec else ''}.txt"
    if os.environ.get("GOLDEN") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), "if this is meant: make golden"
    for line in text.splitlines():
        resource, _, verbs = line.partition(": ")
        assert resource not in FORBIDDEN
        assert not {"*", "escalate", "bind", "impersonate", "deletecollection"} & set(verbs.split())
        if resource in ("secrets", "configmaps"):
            assert not {"list", "watch"} & set(verbs.split()), "by name only"
    assert ("pods/exec" in text) == mpi_exec
    assert ("secrets" in text) == ("mpi-operator" in chart or chart == "training-operators")
