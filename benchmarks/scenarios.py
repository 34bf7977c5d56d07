"""What is measured beside the lifecycles: memory, a cold start, a mass restart, and small jobs beside a big one."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any

from benchmarks import baseline_client, seeds
from benchmarks.apiserver import EMBEDDED, Server, api_server, prepare
from benchmarks.jobs import watched
from benchmarks.kubelet import AGAIN, FAILED, RUNNING, Kubelet, kubelet
from benchmarks.lifecycle_timings import baseline_lifecycle, operator_lifecycle
from benchmarks.operator_process import operator
from benchmarks.record import ColdStart, InPlace, Memory, Restart, Small, WorkloadResult
from benchmarks.workloads import Workload, baseline_definition, baseline_writes, job_manifest, post, submissions
from jobcommon.cli.frameworks import installed
from jobcommon.client.request import Request
from jobcommon.client.transport import HttpTransport
from jobcommon.operators.tf import TF
from jobcommon.testutil.embedded import DEFINITIONS, install

SMALL = Workload(1, 2)
#: Small jobs submitted per second.
SMALL_RATE = 8.0
WRITES = ("POST", "PUT", "PATCH", "DELETE")
# Until the definitions are served everywhere, a real server answers 429 to lists of them.
ESTABLISH_SECONDS = 30.0


@asynccontextmanager
async def cluster(kind: str, seed: str = "") -> AsyncIterator[Server]:
    """A server with the kinds installed. What was created on a lasting one is deleted afterwards."""
    async with api_server(kind) if kind != EMBEDDED else api_server(kind, seed) as server, server.connected() as transport:
        await install(transport, list(installed().values()))
        body = json.dumps(baseline_definition()).encode()
        await transport.send(Request("POST", DEFINITIONS, body=body))
        await served(transport)
        if kind != EMBEDDED and seed:
            await prepare(transport, seeds.NAMESPACE)
            await seeds.write(transport, seed)
        yield server


async def served(transport: HttpTransport) -> None:
    """Return once all kinds are served. Raises TimeoutError."""
    paths = [f"/apis/{f.api_version}/{f.plural}" for f in installed().values()]
    async with asyncio.timeout(ESTABLISH_SECONDS):
        for path in paths:
            while (await transport.send(Request("GET", path))).status != 200:  # noqa: ASYNC110
                await asyncio.sleep(0.2)


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
    seed = f"running:{pods}" if pods else ""
    async with cluster(EMBEDDED, seed) as server, operator(str(server.kubeconfig), in_pod=True) as running:
        await running.idle()
        return Memory(pods, running.resident)


async def cold_start(kind: str, jobs: int) -> ColdStart:
    """A start beside `jobs` finished jobs."""
    async with cluster(kind, f"finished:{jobs}") as server:
        start = monotonic()
        async with operator(str(server.kubeconfig)) as running:
            ready = monotonic()
            while True:
                done, queued = await running.reconciles()
                if done >= jobs and not queued:
                    break
                if monotonic() - ready > ESTABLISH_SECONDS * 4:
                    raise RuntimeError(f"{done} of {jobs} jobs reconciled, {queued} queued")
                await asyncio.sleep(0.02)
            over = monotonic()
            await running.idle()
            calls = await running.calls()
            return ColdStart(jobs, ready - start, over - ready, sum(calls[verb] for verb in WRITES), running.cpu)


async def restart(kind: str, replicas: int) -> Restart:
    """All replicas of a job are killed and come back."""
    workload = Workload(1, replicas)
    async with cluster(kind) as server, kubelet(str(server.kubeconfig)) as agent, server.connected() as user:
        plain = await _baseline_restart(server, agent, workload, user)
        async with operator(str(server.kubeconfig)) as running:
            namespace = "operator"
            await prepare(user, namespace)
            await running.idle()
            await agent.auto(namespace, RUNNING)
            async with watched(user, namespace) as jobs:
                await baseline_client.send_all(user, submissions(workload, namespace, policy="ExitCode"))
                await agent.in_phase(namespace, RUNNING, replicas)
                await jobs.having("Running", 1)
                await running.idle()
                start = monotonic()
                await agent.mark(namespace, FAILED)
                await agent.seen(namespace, 2 * replicas)
                return Restart(replicas, plain, await agent.in_phase(namespace, RUNNING, replicas) - start)


async def in_place(kind: str, replicas: int) -> InPlace:
    """One replica of a job is killed, and all are stopped and started again in their pods."""
    namespace = "in-place"
    job = job_manifest(namespace, "job", replicas, "OnFailure")
    job["spec"]["runPolicy"] |= {"restartScope": "Job", "restartMethod": "Auto", "keepFailedLogs": False}
    async with (
        cluster(kind) as server,
        kubelet(str(server.kubeconfig)) as agent,
        server.connected() as user,
        operator(str(server.kubeconfig)) as running,
        watched(user, namespace) as jobs,
    ):
        await prepare(user, namespace)
        await agent.auto(namespace, RUNNING)
        await baseline_client.send_all(user, [post(job, TF.plural)])
        await agent.in_phase(namespace, RUNNING, replicas)
        await jobs.having("Running", 1)
        await running.idle()
        await running.mark()
        start = monotonic()
        await agent.kill_one(namespace)
        over = await agent.in_phase(namespace, AGAIN, replicas)
        await running.idle()
        return InPlace(replicas, over - start, running.cpu, (await running.calls())["PATCH"])


async def _baseline_restart(server: Server, agent: Kubelet, workload: Workload, user: HttpTransport) -> float:
    namespace = "baseline"
    await prepare(user, namespace)
    await agent.auto(namespace, RUNNING)
    writes = baseline_writes(workload, namespace)
    async with server.connected() as client:
        await baseline_client.send_all(client, writes)
        await agent.in_phase(namespace, RUNNING, workload.replicas)
        start = monotonic()
        async with baseline_client.replacing(client, namespace, writes):
            await agent.mark(namespace, FAILED)
            await agent.seen(namespace, 2 * workload.replicas)
            return await agent.in_phase(namespace, RUNNING, workload.replicas) - start


async def small(kind: str, replicas: int, count: int) -> Small:
    """Small jobs that come one after the other, first alone, then while one of `replicas` replicas is created.

    The baseline beside: the same objects by plain clients of their own, while another one creates the big job's pods.
    """
    big = Workload(1, replicas)
    async with cluster(kind) as server, kubelet(str(server.kubeconfig)) as agent, server.connected() as user:
        async with server.connected() as other, server.connected() as client:
            for namespace in ("baseline", "baseline-big"):
                await prepare(user, namespace)
            creating = asyncio.create_task(baseline_client.send_all(client, baseline_writes(big, "baseline-big")))
            sent = await _one_by_one(count, lambda number: baseline_client.send_all(other, _small_baseline(number)), creating)
            await creating
            baseline_beside = await _latencies(agent, "baseline", sent)
        async with operator(str(server.kubeconfig)) as running:
            for namespace in ("alone", "beside", "big"):
                await prepare(user, namespace)
            await running.idle()

            async def submit(namespace: str, number: int) -> None:
                await baseline_client.send_all(
                    user, [post(job_manifest(namespace, f"job-{number}", SMALL.replicas), TF.plural)]
                )

            sent = await _one_by_one(count, lambda number: submit("alone", number), None)
            alone = await _latencies(agent, "alone", sent)
            await running.idle()
            await baseline_client.send_all(user, submissions(big, "big"))
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
    last: dict[str, float] = {}
    for name, at in seen.items():
        job = name.partition("-worker-")[0]
        last[job] = max(last.get(job, at), at)
    return [at - sent[job] for job, at in last.items()]


_BASELINE_API = f"{baseline_definition()['spec']['group']}/{TF.storage_version}"
