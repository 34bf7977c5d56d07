"""Kubernetes' own gangs on the real API server, controller manager and scheduler of 1.37, with a kubelet that is played."""

import asyncio
import subprocess
from pathlib import Path

import pytest

from jobcommon import Settings
from jobcommon.api.gang import V1BETA1
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.testutil.polling import polled
from localcluster.client import MERGE_PATCH
from localcluster.conformance import envtest
from tests.real.played import CONTROLLERS, PODS, Cluster, cluster, jobs, lacking

GROUPS, WORKLOADS = (f"/apis/{V1BETA1}/namespaces/default/{plural}" for plural in ("podgroups", "workloads"))
ROUNDS = 20

pytestmark = [pytest.mark.skipif(bool(lacking()), reason=f"no real scheduler: {lacking()}"), pytest.mark.timeout(900)]


def _minor() -> int:
    """Of the API server that there is: Kubernetes 1.36 has other fields, and no field of its own gangs may be changed."""
    version = subprocess.run([envtest.assets() / "kube-apiserver", "--version"], capture_output=True, text=True, check=True)
    return int(version.stdout.split(".")[1])


async def test_lives(tmp_path: Path) -> None:
    if _minor() < 37:
        pytest.skip("scheduling.k8s.io/v1beta1 is that of Kubernetes 1.37")
    async with cluster(
        tmp_path,
        [PYTORCH],
        Settings(gang_scheduler_name="kubernetes", metrics_port=None, log_level="warning"),
        controllers=f"{CONTROLLERS},podgroup-protection-controller",
        server=(f"--runtime-config={V1BETA1}=true",),
        gates=("--feature-gates=GenericWorkload=true",),
    ) as there:
        for number in range(2):
            await there.node(f"node-{number}")
        for run in range(ROUNDS):
            await two_gangs_and_room_for_one(there, run)
        await a_replacement_after_a_success(there)
        await suspended_and_resumed(there)


async def two_gangs_and_room_for_one(there: Cluster, run: int) -> None:
    names = [f"a-{run}", f"b-{run}"]
    await asyncio.gather(*(there.submit(PYTORCH, name, {"Worker": 4}) for name in names))

    async def one_is_placed() -> bool:
        placed = sorted([await there.bound(name) for name in names])
        # A list is no snapshot of a gang that is being bound, but never has the other one a node.
        assert placed[0] == 0
        return placed[1] == 4

    await polled(one_is_placed)
    first, second = names if await there.bound(names[0]) else names[::-1]
    for name in (first, second):
        await there.finish(PYTORCH, name, 4)
    await polled(lambda: _is_empty(there))


async def a_replacement_after_a_success(there: Cluster) -> None:
    """A batch Job waits for ever: kubernetes#142330."""
    await there.submit(PYTORCH, "late", {"Worker": 3})
    await there.runs("late", 3)
    await there.end("late-worker-0", 0)
    await there.end("late-worker-2", 137)
    await polled(
        lambda: there.api.get(f"{PODS}/late-worker-2"), lambda pod: pod is not None and pod["status"]["phase"] == "Running"
    )
    for name in ("late-worker-1", "late-worker-2"):
        await there.end(name, 0)
    await there.until(PYTORCH, "late", "Succeeded")
    await polled(lambda: _is_empty(there))


async def suspended_and_resumed(there: Cluster) -> None:
    job = f"{jobs(PYTORCH)}/twice"
    await there.submit(PYTORCH, "twice", {"Worker": 2})
    await there.runs("twice", 2)
    await there.api.call("PATCH", job, {"spec": {"runPolicy": {"suspend": True}}}, MERGE_PATCH)
    await polled(lambda: _is_empty(there))
    await there.api.call("PATCH", job, {"spec": {"runPolicy": {"suspend": False}}}, MERGE_PATCH)
    await there.runs("twice", 2)
    assert await _objects(there) == ["twice", "twice"]
    await there.api.call("DELETE", job)
    await polled(lambda: _is_empty(there))


async def _objects(there: Cluster) -> list[str]:
    return [o["metadata"]["name"] for path in (GROUPS, WORKLOADS) for o in (await there.api.call("GET", path))["items"]]


async def _is_empty(there: Cluster) -> bool:
    return not await _objects(there)
