"""One corpus of spellings: the embedded API server with the CRDs, `plan`, the checks of `run`, and the operator's reading of
what is stored agree on each, whatever the kind and version.

Each row changes a good manifest at one place. What the reference takes is taken, or docs/deviations.md says why not.
"""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from jobcommon.cli.convert_command import convert_file
from jobcommon.cli.errors import UserError
from jobcommon.cli.manifests import load
from jobcommon.cli.plan import describe
from jobcommon.cli.wanted import Wanted
from jobcommon.client.request import Request
from jobcommon.crd import custom_resource_definition
from jobcommon.framework import Framework
from jobcommon.operators.jax import JAX
from jobcommon.operators.mpi import MPI
from jobcommon.operators.mxnet import MXNET
from jobcommon.operators.paddle import PADDLE
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.operators.tf import TF
from jobcommon.operators.xgboost import XGBOOST
from jobcommon.reconcile import read_job
from localcluster import ApiServer, Env
from localcluster.client import ADMIN

KINDS = (PYTORCH, TF, MPI, MXNET, JAX, XGBOOST, PADDLE)
FIRST = {
    "XGBoostJob": "Master", "PyTorchJob": "Master", "PaddleJob": "Master", "MPIJob": "Launcher", "TFJob": "Chief",
    "MXJob": "Scheduler",
}  # fmt: skip
VERSIONS = [(kind, version.name) for kind in KINDS for version in kind.versions]
EXPORTED = {
    "name": "a", "namespace": "default", "uid": "7c1d9f5e-0000-4000-8000-000000000000", "resourceVersion": "12",
    "generation": 3,
    "creationTimestamp": "2024-01-01T00:00:00Z", "selfLink": "/apis/x",
    "managedFields": [{"manager": "kubectl", "operation": "Apply", "fieldsV1": {"f:spec": {}}}],
    "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"},
}  # fmt: skip
STATUS = {
    "conditions": [{"type": "Created", "status": "True", "reason": "JobCreated", "message": "", "lastUpdateTime": None}],
    "replicaStatuses": {"Worker": {"active": 1, "labelSelector": {"matchLabels": {"a": "b"}}, "selector": "a=b"}},
    "startTime": "2024-01-01T00:00:00Z", "lastReconcileTime": None, "completionTime": None,
}  # fmt: skip
# A path ({specs}: the kind's replica specs), its value, and whether it is taken. `W` is a type that every kind has.
W = "spec.{specs}.Worker"
C = f"{W}.template.spec.containers.0"
SPELLINGS: list[tuple[str, Any, bool]] = [
    ("metadata", {"name": "a"}, True),
    ("metadata", {"name": "a", "namespace": None, "labels": None, "annotations": None, "creationTimestamp": None}, True),
    ("metadata", {"generateName": "trial-"}, True),
    ("metadata", {"generateName": "trial-", "name": ""}, True),
    ("metadata", {"generateName": "trial-", "name": None}, True),
    ("metadata", {"generateName": "x" * 70}, False),
    ("metadata", {"generateName": "Trial-"}, False),
    ("metadata", {"name": ""}, False),
    ("metadata", {}, False),
    ("metadata", EXPORTED, True),
    ("status", STATUS, True),
    ("status", {}, True),
    ("status", None, True),
    ("spec", None, False),
    ("spec", {}, False),
    ("spec.runPolicy", None, True),
    ("spec.runPolicy", {}, True),
    ("spec.runPolicy", "", False),
    *((f"spec.runPolicy.{name}", None, True) for name in (
        "cleanPodPolicy", "ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit", "suspend", "managedBy",
        "schedulingPolicy", "restartScope", "restartMethod", "keepFailedLogs", "reportProgress",
    )),
    ("spec.runPolicy.cleanPodPolicy", "", True),
    ("spec.runPolicy.backoffLimit", 0, True),
    ("spec.runPolicy.ttlSecondsAfterFinished", 0, True),
    ("spec.runPolicy.activeDeadlineSeconds", 0, False),
    ("spec.runPolicy.backoffLimit", "", False),
    ("spec.runPolicy.suspend", "", False),
    ("spec.runPolicy.schedulingPolicy", {}, True),
    ("spec.runPolicy.schedulingPolicy", {"queue": "", "priorityClass": "", "minResources": None, "minAvailable": None}, True),
    ("spec.runPolicy.schedulingPolicy.minResources", {"cpu": None}, True),
    ("spec.runPolicy.schedulingPolicy.minAvailable", 0, False),
    ("spec.{specs}", None, False),
    ("spec.{specs}", {}, False),
    (f"{W}.replicas", None, True),
    (f"{W}.replicas", "", False),
    (f"{W}.restartPolicy", None, True),
    (f"{W}.restartPolicy", "", True),
    (f"{W}.restartPolicy", "never", False),
    (f"{W}.overrides", None, True),
    (f"{W}.overrides", [], True),
    (f"{W}.overrides", [{"indices": [0], "template": {"spec": {"nodeSelector": {"a": None}}}}], True),
    (f"{W}.template", None, False),
    (f"{W}.template.metadata", None, True),
    (f"{W}.template.metadata", {"name": "mine", "creationTimestamp": None, "labels": None}, True),
    (f"{W}.template.spec.restartPolicy", "Never", True),
    (f"{W}.template.spec.restartPolicy", None, True),
    (f"{W}.template.spec.containers", None, False),
    *((f"{W}.template.spec.{name}", None, True) for name in (
        "volumes", "initContainers", "nodeSelector", "affinity", "tolerations", "imagePullSecrets", "securityContext",
        "serviceAccountName", "terminationGracePeriodSeconds", "dnsConfig", "hostNetwork",
    )),
    *((f"{C}.{name}", None, True) for name in (
        "command", "args", "env", "envFrom", "ports", "resources", "volumeMounts", "imagePullPolicy", "securityContext",
    )),
    *((f"{C}.{name}", [], True) for name in ("command", "args", "env", "envFrom", "ports", "volumeMounts")),
    (f"{C}.env", [{"name": "A", "value": None}, {"name": "B"}, {"name": "C", "value": ""}], True),
    (f"{C}.env", [None], False),
    (f"{C}.env", [{"name": None, "value": "x"}], False),
    (f"{C}.command", ["sleep", None], False),
    (f"{C}.command", ["sleep", 3], False),
    (f"{C}.command", "", False),
    (f"{C}.resources", {"limits": {"nvidia.com/gpu": None}, "requests": None}, True),
    (f"{C}.resources", {"limits": {"nvidia.com/gpu": ""}}, False),
    (f"{C}.resources", {"limits": {"nvidia.com/gpu": 0}}, True),
    ("spec.unknown", None, False),
]  # fmt: skip
OF_KIND: list[tuple[Framework, str, Any, bool]] = [
    (PYTORCH, f"{W}.replicas", 0, True),
    (PYTORCH, "spec.{specs}", {"Worker": {"replicas": 0}}, False),
    (PYTORCH, W, None, True),
    (JAX, W, None, False),
    (PYTORCH, "spec.elasticPolicy", None, True),
    (PYTORCH, "spec.elasticPolicy", {"rdzvHost": "", "rdzvId": None, "minReplicas": None, "metrics": None}, True),
    (PYTORCH, "spec.nprocPerNode", None, True),
    (PYTORCH, "spec.nprocPerNode", "", False),
    (TF, f"{W}.replicas", 0, True),
    (TF, "spec.successPolicy", "", True),
    (TF, "spec.successPolicy", None, True),
    (TF, "spec.enableDynamicWorker", None, True),
    (XGBOOST, f"{W}.replicas", 0, True),
    (MPI, f"{W}.replicas", 0, False),
    (MPI, "spec.slotsPerWorker", None, True),
    (MPI, "spec.mpiImplementation", None, True),
    (MPI, "spec.{specs}.Launcher.restartPolicy", "", True),
    (JAX, f"{W}.replicas", 0, False),
    (PADDLE, f"{W}.replicas", 0, False),
    (PADDLE, "spec.elasticPolicy", None, True),
    (MXNET, f"{W}.replicas", 0, False),
]
# All versions of a kind have the same replica specs.
ROWS = [
    (kind, version, *row)
    for kind, version in VERSIONS
    for row in SPELLINGS
    if version == kind.storage_version or not row[0].startswith(W)
]
ROWS += [(kind, kind.storage_version, *row) for kind, *row in OF_KIND]  # type: ignore[misc]


@pytest.fixture(scope="module")
def server() -> ApiServer:
    server = ApiServer(Env.system())
    for kind in KINDS:
        body = msgspec.json.encode(custom_resource_definition(kind))
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        assert server.handle(Request("POST", path, body=body), user=ADMIN).status == 201
    return server


def good(kind: Framework, version: str) -> dict[str, Any]:
    """One replica of the first type and two workers, but for the kinds of a single leading type."""
    container = {"name": kind.container or "main", "image": "x"}
    replica = {"replicas": 2, "template": {"spec": {"containers": [container]}}}
    first = FIRST.get(kind.kind)
    return {
        "apiVersion": f"{kind.group}/{version}",
        "kind": kind.kind,
        "metadata": {"name": "a"},
        "spec": {
            **({"jobMode": "MXTrain"} if kind is MXNET else {}),
            kind.replica_specs: {**({first: {**replica, "replicas": 1}} if first else {}), "Worker": replica},
        },
    }


def spelt(kind: Framework, version: str, path: str, value: Any) -> dict[str, Any]:
    manifest = deepcopy(good(kind, version))
    put(manifest, path.format(specs=kind.replica_specs), value)
    return manifest


def put(manifest: dict[str, Any], path: str, value: Any) -> None:
    node: Any = manifest
    *above, last = path.split(".")
    for part in above:
        node = node[int(part)] if isinstance(node, list) else node.setdefault(part, {})
    node[last] = deepcopy(value)


def stored(server: ApiServer, kind: Framework, manifest: dict[str, Any]) -> dict[str, Any] | None:
    """What `kubectl create --dry-run=server` gets for it; None if it is refused."""
    sent = {**manifest, "metadata": {k: v for k, v in (manifest["metadata"] or {}).items() if k != "resourceVersion"}}
    path = f"/apis/{sent['apiVersion']}/namespaces/default/{kind.plural}"
    request = Request("POST", path, (("dryRun", "All"), ("fieldValidation", "Strict")), msgspec.json.encode(sent))
    answer = server.handle(request, user=ADMIN)
    return msgspec.json.decode(answer.body) if answer.status == 201 else None


@pytest.mark.parametrize(
    ("kind", "version", "path", "value", "taken"),
    ROWS,
    ids=[f"{row[0].kind}-{row[1]}-{row[2]}-{number}" for number, row in enumerate(ROWS)],
)
def test_a_spelling_is_taken_everywhere_or_nowhere(
    server: ApiServer, tmp_path: Path, kind: Framework, version: str, path: str, value: Any, taken: bool
) -> None:
    manifest = spelt(kind, version, path, value)
    kept = stored(server, kind, manifest)
    (file := tmp_path / "job.json").write_text(json.dumps(manifest))

    def refusal(check: Any) -> str | None:
        try:
            check(load([str(file)]))
        except UserError as error:
            return str(error)
        return None

    planned = refusal(lambda found: describe(found, (), with_manifests=False))
    run = refusal(lambda found: Wanted.of(found, "default"))
    assert {"server": kept is not None, "plan": planned is None, "run": run is None} == {
        "server": taken, "plan": taken, "run": taken,
    }, (planned, run)  # fmt: skip
    if kept is not None:
        assert read_job(kind, kept).errors == ()


@pytest.mark.parametrize(("host", "unknown"), [("a-worker-0.a-worker", True), ("a-worker-0", False), ("a-worker-0.a", False)])
def test_plan_warns_of_an_address_that_no_pod_has(tmp_path: Path, host: str, unknown: bool) -> None:
    manifest = spelt(MPI, "v2beta1", "spec.{specs}.Launcher.template.spec.containers.0.command", ["ping", host])
    (file := tmp_path / "job.json").write_text(json.dumps(manifest))
    said = describe(load([str(file)]), (), with_manifests=False)
    assert (f"warning: {host} does not resolve: write a-worker-0, or a-worker-0.a" in said) is unknown


@pytest.mark.parametrize(
    ("path", "value", "taken"),
    [
        ("metadata", {"generateName": "trial-"}, True),
        ("metadata", {}, False),
        ("metadata", EXPORTED, True),
        ("status", {"launcherStatus": None}, True),
        *((f"spec.{name}", None, True) for name in ("replicas", "slotsPerWorker", "backoffLimit", "activeDeadlineSeconds")),
        ("spec.gpus", None, False),
        ("spec.template.metadata", None, True),
        ("spec.template.spec.volumes", None, True),
        ("spec.template.spec.containers.0.resources", {"limits": {"nvidia.com/gpu": None}}, True),
        ("spec.template.spec.containers.0.command", None, True),
    ],
)
def test_what_convert_makes_of_a_flat_mpijob_is_taken(
    server: ApiServer, tmp_path: Path, path: str, value: Any, taken: bool
) -> None:
    template = {"spec": {"containers": [{"name": "main", "image": "x"}]}}
    flat: dict[str, Any] = {"apiVersion": "kubeflow.org/v1alpha1", "kind": "MPIJob", "metadata": {"name": "a"}}
    flat["spec"] = {"gpus": 2, "template": template}
    put(flat, path, value)
    (file := tmp_path / "job.json").write_text(json.dumps(flat))
    try:
        made = yaml.safe_load(convert_file(str(file), name=None, image=None))
    except UserError:
        made = None
    assert (made is not None and stored(server, MPI, made) is not None) is taken
    try:
        assert Wanted.of(load([str(file)]), "default").jobs
    except UserError:
        assert not taken
