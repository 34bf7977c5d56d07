"""`jobcommon rbac`, and frameworks that are named by their module."""

import shlex
from dataclasses import replace
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from jobcommon.api.gang import VOLCANO
from jobcommon.cli import rbac
from jobcommon.cli.definitions import as_yaml
from jobcommon.cli.errors import UserError
from jobcommon.cli.main import app
from jobcommon.framework import CelRule
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.testutil.frameworks import TEST_JOB

MODULE = "jobcommon.testutil.frameworks:TEST_JOB"


def printed(*arguments: str) -> list[dict[str, Any]]:
    """The documents that a command prints."""
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.exception
    return [document for document in yaml.safe_load_all(result.output) if document]


def as_json(rules: tuple[rbac.Rule, ...]) -> list[dict[str, Any]]:
    return [rule.to_json() for rule in rules]


@pytest.mark.parametrize(("name", "framework"), [("pytorch", PYTORCH), (MODULE, TEST_JOB)])
def test_the_roles_of_one_framework(name: str, framework: Any) -> None:
    own, view, edit, *reads, leader = printed("rbac", name)
    assert [role["rules"] for role in reads] == ([as_json(rbac.kueue_reads([framework]))] if name == MODULE else [])
    assert (own["kind"], own["metadata"]["name"]) == ("ClusterRole", f"{framework.name}-operator")
    assert own["rules"] == as_json(rbac.operator_rules([framework]))
    assert view["rules"] == as_json(rbac.user_rules(framework, edit=False))
    assert edit["rules"] == as_json(rbac.user_rules(framework, edit=True))
    to = ("k8s.io/aggregate-to-", "kubeflow.org/aggregate-to-kubeflow-")
    assert set(edit["metadata"]["labels"]) == {f"rbac.authorization.{one}{who}" for one in to for who in ("edit", "admin")}
    assert (leader["kind"], leader["rules"]) == ("Role", as_json(rbac.lease_rules("jobcommon-operator")))


def test_rbac_for_named_namespaces_has_roles_only() -> None:
    in_each = printed("rbac", "jax", "--namespace", "team-a", "--namespace", "team-b", "--lease-namespace", "operators")
    assert {role["kind"] for role in in_each} == {"Role"}
    names = ("jax-operator", "jax-operator-view", "jax-operator-edit")
    found = [(role["metadata"]["namespace"], role["metadata"]["name"]) for role in in_each]
    assert found == [*((one, name) for one in ("team-a", "team-b") for name in names), ("operators", "jax-operator-leader")]
    assert printed("rbac", "jax", "--namespace", "team-a")[-1]["metadata"]["namespace"] == "team-a"


@pytest.mark.parametrize("namespace", [(), ("--namespace", "team-a")])
def test_the_options_of_the_operator_add_their_rights(namespace: tuple[str, ...]) -> None:
    roles = printed("rbac", MODULE, "--gang-scheduler-name", "volcano", "--kueue", "own", *namespace)
    found = {role["metadata"]["name"].removeprefix("test-operator"): role["rules"] for role in roles}
    own = [*rbac.operator_rules([TEST_JOB]), *rbac.gang_rules(VOLCANO), *rbac.KUEUE, *rbac.resuming([TEST_JOB])]
    assert found[""] == as_json((*own, *(() if namespace else rbac.KUEUE_CLUSTER)))
    assert found.get("-kueue") == (as_json(rbac.KUEUE_CLUSTER) if namespace else None), "flavors belong to no namespace"
    assert found["-kueue-reads"] == as_json(rbac.kueue_reads([TEST_JOB]))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--kueue ours", "--kueue "), ("--gang-scheduler-name 'My Scheduler'", "--gang-scheduler-name "),
        ("--output values", "--output values: name one framework"), ("jax tensorflow --output values", "--output values: name"),
        ("--output xml", "--output xml: use yaml or values"),
    ],
)  # fmt: skip
def test_an_option_that_makes_no_sense(options: str, said: str) -> None:
    result = CliRunner().invoke(app, ["rbac", *shlex.split(options)])
    assert isinstance(result.exception, UserError)
    assert str(result.exception).startswith(said)


def test_a_rule_for_no_field_names_the_framework() -> None:
    rule = CelRule("true", "never", ("spec", "slots"))
    with pytest.raises(UserError, match=r"framework test: the rule 'true' is for spec.slots, which the schema does not have"):
        as_yaml([replace(TEST_JOB, rules=(rule,))])
