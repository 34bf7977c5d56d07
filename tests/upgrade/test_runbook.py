"""docs/migration.md, executed: its commands move a cluster with running jobs to our operators, and back.

The test plays what the server lacks: the kubelet, and the Deployment controller, which starts our operator as the Deployment
says.
Neither the old operators nor their webhook's server run; their Deployments, definitions, webhook and jobs are there.
"""

import asyncio
import contextlib
import copy
import os
import re
import sys
import time
from base64 import b64decode
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from jobcommon.client.request import JSON, MERGE_PATCH, Request, Transport
from jobcommon.crd import custom_resource_definition
from jobcommon.framework import FINALIZER
from jobcommon.operators.mpi import MPI
from jobcommon.operators.mxnet import MXNET
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.operators.tf import TF
from jobcommon.testutil.cluster import cluster_for
from jobcommon.testutil.polling import polled
from tests.cli.commands import ROOT, kubectl_path
from tests.upgrade.reference import SHAPES, Shape

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
Json = dict[str, Any]
SECONDS = 180.0
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
WEBHOOK = "validator.training-operator.kubeflow.org"
OURS = "/apis/apps/v1/namespaces/training-operators/deployments"
MPI_JOBS = "/apis/kubeflow.org/v2beta1/namespaces/default/mpijobs"
PODS = "/api/v1/namespaces/default/pods"
PYTORCH_SHAPE = next(shape for shape in SHAPES if shape.framework is PYTORCH)


#: Each old operator, by whose name its blocks are marked. Ours is installed with kubectl; tests/charts installs it with Helm.
OPERATORS = ("training-operator", "mpi-operator")
_BLOCK = re.compile(r"^## (?P<heading>[^\n]+)$|^```sh ?(?P<words>[^\n]*)\n(?P<commands>.*?)^```$", re.MULTILINE | re.DOTALL)
_EXITS = re.compile(r"^# exits with (\d)")


@dataclass(frozen=True)
class Block:
    """Some commands below a heading, and the exit code that the text announces."""

    heading: str
    commands: str
    code: int = 0


def steps(operator: str) -> dict[str, list[Block]]:
    """By heading, the blocks of the document for the old `operator`; one without words about either is for both."""
    found: dict[str, list[Block]] = {}
    heading = ""
    for match in _BLOCK.finditer((ROOT / "docs" / "migration.md").read_text(encoding="utf-8")):
        heading = match["heading"] or heading
        if match["commands"] and not {*(match["words"] or "").split()} & ({*OPERATORS, "helm"} - {operator}):
            announced = _EXITS.match(match["commands"])
            found.setdefault(heading, []).append(Block(heading, match["commands"], int(announced[1]) if announced else 0))
    return found


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


class Cluster:
    """A server, its administrator's kubeconfig, and the directory in which commands are run."""

    def __init__(self, transport: Transport, directory: Path, kubeconfig: str) -> None:
        self.transport, self.directory = transport, directory
        self.kubeconfig = directory / "kubeconfig"
        self.kubeconfig.write_text(kubeconfig)
        programs = directory / "bin"
        programs.mkdir()
        for name, command in {"kubectl": kubectl_path(), "jobcommon": f"{sys.executable} -m jobcommon.cli"}.items():
            (programs / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
            (programs / name).chmod(0o755)
        # The commands are for a checkout of the repository.
        for name in ("charts", "jobcommon"):
            (directory / name).symlink_to(ROOT / name)
        self.env = {
            **os.environ, "KUBECONFIG": str(self.kubeconfig), "PATH": f"{programs}:{os.environ['PATH']}",
            "HOME": str(directory),
        }  # fmt: skip

    async def send(self, method: str, path: str, body: Json | None = None, content_type: str = JSON) -> Json:
        payload = None if body is None else msgspec.json.encode(body)
        answer = await self.transport.send(Request(method, path, body=payload, content_type=content_type))
        assert answer.status < 300, (method, path, answer.body)
        return dict(msgspec.json.decode(answer.body))

    async def there(self, path: str) -> bool:
        return (await self.transport.send(Request("GET", path))).status == 200

    async def run(self, block: Block) -> str:
        """The commands of a block, as bash runs them. They must end with the announced exit code."""
        process = await asyncio.create_subprocess_exec(
            "bash", "-euo", "pipefail", "-c", block.commands, cwd=self.directory, env=self.env,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        async with asyncio.timeout(SECONDS):
            out, _ = await process.communicate()
        assert process.returncode == block.code, f"{block.heading}: {block.commands}\n{out.decode()}"
        return out.decode()


def older(definition: Json, *versions: str) -> Json:
    """The definition as the old operators have it: these versions, a status without our fields, no rules."""
    found = copy.deepcopy(definition)
    kept = [one for one in found["spec"]["versions"] if one["name"] in versions]
    for version in kept:
        version["storage"] = version["name"] == versions[0]
        schema = version["schema"]["openAPIV3Schema"]
        schema.pop("x-kubernetes-validations", None)
        status = schema["properties"]["status"]["properties"]
        known = ("conditions", "replicaStatuses", "startTime", "completionTime", "lastReconcileTime")
        schema["properties"]["status"]["properties"] = {name: status[name] for name in known if name in status}
    found["spec"]["versions"] = kept
    return found


async def old_operator(cluster: Cluster, operator: str) -> None:
    """The old operator as it is installed, with its definitions and its webhook."""
    namespace = "kubeflow" if operator == "training-operator" else operator
    await cluster.send("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    labels = {"control-plane": "kubeflow-training-operator"} if operator == "training-operator" else {"app": operator}
    container = {"name": operator, "image": f"kubeflow/{operator}:1"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    await cluster.send(
        "POST",
        f"/apis/apps/v1/namespaces/{namespace}/deployments",
        {"metadata": {"name": operator}, "spec": {"selector": {"matchLabels": labels}, "template": template}},
    )
    if operator == "mpi-operator":
        await cluster.send("POST", DEFINITIONS, older(custom_resource_definition(MPI), "v2beta1"))
        return
    for framework in (MPI, MXNET, PYTORCH, TF):
        await cluster.send("POST", DEFINITIONS, older(custom_resource_definition(framework), "v1"))
    hook = {
        "name": "validator.pytorchjob.training-operator.kubeflow.org",
        "clientConfig": {"service": {"name": operator, "namespace": namespace, "path": "/validate"}, "caBundle": ""},
        "rules": [
            {"apiGroups": ["kubeflow.org"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pytorchjobs"]}
        ],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Fail",
    }
    await cluster.send(
        "POST", WEBHOOKS,
        {
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": WEBHOOK}, "webhooks": [hook],
        },
    )  # fmt: skip


def unscheduled(pod: Json) -> Json:
    """The pod, for no scheduler and kubelet: the test says how it goes on."""
    return {**pod, "spec": {**pod["spec"], "schedulerName": "none"}}


def job_of(shape: Shape, name: str) -> Json:
    """A job whose pods no scheduler takes."""
    job = shape.job()
    for spec in job["spec"][shape.framework.replica_specs].values():
        spec["template"]["spec"] = {**spec["template"]["spec"], "schedulerName": "none"}
    return {**job, "metadata": {"name": name}}


def jobs_path(name: str = "") -> str:
    return f"/apis/kubeflow.org/v1/namespaces/default/pytorchjobs{f'/{name}' if name else ''}"


async def becomes(cluster: Cluster, pod: str, phase: str) -> None:
    """The kubelet reports a pod's state."""
    ended = phase == "Succeeded"
    state: Json = {"terminated": {"exitCode": 0, "reason": "Completed"}} if ended else {"running": {}}
    container = {"name": "pytorch", "image": "any", "imageID": "", "restartCount": 0, "ready": not ended, "state": state}
    ready = {"type": "Ready", "status": str(not ended)}
    status = {"phase": phase, "conditions": [ready], "containerStatuses": [container]}
    await cluster.send("PATCH", f"{PODS}/{pod}/status", {"status": status}, MERGE_PATCH)


async def uids(cluster: Cluster, prefix: str) -> dict[str, str]:
    pods = (await cluster.send("GET", PODS))["items"]
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in pods if pod["metadata"]["name"].startswith(f"{prefix}-")}


async def running_job(cluster: Cluster) -> dict[str, str]:
    """A PyTorchJob that training-operator runs; the UIDs of its pods."""
    # The webhook's server is not there, so the job comes first in its life, as the object does here.
    job = await cluster.send("POST", jobs_path(), job_of(PYTORCH_SHAPE, "demo"))
    job = {**job, "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob"}
    for kind, index in PYTORCH_SHAPE.slots:
        await cluster.send("POST", PODS, unscheduled(PYTORCH_SHAPE.pod(job, kind, index)))
        if (service := PYTORCH_SHAPE.service(job, kind, index)) is not None:
            await cluster.send("POST", "/api/v1/namespaces/default/services", service)
        await becomes(cluster, PYTORCH_SHAPE.pod_name(kind, index), "Running")
    status = PYTORCH_SHAPE.status(time.time(), "Running", "active")
    await cluster.send("PUT", f"{jobs_path('demo')}/status", {**job, "status": status})
    return await uids(cluster, "demo")


async def mpi_job(cluster: Cluster) -> None:
    """An MPIJob that mpi-operator runs, as far as the operators read it: the job, and its launcher as a batch Job."""
    container = {"name": "mpi", "image": "any", "command": ["true"]}
    template = {"spec": {"schedulerName": "none", "containers": [container]}}
    specs = {"Launcher": {"replicas": 1, "template": template}, "Worker": {"replicas": 2, "template": template}}
    body = {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {"name": "pi"}}
    job = await cluster.send("POST", MPI_JOBS, {**body, "spec": {"mpiReplicaSpecs": specs}})
    owner = {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "name": "pi", "uid": job["metadata"]["uid"]}
    launcher = {"spec": {**template["spec"], "restartPolicy": "Never"}}
    await cluster.send(
        "POST", "/apis/batch/v1/namespaces/default/jobs",
        {
            "metadata": {"name": "pi-launcher", "ownerReferences": [{**owner, "controller": True}]},
            "spec": {"suspend": False, "template": launcher},
        },
    )  # fmt: skip


@asynccontextmanager
async def deployed(cluster: Cluster) -> AsyncIterator[Json]:
    """What the Deployment controller and a node do: our operator runs as its Deployment says, and is reported available."""
    (deployment,) = (await cluster.send("GET", OURS))["items"]
    pod = deployment["spec"]["template"]["spec"]
    account = f"/api/v1/namespaces/training-operators/serviceaccounts/{pod['serviceAccountName']}/token"
    token = (await cluster.send("POST", account, {"spec": {"expirationSeconds": 3600}}))["status"]["token"]
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    # As a file, like that of a pod's ServiceAccount: from a kubeconfig itself it would be written to a temporary one.
    (authority := cluster.directory / "ca.crt").write_bytes(
        b64decode(config["clusters"][0]["cluster"].pop("certificate-authority-data"))
    )
    config["clusters"][0]["cluster"]["certificate-authority"] = str(authority)
    path = cluster.directory / "operator"
    path.write_text(yaml.safe_dump(config))
    arguments = [argument.replace("$(POD_NAMESPACE)", "training-operators") for argument in pod["containers"][0]["args"]]
    arguments = [argument for argument in arguments if not argument.startswith("--metrics-port")]
    with (cluster.directory / "operator.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", WRITES_NOWHERE, *arguments, "--metrics-port=-1", cwd=ROOT,
            env={**os.environ, "KUBECONFIG": str(path), "PYTHONDONTWRITEBYTECODE": "1"}, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        replicas = deployment["spec"]["replicas"]
        counts = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), replicas)
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        condition = {"type": "Available", "status": "True", "lastUpdateTime": now, "lastTransitionTime": now}
        status = {**counts, "observedGeneration": deployment["metadata"].get("generation", 1), "conditions": [condition]}
        await cluster.send("PATCH", f"{OURS}/{deployment['metadata']['name']}/status", {"status": status}, MERGE_PATCH)
        yield deployment
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


def is_now(condition: str) -> Callable[[Json], bool]:
    return lambda job: [one["type"] for one in (job.get("status") or {}).get("conditions") or ()][-1:] == [condition]


@pytest.mark.parametrize("operator", OPERATORS)
async def test_the_runbook(operator: str, tmp_path: Path) -> None:
    check, stop, replace, install, back = steps(operator).values()
    async with cluster_for(operators=False) as running_cluster:
        cluster = Cluster(running_cluster.cluster.client, tmp_path, running_cluster.cluster.kubeconfig())
        await old_operator(cluster, operator)
        training = operator == "training-operator"
        # A real server serves a kind some time after its definition was created.
        served = jobs_path() if training else MPI_JOBS
        await polled(lambda: cluster.there(served))
        before = {}
        if training:
            # Its server is not there to let the job in.
            hook = await cluster.send("GET", f"{WEBHOOKS}/{WEBHOOK}")
            await cluster.send("DELETE", f"{WEBHOOKS}/{WEBHOOK}")
            before = await running_job(cluster)
            kept = {"metadata": {"name": WEBHOOK}, "webhooks": hook["webhooks"]}
            await cluster.send("POST", WEBHOOKS, {"apiVersion": hook["apiVersion"], "kind": hook["kind"], **kept})
        else:
            await mpi_job(cluster)

        said = "".join([await cluster.run(block) for block in check])
        assert f"runs {operator}" in said
        assert ("webhook" in said) == training
        assert ("second launcher" in said) != training
        for block in stop:
            await cluster.run(block)
        if training:
            assert not await cluster.there(f"{WEBHOOKS}/{WEBHOOK}")
            # Accepted in between, although no operator acts on it.
            await cluster.send("POST", jobs_path(), job_of(PYTORCH_SHAPE, "second"))
        else:
            # mpi-operator has suspended the batch Job, as it was asked to, before it was stopped.
            launcher = "/apis/batch/v1/namespaces/default/jobs/pi-launcher"
            await cluster.send("PATCH", launcher, {"spec": {"suspend": True}}, MERGE_PATCH)
        for block in replace:
            await cluster.run(block)
        await cluster.run(install[0])
        running = AsyncExitStack()
        deployment = await running.enter_async_context(deployed(cluster))
        async with running:
            waiting = jobs_path("second") if training else f"{MPI_JOBS}/pi"
            await polled(lambda: cluster.send("GET", waiting), lambda job: bool(job.get("status")))
            assert "0 errors" in await cluster.run(install[1])
            for block in install[2:]:
                await cluster.run(block)
            await _a_profile_s_user_may_create_jobs(cluster)
            await (_training_continues(cluster, before) if training else _mpi_job_runs(cluster))

        await cluster.run(back[0])
        assert not await cluster.there(f"{OURS}/{deployment['metadata']['name']}")
        held = [pod for pod in (await cluster.send("GET", PODS))["items"] if FINALIZER in pod["metadata"].get("finalizers", ())]
        assert held, "else nothing is shown by the next step"
        for block in back[1:]:
            await cluster.run(block)
        pods = (await cluster.send("GET", PODS))["items"]
        assert not [pod for pod in pods if FINALIZER in pod["metadata"].get("finalizers", ())]
        namespace = "kubeflow" if training else operator
        old = await cluster.send("GET", f"/apis/apps/v1/namespaces/{namespace}/deployments/{operator}")
        assert old["spec"]["replicas"] == 1
        assert await cluster.there(f"{WEBHOOKS}/{WEBHOOK}") == training


async def _a_profile_s_user_may_create_jobs(cluster: Cluster) -> None:
    """A Kubeflow profile binds it to kubeflow-edit, which kube-controller-manager fills by label, as the test does here."""
    rbac, label = "/apis/rbac.authorization.k8s.io/v1", "rbac.authorization.kubeflow.org/aggregate-to-kubeflow-edit"
    roles = (await cluster.send("GET", f"{rbac}/clusterroles"))["items"]
    rules = [rule for role in roles if label in role["metadata"].get("labels", {}) for rule in role["rules"]]
    await cluster.send("POST", f"{rbac}/clusterroles", {"metadata": {"name": "kubeflow-edit"}, "rules": rules})
    await cluster.send("POST", "/api/v1/namespaces", {"metadata": {"name": "profile"}})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "kubeflow-edit"}
    editor = {"kind": "ServiceAccount", "name": "default-editor", "namespace": "profile"}
    binding = {"metadata": {"name": "default-editor"}, "roleRef": role, "subjects": [editor]}
    await cluster.send("POST", f"{rbac}/namespaces/profile/rolebindings", binding)
    for framework in (MPI, MXNET, PYTORCH, TF):
        asked = {"namespace": "profile", "verb": "create", "group": framework.group, "resource": framework.plural}
        review = {"spec": {"user": "system:serviceaccount:profile:default-editor", "resourceAttributes": asked}}
        found = await cluster.send("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
        assert found["status"]["allowed"], framework.plural


async def _training_continues(cluster: Cluster, before: dict[str, str]) -> None:
    """The job that ran has its pods and succeeds; the one that was created in between gets its own."""
    await polled(lambda: uids(cluster, "second"), lambda pods: len(pods) == len(before))
    assert await uids(cluster, "demo") == before
    await becomes(cluster, "demo-master-0", "Succeeded")
    job = await polled(lambda: cluster.send("GET", jobs_path("demo")), is_now("Succeeded"))
    assert await uids(cluster, "demo") == before
    assert job["status"]["completionTime"]


async def _mpi_job_runs(cluster: Cluster) -> None:
    """The MPIJob was started anew, with a launcher pod of ours and without the batch Job."""
    await polled(lambda: uids(cluster, "pi"), lambda pods: set(pods) == {"pi-launcher", "pi-worker-0", "pi-worker-1"})
    assert not await cluster.there("/apis/batch/v1/namespaces/default/jobs/pi-launcher")
