"""Gang scheduling on the embedded cluster with real processes, and a scheduler that does what Volcano does with a PodGroup."""

import asyncio
import json
import sys
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from jobcommon.api.gang import VOLCANO
from jobcommon.cli.embedded import SETTINGS, define
from jobcommon.client.list_watch import list_and_watch
from jobcommon.client.request import MERGE_PATCH
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.runtime.manager import run_operators
from jobcommon.testutil.builders import job_manifest, replica_spec
from jobcommon.testutil.cluster import TestCluster, cluster_for, succeeded
from jobcommon.testutil.polling import polled
from localcluster.client import background
from tests.runtime.test_gang import definition

pytestmark = pytest.mark.cluster

GROUPS = f"/apis/{VOLCANO.api_version}/namespaces/default/podgroups"
# No process ends before all have started: with one pod missing this would wait for ever.
MEETING = """
import os, socket, time
host, port, rank = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), int(os.environ["RANK"])
if rank == 0:
    with socket.create_server((host, port)) as server:
        server.accept()[0].close()
else:
    while True:
        try:
            socket.create_connection((host, port)).close()
            break
        except OSError:
            time.sleep(0.02)
"""


@dataclass
class Scheduler:
    """Takes PodGroups up when told to, and binds the pods of one when minMember of them are there."""

    cluster: TestCluster
    node: str
    room: asyncio.Event = field(default_factory=asyncio.Event)
    bound: list[list[str]] = field(default_factory=list)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._enqueue())
            tasks.create_task(self._allocate())

    async def _enqueue(self) -> None:
        async with aclosing(list_and_watch(self.cluster.cluster.client, GROUPS)) as groups:
            async for seen in groups:
                phase = seen.body.get("status", {}).get("phase", "")
                name = seen.body["metadata"]["name"]
                if not seen.deleted and phase == "":
                    await self._phase(name, "Pending")
                elif not seen.deleted and phase == "Pending":
                    await self.room.wait()
                    await self._phase(name, "Inqueue")

    async def _allocate(self) -> None:
        waiting: dict[str, dict[str, Any]] = {}
        async with aclosing(list_and_watch(self.cluster.cluster.client, self.cluster.path("pods"))) as pods:
            async for seen in pods:
                pod = seen.body
                if seen.deleted or pod["spec"].get("nodeName") or pod["spec"]["schedulerName"] != "volcano":
                    continue
                group = pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"]
                waiting[pod["metadata"]["name"]] = pod
                wanted = (await self.cluster.send("GET", f"{GROUPS}/{group}"))["spec"]["minMember"]
                if len(waiting) >= wanted:
                    self.bound.append(sorted(waiting))
                    await self._phase(group, "Running")
                    for name in sorted(waiting):
                        binding = {
                            "apiVersion": "v1",
                            "kind": "Binding",
                            "metadata": {"name": name},
                            "target": {"name": self.node},
                        }
                        await self.cluster.send("POST", f"{self.cluster.path('pods', name)}/binding", binding)
                    waiting.clear()

    async def _phase(self, name: str, phase: str) -> None:
        await self.cluster.send("PATCH", f"{GROUPS}/{name}/status", {"status": {"phase": phase}}, MERGE_PATCH)


async def test_a_gang_waits_runs_and_leaves_nothing_behind() -> None:
    command = [sys.executable, "-c", MEETING]
    template = {
        "spec": {"containers": [{"name": "pytorch", "image": "any", "command": command, "resources": {"requests": {"cpu": 1}}}]}
    }
    spec = replica_spec(PYTORCH, 1) | {"template": template}
    settings = replace(SETTINGS, gang_scheduler_name="auto")
    async with cluster_for(PYTORCH, operators=False) as cluster:
        # The operator looks for it once, at its start.
        await define(cluster.cluster.client, definition(VOLCANO))
        (node,) = (await cluster.send("GET", "/api/v1/nodes"))["items"]
        scheduler = Scheduler(cluster, node["metadata"]["name"])
        async with (
            background(scheduler.run()),
            background(run_operators(cluster.cluster.client, [PYTORCH], settings)),
        ):
            await cluster.create(PYTORCH, job_manifest(PYTORCH, {"Master": spec, "Worker": spec}))
            queued = await cluster.until(
                PYTORCH, "demo", lambda seen: "wait for volcano" in json.dumps(seen.body.get("status"))
            )
            assert "startTime" not in queued["status"]
            assert await cluster.pods() == []
            scheduler.room.set()
            job = await cluster.until(PYTORCH, "demo", succeeded)
            assert job["status"]["startTime"]
            assert scheduler.bound == [["demo-master-0", "demo-worker-0"]], "both at once"
            # What is not there any more has no watch event to wait for.
            await polled(lambda: cluster.send("GET", GROUPS), lambda groups: not groups["items"])
