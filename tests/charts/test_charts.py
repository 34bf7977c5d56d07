"""The charts, linted and rendered by the real Helm: their roles are those of `jobcommon.crd.rbac`, and no more than meant."""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from jobcommon.api.gang import COSCHEDULING, NATIVE, VOLCANO
from jobcommon.cli import rbac
from jobcommon.cli.main import app
from jobcommon.cli.rights import as_values
from jobcommon.crd import crd_files
from jobcommon.diagnosis.reading import OPERATOR_LABEL
from jobcommon.operators.mpi import MPI
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.operators.trainjob.runtimes import shipped
from jobcommon.testutil.cluster import cluster_for
from jobcommon.testutil.frameworks import TEST_JOB
from tests.architecture.source import ROOT
from tests.charts.charts import (
    CHARTS,
    FRAMEWORKS,
    OPERATORS,
    PRODUCTION,
    RULES,
    SAMPLE,
    Json,
    as_json,
    container,
    helm,
    notes,
    of_kind,
    render,
    rules_template,
    the,
)
from tests.cli.commands import kubectl_path
from tests.docs.blocks import blocks

FORBIDDEN = {"nodes", "pods/portforward", "pods/attach", "validatingwebhookconfigurations", "customresourcedefinitions"}
EVERY_RULE = [
    *rbac.operator_rules(FRAMEWORKS.values()),
    *rbac.operator_rules(FRAMEWORKS.values(), grants=True),
    *chain.from_iterable(map(rbac.gang_rules, (VOLCANO, NATIVE, COSCHEDULING))),
    rbac.PRIORITIES,
    *rbac.KUEUE,
    *rbac.KUEUE_CLUSTER,
    *rbac.kueue_reads([*FRAMEWORKS.values(), TEST_JOB]),
    *rbac.lease_rules("lease"),
    *rbac.cluster_rules(FRAMEWORKS.values()),
    *chain.from_iterable(rbac.user_rules(f, edit=edit) for f in FRAMEWORKS.values() for edit in (False, True)),
]


def test_the_library_chart_has_the_rules_of_the_code() -> None:
    assert RULES.read_text(encoding="utf-8") == rules_template(), "run: make golden"


TORCH, VOLCANOS, NATIVES, OTHERS = rbac.operator_rules([PYTORCH]), *map(rbac.gang_rules, (VOLCANO, NATIVE, COSCHEDULING))
GANGS = {
    "volcano": VOLCANOS, "kubernetes": NATIVES, "my-scheduler": OTHERS, "auto": (*VOLCANOS, *NATIVES, *OTHERS)
}  # fmt: skip
#: What an operator may do in its namespaces, and beyond them.
ROLES: list[tuple[str, Json, Iterable[rbac.Rule], Iterable[rbac.Rule]]] = [
    *((chart, {}, rbac.operator_rules(kinds), rbac.cluster_rules(kinds)) for chart, kinds in OPERATORS.items()),
    ("mpi-operator", {"mpiExec": True}, rbac.operator_rules([MPI], grants=True), ()),
    ("pytorch-operator", {"kueue": "own"}, (*TORCH, *rbac.KUEUE), rbac.KUEUE_CLUSTER),
    *(("pytorch-operator", {"gangScheduler": name}, (*TORCH, *rules), (rbac.PRIORITIES,)) for name, rules in GANGS.items()),
]  # fmt: skip


@pytest.mark.parametrize(
    ("chart", "values", "own", "beyond"), ROLES, ids=lambda value: str(value) if isinstance(value, str | dict) else ""
)
def test_an_operator_has_exactly_its_rules(
    chart: str, values: Json, own: Iterable[rbac.Rule], beyond: Iterable[rbac.Rule]
) -> None:
    values = {**values, "rbac": {"aggregate": False}, "kueueServiceAccount": {"name": ""}}
    assert the(render(chart, **values), "ClusterRole")["rules"] == as_json([*own, *beyond])
    spaces = ["team-a", "team-b"]
    named = render(chart, watchNamespaces=spaces, **values)
    roles = {(one["metadata"]["namespace"], one["metadata"]["name"]): one["rules"] for one in named if one["kind"] == "Role"}
    assert [roles[space, f"demo-{chart}"] for space in spaces] == 2 * [as_json(own)]
    # The classes of priority alone it leaves to the scheduler.
    wide = [as_json(beyond)] if {*beyond} - {rbac.PRIORITIES} else []
    assert [role["rules"] for role in of_kind(named, "ClusterRole").values()] == wide


def test_the_notes_say_what_kueue_must_leave_to_the_operators() -> None:
    text = notes("training-operators", kueue="own")
    assert all(f"    - {f.kind}.{f.storage_version}.kubeflow.org\n" in text for f in OPERATORS["training-operators"])


ELSEWHERE: Json = {
    "kueueServiceAccount": {"name": "queue-manager", "namespace": "queues"}, "kueue": "own", "watchNamespaces": ["a"]
}  # fmt: skip


@pytest.mark.parametrize(
    ("values", "who"), [({}, ("kueue-system", "kueue-controller-manager")), (ELSEWHERE, ("queues", "queue-manager"))]
)
@pytest.mark.parametrize("chart", [*SAMPLE, "tf-operator"])
def test_kueue_itself_may_read_the_kinds_that_its_own_role_lacks(chart: str, values: Json, who: tuple[str, str]) -> None:
    """In all namespaces, as its cache does."""
    objects, name = render(chart, **values), f"demo-{chart}-kueue-reads"
    role, binding = (of_kind(objects, kind).get(name, {}) for kind in ("ClusterRole", "ClusterRoleBinding"))
    assert role.get("rules", []) == as_json(rbac.kueue_reads(OPERATORS[chart]))
    assert bool(role) == (chart != "tf-operator")
    assert [(one["namespace"], one["name"]) for one in binding.get("subjects", ())] == ([who] if role else [])


@pytest.mark.parametrize("chart", SAMPLE)
def test_another_framework_runs_in_any_chart_with_its_own_rules(chart: str) -> None:
    module, framework = "jobcommon.testutil.frameworks:TEST_JOB", replace(TEST_JOB, rival="other.example.com")
    objects = render(chart, **yaml.safe_load(as_values(module, framework)))
    assert [a for a in container(objects)["args"] if a.startswith("--framework=")] == [f"--framework={module}"]
    own, view, edit, reads = (
        of_kind(objects, "ClusterRole")[f"demo-{chart}{who}"]["rules"] for who in ("", "-view", "-edit", "-kueue-reads")
    )
    assert own == as_json((*rbac.operator_rules([framework]), *rbac.cluster_rules([framework])))
    assert reads == as_json(rbac.kueue_reads([TEST_JOB]))
    assert [view, edit] == [as_json(rbac.user_rules(TEST_JOB, edit=edit)) for edit in (False, True)]


def test_no_rule_has_a_wildcard_or_a_dangerous_verb() -> None:
    for rule in EVERY_RULE:
        assert "*" not in (rule.group, rule.resource, *rule.verbs)
        assert not {"escalate", "bind", "impersonate"} & set(rule.verbs)
        assert rule.resource not in FORBIDDEN
        assert rule.resource != "secrets" or not {"list", "watch"} & set(rule.verbs), "by name only"
    users = [rule for one in FRAMEWORKS.values() for rule in rbac.user_rules(one, edit=True)]
    assert {rule.verbs for rule in users if rule.resource.endswith("/status")} == {("get",)}, "no user writes a status"


# -- The charts, linted and rendered by the real Helm

#: All that is optional, without the roles.
OPTIONAL: dict[str, Any] = {
    **PRODUCTION, "rbac": {"create": False}, "podDisruptionBudget": {"enabled": True},
    "metrics": {"tokenSecret": {"name": "scrape.token", "key": "bearer"}, "serviceMonitor": {"enabled": True}},
}  # fmt: skip


@pytest.mark.parametrize("chart", SAMPLE)
def test_a_chart_passes_helm_lint(chart: str) -> None:
    for values in ({}, {"watchNamespaces": ["team-a"]}, PRODUCTION):
        report = helm.lint(CHARTS / chart, values, strict=True, namespace="operators", kube_version="v1.29.0")
        assert report["total_charts_linted"] == 1
        # Severity 1 is information, such as the advice to have an icon.
        assert not [message for message in report["messages"] if message["severity"] > 1]
        assert not report["errors"]


@pytest.mark.parametrize("chart", OPERATORS)
def test_a_chart_brings_the_crds_of_its_frameworks(chart: str) -> None:
    """The files in charts/crds, which tests/api/test_crd.py compares with the code."""
    brought = {path.name: path.resolve().parent for path in (CHARTS / chart / "crds").iterdir()}
    awaited = {"jobset.x-k8s.io_jobsets.yaml": CHARTS / chart / "crds"} if chart == "trainjob-operator" else {}
    assert brought == dict.fromkeys(crd_files(OPERATORS[chart]), CHARTS / "crds") | awaited


@pytest.mark.cluster
async def test_the_definition_of_jobset_is_installed_where_there_is_none_and_then_left_alone(tmp_path: Path) -> None:
    """Not even removed with the release: Kueue would end without it. One that another has installed is not changed."""
    definitions, kubeconfig = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", tmp_path / "kubeconfig"
    chart, name = CHARTS / "trainjob-operator", "jobsets.jobset.x-k8s.io"
    async with cluster_for(operators=False) as cluster:
        kubeconfig.write_text(cluster.cluster.kubeconfig())
        with helm.Config(kubeconfig_path=kubeconfig, namespace="default") as config:
            await asyncio.to_thread(config.install, chart, "demo")
            first = await cluster.call("GET", f"{definitions}/{name}")
            assert first["spec"]["versions"][0]["subresources"] == {"status": {}}, "JobSet's controller writes it"
            theirs = {"metadata": {"labels": {"from": "jobset"}}, "spec": {"names": {"shortNames": ["js"]}}}
            changed = await cluster.call("PATCH", f"{definitions}/{name}", theirs, "application/merge-patch+json")
            await asyncio.to_thread(config.upgrade, chart, "demo")
            await asyncio.to_thread(config.uninstall, "demo")
            await asyncio.to_thread(config.install, chart, "again")
        found = await cluster.call("GET", f"{definitions}/{name}")
        assert (found["metadata"]["uid"], found["spec"]) == (first["metadata"]["uid"], changed["spec"])
        assert found["metadata"]["labels"] == {"from": "jobset"}


@pytest.mark.parametrize("chart", OPERATORS)
def test_the_operator_is_told_its_frameworks_and_its_lease(chart: str) -> None:
    args = container(objects := render(chart))["args"]
    labels = the(objects, "Deployment")["spec"]["template"]["metadata"]["labels"]
    assert OPERATOR_LABEL in [f"{name}={value}" for name, value in labels.items()], "why and doctor look for its pods"
    names = [framework.name for framework in OPERATORS[chart]]
    assert [a.removeprefix("--framework=") for a in args if a.startswith("--framework=")] == sorted(names)
    assert args[0] == "operator"
    assert {"--leader-elect", "--lease-namespace=$(POD_NAMESPACE)", f"--lease-name=demo-{chart}"} <= set(args)
    assert not any(a.startswith("--namespace") for a in args)
    assert "--namespace=team-a" in container(render(chart, watchNamespaces=["team-a"]))["args"]
    assert "--namespace=$(POD_NAMESPACE)" in container(render(chart, watchNamespaces=["operators"]))["args"]


def test_a_set_of_frameworks_runs_in_one_process_and_a_single_chart_runs_its_own_only() -> None:
    objects = render("training-operators", frameworks=["mxnet", "jax"])
    assert len(of_kind(objects, "Deployment")) == 1
    assert [a for a in container(objects)["args"] if a.startswith("--framework=")] == ["--framework=jax", "--framework=mxnet"]
    with pytest.raises(helm.HelmError, match=r"frameworks: tf-operator runs .*, not mpi"):
        render("tf-operator", frameworks=["mpi"])


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"frameworks": ["caffe"]}, "frameworks"), ({"framework": {"module": "my_package"}}, "framework"),
        ({"framework": {"module": "my_package:MINE"}}, "framework"), ({"replica": 1}, "replica"),
        ({"watchNamespaces": ["Team A"]}, "watchNamespaces"), ({"extraArgs": ["workers"]}, "extraArgs"),
        ({"topologySpreadConstraints": [{"maxSkew": 1}]}, "topologySpreadConstraints"),
        ({"image": {"digest": "sha256:short"}}, "digest"), ({"metrics": {"port": 80}}, "port"),
        ({"metrics": {"tokenSecret": {"name": "No/Name"}}}, "tokenSecret"), ({"logLevel": "loud"}, "logLevel"),
        ({"progress": {"tlsSecret": "No/Name"}}, "tlsSecret"), ({"qps": 0}, "qps"), ({"burst": 40}, "qps"),
        ({"serviceAccount": {"create": False}}, "serviceAccount.name"),
        ({"metrics": {"service": {"enabled": False}, "serviceMonitor": {"enabled": True}}}, "metrics.serviceMonitor"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)  # fmt: skip
def test_values_that_make_no_sense_are_refused(values: dict[str, Any], said: str) -> None:
    with pytest.raises(helm.HelmError, match=said):
        render("training-operators", **values)


@pytest.mark.parametrize(
    ("argument", "values"),
    [
        ("--qps=20", {"qps": 20}), ("--burst=2000000", {"qps": 20, "burst": 2_000_000}), ("--workers=3", {"workers": 3}),
        ("--cluster-domain=cluster.local", {"clusterDomain": "cluster.local"}), ("--log-level=debug", {"logLevel": "debug"}),
        ("--no-tracking-finalizer", {"trackingFinalizer": False}), ("--log-format=console", {"logFormat": "console"}),
        ("--gang-scheduler-name=volcano", {"gangScheduler": "volcano"}), ("--kueue=own", {"kueue": "own"}),
        ("--metrics-port=9000", {"metrics": {"port": 9000}}), ("--metrics-host=::", {"extraArgs": ["--metrics-host=::"]}),
        ("--progress-port=9443", {"progress": {"tlsSecret": "mine", "port": 9443}}),
    ],
)  # fmt: skip
def test_a_value_becomes_an_argument(argument: str, values: dict[str, Any]) -> None:
    operator = next(command.callback for command in app.registered_commands if command.name == "operator")
    assert operator is not None
    known = {f"--{parameter.replace('_', '-')}" for parameter in operator.__annotations__} | {
        "--no-tracking-finalizer",
        "--no-mpi-exec",
    }
    args = container(render("training-operators", **values))["args"]
    assert {a.partition("=")[0] for a in args if a.startswith("--")} <= known
    assert argument not in container(render("training-operators"))["args"]
    assert argument in args


def test_what_is_optional_is_rendered_as_in_the_golden_file() -> None:
    """The defaults are in the kustomizations. A null takes a field out; selectors lack the common label: they cannot change."""
    path = ROOT / "tests/golden/charts/production.yaml"
    objects = render("training-operators", **OPTIONAL)
    for found in (*objects, *render("training-operators"), *render("tf-operator", watchNamespaces=["a"])):
        if not found["apiVersion"].startswith("monitoring.coreos.com/"):
            kubernetes_validate.validate(found, "1.36", strict=True)
    text = yaml.safe_dump_all(objects, sort_keys=False, width=120)
    if os.environ.get("GOLDEN") == "write":
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text, "run: make golden"
    other = render(
        "tf-operator", networkPolicy={"enabled": True}, progress={"tlsSecret": "x"}, securityContext={"runAsUser": 7}
    )
    policy = the(other, "NetworkPolicy")["spec"]
    assert (policy["policyTypes"], policy["ingress"][0]) == (["Ingress"], {"ports": [{"port": 8080}]})
    assert policy["ingress"][1]["from"][0]["namespaceSelector"] == {}, "jobs of all namespaces"
    assert {"runAsUser": 7, "readOnlyRootFilesystem": True}.items() <= container(other)["securityContext"].items()


def test_the_runtimes_are_those_of_the_operator() -> None:
    found = [one for one in render("trainjob-operator", runtimes=True) if one["kind"] == "ClusterTrainingRuntime"]
    assert found == shipped()
    assert "ClusterTrainingRuntime" not in [one["kind"] for one in render("trainjob-operator")]


def test_the_page_for_production_has_values_of_the_charts_and_a_policy() -> None:
    found = [
        yaml.safe_load(block.text) for block in blocks() if block.document.name == "production.md" and block.language == "yaml"
    ]
    values, policy = found
    kubernetes_validate.validate(policy, "1.36", strict=True)
    rendered = {found["kind"] for found in render("training-operators", **values)}
    assert {"NetworkPolicy", "PodDisruptionBudget", "PrometheusRule", "ServiceMonitor"} <= rendered


def test_an_account_and_roles_of_ones_own() -> None:
    objects = render("tf-operator", serviceAccount={"create": False, "name": "mine"}, rbac={"create": False})
    assert {found["kind"] for found in objects} == {"Deployment", "Service"}
    assert the(objects, "Deployment")["spec"]["template"]["spec"]["serviceAccountName"] == "mine"


@pytest.mark.parametrize("chart", SAMPLE)
def test_a_packaged_chart_renders_the_same(chart: str, tmp_path: Any) -> None:
    with helm.Chart.load(CHARTS / chart) as loaded:
        archive = loaded.save(tmp_path)
        expected = loaded.render({}, name="demo", namespace="operators")
    with helm.Chart.load(archive) as packed:
        assert packed.render({}, name="demo", namespace="operators") == expected


# -- The kustomizations are what the chart of all operators renders

NAME = "training-operators"
KUSTOMIZE = CHARTS / "kustomize"
HELMS_OWN = ("helm.sh/chart", "app.kubernetes.io/managed-by")
VARIANTS: dict[str, Json] = {"base": {}, "namespaced": {"watchNamespaces": [NAME]}}
HEADER = "# Written from charts/training-operators by: make golden\n"


def of_the_chart(namespace: str = NAME, **values: Any) -> list[Json]:
    """What the chart renders, without the labels that say it was Helm."""

    def clean(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: clean(item) for key, item in value.items() if key not in HELMS_OWN}
        return [clean(item) for item in value] if isinstance(value, list) else value

    return [clean(found) for found in render(NAME, name=NAME, namespace=namespace, **values)]


def without_namespaces(objects: list[Json]) -> list[Json]:
    """The objects as a kustomization has them, which says the namespace itself."""
    for found in objects:
        found["metadata"].pop("namespace", None)
        for subject in found.get("subjects", ()):
            subject.pop("namespace")
    return objects


def built(directory: Path) -> dict[tuple[str, str], Json]:
    """What ``kubectl kustomize`` makes of a directory, by kind and name."""
    done = subprocess.run([kubectl_path(), "kustomize", str(directory)], capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    return by_name(list(yaml.safe_load_all(done.stdout)))


def by_name(objects: list[Json]) -> dict[tuple[str, str], Json]:
    return {(found["kind"], found["metadata"]["name"]): found for found in objects}


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_files_are_those_of_the_chart(variant: str) -> None:
    file = KUSTOMIZE / variant / "operator.yaml"
    objects = of_the_chart(**VARIANTS[variant])
    text = HEADER + yaml.safe_dump_all(
        objects if variant == "base" else without_namespaces(objects), sort_keys=False, width=120
    )
    if os.environ.get("GOLDEN") == "write":
        file.write_text(text, encoding="utf-8")
    assert file.read_text(encoding="utf-8") == text, "run: make golden"


def test_the_kustomizations_build_to_what_the_chart_renders(tmp_path: Path) -> None:
    found = built(KUSTOMIZE / "base")
    namespace = found.pop(("Namespace", NAME))
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    assert found == by_name(of_the_chart())
    overlay = {"namespace": "team-a", "resources": [os.path.relpath(KUSTOMIZE / "namespaced", tmp_path)]}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    assert built(tmp_path) == by_name(of_the_chart("team-a", watchNamespaces=["team-a"]))


# -- The user of the image, and its Python environment by its imports; `make image` builds it

# What only the embedded cluster and the tests need: it is not in the image; the last has no place in a cluster.
NOT_INSTALLED = ("localcluster", "jsonschema_rs", "jsonpatch", "jsonpath", "cel_expr_python", "kubernetes", "torch", "numpy")
WITHOUT = f"""
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {NOT_INSTALLED!r} or name == "jobcommon.testutil":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())
from jobcommon.cli.main import main
import jobcommon.cli.operate, jobcommon.cli.finalizers
sys.argv[0] = "jobcommon"
main()
"""


def test_the_image_runs_as_the_charts_user_not_root() -> None:
    context = the(render("training-operators"), "Deployment")["spec"]["template"]["spec"]["securityContext"]
    text = (ROOT / "Containerfile").read_text(encoding="utf-8")
    assert re.findall(r"^USER (.*)$", text, re.MULTILINE) == [f"{context['runAsUser']}:{context['runAsGroup']}"]
    assert context["runAsUser"] > 0
    assert re.findall(r"^ARG .*$", text, re.MULTILINE) == ["ARG BASE"], "no default: it would be a tag that moves"


def test_the_operator_starts_with_what_the_image_has_installed() -> None:
    argv = [sys.executable, "-c", WITHOUT, "operator", "--help"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    assert "--leader-elect" in done.stdout
