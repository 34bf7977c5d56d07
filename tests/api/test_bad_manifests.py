"""Bad manifests are refused when they are applied, each with a message that names the field and says what is wrong.

The same rows for every kind, then each kind's own. What the schema and its rules cannot see (two containers of one name) is
found by `jobcommon.reconcile.validation` or by the API server when the pod is created; see test_poison.
"""

from copy import deepcopy
from typing import Any

import msgspec
import pytest

from jobcommon.client.request import Request
from jobcommon.crd import custom_resource_definition
from jobcommon.framework import Framework
from jobcommon.operators.mpi import MPI
from jobcommon.operators.mxnet import MXNET
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.operators.tf import TF
from jobcommon.reconcile import read_job
from localcluster import ApiServer, Env
from localcluster.client import ADMIN

KINDS = (PYTORCH, TF, MXNET, MPI)
ABSENT = object()
WORKER = "spec.{specs}.Worker"
CONTAINERS = f"{WORKER}.template.spec.containers"
NAME_FORM = "metadata.name must have at most 63 lower case letters, digits and '-', a letter first"

# Path, value, and what the message says; {specs} is the kind's field for its replica specs.
EVERY_KIND: list[tuple[str, Any, str]] = [
    ("spec", ABSENT, "spec: Required value"),
    ("spec", [], "spec in body must be of type object"),
    ("spec", None, "spec: Required value"),
    ("spec.{specs}", ABSENT, "spec.{specs}: Required value"),
    ("spec.{specs}", {}, "spec.{specs} in body should have at least 1 properties"),
    ("spec.{specs}", [], "spec.{specs} in body must be of type object"),
    ("spec.{specs}", None, "spec.{specs}: Required value"),
    (WORKER, [], f"{WORKER} in body must be of type object"),
    ("spec.{specs}", {"Boss": {"template": {}}}, "replica types are "),
    (f"{WORKER}.replicas", -1, f"{WORKER}.replicas in body should be greater than or equal to 0"),
    (f"{WORKER}.replicas", "3", f"{WORKER}.replicas in body must be of type integer"),
    (f"{WORKER}.replicas", 1.5, f"{WORKER}.replicas in body must be of type integer"),
    (f"{WORKER}.replicas", 10**9, f"{WORKER}.replicas in body should be less than or equal to 10000"),
    (f"{WORKER}.restartPolicy", "Sometimes", 'supported values: "Always", "OnFailure", "Never", "ExitCode"'),
    (f"{WORKER}.template", ABSENT, f"{WORKER}.template: Required value"),
    (CONTAINERS, ABSENT, f"{CONTAINERS}: Required value"),
    (CONTAINERS, [], f"{CONTAINERS} in body should have at least 1 items"),
    (f"{CONTAINERS}.0.image", 3, f"{CONTAINERS}[0].image in body must be of type string"),
    (f"{CONTAINERS}.0.command", "python x.py", f"{CONTAINERS}[0].command in body must be of type array"),
    (f"{CONTAINERS}.0.resources", {"limits": {"cpu": "1x"}}, f"{CONTAINERS}[0].resources.limits.cpu in body should match"),
    (f"{CONTAINERS}.0.resources", {"limits": {"cpu": "1e1.5"}}, f"{CONTAINERS}[0].resources.limits.cpu in body should match"),
    (f"{WORKER}.template.spec.overhead", {"cpu": "lots"}, f"{WORKER}.template.spec.overhead.cpu in body should match"),
    (f"{CONTAINERS}.0.ports", [{"containerPort": 70000}], f"{CONTAINERS}[0].ports[0].containerPort in body should be less"),
    (f"{CONTAINERS}.0.ports", [{"containerPort": 0}], f"{CONTAINERS}[0].ports[0].containerPort in body should be greater"),
    (
        f"{CONTAINERS}.0.ports",
        [{"containerPort": 1, "hostPort": -1}],
        f"{CONTAINERS}[0].ports[0].hostPort in body should",
    ),
    (f"{WORKER}.overrides", [{"template": {}}], f"{WORKER}.overrides[0].indices: Required value"),
    (f"{WORKER}.overrides", [{"indices": [], "template": {}}], f"{WORKER}.overrides[0].indices in body should have at least 1"),
    (f"{WORKER}.overrides", [{"indices": [-1], "template": {}}], f"{WORKER}.overrides[0].indices[0] in body should be greater"),
    ("metadata.name", "a" * 64, NAME_FORM),
    ("metadata.name", "1job", NAME_FORM),
    ("metadata.name", "a.b", NAME_FORM),
    ("metadata.name", "Job", "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters"),
    ("metadata.name", "a" * 60, "and may have 63 characters; a name of "),
    ("spec.runPolicy.cleanPodPolicy", "Some", 'spec.runPolicy.cleanPodPolicy: Unsupported value: "Some"'),
    ("spec.runPolicy.backoffLimit", -1, "spec.runPolicy.backoffLimit in body should be greater than or equal to 0"),
    ("spec.runPolicy.ttlSecondsAfterFinished", -1, "spec.runPolicy.ttlSecondsAfterFinished in body should be greater"),
    ("spec.runPolicy.activeDeadlineSeconds", 0, "spec.runPolicy.activeDeadlineSeconds in body should be greater"),
    ("spec.runPolicy.suspend", "yes", "spec.runPolicy.suspend in body must be of type boolean"),
    (
        "spec.runPolicy.managedBy",
        "me",
        "managedBy must be one of 'kubeflow.org/training-operator', 'kueue.x-k8s.io/multikueue'",
    ),
    ("spec.runPolicy.schedulingPolicy.minAvailable", 0, "minAvailable must be at least 1"),
    ("spec.runPolicy.restartScope", "Gang", 'spec.runPolicy.restartScope: Unsupported value: "Gang"'),
    ("spec.runPolicy.pendingDeadlineAction", "Suspend", 'spec.runPolicy.pendingDeadlineAction: Unsupported value: "Suspend"'),
    ("spec.runPolicy.pendingDeadlineSeconds", 0, "spec.runPolicy.pendingDeadlineSeconds in body should be greater"),
    ("spec.runPolicy.nodeLossSeconds", 0, "spec.runPolicy.nodeLossSeconds in body should be greater"),
    ("spec.runPolicy.minUptimeSeconds", 0, "spec.runPolicy.minUptimeSeconds in body should be greater"),
    ("spec.runPolicy.maxRestartsWithoutProgress", -1, "spec.runPolicy.maxRestartsWithoutProgress in body should be greater"),
    ("spec.runPolicy.progressDeadlineSeconds", 5, "spec.runPolicy.progressDeadlineSeconds in body should be greater"),
    ("spec.runPolicy.keepFailedLogs", "yes", "spec.runPolicy.keepFailedLogs in body must be of type boolean"),
]

REPORTS, WATCHED = {"reportProgress": True}, {"reportProgress": True, "progressDeadlineSeconds": 60}
#: Of runPolicy: fields that exclude each other, or one that is missing; the field that is named, and the remedy.
RUN_POLICIES: list[tuple[dict[str, Any], str, str]] = [
    ({"progressDeadlineSeconds": 60}, "progressDeadlineSeconds", "needs reportProgress: true"),
    ({"progressStartDeadlineSeconds": 60}, "progressStartDeadlineSeconds", "needs reportProgress: true"),
    ({**WATCHED, "reportProgress": False}, "progressDeadlineSeconds", "needs reportProgress: true"),
    ({**REPORTS, "evaluationSeconds": 9}, "evaluationSeconds", "needs progressDeadlineSeconds"),
    ({**REPORTS, "stallAction": "Fail"}, "stallAction", "needs progressDeadlineSeconds or progressStartDeadlineSeconds"),
    ({"maxRestartsWithoutProgress": 1}, "maxRestartsWithoutProgress", "needs reportProgress: true or minUptimeSeconds"),
    ({"pendingDeadlineAction": "Fail"}, "pendingDeadlineAction", "needs pendingDeadlineSeconds"),
    ({**WATCHED, "stallAction": "Restart"}, "stallAction", "set restartScope to Job, or use Fail"),
    (
        {"pendingDeadlineSeconds": 60, "pendingDeadlineAction": "Restart"},
        "pendingDeadlineAction",
        "set restartScope to Job, or use Fail",
    ),
    ({"restartMethod": "Auto"}, "restartMethod", "set restartScope to Job, or use Recreate"),
    ({"restartScope": "Pod", "restartMethod": "Auto"}, "restartMethod", "set restartScope to Job, or use Recreate"),
    (
        {"restartScope": "Job", "restartMethod": "Auto", "pendingDeadlineSeconds": 60, "pendingDeadlineAction": "Restart"},
        "pendingDeadlineAction",
        "use Recreate, or Fail",
    ),
    ({**WATCHED, "activeDeadlineSeconds": 60}, "progressDeadlineSeconds", "must be less than activeDeadlineSeconds"),
    (
        {**REPORTS, "progressStartDeadlineSeconds": 99, "activeDeadlineSeconds": 60},
        "progressStartDeadlineSeconds",
        "must be less than activeDeadlineSeconds",
    ),
    (
        {"pendingDeadlineSeconds": 60, "activeDeadlineSeconds": 60},
        "pendingDeadlineSeconds",
        "must be less than activeDeadlineSeconds",
    ),
]

TWO = {"replicas": 2, "template": {"spec": {"containers": [{"name": "c", "image": "x"}]}}}
ONE = {**TWO, "replicas": 1}
ONE_KIND: list[tuple[Framework, str, Any, str]] = [
    (PYTORCH, f"{CONTAINERS}.0.name", "other", 'one container must be named "pytorch"'),
    (PYTORCH, f"{WORKER}.replicas", 0, "Worker must have at least 1 replica"),
    (PYTORCH, "spec.{specs}.Master", TWO, "Master must have exactly 1 replica"),
    (PYTORCH, "spec.nprocPerNode", "many", 'nprocPerNode must be "auto", "cpu", "gpu", "xpu", "npu" or a number in quotes'),
    (PYTORCH, "spec.nprocPerNode", 2, "spec.nprocPerNode in body must be of type string"),
    (PYTORCH, "spec.elasticPolicy", {"minReplicas": 3, "maxReplicas": 1}, "minReplicas must not exceed maxReplicas"),
    (PYTORCH, "spec.elasticPolicy", {"minReplicas": 0}, "spec.elasticPolicy.minReplicas in body should be greater"),
    (PYTORCH, "spec.elasticPolicy", {"rdzvPort": 70000}, "spec.elasticPolicy.rdzvPort in body should be less"),
    (PYTORCH, "spec.elasticPolicy", {"metrics": "cpu"}, "spec.elasticPolicy.metrics in body must be of type array"),
    (TF, f"{CONTAINERS}.0.name", "tensorfow", 'one container must be named "tensorflow"'),
    (TF, "spec.successPolicy", "Most", 'supported values: "", "AllWorkers"'),
    (TF, "spec.enableDynamicWorker", "true", "spec.enableDynamicWorker in body must be of type boolean"),
    (TF, "spec.{specs}.Chief", TWO, "Chief must have at most 1 replica"),
    (TF, "spec.{specs}", {"Chief": ONE, "Master": ONE}, "Chief and Master are the same role: remove one of them"),
    (MXNET, f"{CONTAINERS}.0.name", "other", 'one container must be named "mxnet"'),
    (MXNET, "spec.jobMode", "MXDance", 'supported values: "MXTrain", "MXTune"'),
    (MXNET, "spec.{specs}.Scheduler", TWO, "Scheduler must have exactly 1 replica"),
    (MPI, f"{WORKER}.replicas", 0, "Worker must have at least 1 replica"),
    (MPI, "spec.{specs}.Launcher", TWO, "Launcher must have exactly 1 replica"),
    (MPI, "spec.{specs}.Launcher.restartPolicy", "Always", "the restartPolicy of Launcher must be one of OnFailure, Never"),
    (MPI, f"{WORKER}.template.spec.containers", [{"name": "", "image": "i"}], "a container must have a name"),
    (MPI, "spec.mpiImplementation", "LAM", 'supported values: "OpenMPI", "Intel", "MPICH"'),
    (MPI, "spec.slotsPerWorker", -1, "spec.slotsPerWorker in body should be greater than or equal to 1"),
    (MPI, "spec.slotsPerWorker", "auto", "spec.slotsPerWorker in body must be of type integer"),
    (MPI, "spec.launcherCreationPolicy", "Whenever", 'supported values: "AtStartup", "WaitForWorkersReady"'),
    (MPI, "spec.sshAuthMountPath", "root/.ssh", "sshAuthMountPath must be an absolute path"),
]
CASES = [(kind, *row) for kind in KINDS for row in EVERY_KIND] + ONE_KIND


@pytest.fixture(scope="module")
def server() -> ApiServer:
    server = ApiServer(Env.system())
    for framework in KINDS:
        body = msgspec.json.encode(custom_resource_definition(framework))
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        assert server.handle(Request("POST", path, body=body), user=ADMIN).status == 201
    return server


def good(framework: Framework) -> dict[str, Any]:
    """A manifest of the kind with two workers and, for MPI, a launcher."""
    replica = {"replicas": 2, "template": {"spec": {"containers": [{"name": framework.container or "mpi", "image": "x"}]}}}
    launcher = {"Launcher": {**deepcopy(replica), "replicas": 1}} if framework is MPI else {}
    return {
        "apiVersion": framework.api_version,
        "kind": framework.kind,
        "metadata": {"name": "a"},
        "spec": {
            framework.replica_specs: {"Worker": replica, **launcher},
            **({"jobMode": "MXTrain"} if framework is MXNET else {}),
        },
    }


def put(manifest: dict[str, Any], path: str, value: object) -> None:
    """Set what stands at a dotted path, or take it out."""
    node: Any = manifest
    *above, last = path.split(".")
    for part in above:
        node = node[int(part)] if isinstance(node, list) else node.setdefault(part, {})
    if value is ABSENT:
        del node[last]
    else:
        node[last] = value


def apply(server: ApiServer, framework: Framework, manifest: dict[str, Any]) -> tuple[int, str]:
    path = f"/apis/{framework.api_version}/namespaces/default/{framework.plural}"
    request = Request("POST", path, (("dryRun", "All"), ("fieldValidation", "Strict")), msgspec.json.encode(manifest))
    response = server.handle(request, user=ADMIN)
    return response.status, msgspec.json.decode(response.body).get("message", "")


@pytest.mark.parametrize("framework", KINDS, ids=lambda framework: framework.kind)
@pytest.mark.parametrize("run_policy", [{"managedBy": "kueue.x-k8s.io/multikueue"}, {"suspend": True}], ids=str)
def test_a_good_one_is_taken_whatever_the_case_of_its_types(
    server: ApiServer, framework: Framework, run_policy: dict[str, Any]
) -> None:
    manifest = good(framework)
    specs = manifest["spec"][framework.replica_specs]
    specs["worker"] = specs.pop("Worker")
    manifest["spec"]["runPolicy"] = run_policy
    assert apply(server, framework, manifest) == (201, "")


@pytest.mark.parametrize(
    ("framework", "path", "value", "text"),
    CASES,
    ids=[f"{kind.kind} {path} {number}" for number, (kind, path, _, _) in enumerate(CASES)],
)
def test_a_bad_one_is_refused(server: ApiServer, framework: Framework, path: str, value: object, text: str) -> None:
    manifest = good(framework)
    put(manifest, path.format(specs=framework.replica_specs), deepcopy(value) if value is not ABSENT else ABSENT)
    status, message = apply(server, framework, manifest)
    assert status == 422
    assert text.format(specs=framework.replica_specs) in message


@pytest.mark.parametrize(
    ("policy", "field", "remedy"), RUN_POLICIES, ids=[f"{field} {number}" for number, (_, field, _) in enumerate(RUN_POLICIES)]
)
def test_a_run_policy_that_contradicts_itself_is_refused(
    server: ApiServer, policy: dict[str, Any], field: str, remedy: str
) -> None:
    """By the definition, and by the operator where an older definition has let it in."""
    manifest = good(PYTORCH)
    put(manifest, "spec.runPolicy", policy)
    status, message = apply(server, PYTORCH, manifest)
    assert status == 422
    assert f"spec.runPolicy.{field}: Invalid value" in message
    assert remedy in message
    (error,) = read_job(PYTORCH, manifest).errors
    assert error.path == f"spec.runPolicy.{field}"
    assert remedy in error.message


def test_a_job_whose_workers_torchrun_restarts_is_not_restarted_as_a_whole(server: ApiServer) -> None:
    manifest = good(PYTORCH)
    put(manifest, "spec.elasticPolicy", {"minReplicas": 1, "maxReplicas": 2})
    put(manifest, "spec.runPolicy", {"restartScope": "Job"})
    status, message = apply(server, PYTORCH, manifest)
    assert (status, "set restartScope to Pod, or remove elasticPolicy" in message) == (422, True)
    assert [error.path for error in read_job(PYTORCH, manifest).errors] == ["spec.runPolicy.restartScope"]


@pytest.mark.parametrize("framework", KINDS, ids=lambda framework: framework.kind)
def test_every_field_about_recovery_is_taken(server: ApiServer, framework: Framework) -> None:
    manifest = good(framework)
    put(manifest, "spec.runPolicy", {
        **WATCHED, "restartScope": "Job", "restartMethod": "Auto", "stallAction": "Restart", "evaluationSeconds": 5,
        "progressStartDeadlineSeconds": 99, "activeDeadlineSeconds": 999, "maxRestartsWithoutProgress": 2,
        "minUptimeSeconds": 9, "nodeLossSeconds": 30, "avoidFailedNodes": False, "keepFailedLogs": True,
        "pendingDeadlineSeconds": 60, "pendingDeadlineAction": "Fail",
    })  # fmt: skip
    assert apply(server, framework, manifest) == (201, "")
    assert read_job(framework, manifest).errors == ()


@pytest.mark.parametrize(
    ("path", "old", "new", "text"),
    [
        (
            "spec.runPolicy.managedBy",
            "kueue.x-k8s.io/multikueue",
            "kubeflow.org/training-operator",
            "managedBy cannot be changed",
        ),
        ("spec.runPolicy.managedBy", ABSENT, "kueue.x-k8s.io/multikueue", "managedBy cannot be changed"),
        (
            "spec.runPolicy.schedulingPolicy.queue",
            "initial-queue",
            "test",
            "spec.runPolicy.schedulingPolicy.queue is immutable",
        ),
    ],
)
@pytest.mark.parametrize("framework", KINDS, ids=lambda framework: framework.kind)
def test_immutable_fields_cannot_be_changed(
    server: ApiServer, framework: Framework, path: str, old: object, new: str, text: str
) -> None:
    before, name = good(framework), f"immutable-{len(path)}-{len(str(old))}"
    before["metadata"]["name"] = name
    if old is not ABSENT:
        put(before, path, old)
    collection = f"/apis/{framework.api_version}/namespaces/default/{framework.plural}"
    created = server.handle(Request("POST", collection, body=msgspec.json.encode(before)), user=ADMIN)
    after = msgspec.json.decode(created.body)
    put(after, path, new)
    refused = server.handle(Request("PUT", f"{collection}/{name}", body=msgspec.json.encode(after)), user=ADMIN)
    assert refused.status == 422
    assert text in msgspec.json.decode(refused.body)["message"]


@pytest.mark.parametrize(("old", "new"), [("SSH", "Exec"), ("Exec", "SSH"), (ABSENT, "Exec")])
def test_the_transport_of_an_mpi_job_is_immutable(server: ApiServer, old: object, new: str) -> None:
    """Its keys, or its launcher's rights, would be left behind while the job lives."""
    before = good(MPI)
    before["metadata"]["name"] = f"transport-{len(str(old))}-{new.lower()}"
    if old is not ABSENT:
        put(before, "spec.transport", old)
    collection = f"/apis/{MPI.api_version}/namespaces/default/{MPI.plural}"
    created = server.handle(Request("POST", collection, body=msgspec.json.encode(before)), user=ADMIN)
    after = msgspec.json.decode(created.body)
    put(after, "spec.transport", new)
    path = f"{collection}/{before['metadata']['name']}"
    refused = server.handle(Request("PUT", path, body=msgspec.json.encode(after)), user=ADMIN)
    assert refused.status == 422
    assert "transport cannot be changed" in msgspec.json.decode(refused.body)["message"]
