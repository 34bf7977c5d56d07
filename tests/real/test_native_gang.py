"""Kubernetes' own gangs on the real API server, controller manager and scheduler of 1.37, with a kubelet that is played."""

import asyncio
import subprocess
from pathlib import Path
from typing import Any

import pytest

from jobcommon import Settings
from jobcommon.api.gang import V1BETA1
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.testutil.polling import polled
from localcluster.conformance import envtest
from tests.real.played import PODS, Cluster, control_plane, jobs, lacking

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
    async with control_plane(
        tmp_path,
        [PYTORCH],
        Settings(gang_scheduler_name="kubernetes", metrics_port=None, log_level="warning"),
        controllers="garbage-collector-controller,podgroup-protection-controller",
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
    await asyncio.gather(*(_submit(there, name, 4) for name in names))

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
    await _submit(there, "late", 3)
    await polled(lambda: there.all_run("late", 3))
    await there.end("late-worker-0", 0)
    await there.end("late-worker-2", 137)
    await polled(lambda: _runs(there, "late-worker-2"))
    for name in ("late-worker-1", "late-worker-2"):
        await there.end(name, 0)
    await polled(lambda: there.has(PYTORCH, "late", "Succeeded"))
    await polled(lambda: _is_empty(there))


async def suspended_and_resumed(there: Cluster) -> None:
    await _submit(there, "twice", 2)
    await polled(lambda: there.all_run("twice", 2))
    await _edit(there, "twice", {"suspend": True})
    await polled(lambda: _is_empty(there))
    await _edit(there, "twice", {"suspend": False})
    await polled(lambda: there.all_run("twice", 2))
    assert await _objects(there) == ["twice", "twice"]
    await there.api.call("DELETE", f"{jobs(PYTORCH)}/twice")
    await polled(lambda: _is_empty(there))


async def _submit(there: Cluster, name: str, workers: int) -> None:
    await there.submit(PYTORCH, name, {"Worker": workers}, {})


async def _edit(there: Cluster, name: str, run_policy: dict[str, Any]) -> None:
    merge = "application/merge-patch+json"
    await there.api.call("PATCH", f"{jobs(PYTORCH)}/{name}", {"spec": {"runPolicy": run_policy}}, merge)


async def _objects(there: Cluster) -> list[str]:
    return [o["metadata"]["name"] for path in (GROUPS, WORKLOADS) for o in (await there.api.call("GET", path))["items"]]


async def _runs(there: Cluster, pod: str) -> bool:
    found = await there.api.get(f"{PODS}/{pod}")
    return found is not None and found["status"]["phase"] == "Running"


async def _is_empty(there: Cluster) -> bool:
    return not await _objects(there)
