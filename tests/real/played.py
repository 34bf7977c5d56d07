"""A real control plane whose nodes run nothing. The kubelet is played: bound pods start, deleted ones end."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobcommon import Framework, Settings, run_operators
from jobcommon.cli.embedded import install
from jobcommon.client.transport import HttpTransport
from jobcommon.testutil.polling import polled
from jobcommon.testutil.real.cluster import control_plane
from localcluster.client import Api, StatusError, background
from localcluster.conformance import envtest

Obj = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
#: Without those that need a kubelet, such as the one that takes the pods off nodes that renew no lease.
CONTROLLERS = "garbage-collector-controller,serviceaccount-controller,root-ca-certificate-publisher-controller"
STARTED, ENDED = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"


def lacking(*also: str) -> str:
    """Why there is no such control plane here; "" if there is."""
    programs, found = ("kube-scheduler", *also), envtest.assets()
    if found is not None and all((found / name).exists() for name in programs):
        return ""
    return f"set {envtest.ASSETS} to a directory with {', '.join(envtest.PROGRAMS)} and {' and '.join(programs)}"


@dataclass
class Cluster:
    """The cluster. Jobs are in the namespace default; each pod requests one CPU."""

    api: Api
    admin: Path
    transport: HttpTransport

    async def pods(self, job: str) -> list[Obj]:
        listed = await self.api.call("GET", PODS)
        return [pod for pod in listed["items"] if pod["metadata"]["labels"]["training.kubeflow.org/job-name"] == job]

    async def uids(self, job: str) -> set[str]:
        return {pod["metadata"]["uid"] for pod in await self.pods(job)}

    async def bound(self, job: str) -> int:
        return sum("nodeName" in pod["spec"] for pod in await self.pods(job))

    async def runs(self, job: str, count: int) -> None:
        """Return once the job has so many pods, which all run."""
        await polled(lambda: self.pods(job), lambda pods: [pod["status"]["phase"] for pod in pods] == ["Running"] * count)

    async def end(self, name: str, code: int) -> None:
        ended = {"terminated": {"exitCode": code, "startedAt": STARTED, "finishedAt": ENDED}}
        pod = await self.api.call("GET", f"{PODS}/{name}")
        await self._status(pod, "Failed" if code else "Succeeded", ended)

    async def finish(self, framework: Framework, name: str, count: int, condition: str = "Succeeded") -> None:
        """Let all pods of a job run and succeed, and the job with them."""
        await self.runs(name, count)
        for pod in await self.pods(name):
            await self.end(pod["metadata"]["name"], 0)
        await self.until(framework, name, condition)

    async def kubelet(self) -> None:
        while True:
            for pod in (await self.api.call("GET", PODS))["items"]:
                name = pod["metadata"]["name"]
                try:
                    if "deletionTimestamp" in pod["metadata"] and pod["metadata"].get("deletionGracePeriodSeconds"):
                        await self.api.call("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0})
                    elif "nodeName" in pod["spec"] and pod["status"]["phase"] == "Pending":
                        await self._status(pod, "Running", {"running": {"startedAt": STARTED}})
                except StatusError as error:
                    if error.code not in (404, 409):
                        raise
            await asyncio.sleep(0.1)

    async def _status(self, pod: Obj, phase: str, state: Obj) -> None:
        ready = phase == "Running"
        main = pod["spec"]["containers"][0]["name"]
        container = {"name": main, "image": "i", "imageID": "", "ready": ready, "restartCount": 0, "state": state}
        status = {"phase": phase, "containerStatuses": [container], "conditions": [{"type": "Ready", "status": str(ready)}]}
        await self.api.patch(f"{PODS}/{pod['metadata']['name']}/status", {"status": status})

    async def node(self, name: str, **labels: str) -> None:
        """A node for two pods."""
        amounts = {"cpu": "2", "memory": "8Gi", "pods": "10"}
        status = {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
        meta = {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}}
        await self.api.call("POST", "/api/v1/nodes", {"metadata": meta, "status": status})
        await self.api.call("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": None}}, "application/merge-patch+json")

    async def submit(
        self, framework: Framework, name: str, replicas: dict[str, int], run_policy: Obj | None = None,
        annotations: Obj | None = None, labels: Obj | None = None, **spec: Any,
    ) -> None:  # fmt: skip
        """Create a job whose pods' templates have these annotations."""
        container = {"name": framework.container, "image": "i", "resources": {"requests": {"cpu": 1}}}
        template = {"metadata": {"annotations": annotations or {}}, "spec": {"containers": [container]}}
        specs = {kind: {"replicas": n, "restartPolicy": "ExitCode", "template": template} for kind, n in replicas.items()}
        job = {
            "apiVersion": framework.api_version,
            "kind": framework.kind,
            "metadata": {"name": name, "labels": labels or {}},
            "spec": {"runPolicy": run_policy or {}, framework.replica_specs: specs, **spec},
        }
        await self.api.call("POST", jobs(framework), job)

    async def job(self, framework: Framework, name: str) -> Obj:
        found: Obj = await self.api.call("GET", f"{jobs(framework)}/{name}")
        return found

    async def until(self, framework: Framework, name: str, condition: str) -> None:
        """Return once the job has that condition."""
        await polled(lambda: self.job(framework, name), lambda job: holds(job, condition))


def holds(one: Obj, kind: str) -> bool:
    """Whether an object has that condition."""
    return any(c["type"] == kind and c["status"] == "True" for c in one.get("status", {}).get("conditions", ()))


def jobs(framework: Framework) -> str:
    """The path of jobs of a kind."""
    return f"/apis/{framework.api_version}/namespaces/default/{framework.plural}"


@asynccontextmanager
async def cluster(
    directory: Path, frameworks: Sequence[Framework], settings: Settings, *, controllers: str = CONTROLLERS,
    server: tuple[str, ...] = (), gates: tuple[str, ...] = (),
) -> AsyncIterator[Cluster]:  # fmt: skip
    """A control plane that runs the operators, with arguments of the API server and of all programs."""
    found, admin = envtest.assets(), directory / "admin.kubeconfig"
    assert found is not None
    manager = (f"--controllers={controllers}",)
    async with control_plane(found, admin, server=server, manager=manager, gates=gates) as (_, transport):
        await install(transport, frameworks)
        made = Cluster(Api(transport), admin, transport)
        async with background(run_operators(transport, frameworks, settings)), background(made.kubelet()):
            yield made
