"""The lives of jobs by the operator, and their creation by a plain client beside it.

All pods are created before the kubelet says that they run, and all jobs run before it says that they have ended.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from time import monotonic

from benchmarks.kubelet import RUNNING, SUCCEEDED, Kubelet, kubelet
from benchmarks.processes import Operator, Server, cluster, operator
from benchmarks.requests import job_watch, prepare, send_all
from benchmarks.workloads import Workload, baseline_writes, submissions
from jobcommon.api.kueue import MULTIKUEUE
from jobcommon.client.objects import collection_path
from jobcommon.operators.tf import TF

MB = 1e6
PHASES = ("created", "running", "settle")


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table."""
    head = tuple(head)
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def seconds(value: float) -> str:
    """A duration."""
    return f"{value * 1e3:.0f} ms" if value < 1 else f"{value:.1f} s"


def p99(values: Sequence[float]) -> float:
    """The 99th percentile."""
    return sorted(values)[min(len(values) - 1, int(len(values) * 0.99))]


@dataclass(frozen=True)
class Life:
    """One life of a workload. `created`: seconds until the last pod was there.

    `each`, by phase, per job: until its pods were there; from the kubelet's first word that pods run until the job runs; and
    from the end of its last pod until its final status. `calls` are the requests of a job by verb.
    """

    created: float
    each: Mapping[str, list[float]]
    cpu: float
    peak: int
    calls: Mapping[str, float]


def _row(workload: Workload, plain: Sequence[float], lives: Sequence[Life]) -> Iterator[str]:
    """The workload's row of `lives_table`, of medians: `plain` are the seconds in which a plain client creates its pods."""
    yield f"{workload.jobs:,} × {workload.replicas:,}"
    yield f"{workload.pods / median(plain):,.0f} pods/s"
    yield f"{median(life.created for life in lives) / median(plain):.2f} ×"
    for phase in PHASES:
        of = [life.each[phase] for life in lives]
        yield f"{seconds(median(map(median, of)))} / {seconds(median(map(p99, of)))}"
    yield f"{median(life.cpu for life in lives) / workload.pods * 1000:.2f} s"
    yield f"{median(life.peak for life in lives) / MB:.0f} MB"
    yield ", ".join(f"{verb} {count:,.1f}".replace(".0", "") for verb, count in sorted(lives[-1].calls.items()))


def lives_table(rows: Iterable[Iterable[str]]) -> str:
    """All workloads."""
    each = (f"{phase} p50 / p99" for phase in PHASES)
    head = ("jobs × replicas", "plain client", "created", *each, "CPU per 1,000 pods", "memory", "API calls per job")
    return table(head, rows)


def by_job(times: Mapping[str, float]) -> dict[str, float]:
    """The time of each job's last pod."""
    found: dict[str, float] = {}
    for name, at in times.items():
        job = name.rpartition("-worker-")[0]
        found[job] = max(found.get(job, at), at)
    return found


async def lives(kind: str, workload: Workload, rounds: int) -> Iterable[str]:
    """The plain client and the operator in turn, on one server: the workload's row of `lives_table`."""
    plain, found = [], []
    async with cluster(kind) as server, kubelet(str(server.kubeconfig)) as agent:
        for number in range(rounds):
            plain.append(await _plain(server, agent, workload, f"plain-{number}"))
            async with operator(str(server.kubeconfig)) as running:
                found.append(await _life(server, agent, running, workload, f"operator-{number}"))
    return _row(workload, plain, found)


async def _plain(server: Server, agent: Kubelet, workload: Workload, namespace: str) -> float:
    """A plain client issues the operator's creations, encoded beforehand, with as many requests at once; it plans nothing.

    The operator leaves jobs alone that are managed by another controller.
    """
    async with server.connected() as user, server.connected() as client:
        await prepare(user, namespace)
        jobs = submissions(workload, namespace, managedBy=MULTIKUEUE)
        writes = baseline_writes(workload, namespace)
        start = monotonic()
        await asyncio.gather(send_all(user, jobs, 16), send_all(client, writes))
        seen: Mapping[str, float] = await agent.ask("seen", namespace, workload.pods)
        return max(seen.values()) - start


async def _life(server: Server, agent: Kubelet, running: Operator, workload: Workload, namespace: str) -> Life:
    """By the operator, which is idle before and afterwards."""
    async with server.connected() as user:
        await prepare(user, namespace)
        path = collection_path(TF.api_version, TF.plural, namespace)
        async with job_watch(user, path) as jobs:
            await running.idle()
            await running.mark()
            start = monotonic()
            await send_all(user, submissions(workload, namespace), 16)
            seen: Mapping[str, float] = await agent.ask("seen", namespace, workload.pods)
            await jobs.having("Created", workload.jobs)
            marking = monotonic()
            await agent.ask("mark", namespace, RUNNING)
            ran = await jobs.having("Running", workload.jobs)
            ended = by_job(await agent.ask("mark", namespace, SUCCEEDED))
            over = await jobs.having(SUCCEEDED, workload.jobs)
            await agent.ask("released", namespace)
            await running.idle()
            calls = await running.calls()
        each = {
            "created": [at - start for at in by_job(seen).values()],
            "running": [at - marking for at in ran.values()],
            "settle": [at - ended[job] for job, at in over.items()],
        }
        per_job = {verb: count / workload.jobs for verb, count in calls.items()}
        return Life(max(seen.values()) - start, each, running.cpu, running.peak, per_job)


# -- memory by the number of pods ----------------------------------------------------------------------------------------------


async def sizing(kind: str, sizes: Iterable[int]) -> str:
    """A table of what an operator takes that has just started beside each number of running pods, ten of each job."""
    rows: list[tuple[str, ...]] = []
    there = 0
    async with (
        cluster(kind) as server,
        server.connected() as user,
        kubelet(str(server.kubeconfig)) as agent,
    ):
        for pods in sizes:
            more = Workload((pods - there) // 10, 10)
            if more.jobs:
                namespace = f"sizing-{pods}"
                await prepare(user, namespace)
                async with operator(str(server.kubeconfig)):
                    await send_all(user, submissions(more, namespace), 16)
                    await agent.ask("seen", namespace, more.pods)
                    await agent.ask("mark", namespace, RUNNING)
                    path = collection_path(TF.api_version, TF.plural, namespace)
                    async with job_watch(user, path) as jobs:
                        await jobs.having("Running", more.jobs)
            there = pods
            start = monotonic()
            async with operator(str(server.kubeconfig)) as running:
                await running.reconciled(pods // 10)
                took = f"{monotonic() - start:.1f} s", f"{running.cpu:.1f} s", f"{running.peak / MB:.0f} MB"
                rows.append((f"{pods:,}", f"{pods // 10:,}", *took))
    return table(("running pods", "jobs", "from its start until all were reconciled", "CPU", "memory at the most"), rows)
