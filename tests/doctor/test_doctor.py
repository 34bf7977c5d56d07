"""What `jobcommon doctor` finds in a cluster that was read: a row for each finding, and for what must not be one."""

import copy
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from jobcommon.api.kueue import external_name_of
from jobcommon.api.timestamp import format_time
from jobcommon.cli.doctor import ClusterState, Severity, examine, our_definitions
from jobcommon.cli.doctor.state import Denied, Right
from jobcommon.cli.doctor_command import doctor
from jobcommon.cli.errors import UserError
from jobcommon.crd import custom_resource_definition
from jobcommon.framework import Framework
from jobcommon.operators.mpi import MPI
from jobcommon.operators.mxnet import MXNET
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.operators.tf import TF
from jobcommon.operators.trainjob import TRAINJOB
from jobcommon.testutil.cluster import TestCluster, cluster_for
from tests.definitions import of_kueue

Json = dict[str, Any]
FRAMEWORKS = (MPI, MXNET, PYTORCH, TF)
NOW = 1_700_000_000.0
E, W, U, N = Severity.ERROR, Severity.WARNING, Severity.UNREAD, Severity.NOTE
TWO = "two operators"


@cache
def _definitions() -> Mapping[str, Any]:
    return our_definitions(FRAMEWORKS)


def definitions(plural: str = "", **changed: Any) -> Mapping[str, Json | None]:
    """Ours, that of `plural` with its spec changed."""
    found: dict[str, Json | None] = dict(_definitions())
    if plural:
        ours = _definitions()[f"{plural}.kubeflow.org"]
        found[f"{plural}.kubeflow.org"] = {**ours, "spec": {**ours["spec"], **changed}}
    return found


def pruning(plural: str, *path: str) -> Mapping[str, Json | None]:
    """Ours, without the schema's property at `path` in the first version of `plural`."""
    found = {name: one if plural not in name else copy.deepcopy(one) for name, one in _definitions().items()}
    node = found[f"{plural}.kubeflow.org"]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for name in path[:-1]:
        node = node["properties"][name]
    del node["properties"][path[-1]]
    return dict(found)


def deployment(
    name: str, image: str, *args: str, namespace: str = "kubeflow", replicas: int | None = None, ready: int = 1, **labels: str
) -> Json:
    """A Deployment with one container."""
    container = {"name": "main", "image": image, "args": list(args)}
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            **({} if replicas is None else {"replicas": replicas}),
            "template": {"spec": {"serviceAccountName": "runner", "containers": [container]}},
        },
        "status": {"readyReplicas": ready},
    }


def ours(*args: str, name: str = "ours", ready: int = 1, replicas: int | None = None) -> Json:
    """A Deployment of this project."""
    part_of = {"app.kubernetes.io/part-of": "jobcommon"}
    image, place = "registry/jobcommon:1", "training-operators"
    return deployment(name, image, "operator", *args, namespace=place, ready=ready, replicas=replicas, **part_of)


def lease(name: str, age: float = 5, holder: str = "pod_1", namespace: str = "kubeflow") -> Json:
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": format_time(NOW - age)},
    }


def webhook(name: str, service: str, plural: str, group: str = "kubeflow.org") -> Json:
    hook = {
        "name": f"hook.{name}",
        "clientConfig": {"service": {"name": service, "namespace": "kubeflow"}},
        "rules": [{"apiGroups": [group], "apiVersions": ["v1"], "resources": [plural], "operations": ["CREATE"]}],
    }
    return {"kind": "ValidatingWebhookConfiguration", "metadata": {"name": name}, "webhooks": [hook]}


def launcher(*, suspend: bool = False, owner: str = "MPIJob", over: bool = False) -> Json:
    conditions = [{"type": "Complete", "status": "True"}] if over else []
    return {
        "metadata": {"name": "pi-launcher", "namespace": "team-a", "ownerReferences": [{"kind": owner, "name": "pi"}]},
        "spec": {"suspend": suspend},
        "status": {"conditions": conditions},
    }


def kueue(*frameworks: str, external: Sequence[str] = ()) -> Json:
    lines, more = ("".join(f"  - {name}\n" for name in names) for names in (frameworks, external))
    text = f"integrations:\n  frameworks:\n{lines}  externalFrameworks:\n{more}"
    return {"data": {"controller_manager_config.yaml": text}}


ALL_QUEUED = ("kubeflow.org/tfjob", "kubeflow.org/pytorchjob", "kubeflow.org/mpijob")
REFERENCE = deployment("training-operator", "docker.io/kubeflow/training-operator:v1-5170a36")


@dataclass(frozen=True)
class Row:
    """What was read, and the findings in order: severity, and texts that are all in it. `alone`: no lease was renewed.

    `more`: further kinds.
    """

    name: str
    read: Mapping[str, Any]
    found: tuple[tuple[Severity, tuple[str, ...]], ...] = ()
    definitions: Mapping[str, Json | None] = field(default_factory=definitions)
    alone: bool = False
    more: tuple[Framework, ...] = ()


def rows() -> Iterator[Row]:
    yield Row("nothing is wrong", {"version": "v1.36.2"})
    yield from _definition_rows()
    yield from _other_operator_rows()
    yield from _platform_rows()
    yield from _acting_rows()


# fmt: off
def _definition_rows() -> Iterator[Row]:
    yield Row("a definition is missing", {},
        ((E, ("tfjobs.kubeflow.org is not installed", "jobcommon crds --framework tensorflow | kubectl apply")),),
        {**definitions(), "tfjobs.kubeflow.org": None})
    yield Row("a definition is missing that no operator needs", {"deployments": [ours("--framework=pytorch")]}, (),
        {**definitions(), "tfjobs.kubeflow.org": None})
    yield Row("a version is not served, the stored one",
        {}, ((E, ("mpijobs", "does not serve version v2beta1", "the operator reads this version")),),
        definitions("mpijobs", versions=[
            {**one, "served": one["name"] != "v2beta1"} for one in _definitions()["mpijobs.kubeflow.org"]["spec"]["versions"]
        ]))
    yield Row("the status is pruned", {}, ((E, ("drops fields of the status in v1: status.restarts", "--force-conflicts")),),
        pruning("pytorchjobs", "status", "restarts"))
    yield Row("the spec is pruned", {}, ((W, ("drops fields of v1: spec.runPolicy.suspend",)),),
        pruning("pytorchjobs", "spec", "runPolicy", "suspend"))


def _other_operator_rows() -> Iterator[Row]:
    yield Row("training-operator runs", {"deployments": [REFERENCE]},
        ((E, ("training-operator in kubeflow", "MPIJob, MXJob, PyTorchJob, TFJob", TWO,
              "kubectl scale deployment training-operator --namespace kubeflow --replicas=0")),))
    yield Row("training-operator is stopped", {"deployments": [{**REFERENCE, "spec": {**REFERENCE["spec"], "replicas": 0}}]})
    yield Row("training-operator runs one of our kinds", {"deployments": [
        deployment("training-operator", "kubeflow/training-operator", "--enable-scheme=TFJob", "--enable-scheme=xgboostjob"),
    ]}, ((E, ("acts on TFJob", TWO)),))
    yield Row("mpi-operator runs, and our operator for other kinds", {"deployments": [
        deployment("mpi-operator", "mpioperator/mpi-operator:0.6.0"), ours("--framework=pytorch"),
    ]})
    yield Row("mpi-operator runs beside ours", {"deployments": [
        deployment("mpi-operator", "mpioperator/mpi-operator@sha256:1", replicas=2), ours(),
    ]}, ((E, ("runs mpi-operator, which acts on MPIJob",)),))
    yield Row("a distribution's image", {"deployments": [deployment("t", "quay.io/x/odh-training-operator:1.9")]},
        ((E, ("runs training-operator",)),))
    yield Row("its lease is held", {"leases": [lease("1ca428e5.training-operator.kubeflow.org")]},
        ((E, ("Lease 1ca428e5", "is held by pod_1: a training-operator runs", TWO)),))
    yield Row("a lease of that name is ours", {
        "leases": [lease("mpi-operator", namespace="training-operators")],
        "deployments": [ours("--framework=mpi", "--lease-name=mpi-operator")],
    })
    yield Row("a Deployment says more than its lease",
        {"leases": [lease("1ca428e5.training-operator.kubeflow.org")], "deployments": [REFERENCE]},
        ((E, ("Deployment training-operator",)),))
    yield Row("two of ours", {"deployments": [ours("--lease-name=a"), ours("--lease-name=b", name="second")]},
        ((E, ("second in training-operators", "same namespaces as Deployment ours", TWO)),))
    yield Row("two of ours share a namespace", {"deployments": [
        ours("--lease-name=a", "--namespace=team-a", "--namespace=team-c"),
        ours("--lease-name=b", "--namespace=team-b", "--namespace=team-c", name="second"),
    ]}, ((E, ("second in training-operators", "same namespaces as Deployment ours", TWO)),))
    yield Row("the reference's webhook is left", {"webhooks": [
        webhook("validator.training-operator.kubeflow.org", "training-operator", "tfjobs"),
    ]}, ((E, ("is asked about tfjobs", "kubectl delete validatingwebhookconfiguration validator.training-operator")),))
    trainer = webhook("validator.trainer.kubeflow.org", "kubeflow-trainer", "trainjobs", "trainer.kubeflow.org")
    yield Row("Trainer's webhook is left", {"webhooks": [trainer]},
        ((E, ("is asked about trainjobs", "delete validatingwebhookconfiguration validator.trainer.kubeflow.org")),),
        more=(TRAINJOB,))
    yield Row("webhooks that are no concern of ours", {"webhooks": [
        webhook("policy", "policy", "*"),
        webhook("validator.training-operator.kubeflow.org", "training-operator", "jaxjobs"),
    ]})
    yield Row("mpi-operator's launcher runs", {"batch_jobs": [launcher()]},
        ((E, ("MPIJob pi in team-a", "batch Job pi-launcher", "second launcher", '{"suspend":true}')),))
    yield Row("mpi-operator's launcher is suspended", {"batch_jobs": [launcher(suspend=True)]},
        ((W, ("kubectl delete job pi-launcher --namespace team-a",)),))
    yield Row("batch Jobs that are no concern of ours", {"batch_jobs": [launcher(over=True), launcher(owner="CronJob")]})


def _acting_rows() -> Iterator[Row]:
    yield Row("no operator was found", {},
        ((W, ("operators of this project were not found", "no Deployment, no lease")),), alone=True)
    yield Row("the leader died", {"leases": [lease("jobcommon-operator", 1080)]},
        ((E, ("Lease jobcommon-operator in kubeflow", "was renewed 18 min ago", "no leader acts")),), alone=True)


def _platform_rows() -> Iterator[Row]:
    yield Row("Kubernetes is too old", {"version": "v1.28.9+k3s1"}, ((E, ("v1.28.9+k3s1", "1.29 or later")),))
    yield Row("our operator is not ready", {"deployments": [ours(ready=0)]},
        ((E, ("ours in training-operators has no pod that is ready", "kubectl logs deployment/ours")),))
    stopped = ours("--kueue=own", "--lease-name=rel", replicas=0, ready=0)
    scale = (E, ("Deployment ours in training-operators has 0 replicas", "kubectl scale deployment ours --namespace tr", "=1"))
    known = kueue(external=[external_name_of(one.api_version, one.kind) for one in FRAMEWORKS])
    yield Row("our operator has 0 replicas",
        {"deployments": [stopped], "leases": [lease("rel", 1080)], "groups": {"kueue.x-k8s.io"}, "kueue_configuration": known},
        (scale,), alone=True)
    yield Row("one of ours was stopped in favour of another", {"deployments": [stopped, ours("--kueue=own", name="second")]})
    yield Row("what comes first is first", {"deployments": [REFERENCE], "leases": [lease("jobcommon-operator", 1080)]},
        ((E, ("runs training-operator",)), (E, ("no leader acts",)), (E, ("tfjobs.kubeflow.org is not installed",))),
        {**definitions(), "tfjobs.kubeflow.org": None}, alone=True)
    rights = (Right("", "pods", "create"), Right("", "pods", "patch"), Right("kubeflow.org", "tfjobs/status", "update"))
    account = "system:serviceaccount:training-operators:runner"
    yield Row("our operator lacks rights", {"denied": [Denied(account, "", rights)]},
        ((E, (account, "may not create, patch pods in all namespaces")), (E, ("may not update tfjobs/status.kubeflow.org",))))
    yield Row("Kueue queues all that it can",
        {"groups": {"kueue.x-k8s.io"}, "kueue_configuration": kueue(*ALL_QUEUED)}, ((N, ("no integration of MXJob",)),))
    yield Row("Kueue does not queue a kind",
        {"groups": {"kueue.x-k8s.io"}, "kueue_configuration": kueue(*ALL_QUEUED[1:])},
        ((W, ("does not queue TFJob", "add kubeflow.org/tfjob to integrations.frameworks")), (N, ("MXJob",))))
    owning = {"deployments": [ours("--kueue=own", "--framework=tensorflow")], "groups": {"kueue.x-k8s.io"}}
    others = ((N, ("MXJob",)),)
    yield Row("the operator owns Workloads, and Kueue knows it",
        {**owning, "kueue_configuration": kueue(*ALL_QUEUED[1:], external=["TFJob.v1.kubeflow.org"])}, others)
    yield Row("the operator owns Workloads, and Kueue does not know it",
        {**owning, "kueue_configuration": kueue(*ALL_QUEUED[1:])},
        ((W, ("Workloads of TFJob", "add TFJob.v1.kubeflow.org to integrations.externalFrameworks")), *others))
    yield Row("the operator and Kueue both own Workloads",
        {**owning, "kueue_configuration": kueue(*ALL_QUEUED)},
        ((E, ("queues TFJob itself", "remove kubeflow.org/tfjob from integrations.frameworks", "twice")), *others))
    external = kueue(*ALL_QUEUED, "pod", external=["TFJob.v1.kubeflow.org", "MXJob.v1.kubeflow.org"])
    yield Row("Kueue leaves a kind to an operator that there is not",
        {"groups": {"kueue.x-k8s.io"}, "kueue_configuration": external},
        ((W, ("leaves the Workloads of MXJob", "run the operator with --kueue own")),))
    account = "system:serviceaccount:kueue-system:kueue-controller-manager"
    lacking = Denied(account, "", tuple(Right("kubeflow.org", "mxjobs", verb) for verb in ("list", "watch")))
    owners = {"groups": {"kueue.x-k8s.io"}, "deployments": [ours("--kueue=own", "--framework=mxnet")], "kueue_denied": lacking}
    yield Row("Kueue's webhook for pods may not read owners", {**owners, "kueue_configuration": external},
        ((E, (account, "may not list, watch mxjobs.kubeflow.org", "no pod of one can be created", "kueueServiceAccount")),))
    yield Row("Kueue has no webhook for pods",
        {**owners, "kueue_configuration": kueue(*ALL_QUEUED, external=["MXJob.v1.kubeflow.org"])})
    trainer = {"groups": {"trainer.kubeflow.org"}}
    yield Row("TrainJobs are served and their controller does not run", trainer,
        ((W, ("no Deployment of trainer-controller-manager", "a TrainJob gets no pods")),))
    yield Row("the embedded cluster's operators have no Deployment", {**trainer, "version": "v1.36.2+localcluster"}, (),
        {**definitions(), "tfjobs.kubeflow.org": None}, alone=True)
    beside = {"groups": {"trainer.kubeflow.org", "kueue.x-k8s.io"}}
    usual = ((W, ("no Deployment of trainer-controller",)), (N, ("MXJob",)))
    yield Row("Kueue queues TrainJobs, and there is no JobSet",
        {**beside, "kueue_configuration": kueue(*ALL_QUEUED, "trainer.kubeflow.org/trainjob")},
        ((E, ("waits for the definition of JobSet",)), *usual))
    yield Row("Kueue's integration of TrainJob is off", {**beside, "kueue_configuration": kueue(*ALL_QUEUED)}, usual)
    yield Row("Kueue's configuration is none",
        {"groups": {"kueue.x-k8s.io"}, "kueue_configuration": {"data": {"controller_manager_config.yaml": "[1]"}}},
        ((U, ("is not a configuration of Kueue",)),))
    yield Row("something could not be read", {"unread": {"Leases": "leases is forbidden"}},
        ((U, ("Leases could not be read", "leases is forbidden")),))
# fmt: on


@pytest.mark.parametrize("row", [*rows()], ids=lambda row: row.name)
def test_findings(row: Row) -> None:
    leases = [*row.read.get("leases", ()), *([] if row.alone else [lease("jobcommon-operator")])]
    state = ClusterState(definitions=row.definitions, **{**row.read, "leases": leases})
    found = examine(state, (*FRAMEWORKS, *row.more), _definitions(), NOW)
    texts = [f"{one.subject} {one.what} {one.why} {one.fix}" for one in found]
    assert len(found) == len(row.found), texts
    for (severity, wanted), one, text in zip(row.found, found, texts, strict=True):
        assert one.severity is severity, (wanted, texts)
        assert all(part in text for part in wanted), (wanted, texts)
    assert found == sorted(found, key=lambda one: one.severity), "the worst first"
    assert all(one.fix for one in found if one.severity <= Severity.WARNING), "what fixes it is printed"


# -- `jobcommon doctor` as a command, against an embedded cluster in which several things are wrong

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SERVED = (PYTORCH, TF)


async def seed(cluster: TestCluster, now: float) -> None:
    """An older PyTorchJob and no TFJob; a lease of training-operator; our operator and Kueue, without rights."""
    definition = custom_resource_definition(PYTORCH)
    del definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["restarts"]
    await cluster.call("POST", DEFINITIONS, definition)
    await cluster.call("POST", "/api/v1/namespaces", {"metadata": {"name": "kubeflow"}})
    lease = {"holderIdentity": "host_1", "leaseDurationSeconds": 3600, "renewTime": f"{format_time(now)[:-1]}.000000Z"}
    await cluster.call(
        "POST",
        "/apis/coordination.k8s.io/v1/namespaces/kubeflow/leases",
        {"metadata": {"name": "1ca428e5.training-operator.kubeflow.org"}, "spec": lease},
    )
    container = {"name": "operator", "image": "any/jobcommon", "command": ["jobcommon"], "args": ["operator"]}
    labels = {"app": "ours"}
    template = {"metadata": {"labels": labels}, "spec": {"serviceAccountName": "ours", "containers": [container]}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    path = "/apis/apps/v1/namespaces/kubeflow/deployments"
    await cluster.call("POST", path, {"metadata": {"name": "ours"}, "spec": spec})
    for definition in of_kueue():
        await cluster.call("POST", DEFINITIONS, definition)
    await cluster.call("POST", "/api/v1/namespaces", {"metadata": {"name": "kueue-system"}})
    integrations = {"frameworks": ["kubeflow.org/tfjob", "pod"], "externalFrameworks": ["PyTorchJob.v1.kubeflow.org"]}
    data = {"controller_manager_config.yaml": yaml.safe_dump({"integrations": integrations})}
    configuration = {"metadata": {"name": "kueue-manager-config"}, "data": data}
    await cluster.call("POST", "/api/v1/namespaces/kueue-system/configmaps", configuration)


async def findings(kubeconfig: Path, capsys: pytest.CaptureFixture[str], output: str = "json") -> tuple[int, Any]:
    code = await doctor(SERVED, str(kubeconfig), None, output)
    text = capsys.readouterr().out
    return code, json.loads(text) if output == "json" else text


@pytest.mark.cluster
async def test_each_seeded_fault_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    async with cluster_for(operators=False) as cluster:
        kubeconfig.write_text(cluster.cluster.kubeconfig())
        await seed(cluster, time.time())
        code, found = await findings(kubeconfig, capsys)
        assert code == 1
        said = {(one["severity"], one["subject"]) for one in found}
        account = "system:serviceaccount:kubeflow:ours"
        assert said == {
            ("error", "CustomResourceDefinition pytorchjobs.kubeflow.org"),
            ("error", "CustomResourceDefinition tfjobs.kubeflow.org"),
            ("error", "Lease 1ca428e5.training-operator.kubeflow.org in kubeflow"),
            ("error", "Deployment ours in kubeflow"),
            ("error", account),
            ("error", "system:serviceaccount:kueue-system:kueue-controller-manager"),
            ("warning", "Kueue"),
        }
        assert any(one["what"] == "may not get, list, watch, create, delete, patch pods in all namespaces" for one in found)
        code, text = await findings(kubeconfig, capsys, "text")
        assert code == 1
        assert f"{len(found) - 1} errors, 1 warning, 0 notes, 0 not readable" in text
        assert text.count("    fix: ") == len(found)


@pytest.mark.cluster
async def test_a_user_who_may_read_nothing_is_told_what(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    async with cluster_for(PYTORCH, operators=False) as cluster:
        account = "/api/v1/namespaces/default/serviceaccounts"
        await cluster.call("POST", account, {"metadata": {"name": "reader"}})
        token = (await cluster.call("POST", f"{account}/reader/token", {"spec": {"expirationSeconds": 3600}}))["status"][
            "token"
        ]
        config = yaml.safe_load(cluster.cluster.kubeconfig())
        config["users"][0]["user"] = {"token": token}
        kubeconfig.write_text(yaml.safe_dump(config))
        code, found = await findings(kubeconfig, capsys)
        unread = {one["subject"] for one in found if one["severity"] == "unread"}
        assert {"Leases", "Deployments", "batch Jobs", "CustomResourceDefinition pytorchjobs.kubeflow.org"} <= unread
        # What the user may do as the operator is asked of the server, and it is nothing.
        assert any(one["severity"] == "warning" and "may not" in one["what"] for one in found)
        assert code == 0
        config["users"][0]["user"] = {"token": "unknown"}
        kubeconfig.write_text(yaml.safe_dump(config))
        with pytest.raises(UserError, match="does not accept the credentials"):
            await findings(kubeconfig, capsys)
