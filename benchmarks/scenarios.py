"""The lifecycles of a workload by baseline and operator, a start beside finished jobs, and small jobs beside a big one."""

import asyncio
from collections.abc import Callable, Coroutine
from time import monotonic
from typing import Any

from benchmarks.apiserver import cluster, prepare
from benchmarks.kubelet import Kubelet, kubelet
from benchmarks.lifecycle_timings import baseline_lifecycle, by_job, operator_lifecycle
from benchmarks.operator_process import Operator, operator
from benchmarks.record import ColdStart, Small, WorkloadResult
from benchmarks.sending import send_all
from benchmarks.workloads import (
    BASELINE_GROUP,
    Workload,
    baseline_writes,
    job_manifest,
    post,
    submissions,
)
from jobcommon.client.request import Request
from jobcommon.operators.tf import TF

SMALL = Workload(1, 2)
#: Small jobs submitted per second.
SMALL_RATE = 8.0
WRITES = ("POST", "PUT", "PATCH", "DELETE")


async def workload_result(kind: str, workload: Workload, rounds: int) -> WorkloadResult:
    """The baseline and the operator in turn, on one server."""
    found = WorkloadResult(str(workload), workload.jobs, workload.replicas, [], [])
    async with cluster(kind) as server, kubelet(str(server.kubeconfig)) as agent:
        for number in range(rounds):
            found.baseline.append(await baseline_lifecycle(server, agent, workload, f"baseline-{number}"))
            async with operator(str(server.kubeconfig)) as running:
                found.operator.append(await operator_lifecycle(server, agent, running, workload, f"operator-{number}"))
    return found


async def started_beside(running: Operator, jobs: int, ready: float) -> ColdStart:
    """What the start cost of an operator whose caches were complete after `ready` seconds. Raises TimeoutError."""
    start = monotonic()
    await running.reconciled(jobs)
    over = monotonic()
    await running.idle()
    calls = await running.calls()
    return ColdStart(jobs, ready, over - start, sum(calls[verb] for verb in WRITES), running.cpu, running.resident)


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
