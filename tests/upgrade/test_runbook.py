"""docs/migration.md, executed: its commands move a cluster with running jobs to our operators, and back.

The test plays what the server lacks: the kubelet, and the Deployment controller, which starts our operator as the Deployment
says. Neither the old operators nor their webhook's server run; their Deployments, definitions, webhook and jobs are there.
"""

import asyncio
import contextlib
import copy
import os
import re
import sys
import time
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml

from jobcommon.client.request import MERGE_PATCH, Request
from jobcommon.crd import custom_resource_definition
from jobcommon.framework import FINALIZER, Framework
from jobcommon.operators.mpi import MPI
from jobcommon.operators.mxnet import MXNET
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.operators.tf import TF
from jobcommon.testutil.builders import condition
from jobcommon.testutil.cluster import TestCluster, cluster_for, succeeded
from jobcommon.testutil.polling import polled
from tests.cli.commands import ROOT, typed
from tests.upgrade.reference import SHAPES, Json, owner

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
WEBHOOK = "validator.training-operator.kubeflow.org"
MPI_JOBS = "/apis/kubeflow.org/v2beta1/namespaces/default/mpijobs"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
DEPLOYMENTS = "/apis/apps/v1/namespaces/{}/deployments"
SHAPE = next(shape for shape in SHAPES if shape.framework is PYTORCH)
#: Each old operator, by whose name its blocks are marked. Ours is installed with kubectl; tests/charts installs it with Helm.
OPERATORS = ("training-operator", "mpi-operator")
BLOCK = re.compile(r"^```sh ?([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: The command on a file system that is read-only: whatever it opens for writing ends it.
WRITES_NOWHERE = """
import os, sys
def hook(event, args):
    writes = event == "open" and isinstance(args[0], str) and (args[2] or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    if writes and not args[0].startswith("/dev/"):
        sys.stderr.write(f"written to: {args[0]}\\n")
        os._exit(70)
sys.addaudithook(hook)
from jobcommon.cli.main import main
main()
"""


def steps(operator: str) -> list[list[str]]:
    """By heading, the commands of the page for the old `operator`; a block without words about either is for both."""
    others = {*OPERATORS, "helm"} - {operator}
    parts = (ROOT / "docs" / "migration.md").read_text(encoding="utf-8").split("\n## ")
    found = ([text for words, text in BLOCK.findall(part) if not {*words.split()} & others] for part in parts)
    return [commands for commands in found if commands]


async def run(commands: str, directory: Path) -> str:
    """What the administrator's commands print. They must end with the exit code that they announce."""
    code, kubeconfig = int(commands.startswith("# exits with 1")), str(directory / "kubeconfig")
    return await asyncio.to_thread(typed, commands, directory, code=code, KUBECONFIG=kubeconfig, HOME=str(directory))


async def there(cluster: TestCluster, path: str) -> bool:
    return (await cluster.cluster.client.send(Request("GET", path))).status == 200


def older(framework: Framework, version: str) -> Json:
    """The definition as the old operator has it: this version alone, a status without our fields, no rules."""
    found = copy.deepcopy(custom_resource_definition(framework))
    found["spec"]["versions"] = [one for one in found["spec"]["versions"] if one["name"] == version]
    (kept,) = found["spec"]["versions"]
    kept["storage"] = True
    schema = kept["schema"]["openAPIV3Schema"]
    schema.pop("x-kubernetes-validations", None)
    schema["properties"]["status"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return found


async def old_operator(cluster: TestCluster, operator: str, namespace: str) -> None:
    """The old operator as it is installed, with its definitions."""
    await cluster.call("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    training = operator == "training-operator"
    labels = {"control-plane": "kubeflow-training-operator"} if training else {"app": operator}
    container = {"name": operator, "image": f"kubeflow/{operator}:1"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    await cluster.call("POST", DEPLOYMENTS.format(namespace), {"metadata": {"name": operator}, "spec": spec})
    for framework in (MPI, MXNET, PYTORCH, TF) if training else (MPI,):
        await cluster.call("POST", DEFINITIONS, older(framework, "v1" if training else "v2beta1"))


def webhook() -> Json:
    """That of training-operator, whose server is not there to let a job in."""
    rule = {"apiGroups": ["kubeflow.org"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pytorchjobs"]}
    service = {"name": "training-operator", "namespace": "kubeflow", "path": "/validate"}
    hook = {
        "name": "validator.pytorchjob.training-operator.kubeflow.org", "clientConfig": {"service": service, "caBundle": ""},
        "rules": [rule], "sideEffects": "None", "admissionReviewVersions": ["v1"], "failurePolicy": "Fail",
    }  # fmt: skip
    head = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
    return {**head, "metadata": {"name": WEBHOOK}, "webhooks": [hook]}


def job_of(name: str) -> Json:
    """A PyTorchJob whose pods no scheduler takes: the test says how they go on."""
    job = SHAPE.job()
    for spec in job["spec"][PYTORCH.replica_specs].values():
        spec["template"]["spec"]["schedulerName"] = "none"
    return {**job, "metadata": {"name": name}}


async def becomes(cluster: TestCluster, pod: str, phase: str) -> None:
    """The kubelet reports a pod's state."""
    ended = phase == "Succeeded"
    state: Json = {"terminated": {"exitCode": 0, "reason": "Completed"}} if ended else {"running": {}}
    container = {"name": "pytorch", "image": "any", "imageID": "", "restartCount": 0, "ready": not ended, "state": state}
    ready = {"type": "Ready", "status": str(not ended)}
    status = {"phase": phase, "conditions": [ready], "containerStatuses": [container]}
    await cluster.call("PATCH", cluster.path("pods", f"{pod}/status"), {"status": status}, MERGE_PATCH)


async def uids(cluster: TestCluster, prefix: str) -> dict[str, str]:
    """The UIDs of pods by their names."""
    of = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in await cluster.pods()}
    return {name: uid for name, uid in of.items() if name.startswith(f"{prefix}-")}


async def running_job(cluster: TestCluster) -> dict[str, str]:
    """A PyTorchJob that training-operator runs; the UIDs of its pods."""
    job = {**await cluster.create(PYTORCH, job_of("demo")), "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob"}
    for kind, index in SHAPE.slots:
        pod, service = SHAPE.pod(job, kind, index), SHAPE.service(job, kind, index)
        await cluster.create("pods", {**pod, "spec": {**pod["spec"], "schedulerName": "none"}})
        assert service is not None
        await cluster.create("services", service)
        await becomes(cluster, SHAPE.pod_name(kind, index), "Running")
    status = SHAPE.status(time.time(), "Running", "active")
    await cluster.call("PATCH", cluster.path(PYTORCH, "demo/status"), {"status": status}, MERGE_PATCH)
    return await uids(cluster, "demo")


async def mpi_job(cluster: TestCluster) -> None:
    """An MPIJob that mpi-operator runs, as far as the operators read it: the job, and its launcher as a batch Job."""
    template = {"spec": {"schedulerName": "none", "containers": [{"name": "mpi", "image": "any", "command": ["true"]}]}}
    specs = {"Launcher": {"replicas": 1, "template": template}, "Worker": {"replicas": 2, "template": template}}
    body = {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {"name": "pi"}}
    job = {**body, **await cluster.call("POST", MPI_JOBS, {**body, "spec": {"mpiReplicaSpecs": specs}})}
    reference = {**owner(job), "apiVersion": "kubeflow.org/v2beta1"}
    spec = {"suspend": False, "template": {"spec": {**template["spec"], "restartPolicy": "Never"}}}
    await cluster.call("POST", JOBS, {"metadata": {"name": "pi-launcher", "ownerReferences": [reference]}, "spec": spec})


@asynccontextmanager
async def deployed(cluster: TestCluster, directory: Path) -> AsyncIterator[None]:
    """What the Deployment controller and a node do: our operator runs as its Deployment says, and is reported available."""
    ours = DEPLOYMENTS.format("training-operators")
    (deployment,) = (await cluster.call("GET", ours))["items"]
    pod = deployment["spec"]["template"]["spec"]
    account = f"/api/v1/namespaces/training-operators/serviceaccounts/{pod['serviceAccountName']}/token"
    token = (await cluster.call("POST", account, {"spec": {"expirationSeconds": 3600}}))["status"]["token"]
    config = yaml.safe_load((directory / "kubeconfig").read_text())
    config["users"][0]["user"] = {"token": token}
    # As a file, like that of a pod's ServiceAccount: from a kubeconfig itself it would be written to a temporary one.
    server = config["clusters"][0]["cluster"]
    (authority := directory / "ca.crt").write_bytes(b64decode(server.pop("certificate-authority-data")))
    server["certificate-authority"] = str(authority)
    (path := directory / "operator").write_text(yaml.safe_dump(config))
    arguments = [argument.replace("$(POD_NAMESPACE)", "training-operators") for argument in pod["containers"][0]["args"]]
    arguments = [argument for argument in arguments if not argument.startswith("--metrics-port")]
    with (directory / "operator.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", WRITES_NOWHERE, *arguments, "--metrics-port=-1", cwd=ROOT,
            env={**os.environ, "KUBECONFIG": str(path), "PYTHONDONTWRITEBYTECODE": "1"}, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        counts = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
        status = {
            **dict.fromkeys(counts, deployment["spec"]["replicas"]),
            "observedGeneration": deployment["metadata"].get("generation", 1),
            "conditions": [condition("Available", at=time.time())],
        }
        await cluster.call("PATCH", f"{ours}/{deployment['metadata']['name']}/status", {"status": status}, MERGE_PATCH)
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


async def held(cluster: TestCluster) -> list[Json]:
    """The pods with our finalizer."""
    return [pod for pod in await cluster.pods() if FINALIZER in pod["metadata"].get("finalizers", ())]


@pytest.mark.parametrize("operator", OPERATORS)
async def test_the_runbook(operator: str, tmp_path: Path) -> None:
    check, stop, replace, install, back = steps(operator)
    training = operator == "training-operator"
    namespace = "kubeflow" if training else operator
    async with cluster_for(operators=False) as cluster:
        (tmp_path / "kubeconfig").write_text(cluster.cluster.kubeconfig())
        # The commands are for a checkout of the repository.
        for name in ("charts", "jobcommon"):
            (tmp_path / name).symlink_to(ROOT / name)
        await old_operator(cluster, operator, namespace)
        before = {}
        if training:
            before = await running_job(cluster)
            await cluster.call("POST", WEBHOOKS, webhook())
        else:
            await mpi_job(cluster)

        said = "".join([await run(commands, tmp_path) for commands in check])
        assert f"runs {operator}" in said
        assert ("webhook" in said) == training
        assert ("second launcher" in said) != training
        for commands in stop:
            await run(commands, tmp_path)
        if training:
            assert not await there(cluster, f"{WEBHOOKS}/{WEBHOOK}")
            # Accepted in between, although no operator acts on it.
            await cluster.create(PYTORCH, job_of("second"))
        else:
            # mpi-operator has suspended the batch Job, as it was asked to, before it was stopped.
            await cluster.call("PATCH", f"{JOBS}/pi-launcher", {"spec": {"suspend": True}}, MERGE_PATCH)
        for commands in (*replace, install[0]):
            await run(commands, tmp_path)
        async with deployed(cluster, tmp_path):
            waiting = cluster.path(PYTORCH, "second") if training else f"{MPI_JOBS}/pi"
            await polled(lambda: cluster.call("GET", waiting), lambda job: bool(job.get("status")))
            assert "0 errors" in await run(install[1], tmp_path)
            for commands in install[2:]:
                await run(commands, tmp_path)
            if training:
                await polled(lambda: uids(cluster, "second"), lambda pods: len(pods) == len(before))
                assert await uids(cluster, "demo") == before
                await becomes(cluster, "demo-master-0", "Succeeded")
                job = await cluster.until(PYTORCH, "demo", succeeded)
                assert await uids(cluster, "demo") == before
                assert job["status"]["completionTime"]
            else:
                # It was started anew, with a launcher pod of ours and without the batch Job.
                await polled(lambda: uids(cluster, "pi"), lambda pods: {*pods} == {"pi-launcher", "pi-worker-0", "pi-worker-1"})
                assert not await there(cluster, f"{JOBS}/pi-launcher")

        await run(back[0], tmp_path)
        assert (await cluster.call("GET", DEPLOYMENTS.format("training-operators")))["items"] == []
        assert await held(cluster), "else nothing is shown by the next step"
        for commands in back[1:]:
            await run(commands, tmp_path)
        assert not await held(cluster)
        assert (await cluster.call("GET", f"{DEPLOYMENTS.format(namespace)}/{operator}"))["spec"]["replicas"] == 1
        assert await there(cluster, f"{WEBHOOKS}/{WEBHOOK}") == training
