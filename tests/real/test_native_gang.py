"""Kubernetes' own gangs on the real API server, controller manager and scheduler of 1.36, whose nodes run nothing.

The test plays the kubelet: pods that are bound start, those that are deleted end.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from jobcommon import Settings, custom_resource_definition, run_operators
from jobcommon.api.workload import V1ALPHA2
from jobcommon.client.request import Request
from jobcommon.client.transport import HttpTransport, Timeouts
from jobcommon.operators.pytorch import PYTORCH
from localcluster.conformance import envtest
from localcluster.errors import StatusError
from localcluster.kubeconfig import kubeconfig
from localcluster.kubelet.api import Api

Obj = dict[str, Any]
GATES = "--feature-gates=GenericWorkload=true,GangScheduling=true"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PODS = "/api/v1/namespaces/default/pods"
JOBS = "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs"
GROUPS, WORKLOADS = (f"/apis/{V1ALPHA2}/namespaces/default/{plural}" for plural in ("podgroups", "workloads"))
PROGRAMS = {
    "kube-controller-manager": (
        GATES,
        "--controllers=garbage-collector-controller,podgroup-protection-controller",
        "--use-service-account-credentials=false",
    ),
    "kube-scheduler": (GATES,),
}
ALSO = " and ".join(PROGRAMS)
CPUS = 4


def available() -> bool:
    found = envtest.assets()
    return found is not None and all((found / name).exists() for name in PROGRAMS)


pytestmark = [
    pytest.mark.skipif(
        not available(), reason=f"no real scheduler: set {envtest.ASSETS} to a directory with etcd, kube-apiserver, {ALSO}"
    ),
    pytest.mark.timeout(300),
]


class Cluster:
    """A cluster of nodes for `CPUS` pods. Everything that was seen of a job's pods is in `bound`."""

    def __init__(self, api: Api) -> None:
        self.api = api

    async def pods(self, job: str) -> list[Obj]:
        listed = await self.api.call("GET", PODS)
        return [pod for pod in listed["items"] if pod["metadata"]["labels"]["training.kubeflow.org/job-name"] == job]

    async def bound(self, job: str) -> int:
        return sum("nodeName" in pod["spec"] for pod in await self.pods(job))

    async def end(self, name: str, code: int) -> None:
        ended = {"terminated": {"exitCode": code, "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:01:00Z"}}
        await self._status(name, "Failed" if code else "Succeeded", ended)

    async def kubelet(self) -> None:
        while True:
            for pod in (await self.api.call("GET", PODS))["items"]:
                name = pod["metadata"]["name"]
                try:
                    if "deletionTimestamp" in pod["metadata"] and pod["metadata"].get("deletionGracePeriodSeconds"):
                        await self.api.call("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0})
                    elif "nodeName" in pod["spec"] and pod["status"]["phase"] == "Pending":
                        await self._status(name, "Running", {"running": {"startedAt": "2026-01-01T00:00:00Z"}})
                except StatusError as error:
                    if error.code not in (404, 409):
                        raise
            await asyncio.sleep(0.1)

    async def _status(self, name: str, phase: str, state: Obj) -> None:
        container = {"name": "pytorch", "image": "i", "imageID": "", "ready": False, "restartCount": 0, "state": state}
        await self.api.patch(f"{PODS}/{name}/status", {"status": {"phase": phase, "containerStatuses": [container]}})

    async def serves_jobs(self, transport: HttpTransport) -> bool:
        """A definition is not served at once; until then the answer is a page of text."""
        body = json.dumps(self.job("any", 1, {})).encode()
        return (await transport.send(Request("POST", JOBS, (("dryRun", "All"),), body=body))).status == 201

    @staticmethod
    def job(name: str, workers: int, run_policy: Obj) -> Obj:
        container = {"name": "pytorch", "image": "i", "resources": {"requests": {"cpu": 1}}}
        worker = {"replicas": workers, "restartPolicy": "ExitCode", "template": {"spec": {"containers": [container]}}}
        spec = {"runPolicy": run_policy, "pytorchReplicaSpecs": {"Worker": worker}}
        return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": name}, "spec": spec}

    async def submit(self, name: str, workers: int, **run_policy: Any) -> None:
        await self.api.call("POST", JOBS, self.job(name, workers, run_policy))

    async def edit(self, name: str, run_policy: Obj) -> None:
        merge = "application/merge-patch+json"
        await self.api.call("PATCH", f"{JOBS}/{name}", {"spec": {"runPolicy": run_policy}}, merge)

    async def conditions(self, name: str) -> list[str]:
        job = await self.api.call("GET", f"{JOBS}/{name}")
        return [c["type"] for c in job.get("status", {}).get("conditions", []) if c["status"] == "True"]

    async def objects(self) -> list[str]:
        return [o["metadata"]["name"] for path in (GROUPS, WORKLOADS) for o in (await self.api.call("GET", path))["items"]]


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(60):
        while True:
            if await condition():
                return
            await asyncio.sleep(0.1)


@asynccontextmanager
async def cluster(directory: Path) -> AsyncIterator[Cluster]:
    found = envtest.assets()
    assert found is not None
    version = V1ALPHA2.partition("/")[2]
    arguments = (GATES, f"--runtime-config=scheduling.k8s.io/{version}=true", "--disable-admission-plugins=ServiceAccount")
    async with envtest.servers(found, arguments) as servers:
        admin = directory / "admin.kubeconfig"
        admin.write_text(kubeconfig(servers.endpoint.base_url, str(servers.endpoint.token), servers.certificate))
        transport = HttpTransport(servers.endpoint, timeouts=Timeouts())
        made = Cluster(Api(transport))
        async with asyncio.TaskGroup() as group:
            programs = []
            for name, own in PROGRAMS.items():
                port = f"--secure-port={envtest.free_port()}"
                common = [f"--kubeconfig={admin}", "--bind-address=127.0.0.1", port, "--leader-elect=false", *own]
                programs.append(envtest.Program(found / name, servers.work, [*common, f"--cert-dir={servers.work / name}"]))
            for program in programs:
                await program.start()
            try:
                await made.api.call("POST", DEFINITIONS, custom_resource_definition(PYTORCH))
                await until(lambda: made.serves_jobs(transport))
                for number in range(CPUS // 2):
                    await _node(made.api, f"node-{number}")
                settings = Settings(gang_scheduler_name="kubernetes", metrics_port=None, log_level="warning")
                tasks = [group.create_task(run_operators(transport, [PYTORCH], settings)), group.create_task(made.kubelet())]
                yield made
                for task in tasks:
                    task.cancel()
            finally:
                for program in programs:
                    await program.__aexit__()
        await transport.close()


async def _node(api: Api, name: str) -> None:
    amounts = {"cpu": "2", "memory": "8Gi", "pods": "10"}
    conditions = [{"type": "Ready", "status": "True"}]
    status = {"capacity": amounts, "allocatable": amounts, "conditions": conditions}
    await api.call("POST", "/api/v1/nodes", {"metadata": {"name": name}, "status": status})
    await api.call("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": None}}, "application/merge-patch+json")


async def test_lives(tmp_path: Path) -> None:
    async with cluster(tmp_path) as there:
        for run in range(ROUNDS):
            await two_gangs_and_room_for_one(there, run)
        await a_replacement_after_a_success(there)
        await suspended_and_resumed(there)


ROUNDS = 2


async def two_gangs_and_room_for_one(there: Cluster, run: int) -> None:
    names = [f"a-{run}", f"b-{run}"]
    await asyncio.gather(*(there.submit(name, 4) for name in names))

    async def one_is_placed() -> bool:
        placed = sorted([await there.bound(name) for name in names])
        # A list is no snapshot of a gang that is being bound, but never has the other one a node.
        assert placed[0] == 0
        return placed[1] == 4

    await until(one_is_placed)
    first, second = sorted(names, key=lambda name: name)
    if await there.bound(second):
        first, second = second, first
    for name in (first, second):
        await until(lambda name=name: _all_run(there, name, 4))
        for pod in await there.pods(name):
            await there.end(pod["metadata"]["name"], 0)
        await until(lambda name=name: _has(there, name, "Succeeded"))
    await until(lambda: _is_empty(there))


async def a_replacement_after_a_success(there: Cluster) -> None:
    """A batch Job waits for ever: kubernetes#142330."""
    await there.submit("late", 3)
    await until(lambda: _all_run(there, "late", 3))
    await there.end("late-worker-0", 0)
    await there.end("late-worker-2", 137)
    await until(lambda: _runs(there, "late-worker-2"))
    for name in ("late-worker-1", "late-worker-2"):
        await there.end(name, 0)
    await until(lambda: _has(there, "late", "Succeeded"))
    await until(lambda: _is_empty(there))


async def suspended_and_resumed(there: Cluster) -> None:
    await there.submit("twice", 2)
    await until(lambda: _all_run(there, "twice", 2))
    await there.edit("twice", {"suspend": True})
    await until(lambda: _is_empty(there))
    await there.edit("twice", {"suspend": False})
    await until(lambda: _all_run(there, "twice", 2))
    assert await there.objects() == ["twice", "twice"]
    await there.api.call("DELETE", f"{JOBS}/twice")
    await until(lambda: _is_empty(there))


async def _all_run(there: Cluster, name: str, count: int) -> bool:
    return [pod["status"]["phase"] for pod in await there.pods(name)] == ["Running"] * count


async def _runs(there: Cluster, pod: str) -> bool:
    found = await there.api.get(f"{PODS}/{pod}")
    return found is not None and found["status"]["phase"] == "Running"


async def _has(there: Cluster, name: str, condition: str) -> bool:
    return condition in await there.conditions(name)


async def _is_empty(there: Cluster) -> bool:
    return not await there.objects()
