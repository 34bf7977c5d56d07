"""The roles in the charts are those of `jobcommon.cli.rbac`, and no more than what is meant."""

from itertools import chain

import pytest
import yaml

from jobcommon.api.gang import COSCHEDULING, NATIVE, VOLCANO, GangScheduler
from jobcommon.cli import rbac
from jobcommon.cli.rights import as_values
from jobcommon.operators.mpi import MPI
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.testutil.frameworks import TEST_JOB
from tests.charts.charts import (
    FRAMEWORKS,
    OPERATORS,
    RULES,
    SAMPLE,
    as_json,
    container,
    notes,
    of_kind,
    render,
    rules_template,
    the,
)

FORBIDDEN = {"nodes", "pods/portforward", "pods/attach", "validatingwebhookconfigurations", "customresourcedefinitions"}
EVERY_RULE = [
    *rbac.operator_rules(FRAMEWORKS.values()),
    *rbac.operator_rules(FRAMEWORKS.values(), grants=True),
    *rbac.gang_rules(VOLCANO),
    *rbac.gang_rules(COSCHEDULING),
    *rbac.gang_rules(NATIVE),
    rbac.PRIORITIES,
    *rbac.KUEUE,
    *rbac.KUEUE_CLUSTER,
    *rbac.KUEUE_RELEASE,
    *rbac.resuming([*FRAMEWORKS.values(), TEST_JOB]),
    *rbac.kueue_reads([*FRAMEWORKS.values(), TEST_JOB]),
    *rbac.lease_rules("lease"),
    *chain.from_iterable(rbac.user_rules(f, edit=edit) for f in FRAMEWORKS.values() for edit in (False, True)),
]


def test_the_library_chart_has_the_rules_of_the_code() -> None:
    assert RULES.read_text(encoding="utf-8") == rules_template(), "run: make golden"


@pytest.mark.parametrize("chart", OPERATORS)
def test_an_operator_for_all_namespaces_has_a_cluster_role_of_exactly_its_rules(chart: str) -> None:
    role = the(render(chart, rbac={"aggregate": False}, kueueServiceAccount={"name": ""}), "ClusterRole")
    assert role["rules"] == as_json([*rbac.operator_rules(OPERATORS[chart])])


@pytest.mark.parametrize("chart", SAMPLE)
def test_an_operator_of_named_namespaces_has_roles_only(chart: str) -> None:
    objects = render(chart, watchNamespaces=["team-a", "team-b"])
    assert not of_kind(objects, "ClusterRole")
    assert not of_kind(objects, "ClusterRoleBinding")
    where = lambda found: (found["metadata"]["namespace"], found["metadata"]["name"])  # noqa: E731
    roles = {where(found): found["rules"] for found in objects if found["kind"] == "Role"}
    own, name = as_json(rbac.operator_rules(OPERATORS[chart])), f"demo-{chart}"
    leader = as_json(rbac.lease_rules(name))
    operators = {("team-a", name): own, ("team-b", name): own, ("operators", f"{name}-leader"): leader}
    users = {
        (space, f"{name}-{who}"): as_json(rule for one in OPERATORS[chart] for rule in rbac.user_rules(one, edit=who == "edit"))
        for space in ("team-a", "team-b")
        for who in ("view", "edit")
    }
    assert roles == operators | users
    bindings = [found for found in objects if found["kind"] == "RoleBinding"]
    assert [where(found) for found in bindings] == list(operators), "teams bind their users themselves"
    for binding in bindings:
        assert binding["roleRef"]["kind"] == "Role"
        assert binding["roleRef"]["name"] == binding["metadata"]["name"]
        assert binding["subjects"][0]["namespace"] == "operators"


@pytest.mark.parametrize(
    ("scheduler", "groups"),
    [("volcano", [VOLCANO]), ("my-scheduler", [COSCHEDULING]), ("kubernetes", [NATIVE]), ("YuniKorn", []),
     ("auto", [VOLCANO, NATIVE, COSCHEDULING])],
)  # fmt: skip
def test_gang_scheduling_adds_its_rules(scheduler: str, groups: list[GangScheduler]) -> None:
    role = the(render("pytorch-operator", gangScheduler=scheduler, rbac={"aggregate": False}), "ClusterRole")
    own = [*rbac.operator_rules([PYTORCH]), *(rule for one in groups for rule in rbac.gang_rules(one))]
    assert role["rules"] == as_json([*own, rbac.PRIORITIES])
    roles = of_kind(render("pytorch-operator", gangScheduler=scheduler, watchNamespaces=["team-a"]), "Role").values()
    assert next(role["rules"] for role in roles if role["metadata"]["namespace"] == "team-a") == as_json(own)


@pytest.mark.parametrize(
    ("mode", "rules", "cluster"),
    [("own", rbac.KUEUE, rbac.KUEUE_CLUSTER), ("release", rbac.KUEUE_RELEASE, rbac.KUEUE_RELEASE_CLUSTER)],
)
def test_owning_and_giving_back_workloads_adds_its_rules(
    mode: str, rules: tuple[rbac.Rule, ...], cluster: tuple[rbac.Rule, ...]
) -> None:
    role = the(render("pytorch-operator", kueue=mode, rbac={"aggregate": False}), "ClusterRole")
    own = [*rbac.operator_rules([PYTORCH]), *rules, *rbac.resuming([PYTORCH])]
    assert role["rules"] == as_json([*own, *cluster])
    objects = render("pytorch-operator", kueue=mode, watchNamespaces=["team-a"])
    assert next(r["rules"] for r in of_kind(objects, "Role").values() if r["metadata"]["namespace"] == "team-a") == as_json(own)
    assert the(objects, "ClusterRole")["rules"] == as_json(cluster), "flavors belong to no namespace"
    assert the(objects, "ClusterRoleBinding")["roleRef"]["name"] == "demo-pytorch-operator-kueue"
    text = notes("training-operators", kueue="own")
    assert all(f"    - {f.kind}.{f.storage_version}.kubeflow.org\n" in text for f in FRAMEWORKS.values())


@pytest.mark.parametrize("chart", ["training-operators", "mxnet-operator", "tf-operator"])
def test_kueue_itself_may_read_the_kinds_that_its_own_role_lacks(chart: str) -> None:
    objects, lacking = render(chart), as_json(rbac.kueue_reads(OPERATORS[chart]))
    assert bool(lacking) == any(framework.kind == "MXJob" for framework in OPERATORS[chart])
    name = f"demo-{chart}-kueue-reads"
    role, binding = of_kind(objects, "ClusterRole").get(name), of_kind(objects, "ClusterRoleBinding").get(name)
    if not lacking:
        assert role is binding is None
        return
    assert role is not None
    assert binding is not None
    assert role["rules"] == lacking
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "kueue-controller-manager", "namespace": "kueue-system"}]
    account = {"name": "queue-manager", "namespace": "queues"}
    elsewhere = render(chart, kueueServiceAccount=account, kueue="own", watchNamespaces=["a"])
    (subject,) = of_kind(elsewhere, "ClusterRoleBinding")[name]["subjects"]
    assert (subject["namespace"], subject["name"]) == ("queues", "queue-manager"), "Kueue's cache is that of all namespaces"


def test_only_for_kubectl_exec_the_operator_can_grant_something() -> None:
    role = the(render("mpi-operator", mpiExec=True, rbac={"aggregate": False}), "ClusterRole")
    assert role["rules"] == as_json([*rbac.operator_rules([MPI], grants=True)])
    granting = {"roles", "rolebindings", "serviceaccounts", "pods/exec"}
    assert granting < {rule["resources"][0] for rule in role["rules"]}
    assert not granting & {rule.resource for rule in rbac.operator_rules([MPI])}


@pytest.mark.parametrize("chart", SAMPLE)
def test_another_framework_runs_in_any_chart_with_its_own_rules(chart: str) -> None:
    module = "jobcommon.testutil.frameworks:TEST_JOB"
    objects = render(chart, **yaml.safe_load(as_values(module, TEST_JOB)))
    assert [a for a in container(objects)["args"] if a.startswith("--framework=")] == [f"--framework={module}"]
    own, view, edit, reads = (
        of_kind(objects, "ClusterRole")[f"demo-{chart}{who}"]["rules"] for who in ("", "-view", "-edit", "-kueue-reads")
    )
    assert (own, reads) == (as_json(rbac.operator_rules([TEST_JOB])), as_json(rbac.kueue_reads([TEST_JOB])))
    assert [view, edit] == [as_json(rbac.user_rules(TEST_JOB, edit=edit)) for edit in (False, True)]


def test_no_rule_has_a_wildcard_or_a_dangerous_verb() -> None:
    for rule in EVERY_RULE:
        assert "*" not in (rule.group, rule.resource, *rule.verbs)
        assert not {"escalate", "bind", "impersonate"} & set(rule.verbs)
        assert rule.resource not in FORBIDDEN
        assert rule.resource != "secrets" or not {"list", "watch"} & set(rule.verbs), "by name only"
