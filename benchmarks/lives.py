"""The life of a shape, once by the plain client and once by the operator, phase by phase.

All pods are created before the kubelet says that they run, and all jobs run before it says that they have ended. So each
phase has a time of its own, and a floor.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from time import monotonic

from benchmarks import floor
from benchmarks.apiserver import Server, prepare
from benchmarks.jobs import Jobs, watched
from benchmarks.kubelet import RUNNING, SUCCEEDED, Kubelet
from benchmarks.operating import Operator
from benchmarks.shapes import FLOOR_GROUP, Shape, floor_writes, submissions
from jobcommon.operators.tf import TF


@dataclass(frozen=True)
class Spread:
    """Seconds per job."""

    p50: float
    p99: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """Of these values."""
        ordered = sorted(values)
        return cls(median(ordered), ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))])


@dataclass(frozen=True)
class Life:
    """What one life took, in seconds: until the last job was so far, and per job. `settle`: from a job's last pod's end on."""

    created: float
    created_each: Spread
    running: float
    running_each: Spread
    succeeded: float
    succeeded_each: Spread
    settle: Spread
    cpu: float = 0.0
    created_cpu: float = 0.0
    calls: Mapping[str, float] = field(default_factory=dict)
    resident: int = 0


def by_job(times: Mapping[str, float]) -> dict[str, float]:
    """From times of pods, the last one of each job."""
    found: dict[str, float] = {}
    for name, at in times.items():
        job = name.rpartition("-worker-")[0]
        found[job] = max(found.get(job, at), at)
    return found


async def floor_life(server: Server, kubelet: Kubelet, shape: Shape, namespace: str) -> Life:
    """By the plain client."""
    async with server.connected() as user, server.connected() as client:
        await prepare(user, namespace)
        jobs_of_user = submissions(shape, namespace, f"{FLOOR_GROUP}/{TF.storage_version}")
        writes = floor_writes(shape, namespace)
        async with watched(user, namespace, FLOOR_GROUP) as jobs:
            start = monotonic()
            bodies, _ = await asyncio.gather(floor.send_all(user, jobs_of_user, 16), floor.send_all(client, writes))
            created = await kubelet.seen(namespace, shape.pods)
            running = monotonic()
            marked = await kubelet.mark(namespace, RUNNING)
            async with floor.finishing(client, namespace, bodies, shape.replicas):
                return await _end(kubelet, jobs, shape, namespace, (start, created), (running, marked, by_job(marked)))


async def operator_life(server: Server, kubelet: Kubelet, operator: Operator, shape: Shape, namespace: str) -> Life:
    """By the operator, which is idle before and afterwards."""
    async with server.connected() as user:
        await prepare(user, namespace)
        jobs_of_user = submissions(shape, namespace)
        async with watched(user, namespace) as jobs:
            await operator.idle()
            await operator.mark()
            start = monotonic()
            await floor.send_all(user, jobs_of_user, 16)
            created = await kubelet.seen(namespace, shape.pods)
            await jobs.having("Created", shape.jobs)
            created_cpu = operator.cpu
            running = monotonic()
            marked = await kubelet.mark(namespace, RUNNING)
            ran = await jobs.having("Running", shape.jobs)
            life = await _end(kubelet, jobs, shape, namespace, (start, created), (running, marked, ran))
            await operator.idle()
            calls = await operator.calls()
            return replace(
                life,
                cpu=operator.cpu,
                created_cpu=created_cpu,
                resident=operator.resident,
                calls={verb: count / shape.jobs for verb, count in sorted(calls.items())},
            )


async def _end(
    kubelet: Kubelet,
    jobs: Jobs,
    shape: Shape,
    namespace: str,
    creation: tuple[float, Mapping[str, float]],
    run: tuple[float, Mapping[str, float], Mapping[str, float]],
) -> Life:
    start, created = creation
    running, marked, ran = run
    ending = monotonic()
    ended = await kubelet.mark(namespace, SUCCEEDED)
    succeeded = await jobs.having(SUCCEEDED, shape.jobs)
    await kubelet.released(namespace)
    last_exit = by_job(ended)
    return Life(
        created=max(created.values()) - start,
        created_each=Spread.of([at - start for at in by_job(created).values()]),
        running=max(*marked.values(), *ran.values()) - running if len(marked) + len(ran) > 1 else 0.0,
        running_each=Spread.of([at - running for at in ran.values()]),
        succeeded=max(succeeded.values()) - ending,
        succeeded_each=Spread.of([at - ending for at in succeeded.values()]),
        settle=Spread.of([at - last_exit[job] for job, at in succeeded.items()]),
    )
