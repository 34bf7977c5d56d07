"""The long run in a thin form. Nothing here depends on how fast the machine is."""

import asyncio
from collections import deque
from copy import copy
from itertools import pairwise
from typing import Any

import pytest

from benchmarks import kubelet as played
from benchmarks.apiserver import EMBEDDED
from benchmarks.kubelet import Agent, JobPods
from benchmarks.seeds import STARTED
from benchmarks.soak.churn import Churn
from benchmarks.soak.jobs import FATES, FRAMEWORKS, Fate, SoakJob
from benchmarks.soak.run import Plan, run
from benchmarks.watching import JobWatch, watching
from jobcommon.api.labels import JOB_NAME
from jobcommon.client.list_watch import WatchedObject
from jobcommon.client.request import Request, Response
from tests.runtime.world import World


def test_every_kind_has_every_fate() -> None:
    jobs = [SoakJob.of(number) for number in range(len(FRAMEWORKS) * len(FATES))]
    assert {(job.framework.kind, job.fate) for job in jobs} == {(f.kind, fate) for f in FRAMEWORKS for fate in Fate}


async def test_the_kubelet_ends_a_deletion_that_was_broken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the API server leaves of a pod when its client is killed between the two steps of a deletion."""
    monkeypatch.setattr(played, "TERMINATION_SECONDS", 0.0)
    world = World()
    metadata = {"name": "demo-worker-0", "namespace": "default", "uid": "1", "labels": {JOB_NAME: "demo"}}
    metadata |= {"creationTimestamp": STARTED, "deletionTimestamp": STARTED, "deletionGracePeriodSeconds": 0}
    pod = {"metadata": metadata, "spec": {"containers": [{"name": "main"}]}}
    world.server.storage.put("pods", "default", "demo-worker-0", pod)
    sent: list[str] = []

    async def send(request: Request) -> Response:
        sent.append(request.method)
        return await transport.send(request)

    transport, recording = world.transport, copy(world.transport)
    monkeypatch.setattr(recording, "send", send)
    kubelet = Agent(recording)
    async with asyncio.timeout(120.0), watching(recording, "/api/v1/pods", kubelet.take):
        await kubelet.until(lambda: "DELETE" in sent and not world.pods())
    assert [method for method in sent if method != "GET"] == ["DELETE"]


async def test_a_job_that_ended_before_its_other_pod_was_made_is_over() -> None:
    """The operator was killed between the two creations, and found the deciding pod at its end when it started again."""

    class Played:
        async def send(self, request: Request) -> Response:
            return Response(200, b"{}")

        async def job_pods(self, namespace: str, job: str) -> JobPods:
            return JobPods(appeared=[1.0], fated=1)

    everything: Any = Played()
    watch = JobWatch()
    churn = Churn(everything, everything, watch, deque())
    async with asyncio.timeout(120.0):
        job = churn.submit()
        status = {"conditions": [{"type": "Succeeded", "status": "True"}]}
        watch.take(WatchedObject({"metadata": {"name": job.name}, "status": status}))
        await churn.finish()
    assert (churn.ends, churn.faults, churn.lives) == ({Fate.SUCCEEDS: 1}, [], [])


@pytest.mark.cluster
@pytest.mark.slow
async def test_a_thin_run() -> None:
    """Every fate of every kind, restarts of operator and server: nothing hangs."""
    found = await run(EMBEDDED, Plan(minutes=0.3, rate=4.0, kept=60))
    assert found.faults == []
    assert set(found.ends) == {fate.value for fate in Fate}
    assert found.cold_start.writes == 0
    assert found.restarts == ["operator", "API server", "operator"]
    assert all(earlier.over <= later.over for earlier, later in pairwise(found.samples))
