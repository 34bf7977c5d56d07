"""What is measured beside the lives: memory, a cold start, a mass restart, and small jobs beside a big one."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any

from benchmarks import floor, seeds
from benchmarks.apiserver import EMBEDDED, Server, api_server, prepare
from benchmarks.jobs import watched
from benchmarks.kubelet import FAILED, RUNNING, Kubelet, kubelet
from benchmarks.lives import floor_life, operator_life
from benchmarks.operating import operator
from benchmarks.record import ColdStart, Memory, Restart, ShapeResult, Small
from benchmarks.shapes import Shape, floor_definition, floor_writes, job_manifest, post, submissions
from jobcommon.cli.frameworks import installed
from jobcommon.client.request import Request
from jobcommon.client.transport import HttpTransport
from jobcommon.localcluster.training import DEFINITIONS, install
from jobcommon.operators.tf import TF

SMALL = Shape(1, 2)
#: A small job comes so many times a second.
SMALL_RATE = 8.0
WRITES = ("POST", "PUT", "PATCH", "DELETE")
# Until the definitions are served everywhere, a real server answers 429 to lists of them.
ESTABLISH_SECONDS = 30.0


@asynccontextmanager
async def cluster(kind: str, seed: str = "") -> AsyncIterator[Server]:
    """A server with the kinds installed. A lasting one is tidied up afterwards."""
    async with api_server(kind) if kind != EMBEDDED else api_server(kind, seed) as server, server.connected() as transport:
        await install(transport, list(installed().values()))
        body = json.dumps(floor_definition()).encode()
        await transport.send(Request("POST", DEFINITIONS, body=body))
        await _served(transport)
        if kind != EMBEDDED and seed:
            await prepare(transport, seeds.NAMESPACE)
            await seeds.write(transport, seed)
        yield server


async def _served(transport: HttpTransport) -> None:
    paths = [f"/apis/{f.api_version}/{f.plural}" for f in installed().values()]
    async with asyncio.timeout(ESTABLISH_SECONDS):
        for path in paths:
            while (await transport.send(Request("GET", path))).status != 200:  # noqa: ASYNC110
                await asyncio.sleep(0.2)


async def shape_result(kind: str, shape: Shape, rounds: int) -> ShapeResult:
    """The floor and the operator in turn, on one server."""
    found = ShapeResult(str(shape), shape.jobs, shape.replicas, [], [])
    async with cluster(kind) as server, kubelet(str(server.kubeconfig)) as agent:
        for number in range(rounds):
            found.floor.append(await floor_life(server, agent, shape, f"floor-{number}"))
            async with operator(str(server.kubeconfig)) as running:
                found.operator.append(await operator_life(server, agent, running, shape, f"operator-{number}"))
    return found


async def memory(pods: int) -> Memory:
    """An operator that has so many running pods in its caches. It does not depend on the server which gave it the lists."""
    seed = f"running:{pods}" if pods else ""
    async with cluster(EMBEDDED, seed) as server, operator(str(server.kubeconfig)) as running:
        await running.idle()
        return Memory(pods, running.resident)


async def cold_start(kind: str, jobs: int) -> ColdStart:
    """A start beside so many finished jobs."""
    async with cluster(kind, f"finished:{jobs}") as server:
        start = monotonic()
        async with operator(str(server.kubeconfig)) as running:
            ready = monotonic()
            while True:
                done, queued = await running.reconciles()
                if done >= jobs and not queued:
                    break
                if monotonic() - ready > ESTABLISH_SECONDS * 4:
                    raise RuntimeError(f"{done} of {jobs} jobs looked at, {queued} queued")
                await asyncio.sleep(0.02)
            over = monotonic()
            await running.idle()
            calls = await running.calls()
            return ColdStart(jobs, ready - start, over - ready, sum(calls[verb] for verb in WRITES), running.cpu)


async def restart(kind: str, replicas: int) -> Restart:
    """All replicas of a job are killed and come back."""
    shape = Shape(1, replicas)
    async with cluster(kind) as server, kubelet(str(server.kubeconfig)) as agent, server.connected() as user:
        plain = await _floor_restart(server, agent, shape, user)
        async with operator(str(server.kubeconfig)) as running:
            namespace = "operator"
            await prepare(user, namespace)
            await running.idle()
            await agent.auto(namespace, RUNNING)
            async with watched(user, namespace) as jobs:
                await floor.send_all(user, submissions(shape, namespace, policy="ExitCode"))
                await agent.in_phase(namespace, RUNNING, replicas)
                await jobs.having("Running", 1)
                await running.idle()
                start = monotonic()
                await agent.mark(namespace, FAILED)
                await agent.seen(namespace, 2 * replicas)
                return Restart(replicas, plain, await agent.in_phase(namespace, RUNNING, replicas) - start)


async def _floor_restart(server: Server, agent: Kubelet, shape: Shape, user: HttpTransport) -> float:
    namespace = "floor"
    await prepare(user, namespace)
    await agent.auto(namespace, RUNNING)
    writes = floor_writes(shape, namespace)
    async with server.connected() as client:
        await floor.send_all(client, writes)
        await agent.in_phase(namespace, RUNNING, shape.replicas)
        start = monotonic()
        async with floor.replacing(client, namespace, writes):
            await agent.mark(namespace, FAILED)
            await agent.seen(namespace, 2 * shape.replicas)
            return await agent.in_phase(namespace, RUNNING, shape.replicas) - start


async def small(kind: str, replicas: int, count: int) -> Small:
    """Small jobs that come one after the other, first alone, then while one of `replicas` replicas is created.

    The floor beside: the same objects by plain clients of their own, while another one creates the big job's pods.
    """
    big = Shape(1, replicas)
    async with cluster(kind) as server, kubelet(str(server.kubeconfig)) as agent, server.connected() as user:
        async with server.connected() as other, server.connected() as client:
            for namespace in ("floor", "floor-big"):
                await prepare(user, namespace)
            creating = asyncio.create_task(floor.send_all(client, floor_writes(big, "floor-big")))
            sent = await _one_by_one(count, lambda number: floor.send_all(other, _small_floor(number)), creating)
            await creating
            floor_beside = await _latencies(agent, "floor", sent)
        async with operator(str(server.kubeconfig)) as running:
            for namespace in ("alone", "beside", "big"):
                await prepare(user, namespace)
            await running.idle()

            async def submit(namespace: str, number: int) -> None:
                await floor.send_all(user, [post(job_manifest(namespace, f"job-{number}", SMALL.replicas), TF.plural)])

            sent = await _one_by_one(count, lambda number: submit("alone", number), None)
            alone = await _latencies(agent, "alone", sent)
            await running.idle()
            await floor.send_all(user, submissions(big, "big"))
            whole = asyncio.create_task(agent.seen("big", replicas))
            sent = await _one_by_one(count, lambda number: submit("beside", number), whole)
            await whole
            return Small(replicas, alone, await _latencies(agent, "beside", sent), floor_beside)


def _small_floor(number: int) -> list[Request]:
    writes = floor_writes(Shape(number + 1, SMALL.replicas), "floor")
    return [post(job_manifest("floor", f"job-{number}", SMALL.replicas, api_version=_FLOOR_API), TF.plural), *writes[-3:]]


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


_FLOOR_API = f"{floor_definition()['spec']['group']}/{TF.storage_version}"
