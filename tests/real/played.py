"""A real control plane whose nodes run nothing. The kubelet is played: bound pods start, deleted ones end."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobcommon import Framework, Settings, run_operators
from jobcommon.cli.embedded import endpoint
from jobcommon.client.transport import HttpTransport, Timeouts
from jobcommon.crd import definitions
from jobcommon.testutil.polling import polled
from localcluster.client import Api, StatusError, background, kubeconfig
from localcluster.conformance import envtest

Obj = dict[str, Any]
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PODS = "/api/v1/namespaces/default/pods"
_MANAGER, _SCHEDULER = "kube-controller-manager", "kube-scheduler"


def lacking(*also: str) -> str:
    """Why there is no such control plane here; "" if there is."""
    programs, found = (_MANAGER, _SCHEDULER, *also), envtest.assets()
    if found is not None and all((found / name).exists() for name in programs):
        return ""
    return f"set {envtest.ASSETS} to a directory with etcd, kube-apiserver, {' and '.join(programs)}"


@dataclass
class Cluster:
    """The cluster. Jobs are in the namespace default; each pod requests one CPU."""

    api: Api
    admin: Path
    servers: envtest.Servers
    transport: HttpTransport

    async def until_served(self, path: str) -> None:
        """Wait until a definition is served: it is not at once, and until then the answer is a page of text."""
        await polled(lambda: self.api.get(path), retry_on=ValueError)

    async def pods(self, job: str) -> list[Obj]:
        listed = await self.api.call("GET", PODS)
        return [pod for pod in listed["items"] if pod["metadata"]["labels"]["training.kubeflow.org/job-name"] == job]

    async def bound(self, job: str) -> int:
        return sum("nodeName" in pod["spec"] for pod in await self.pods(job))

    async def end(self, name: str, code: int) -> None:
        ended = {"terminated": {"exitCode": code, "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:01:00Z"}}
        pod = await self.api.call("GET", f"{PODS}/{name}")
        await self._status(pod, "Failed" if code else "Succeeded", ended)

    async def finish(self, framework: Framework, name: str, count: int, condition: str = "Succeeded") -> None:
        """Let all pods of a job run and succeed, and the job with them."""
        await polled(lambda: self.all_run(name, count))
        for pod in await self.pods(name):
            await self.end(pod["metadata"]["name"], 0)
        await polled(lambda: self.has(framework, name, condition))

    async def kubelet(self) -> None:
        while True:
            for pod in (await self.api.call("GET", PODS))["items"]:
                name = pod["metadata"]["name"]
                try:
                    if "deletionTimestamp" in pod["metadata"] and pod["metadata"].get("deletionGracePeriodSeconds"):
                        await self.api.call("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0})
                    elif "nodeName" in pod["spec"] and pod["status"]["phase"] == "Pending":
                        await self._status(pod, "Running", {"running": {"startedAt": "2026-01-01T00:00:00Z"}})
                except StatusError as error:
                    if error.code not in (404, 409):
                        raise
            await asyncio.sleep(0.1)

    async def _status(self, pod: Obj, phase: str, state: Obj) -> None:
        ready = phase == "Running"
        main = pod["spec"]["containers"][0]["name"]
        container = {"name": main, "image": "i", "imageID": "", "ready": ready, "restartCount": 0, "state": state}
        conditions = [{"type": "Ready", "status": str(ready)}]
        status = {"phase": phase, "containerStatuses": [container], "conditions": conditions}
        await self.api.patch(f"{PODS}/{pod['metadata']['name']}/status", {"status": status})

    async def node(self, name: str, **labels: str) -> None:
        """A node for two pods."""
        amounts = {"cpu": "2", "memory": "8Gi", "pods": "10"}
        status = {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
        meta = {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}}
        await self.api.call("POST", "/api/v1/nodes", {"metadata": meta, "status": status})
        await self.api.call("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": None}}, "application/merge-patch+json")

    async def submit(self, framework: Framework, name: str, replicas: Mapping[str, int], run_policy: Obj, **job: Any) -> None:
        await self.api.call("POST", jobs(framework), manifest(framework, name, replicas, run_policy, **job))

    async def job(self, framework: Framework, name: str) -> Obj:
        found: Obj = await self.api.call("GET", f"{jobs(framework)}/{name}")
        return found

    async def has(self, framework: Framework, name: str, condition: str) -> bool:
        conditions = (await self.job(framework, name)).get("status", {}).get("conditions", [])
        return condition in [c["type"] for c in conditions if c["status"] == "True"]

    async def all_run(self, name: str, count: int) -> bool:
        return [pod["status"]["phase"] for pod in await self.pods(name)] == ["Running"] * count


def jobs(framework: Framework) -> str:
    """The path of jobs of a kind."""
    return f"/apis/{framework.api_version}/namespaces/default/{framework.plural}"


def manifest(
    framework: Framework, name: str, replicas: Mapping[str, int], run_policy: Obj, annotations: Obj | None = None,
    labels: Obj | None = None, **spec: Any
) -> Obj:  # fmt: skip
    """A job whose pods' templates have these annotations."""
    container = {"name": framework.container, "image": "i", "resources": {"requests": {"cpu": 1}}}
    template = {"metadata": {"annotations": annotations or {}}, "spec": {"containers": [container]}}
    specs = {kind: {"replicas": n, "restartPolicy": "ExitCode", "template": template} for kind, n in replicas.items()}
    return {
        "apiVersion": framework.api_version,
        "kind": framework.kind,
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"runPolicy": run_policy, framework.replica_specs: specs, **spec},
    }


@asynccontextmanager
async def control_plane(
    directory: Path, frameworks: Iterable[Framework], settings: Settings | None, *, controllers: str,
    server: tuple[str, ...] = (), gates: tuple[str, ...] = (),
) -> AsyncIterator[Cluster]:  # fmt: skip
    """A control plane that runs the operators if they have settings, with arguments of the API server and of all programs."""
    found, frameworks = envtest.assets(), [*frameworks]
    assert found is not None
    manager = (f"--controllers={controllers}", "--use-service-account-credentials=false")
    async with AsyncExitStack() as stack:
        arguments = ("--disable-admission-plugins=ServiceAccount", *server, *gates)
        servers = await stack.enter_async_context(envtest.servers(found, arguments))
        admin = servers.work / "admin.kubeconfig"
        admin.write_text(kubeconfig(servers.endpoint.base_url, str(servers.endpoint.token), servers.certificate))
        transport = HttpTransport(endpoint(servers.endpoint), timeouts=Timeouts())
        stack.push_async_callback(transport.close)
        made = Cluster(Api(transport), admin, servers, transport)
        for name, own in ((_MANAGER, manager), (_SCHEDULER, ())):
            port = f"--secure-port={envtest.free_port()}"
            common = [f"--kubeconfig={admin}", "--bind-address=127.0.0.1", port, "--leader-elect=false", *own, *gates]
            program = envtest.Program(found / name, servers.work, [*common, f"--cert-dir={servers.work / name}"])
            await stack.enter_async_context(program)
        for framework in frameworks:
            for definition in definitions(framework):
                await made.api.call("POST", DEFINITIONS, definition)
            await made.until_served(jobs(framework))
        if settings is not None:
            await stack.enter_async_context(background(run_operators(transport, frameworks, settings)))
        await stack.enter_async_context(background(made.kubelet()))
        yield made
