"""With real processes: no pod stays behind because of our finalizer, with an operator or without one."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from jobcommon.client.request import Request
from jobcommon.framework import FINALIZER
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.testutil.polling import polled
from jobcommon.testutil.processes import Ground
from tests.cli.commands import jobcommon

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(600)]

JOBS = f"/apis/{PYTORCH.api_version}/namespaces/default/{PYTORCH.plural}"
PODS = "/api/v1/namespaces/default/pods"


class Site(Ground):
    """A cluster, one operator, and a job whose two pods run."""

    async def call(self, method: str, path: str, body: Any = None) -> Any:
        answer = await self.transport.send(Request(method, path, body=None if body is None else json.dumps(body).encode()))
        assert answer.status < 300, answer.body
        return json.loads(answer.body)

    async def pods(self) -> list[Any]:
        return list((await self.call("GET", PODS))["items"])


@asynccontextmanager
async def site(directory: Path) -> AsyncIterator[Site]:
    ground = Site(directory, uuid.uuid4().hex)
    container = {"name": "pytorch", "image": "any", "command": ["sleep", "1000"]}
    template = {"spec": {"terminationGracePeriodSeconds": 1, "containers": [container]}}
    spec = {"pytorchReplicaSpecs": {"Worker": {"replicas": 2, "restartPolicy": "Never", "template": template}}}
    try:
        await ground.open()
        await ground.add_operator().start()
        job = {"apiVersion": PYTORCH.api_version, "kind": PYTORCH.kind, "metadata": {"name": "demo"}, "spec": spec}
        await ground.call("POST", JOBS, job)
        await polled(ground.pods, lambda pods: len(pods) == 2 and all(p["status"]["phase"] == "Running" for p in pods))
        yield ground
    finally:
        await ground.abandon()


def held(pods: list[Any]) -> bool:
    """Whether all pods have ended and only our finalizer keeps them."""
    return all(
        p["metadata"].get("deletionTimestamp")
        and p["status"]["phase"] == "Failed"
        and p["metadata"]["finalizers"] == [FINALIZER]
        for p in pods
    )


async def test_pods_of_a_job_that_was_deleted_without_an_operator_go_when_one_comes(tmp_path: Path) -> None:
    async with site(tmp_path) as ground:
        (operator,) = ground.operators
        await operator.kill()
        await ground.call("DELETE", f"{JOBS}/demo")
        assert len(await polled(ground.pods, held)) == 2
        await operator.start()
        assert await polled(ground.pods, lambda pods: not pods) == []


async def test_uninstalling_with_jobs_present(tmp_path: Path) -> None:
    """The operator is ended for good; one command frees its pods, those that run as well as those that are to go."""
    async with site(tmp_path) as ground:
        (operator,) = ground.operators
        assert await operator.end() == 0
        before = {p["metadata"]["uid"] for p in await ground.pods()}
        await ground.call("DELETE", f"{PODS}/demo-worker-1")
        await polled(ground.pods, lambda pods: any(held([p]) for p in pods))
        done = await asyncio.to_thread(jobcommon, "release-finalizers", "--kubeconfig", str(ground.kubeconfig))
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[-1] == "2 released"
        (left,) = await polled(ground.pods, lambda pods: len(pods) == 1)
        assert left["metadata"]["uid"] in before
        assert left["status"]["phase"] == "Running"
        assert not left["metadata"].get("finalizers")
        await ground.call("DELETE", f"{JOBS}/demo")
        assert await polled(ground.pods, lambda pods: not pods) == []
