"""The operators of an image, with one job: they start, lead, take it to its success, and end."""

import base64
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import yaml

from jobcommon.api.status import ConditionType, read_status
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.testutil.builders import replica_spec, template
from jobcommon.testutil.polling import polled
from jobcommon.testutil.real.cluster import OPERATOR, OPERATORS, Cluster, embedded_cluster
from jobcommon.testutil.release.program import ReleaseError
from jobcommon.testutil.release.sandbox import Running, Sandbox
from localcluster.conformance.envtest import LOOPBACK, free_port

NAME = "demo"
JOBS = f"/apis/{PYTORCH.api_version}/namespaces/default/{PYTORCH.plural}"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{OPERATORS}/leases/{OPERATORS}"
PATIENCE = 120.0


async def run(sandbox: Sandbox, command: list[str], directory: Path) -> str:
    """What was seen when `command` ran in the sandbox, as a pod of the operators in an embedded cluster.

    Raises ReleaseError with what is wrong.
    """
    async with embedded_cluster(directory / "cluster", uuid.uuid4().hex) as cluster:
        environment = _service_account(cluster, sandbox.account)
        port = free_port()  # on the machine's own network, where 8080 may be taken
        command = [*command, f"--metrics-port={port}", f"--metrics-host={LOOPBACK}"]
        async with sandbox.running(command, environment, directory / "operator.log") as operator:
            await _until(operator, lambda: _answers(f"http://{LOOPBACK}:{port}/readyz"), "/readyz answers")
            gate = directory / "gate"
            await cluster.api.call("POST", JOBS, _job(gate))
            await _until(operator, lambda: _has(cluster, ConditionType.RUNNING), "the job runs")
            if not await _holder(cluster):
                raise ReleaseError("the lease has no holder while the operators work")
            gate.touch()
            await _until(operator, lambda: _has(cluster, ConditionType.SUCCEEDED), "the job succeeds")
            memory = operator.peak_memory()
            if code := await operator.end():
                raise ReleaseError(f"exit code {code} after SIGTERM\n{operator.failure()}")
            if holder := await _holder(cluster):
                raise ReleaseError(f"{holder} still holds the lease after SIGTERM")
    return f"a PyTorchJob of two pods ran and succeeded; the lease was held and released; peak memory {memory:.0f} MB"


def _service_account(cluster: Cluster, directory: Path) -> dict[str, str]:
    """Write what a kubelet mounts into a pod of the operators; the variables that go with it."""
    content = yaml.safe_load(cluster.kubeconfig(OPERATOR).read_text(encoding="utf-8"))
    server = content["clusters"][0]["cluster"]
    (directory / "token").write_text(content["users"][0]["user"]["token"], encoding="utf-8")
    (directory / "ca.crt").write_bytes(base64.b64decode(server["certificate-authority-data"]))
    (directory / "namespace").write_text(OPERATORS, encoding="utf-8")
    address = urlsplit(server["server"])
    return {"KUBERNETES_SERVICE_HOST": str(address.hostname), "KUBERNETES_SERVICE_PORT": str(address.port)}


def _job(gate: Path) -> dict[str, Any]:
    """A job whose pods run until there is a file."""
    pods = template(PYTORCH, command=["sh", "-c", f"until [ -e '{gate}' ]; do sleep 0.1; done"])
    return {
        "apiVersion": PYTORCH.api_version,
        "kind": PYTORCH.kind,
        "metadata": {"name": NAME},
        "spec": {PYTORCH.replica_specs: {kind: replica_spec(PYTORCH, 1, template=pods) for kind in ("Master", "Worker")}},
    }


async def _until(operator: Running, holds: Callable[[], Awaitable[bool]], what: str) -> None:
    async def held() -> bool:
        if said := operator.failure():
            raise ReleaseError(said)
        return await holds()

    try:
        await polled(held, seconds=PATIENCE, retry_on=aiohttp.ClientError)
    except TimeoutError:
        said = operator.log.read_text(errors="replace")[-2000:]
        raise ReleaseError(f"waited {PATIENCE:.0f} s in vain until {what}:\n{said}") from None


async def _answers(url: str) -> bool:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status == 200


async def _has(cluster: Cluster, kind: ConditionType) -> bool:
    return read_status((await cluster.api.call("GET", f"{JOBS}/{NAME}")).get("status")).has(kind)


async def _holder(cluster: Cluster) -> str:
    return str((await cluster.api.call("GET", LEASE))["spec"].get("holderIdentity") or "")
