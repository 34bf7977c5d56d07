"""The lifecycle of a workload, once by the plain client and once by the operator, phase by phase.

All pods are created before the kubelet says that they run, and all jobs run before it says that they have ended. So each
phase has a time of its own, and a baseline to compare it with.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from time import monotonic

from benchmarks.apiserver import Server, prepare
from benchmarks.baseline_client import finishing
from benchmarks.kubelet import RUNNING, SUCCEEDED, Kubelet
from benchmarks.operator_process import Operator
from benchmarks.sending import send_all
from benchmarks.watching import JobWatch, job_watch
from benchmarks.workloads import BASELINE_GROUP, Workload, baseline_writes, submissions
from jobcommon.client.objects import collection_path
from jobcommon.operators.tf import TF


@dataclass(frozen=True)
class Spread:
    """Seconds per job."""

    p50: float
    p99: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """The spread of `values`."""
        return cls(median(values), p99(values))


def p99(values: Sequence[float]) -> float:
    """The 99th percentile."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]


@dataclass(frozen=True)
class LifecycleTimings:
    """Seconds until the last job reached a phase, and per job. `settle` counts from the end of a job's last pod.

    `calls` are the requests of a job by verb, as the operator counts them.
    """

    created: float
    created_each: Spread
    running: float
    running_each: Spread
    succeeded: float
    succeeded_each: Spread
    settle: Spread
    cpu: float = 0.0
    calls: Mapping[str, float] = field(default_factory=dict)
    resident: int = 0


def collection(namespace: str, group: str = TF.group) -> str:
    """The path of the jobs in a namespace."""
    return collection_path(f"{group}/{TF.storage_version}", TF.plural, namespace)


def by_job(times: Mapping[str, float]) -> dict[str, float]:
    """The time of each job's last pod."""
    found: dict[str, float] = {}
    for name, at in times.items():
        job = name.rpartition("-worker-")[0]
        found[job] = max(found.get(job, at), at)
    return found


async def baseline_lifecycle(server: Server, kubelet: Kubelet, workload: Workload, namespace: str) -> LifecycleTimings:
    """The lifecycle of `workload` by the plain client."""
    async with server.connected() as user, server.connected() as client:
        await prepare(user, namespace)
        jobs_of_user = submissions(workload, namespace, f"{BASELINE_GROUP}/{TF.storage_version}")
        writes = baseline_writes(workload, namespace)
        async with job_watch(user, [collection(namespace, BASELINE_GROUP)]) as jobs:
            start = monotonic()
            bodies, _ = await asyncio.gather(send_all(user, jobs_of_user, 16), send_all(client, writes))
            created = await kubelet.seen(namespace, workload.pods)
            running = monotonic()
            marked = await kubelet.mark(namespace, RUNNING)
            async with finishing(client, namespace, bodies, workload.replicas):
                return await _end(kubelet, jobs, workload, namespace, (start, created), (running, marked, by_job(marked)))


async def operator_lifecycle(
    server: Server, kubelet: Kubelet, operator: Operator, workload: Workload, namespace: str
) -> LifecycleTimings:
    """The lifecycle of `workload` by the operator, which is idle before and afterwards."""
    async with server.connected() as user:
        await prepare(user, namespace)
        jobs_of_user = submissions(workload, namespace)
        async with job_watch(user, [collection(namespace)]) as jobs:
            await operator.idle()
            await operator.mark()
            start = monotonic()
            await send_all(user, jobs_of_user, 16)
            created = await kubelet.seen(namespace, workload.pods)
            await jobs.having("Created", workload.jobs)
            running = monotonic()
            marked = await kubelet.mark(namespace, RUNNING)
            ran = await jobs.having("Running", workload.jobs)
            timings = await _end(kubelet, jobs, workload, namespace, (start, created), (running, marked, ran))
            await operator.idle()
            calls = await operator.calls()
            return replace(
                timings,
                cpu=operator.cpu,
                resident=operator.resident,
                calls={verb: count / workload.jobs for verb, count in sorted(calls.items())},
            )


async def _end(
    kubelet: Kubelet,
    jobs: JobWatch,
    workload: Workload,
    namespace: str,
    creation: tuple[float, Mapping[str, float]],
    run: tuple[float, Mapping[str, float], Mapping[str, float]],
) -> LifecycleTimings:
    start, created = creation
    running, marked, ran = run
    ending = monotonic()
    ended = await kubelet.mark(namespace, SUCCEEDED)
    succeeded = await jobs.having(SUCCEEDED, workload.jobs)
    await kubelet.released(namespace)
    last_exit = by_job(ended)
    return LifecycleTimings(
        created=max(created.values()) - start,
        created_each=Spread.of([at - start for at in by_job(created).values()]),
        running=max(*marked.values(), *ran.values()) - running if len(marked) + len(ran) > 1 else 0.0,
        running_each=Spread.of([at - running for at in ran.values()]),
        succeeded=max(succeeded.values()) - ending,
        succeeded_each=Spread.of([at - ending for at in succeeded.values()]),
        settle=Spread.of([at - last_exit[job] for job, at in succeeded.items()]),
    )
