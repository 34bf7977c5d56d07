"""What is measured beside the lifecycles: memory, a cold start, restarts, and small jobs beside a big one."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any

from benchmarks import seeds
from benchmarks.apiserver import EMBEDDED, Server, cluster, prepare
from benchmarks.kubelet import AGAIN, FAILED, RUNNING, STOPPED, Kubelet, kubelet
from benchmarks.lifecycle_timings import baseline_lifecycle, by_job, collection, operator_lifecycle
from benchmarks.operator_process import Operator, operator
from benchmarks.processes import cpu_seconds
from benchmarks.record import ColdStart, InPlace, Memory, Restart, Small, WorkloadResult
from benchmarks.sending import send_all
from benchmarks.watching import job_watch
from benchmarks.workloads import (
    BASELINE_GROUP,
    IMAGE,
    IMAGE_ID,
    Manifest,
    Workload,
    baseline_writes,
    job_manifest,
    post,
    submissions,
)
from jobcommon.api import labels
from jobcommon.api.pod import STOPPING_TAG
from jobcommon.client.request import Request
from jobcommon.operators.tf import TF
from jobcommon.reconcile.plan import SetImage
from jobcommon.runtime.writes import request_for

SMALL = Workload(1, 2)
#: Small jobs submitted per second.
SMALL_RATE = 8.0
WRITES = ("POST", "PUT", "PATCH", "DELETE")
STOPPING = f"{IMAGE}{STOPPING_TAG}1"
#: What the operator sets in a pod to stop its program and to start it again: the image before, the image, and the annotations.
IMAGES: tuple[tuple[str, str, tuple[tuple[str, str], ...]], ...] = (
    (IMAGE, STOPPING, ((labels.STOP_ORDERED, "2026-01-01T00:00:00Z"),)),
    (STOPPING, IMAGE_ID.replace("@", ":attempt-1@"), ((labels.ATTEMPT, "1"), (labels.EARLIER_RUNS, "1"))),
)


async def workload_result(kind: str, workload: Workload, rounds: int) -> WorkloadResult:
    """The baseline and the operator in turn, on one server."""
    found = WorkloadResult(str(workload), workload.jobs, workload.replicas, [], [])
    async with cluster(kind) as server, kubelet(str(server.kubeconfig)) as agent:
        for number in range(rounds):
            found.baseline.append(await baseline_lifecycle(server, agent, workload, f"baseline-{number}"))
            async with operator(str(server.kubeconfig)) as running:
                found.operator.append(await operator_lifecycle(server, agent, running, workload, f"operator-{number}"))
    return found


async def memory(pods: int) -> Memory:
    """An operator in a pod, with `pods` running pods in its caches.

    The result does not depend on the server that served the lists. With a kubeconfig, the library that reads it adds 37 MB.
    """
    async with cluster(EMBEDDED) as server:
        await _filled(server, seeds.running(pods))
        async with operator(str(server.kubeconfig), in_pod=True) as running:
            await running.idle()
            return Memory(pods, running.resident)


async def cold_start(kind: str, jobs: int) -> ColdStart:
    """A start beside `jobs` finished jobs."""
    async with cluster(kind) as server:
        await _filled(server, seeds.finished(jobs))
        start = monotonic()
        async with operator(str(server.kubeconfig)) as running:
            return await started_beside(running, jobs, monotonic() - start)


async def started_beside(running: Operator, jobs: int, ready: float) -> ColdStart:
    """What the start cost of an operator whose caches were complete after `ready` seconds. Raises TimeoutError."""
    start = monotonic()
    await running.reconciled(jobs)
    over = monotonic()
    await running.idle()
    calls = await running.calls()
    return ColdStart(jobs, ready, over - start, sum(calls[verb] for verb in WRITES), running.cpu, running.resident)


async def _filled(server: Server, objects: Iterable[tuple[str, Manifest]]) -> None:
    async with server.connected() as user:
        await prepare(user, seeds.NAMESPACE)
        await seeds.write(user, objects)


async def restart(kind: str, replicas: int) -> Restart:
    """All replicas of a job are killed and come back, in new pods."""
    job = job_manifest("restart", "job", replicas, "ExitCode")
    async with cluster(kind) as server, kubelet(str(server.kubeconfig)) as agent, _running_job(server, agent, job):
        start = monotonic()
        await agent.mark("restart", FAILED)
        await agent.seen("restart", 2 * replicas)
        return Restart(replicas, await agent.in_phase("restart", RUNNING, replicas) - start)


async def in_place(kind: str, workload: Workload, rounds: int) -> InPlace:
    """One replica of a job is killed, and all are stopped and started again in their pods: by the baseline and the operator."""
    found = InPlace(workload.replicas)
    async with cluster(kind) as server, kubelet(str(server.kubeconfig)) as agent:
        for number in range(rounds):
            found.baseline.append(await _plain_restart(server, agent, workload, f"baseline-{number}"))
            job = job_manifest(namespace := f"operator-{number}", "job", workload.replicas, "OnFailure")
            job["spec"]["runPolicy"] |= {"restartScope": "Job", "restartMethod": "Auto", "keepFailedLogs": False}
            async with _running_job(server, agent, job) as running:
                await running.mark()
                start, spent = monotonic(), cpu_seconds(os.getpid())
                await agent.kill_one(namespace)
                found.seconds.append(await agent.in_phase(namespace, AGAIN, workload.replicas) - start)
                found.cpu_of_all.append(cpu_seconds(os.getpid()) - spent)
                await running.idle()
                found.cpu.append(running.cpu)
                found.patches = (await running.calls())["PATCH"]
    return found


async def _plain_restart(server: Server, agent: Kubelet, workload: Workload, namespace: str) -> float:
    """The seconds of the plain client, which the kubelet tells when all pods are stopped."""
    async with server.connected() as client:
        await prepare(client, namespace)
        await agent.auto(namespace, RUNNING)
        await send_all(client, baseline_writes(workload, namespace))
        await agent.in_phase(namespace, RUNNING, workload.replicas)
        pods = [key.split("/") for key in await agent.seen(namespace, workload.pods)]
        stops, starts = (
            [request_for(SetImage(name, uid, TF.container, before, image, "0", "", marks), namespace) for name, uid in pods]
            for before, image, marks in IMAGES
        )
        start = monotonic()
        await agent.kill_one(namespace)
        await send_all(client, stops)
        await agent.in_phase(namespace, STOPPED, workload.replicas)
        await send_all(client, starts)
        return await agent.in_phase(namespace, AGAIN, workload.replicas) - start


@asynccontextmanager
async def _running_job(server: Server, agent: Kubelet, job: Manifest) -> AsyncIterator[Operator]:
    """An operator that is idle, and a job whose replicas all run."""
    namespace, replicas = job["metadata"]["namespace"], job["spec"][TF.replica_specs]["Worker"]["replicas"]
    async with (
        server.connected() as user,
        operator(str(server.kubeconfig)) as running,
        job_watch(user, [collection(namespace)]) as jobs,
    ):
        await prepare(user, namespace)
        await agent.auto(namespace, RUNNING)
        await send_all(user, [post(job, TF.plural)])
        await agent.in_phase(namespace, RUNNING, replicas)
        await jobs.having(RUNNING, 1)
        await running.idle()
        yield running


async def small(kind: str, replicas: int, count: int) -> Small:
    """Small jobs that come one after the other, first alone, then while one of `replicas` replicas is created.

    The baseline beside: the same objects by plain clients of their own, while another one creates the big job's pods.
    """
    big = Workload(1, replicas)
    async with cluster(kind) as server, kubelet(str(server.kubeconfig)) as agent, server.connected() as user:
        async with server.connected() as other, server.connected() as client:
            for namespace in ("baseline", "baseline-big"):
                await prepare(user, namespace)
            creating = asyncio.create_task(send_all(client, baseline_writes(big, "baseline-big")))
            sent = await _one_by_one(count, lambda number: send_all(other, _small_baseline(number)), creating)
            await creating
            baseline_beside = await _latencies(agent, "baseline", sent)
        async with operator(str(server.kubeconfig)) as running:
            for namespace in ("alone", "beside", "big"):
                await prepare(user, namespace)
            await running.idle()

            async def submit(namespace: str, number: int) -> None:
                await send_all(user, [post(job_manifest(namespace, f"job-{number}", SMALL.replicas), TF.plural)])

            sent = await _one_by_one(count, lambda number: submit("alone", number), None)
            alone = await _latencies(agent, "alone", sent)
            await running.idle()
            await send_all(user, submissions(big, "big"))
            whole = asyncio.create_task(agent.seen("big", replicas))
            sent = await _one_by_one(count, lambda number: submit("beside", number), whole)
            await whole
            return Small(replicas, alone, await _latencies(agent, "beside", sent), baseline_beside)


def _small_baseline(number: int) -> list[Request]:
    writes = baseline_writes(Workload(number + 1, SMALL.replicas), "baseline")
    return [post(job_manifest("baseline", f"job-{number}", SMALL.replicas, api_version=_BASELINE_API), TF.plural), *writes[-3:]]


async def _one_by_one(
    count: int, submit: Callable[[int], Coroutine[Any, Any, object]], meanwhile: "asyncio.Task[Any] | None"
) -> dict[str, float]:
    """When each small job was sent: `count` of them, fewer when `meanwhile` is over before."""
    sent: dict[str, float] = {}
    tasks = []
    start = monotonic()
    for number in range(count):
        await asyncio.sleep(start + number / SMALL_RATE - monotonic())
        if meanwhile is not None and meanwhile.done():
            break
        sent[f"job-{number}"] = monotonic()
        tasks.append(asyncio.create_task(submit(number)))
    await asyncio.gather(*tasks)
    return sent


async def _latencies(agent: Kubelet, namespace: str, sent: dict[str, float]) -> list[float]:
    seen = await agent.seen(namespace, len(sent) * SMALL.replicas)
    return [at - sent[job] for job, at in by_job(seen).items()]


_BASELINE_API = f"{BASELINE_GROUP}/{TF.storage_version}"
