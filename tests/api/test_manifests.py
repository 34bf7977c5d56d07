"""One corpus of manifests: the embedded API server with the definitions, `plan`, the checks of `run`, and the operator's
reading of what is stored agree on each, whatever the kind and version; and a refusal names the field and says what is wrong.

Each row changes a good manifest at one place. What the reference takes is taken, or docs/deviations.md says why not. What the
schema and its rules cannot see (two containers of one name) is found by `jobcommon.spec.validation` or by the API server
when the pod is created; see test_poison.
"""

import json
import os
from copy import deepcopy
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jobcommon.cli.errors import UserError
from jobcommon.cli.manifests import load
from jobcommon.cli.plan import describe
from jobcommon.cli.wanted import Wanted
from jobcommon.client.request import Request
from jobcommon.crd import custom_resource_definition, field_errors
from jobcommon.framework import Framework
from jobcommon.operators.jax import JAX
from jobcommon.operators.mpi import MPI
from jobcommon.operators.mxnet import MXNET
from jobcommon.operators.paddle import PADDLE
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.operators.tf import TF
from jobcommon.operators.xgboost import XGBOOST
from jobcommon.spec import read_job
from jobcommon.testutil.builders import job_manifest
from localcluster import ApiServer, Env
from localcluster.client import ADMIN
from localcluster.rules import compile_schema
from tests.kinds import KINDS

# What is the same for all kinds is tried on one of each form: one version, two, three with defaults of their own.
GOLDEN = Path(__file__).parents[1] / "golden" / "errors_of_kinds.txt"
FORMS = (PYTORCH, MXNET, MPI)
FIRST = {
    "XGBoostJob": "Master", "PyTorchJob": "Master", "PaddleJob": "Master", "MPIJob": "Launcher", "TFJob": "Chief",
    "MXJob": "Scheduler",
}  # fmt: skip
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
RECOVERY = {
    "reportProgress": True, "progressDeadlineSeconds": 60, "progressStartDeadlineSeconds": 99, "activeDeadlineSeconds": 999,
    "restartScope": "Job", "restartMethod": "Auto", "stallAction": "Restart", "evaluationSeconds": 5,
    "maxRestartsWithoutProgress": 2, "nodeLossSeconds": 30, "avoidFailedNodes": False, "keepFailedLogs": True,
    "pendingDeadlineSeconds": 60, "pendingDeadlineAction": "Fail",
}  # fmt: skip
ABSENT = object()
NAME_FORM = "metadata.name must have at most 63 lower case letters, digits and '-', beginning with a letter"
W = "spec.{specs}.Worker"
CS = f"{W}.template.spec.containers"
C = f"{CS}.0"
P = "spec.runPolicy"
#: a path ({specs}: the kind's replica specs), its value, and "" if it is taken, or what the API server says of it
EVERY: list[tuple[str, Any, str]] = [
    ("metadata", {"name": "a"}, ""),
    ("metadata", {"name": "a", "namespace": None, "labels": None, "annotations": None, "creationTimestamp": None}, ""),
    ("metadata", {"generateName": "trial-"}, ""),
    ("metadata", {"generateName": "trial-", "name": ""}, ""),
    ("metadata", {"generateName": "x" * 70}, "metadata"),
    ("metadata", {"name": ""}, "name or generateName is required"),
    ("metadata", EXPORTED, ""),
    ("metadata.name", "a" * 64, NAME_FORM),
    ("metadata.name", "a.b", NAME_FORM),
    ("metadata.name", "Job", "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters"),
    ("metadata.name", "a" * 60, "and may have 63 characters; a name of "),
    ("status", STATUS, ""),
    ("status", None, ""),
    ("spec", ABSENT, "spec: Required value"),
    ("spec", {}, "spec.{specs}: Required value"),
    ("spec.unknown", None, 'unknown field "spec.unknown"'),
    ("spec.{specs}", ABSENT, "spec.{specs}: Required value"),
    ("spec.{specs}", {}, "spec.{specs} in body should have at least 1 properties"),
    ("spec.{specs}", {"Boss": {"template": {}}}, "replica types are "),
    (P, None, ""),
    (P, RECOVERY, ""),
    *((f"{P}.{name}", None, "") for name in (
        "cleanPodPolicy", "ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit", "suspend", "managedBy",
        "schedulingPolicy", "restartScope", "restartMethod", "keepFailedLogs", "reportProgress",
    )),
    (f"{P}.cleanPodPolicy", "", ""),
    (f"{P}.cleanPodPolicy", "Some", f'{P}.cleanPodPolicy: Unsupported value: "Some"'),
    (f"{P}.backoffLimit", -1, f"{P}.backoffLimit in body should be greater than or equal to 0"),
    (f"{P}.ttlSecondsAfterFinished", 0, ""),
    (f"{P}.activeDeadlineSeconds", 0, f"{P}.activeDeadlineSeconds in body should be greater"),
    (f"{P}.suspend", "yes", f"{P}.suspend in body must be of type boolean"),
    (f"{P}.schedulingPolicy", {"queue": "", "priorityClass": "", "minResources": None, "minAvailable": None}, ""),
    (f"{P}.schedulingPolicy.minResources", {"cpu": None}, ""),
    (f"{P}.schedulingPolicy.minAvailable", 0, "minAvailable must be at least 1"),
    (f"{P}.restartScope", "Gang", f'{P}.restartScope: Unsupported value: "Gang"'),
    (f"{W}.replicas", None, ""),
    (f"{W}.replicas", "3", f"{W}.replicas in body must be of type integer"),
    (f"{W}.replicas", -1, f"{W}.replicas in body should be greater than or equal to 0"),
    (f"{W}.replicas", 10**9, f"{W}.replicas in body should be less than or equal to 10000"),
    (f"{W}.restartPolicy", None, ""),
    (f"{W}.restartPolicy", "", ""),
    (f"{W}.restartPolicy", "never", 'supported values: "Always", "OnFailure", "Never", "ExitCode"'),
    (f"{W}.overrides", [], ""),
    (f"{W}.overrides", [{"indices": [0], "template": {"spec": {"nodeSelector": {"a": None}}}}], ""),
    (f"{W}.overrides", [{"template": {}}], f"{W}.overrides[0].indices: Required value"),
    (f"{W}.overrides", [{"indices": [-1], "template": {}}], f"{W}.overrides[0].indices[0] in body should be greater"),
    (f"{W}.template", ABSENT, f"{W}.template: Required value"),
    (f"{W}.template.metadata", None, ""),
    (f"{W}.template.metadata", {"name": "mine", "creationTimestamp": None, "labels": None}, ""),
    (f"{W}.template.spec.restartPolicy", "Never", ""),
    (f"{W}.template.spec.overhead", {"cpu": "lots"}, f"{W}.template.spec.overhead.cpu in body should match"),
    *((f"{W}.template.spec.{name}", None, "") for name in (
        "volumes", "initContainers", "nodeSelector", "affinity", "tolerations", "imagePullSecrets", "securityContext",
        "serviceAccountName", "terminationGracePeriodSeconds", "dnsConfig", "hostNetwork",
    )),
    (CS, ABSENT, f"{CS}: Required value"),
    (CS, [], f"{CS} in body should have at least 1 items"),
    *((f"{C}.{name}", None, "") for name in (
        "command", "args", "env", "envFrom", "ports", "resources", "volumeMounts", "imagePullPolicy", "securityContext",
    )),
    *((f"{C}.{name}", [], "") for name in ("command", "args", "env", "envFrom", "ports", "volumeMounts")),
    (f"{C}.image", 3, f"{CS}[0].image in body must be of type string"),
    (f"{C}.env", [{"name": "A", "value": None}, {"name": "B"}, {"name": "C", "value": ""}], ""),
    (f"{C}.env", [{"name": None, "value": "x"}], f"{CS}[0].env[0].name: Required value"),
    (f"{C}.command", ["sleep", 3], f"{CS}[0].command[1] in body must be of type string"),
    (f"{C}.command", "python x.py", f"{CS}[0].command in body must be of type array"),
    (f"{C}.resources", {"limits": {"nvidia.com/gpu": None}, "requests": None}, ""),
    (f"{C}.resources", {"limits": {"nvidia.com/gpu": ""}}, f"{CS}[0].resources.limits.nvidia.com/gpu in body should match"),
    (f"{C}.resources", {"limits": {"cpu": "1x"}}, f"{CS}[0].resources.limits.cpu in body should match"),
    (f"{C}.resources", {"limits": {"cpu": "1e1.5"}}, f"{CS}[0].resources.limits.cpu in body should match"),
    (f"{C}.ports", [{"containerPort": 0}], f"{CS}[0].ports[0].containerPort in body should be greater"),
]  # fmt: skip
# MAIN stands for the name of the kind's main container.
TWO = {"replicas": 2, "template": {"spec": {"containers": [{"name": "MAIN", "image": "x"}]}}}
ONE = {**TWO, "replicas": 1}
PAIR = {"pytorchReplicaSpecs": {"Master": ONE, "Worker": ONE}}
TOGETHER = {"elasticPolicy": {"minReplicas": 1, "maxReplicas": 2}, "runPolicy": {"restartScope": "Job"}}
OF_KIND: list[tuple[Framework, str, Any, str]] = [
    (PYTORCH, f"{C}.name", "other", 'one container must be named "pytorch"'),
    (PYTORCH, f"{W}.replicas", 0, ""),
    (PYTORCH, "spec.{specs}", {"Worker": {**TWO, "replicas": 0}}, "Worker must have at least 1 replica"),
    (PYTORCH, W, None, ""),
    (PYTORCH, "spec.{specs}.Master", TWO, "Master must have exactly 1 replica"),
    (PYTORCH, "spec.elasticPolicy", None, ""),
    (PYTORCH, "spec.elasticPolicy", {"rdzvHost": "", "rdzvId": None, "minReplicas": None, "metrics": None}, ""),
    (PYTORCH, "spec.elasticPolicy", {"minReplicas": 3, "maxReplicas": 1}, "minReplicas must not exceed maxReplicas"),
    (PYTORCH, "spec.nprocPerNode", "", 'nprocPerNode must be "auto"'),
    (PYTORCH, "spec.nprocPerNode", "many", 'nprocPerNode must be "auto", "cpu", "gpu", "xpu", "npu" or a number in quotes'),
    (TF, f"{W}.replicas", 0, ""),
    (TF, "spec.successPolicy", "", ""),
    (TF, "spec.successPolicy", "Most", 'supported values: "", "AllWorkers"'),
    (TF, "spec.enableDynamicWorker", None, ""),
    (TF, "spec.{specs}.Chief", TWO, "Chief must have at most 1 replica"),
    (TF, "spec.{specs}", {"Chief": ONE, "Master": ONE}, "Chief and Master are the same role: remove one of them"),
    (MXNET, f"{W}.replicas", 0, "Worker must have at least 1 replica"),
    (MXNET, "spec.jobMode", "MXDance", 'supported values: "MXTrain", "MXTune"'),
    (MXNET, "spec.{specs}.Scheduler", TWO, "Scheduler must have at most 1 replica"),
    (MPI, f"{W}.replicas", 0, "Worker must have at least 1 replica"),
    (MPI, "spec.{specs}.Launcher", TWO, "Launcher must have exactly 1 replica"),
    (MPI, "spec.{specs}.Launcher.restartPolicy", "", ""),
    (MPI, "spec.{specs}.Launcher.restartPolicy", "Always", "the restartPolicy of Launcher must be one of OnFailure, Never"),
    (MPI, f"{P}.managedBy", "kubeflow.org/mpi-operator", ""),
    (MPI, "metadata.name", "m" * (63 - len("-worker-1")), ""),
    (MPI, "metadata.name", "m" * (64 - len("-worker-1")), "and may have 63 characters; a name of "),
    (MPI, f"{CS}", [{"name": "", "image": "i"}], "a container must have a name"),
    (MPI, "spec.mpiImplementation", "LAM", 'supported values: "OpenMPI", "Intel", "MPICH"'),
    (MPI, "spec.slotsPerWorker", -1, "spec.slotsPerWorker in body should be greater than or equal to 1"),
    (MPI, "spec.launcherCreationPolicy", "Whenever", 'supported values: "AtStartup", "WaitForWorkersReady"'),
    (MPI, "spec.sshAuthMountPath", "root/.ssh", "sshAuthMountPath must be an absolute path"),
    (XGBOOST, f"{W}.replicas", 0, ""),
    (JAX, W, None, "in body should have at least 1 properties"),
    (JAX, f"{W}.replicas", 0, "Worker must have at least 1 replica"),
    (PADDLE, f"{W}.replicas", 0, "Worker must have at least 1 replica"),
    (PADDLE, "spec.elasticPolicy", None, ""),
    (PYTORCH, "spec.elasticPolicy", {"minReplicas": "x"}, "must be of type integer"),
    (PYTORCH, "spec", {"elasticPolicy": {}, "pytorchReplicaSpecs": {"Master": ONE}}, "elasticPolicy applies to workers"),
    (PYTORCH, "spec", {"nprocPerNode": "1", "elasticPolicy": {"nProcPerNode": 1}, **PAIR}, "nProcPerNode"),
    (PYTORCH, "spec.nprocPerNode", 2, "spec.nprocPerNode in body must be of type string"),
    (MXNET, "spec.{specs}", {"Scheduler": ONE}, "needs a Worker"),
    (MXNET, "spec", {"jobMode": "MXTune", "mxReplicaSpecs": {"Worker": ONE}}, "needs a Tuner"),
    (MXNET, "spec", {"jobMode": "MXTune", "mxReplicaSpecs": {"Worker": ONE, "Tuner": ONE}}, "may only have"),
    (PADDLE, "spec.elasticPolicy", {"minReplicas": 0}, "greater than or equal to 1"),
    (XGBOOST, "spec.{specs}.Master", TWO, "Master must have exactly 1 replica"),
    (MPI, "spec.transport", "RSH", "Unsupported value"),
    (MPI, f"{W}.restartPolicy", "Invalid", "Unsupported value"),
    (MPI, "spec.{specs}", {"Launcher": {}, "Worker": {}}, "Required value"),
]
#: What the definitions take, and the operator does not.
ALONE: list[tuple[Framework, str, Any, str]] = [
    (XGBOOST, "spec.{specs}", {"Worker": ONE}, "needs a Master"),
    (MPI, "spec.mpiDistribution", "LAM", "not supported"),
]
# All versions of a kind have the same replica specs.
ROWS = [
    (kind, version.name, *row)
    for kind in FORMS
    for version in kind.versions
    for row in EVERY
    if version.storage or not row[0].startswith(W)
]
ROWS += [(kind, kind.storage_version, *row) for kind, *row in OF_KIND]

PENDING = {"pendingDeadlineSeconds": 60, "pendingDeadlineAction": "Restart"}
REPORTS, WATCHED = {"reportProgress": True}, {"reportProgress": True, "progressDeadlineSeconds": 60}
#: Of runPolicy: fields that exclude each other, or one that is missing; the field that is named, and the remedy.
RUN_POLICIES: list[tuple[dict[str, Any], str, str]] = [
    ({"progressDeadlineSeconds": 60}, "progressDeadlineSeconds", "needs reportProgress: true"),
    ({"progressStartDeadlineSeconds": 60}, "progressStartDeadlineSeconds", "needs reportProgress: true"),
    ({**WATCHED, "reportProgress": False}, "progressDeadlineSeconds", "needs reportProgress: true"),
    ({**REPORTS, "evaluationSeconds": 9}, "evaluationSeconds", "needs progressDeadlineSeconds"),
    ({**REPORTS, "stallAction": "Fail"}, "stallAction", "needs progressDeadlineSeconds or"),
    ({"maxRestartsWithoutProgress": 1}, "maxRestartsWithoutProgress", "needs reportProgress: true"),
    ({"pendingDeadlineAction": "Fail"}, "pendingDeadlineAction", "needs pendingDeadlineSeconds"),
    ({**WATCHED, "stallAction": "Restart"}, "stallAction", "set restartScope to Job, or"),
    (PENDING, "pendingDeadlineAction", "set restartScope to Job, or"),
    ({"restartMethod": "Auto"}, "restartMethod", "set restartScope to Job, or"),
    ({"restartScope": "Pod", "restartMethod": "Auto"}, "restartMethod", "set restartScope to Job, or"),
    ({**PENDING, "restartScope": "Job", "restartMethod": "Auto"}, "pendingDeadlineAction", "use Recreate, or Fail"),
    ({**WATCHED, "activeDeadlineSeconds": 60}, "progressDeadlineSeconds", "must be less than"),
    ({**REPORTS, "progressStartDeadlineSeconds": 99, "activeDeadlineSeconds": 60},
     "progressStartDeadlineSeconds", "must be less than"),
    ({"pendingDeadlineSeconds": 60, "activeDeadlineSeconds": 60}, "pendingDeadlineSeconds", "must be less than"),
]  # fmt: skip


@pytest.fixture(scope="module")
def server() -> ApiServer:
    server = ApiServer(Env.system())
    for kind in KINDS:
        body = msgspec.json.encode(custom_resource_definition(kind))
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        assert server.handle(Request("POST", path, body=body), user=ADMIN).status == 201
    return server


def good(kind: Framework, version: str = "") -> dict[str, Any]:
    """One replica of the first type and two workers, but for the kinds of a single leading type."""
    container = {"name": kind.container or "main", "image": "x"}
    replica = {"replicas": 2, "template": {"spec": {"containers": [container]}}}
    first = FIRST.get(kind.kind)
    return {
        "apiVersion": f"{kind.group}/{version or kind.storage_version}",
        "kind": kind.kind,
        "metadata": {"name": "a"},
        "spec": {
            **({"jobMode": "MXTrain"} if kind is MXNET else {}),
            kind.replica_specs: {**({first: {**replica, "replicas": 1}} if first else {}), "Worker": replica},
        },
    }


def changed(kind: Framework, version: str, path: str, value: Any) -> dict[str, Any]:
    manifest = deepcopy(good(kind, version))
    if value is not ABSENT:
        value = json.loads(json.dumps(value).replace('"MAIN"', f'"{kind.container or "main"}"'))
    put(manifest, path.format(specs=kind.replica_specs), value)
    return manifest


def put(manifest: dict[str, Any], path: str, value: Any) -> None:
    """Set what stands at a dotted path, or take it out."""
    node: Any = manifest
    *above, last = path.split(".")
    for part in above:
        node = node[int(part)] if isinstance(node, list) else node.setdefault(part, {})
    if value is ABSENT:
        del node[last]
    else:
        node[last] = deepcopy(value)


def sent(server: ApiServer, kind: Framework, manifest: dict[str, Any]) -> tuple[int, Any]:
    """What `kubectl create --dry-run=server` gets for it."""
    body = {**manifest, "metadata": {k: v for k, v in (manifest["metadata"] or {}).items() if k != "resourceVersion"}}
    path = f"/apis/{body['apiVersion']}/namespaces/default/{kind.plural}"
    request = Request("POST", path, (("dryRun", "All"), ("fieldValidation", "Strict")), msgspec.json.encode(body))
    answer = server.handle(request, user=ADMIN)
    return answer.status, msgspec.json.decode(answer.body)


@pytest.mark.no_cover
@pytest.mark.parametrize(
    ("kind", "version", "path", "value", "refused"),
    ROWS,
    ids=[f"{row[0].kind}-{row[1]}-{row[2]}-{number}" for number, row in enumerate(ROWS)],
)
def test_a_manifest_is_taken_everywhere_or_nowhere(
    server: ApiServer, tmp_path: Path, kind: Framework, version: str, path: str, value: Any, refused: str
) -> None:
    manifest = changed(kind, version, path, value)
    code, answer = sent(server, kind, manifest)
    (file := tmp_path / "job.json").write_text(json.dumps(manifest))

    def refusal(check: Any) -> str | None:
        try:
            check(load([str(file)]))
        except UserError as error:
            return str(error)
        return None

    planned = refusal(lambda found: describe(found, with_manifests=False))
    run = refusal(lambda found: Wanted.of(found, "default"))
    assert (code < 300, planned is None, run is None) == (not refused,) * 3, (answer, planned, run)
    if refused:
        assert refused.format(specs=kind.replica_specs) in answer["message"]
    else:
        assert read_job(kind, answer).errors == ()


def test_the_operator_names_the_field_and_says_what_to_change() -> None:
    """Of what an older definition has let in."""
    told = []
    for kind, path, value, refused in [*((PYTORCH, *row) for row in EVERY), *OF_KIND, *ALONE]:
        if refused:
            shown = "absent" if value is ABSENT else str(value)[:80]
            told.append(f"{kind.kind} {path.format(specs=kind.replica_specs)} {shown}\n")
            told += [f"    {error}\n" for error in read_job(kind, changed(kind, "", path, value)).errors]
    text = "".join(told)
    if os.environ.get("GOLDEN") == "write":
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8"), "if this is meant: make golden"


@pytest.mark.parametrize(
    ("policy", "field", "remedy"), RUN_POLICIES, ids=[f"{field} {number}" for number, (_, field, _) in enumerate(RUN_POLICIES)]
)
def test_a_run_policy_that_contradicts_itself_is_refused(
    server: ApiServer, policy: dict[str, Any], field: str, remedy: str
) -> None:
    """By the definition, and by the operator where an older definition has let it in."""
    manifest = changed(PYTORCH, "", P, policy)
    code, answer = sent(server, PYTORCH, manifest)
    assert code == 422
    assert f"{P}.{field}: Invalid value" in answer["message"]
    assert remedy in answer["message"]
    (error,) = read_job(PYTORCH, manifest).errors
    assert error.path == f"{P}.{field}"
    assert remedy in error.message


def test_a_job_whose_workers_torchrun_restarts_is_not_restarted_as_a_whole(server: ApiServer) -> None:
    manifest = good(PYTORCH)
    manifest["spec"] |= TOGETHER
    code, answer = sent(server, PYTORCH, manifest)
    assert (code, "set restartScope to Pod, or remove elasticPolicy" in answer["message"]) == (422, True)
    assert [error.path for error in read_job(PYTORCH, manifest).errors] == [f"{P}.restartScope"]


@pytest.mark.parametrize(
    ("manager", "refused"),
    [
        ("kueue.x-k8s.io/multikueue", ""),
        ("me", "managedBy must be one of 'kubeflow.org/training-operator', 'kueue.x-k8s.io/multikueue'"),
    ],
)
@pytest.mark.parametrize("kind", FORMS, ids=lambda kind: kind.kind)
def test_a_job_that_another_runs_is_stored(server: ApiServer, kind: Framework, manager: str, refused: str) -> None:
    code, answer = sent(server, kind, changed(kind, "", f"{P}.managedBy", manager))
    assert (code, refused in answer.get("message", "")) == (422 if refused else 201, True)


OPERATOR, MULTIKUEUE = "kubeflow.org/training-operator", "kueue.x-k8s.io/multikueue"
#: a field, what it is, what it cannot become, and the reason; of the transport the keys or rights would be left behind
#: Without a reason it can, as in mpi-operator.
IMMUTABLE: list[tuple[Framework, str, object, str, str]] = [
    *(
        (kind, path, old, new, text)
        for kind in FORMS
        for path, old, new, text in (
            (f"{P}.managedBy", MULTIKUEUE, OPERATOR, "managedBy cannot be changed"),
            (f"{P}.managedBy", ABSENT, MULTIKUEUE, "managedBy cannot be changed"),
            (f"{P}.schedulingPolicy.queue", "one", "test", "" if kind is MPI else f"{P}.schedulingPolicy.queue is immutable"),
        )
    ),
    (MPI, "spec.transport", "SSH", "Exec", "transport cannot be changed"),
    (MPI, "spec.transport", "Exec", "SSH", "transport cannot be changed"),
    (MPI, "spec.transport", ABSENT, "Exec", "transport cannot be changed"),
]


@pytest.mark.parametrize(("kind", "path", "old", "new", "text"), IMMUTABLE)
def test_immutable_fields_cannot_be_changed(
    server: ApiServer, request: pytest.FixtureRequest, kind: Framework, path: str, old: object, new: str, text: str
) -> None:
    before, name = good(kind), f"job-{abs(hash(request.node.name))}"
    before["metadata"]["name"] = name
    if old is not ABSENT:
        put(before, path, old)
    collection = f"/apis/{kind.api_version}/namespaces/default/{kind.plural}"
    created = server.handle(Request("POST", collection, body=msgspec.json.encode(before)), user=ADMIN)
    after = msgspec.json.decode(created.body)
    put(after, path, new)
    refused = server.handle(Request("PUT", f"{collection}/{name}", body=msgspec.json.encode(after)), user=ADMIN)
    assert refused.status == (422 if text else 200)
    assert text in msgspec.json.decode(refused.body).get("message", "")


# -- What `jobcommon plan` refuses beyond what the operator would: as an API server with strict field validation does

WORKER = "spec.pytorchReplicaSpecs[Worker]"
MAIN = "template.spec.containers.0"
CASES: list[tuple[str, Any, str]] = [
    ("replica", 2, f'{WORKER}.replica: unknown field; did you mean "replicas"?'),
    (f"{MAIN}.imagePullPolcy", "Always", '[0].imagePullPolcy: unknown field; did you mean "imagePullPolicy"?'),
    (f"{MAIN}.env", [{"name": "A", "value": 1}], f"{WORKER}.template.spec.containers[0].env[0].value: must be text, in quotes"),
    (f"{MAIN}.resources", {"limits": {"memory": "4GB"}}, 'limits[memory]: "4GB" is not a quantity; write a number'),
    (f"{MAIN}.resources", {"limits": {"cpu": True}}, "limits[cpu]: must be a whole number, or text in quotes"),
    (f"{MAIN}.ports", [{"containerPort": 70000}], "ports[0].containerPort: must be at most 65535"),
    (f"{MAIN}.ports", [{"name": "x"}], "ports[0].containerPort: Required value"),
    (f"{MAIN}.tty", "yes", "tty: must be true or false"),
    ("template.metadata", {"label": {}}, 'template.metadata.label: unknown field; did you mean "labels"?'),
    ("template.spec.nodeSelector", {"a": 1}, "nodeSelector[a]: must be text, in quotes"),
    ("template.spec.containers", [{"name": "pytorch", "image": "x"}] * 101, "containers: must have at most 100 entries"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "says"), CASES, ids=[f"{n}-{case[0]}" for n, case in enumerate(CASES)])
def test_fields_that_an_api_server_refuses_are_errors(path: str, value: Any, says: str) -> None:
    manifest = changed(PYTORCH, "", f"{W}.{path}", value)
    found = [str(error) for error in field_errors(PYTORCH, manifest)]
    assert any(says in error for error in found), found
    compiled = compile_schema(custom_resource_definition(PYTORCH)["spec"]["versions"][0])
    pruned = deepcopy(manifest)
    assert compiled.prune(pruned) or compiled.validate(pruned), "the embedded server takes it"


def test_the_rest_of_an_object() -> None:
    manifest = job_manifest(MPI, {"Launcher": 1, "Worker": 1})
    assert field_errors(MPI, manifest) == []
    for version in ("v1", "v1alpha2"):
        assert field_errors(MPI, {**manifest, "apiVersion": f"kubeflow.org/{version}"}) == []
    (error,) = field_errors(MPI, {**manifest, "apiVersion": "kubeflow.org/v2"})
    assert str(error) == (
        'apiVersion: "kubeflow.org/v2" has no MPIJob; use kubeflow.org/v2beta1 or kubeflow.org/v1 or kubeflow.org/v1alpha2'
    )
    odd = {**manifest, "specs": {}, "metadata": {**manifest["metadata"], "label": {}, "labels": {"a": 1}}, "status": {"x": 1}}
    assert sorted(str(error) for error in field_errors(MPI, odd)) == [
        'metadata.label: unknown field; did you mean "labels"?',
        "metadata.labels[a]: must be text, in quotes",
        'specs: unknown field; did you mean "spec"?',
    ]
