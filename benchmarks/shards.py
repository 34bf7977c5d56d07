"""Replicas that share the jobs, measured against one alone: time, CPU and memory of each."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager

from benchmarks.apiserver import EMBEDDED
from benchmarks.goals import Goal
from benchmarks.kubelet import kubelet
from benchmarks.lifecycle_timings import operator_lifecycle
from benchmarks.operator_process import Measured, Operator, operator
from benchmarks.scenarios import cluster
from benchmarks.workloads import Workload

BALANCE_SECONDS = 120.0
CPU_SHARE, MEMORY_SHARE, TIME = 0.40, 0.45, 1.15


class Replicas(Measured):
    """Several operators, measured as one; `cpus` and `residents` are those of each."""

    def __init__(self, operators: list[Operator]) -> None:
        super().__init__(operators[0].pid)
        self.operators = operators

    async def mark(self) -> None:
        """Start counting."""
        await asyncio.gather(*(one.mark() for one in self.operators))

    async def idle(self) -> None:
        """Return once all are idle."""
        await asyncio.gather(*(one.idle() for one in self.operators))

    async def calls(self) -> Counter[str]:
        """Requests by verb of all together."""
        return sum(await asyncio.gather(*(one.calls() for one in self.operators)), Counter[str]())

    @property
    def cpus(self) -> list[float]:
        """CPU seconds since `mark`."""
        return [one.cpu for one in self.operators]

    @property
    def residents(self) -> list[int]:
        """Resident memory in bytes."""
        return [one.resident for one in self.operators]

    @property
    def cpu(self) -> float:
        """CPU seconds of all since `mark`."""
        return sum(self.cpus)

    @property
    def resident(self) -> int:
        """The resident memory of the largest."""
        return max(self.residents)


@asynccontextmanager
async def replicas(kubeconfig: str, shards: int, *, in_pod: bool = False) -> AsyncIterator[Replicas]:
    """As many operators as shards, each with one; with one shard a leader."""
    options = ("--leader-elect", "--shards", str(shards), "--lease-namespace", "default")
    async with AsyncExitStack() as stack:
        starting = (stack.enter_async_context(operator(kubeconfig, *options, in_pod=in_pod)) for _ in range(shards))
        found = Replicas(list(await asyncio.gather(*starting)))
        async with asyncio.timeout(BALANCE_SECONDS):
            while [await one.leases() for one in found.operators] != [1] * shards:  # noqa: ASYNC110  there is no event
                await asyncio.sleep(0.2)
        await found.idle()
        yield found


async def measure(kind: str, workload: Workload, shards: int, pods: int) -> list[Goal]:
    """One replica, then `shards`, in the same cluster with `workload`; and with `pods` running pods in their caches."""
    created, cpus = {}, {}
    async with cluster(kind) as server, kubelet(str(server.kubeconfig)) as agent:
        for number in (1, shards):
            async with replicas(str(server.kubeconfig), number) as running:
                timings = await operator_lifecycle(server, agent, running, workload, f"shards-{number}")
                created[number], cpus[number] = timings.created, running.cpus
    resident = {number: await _memory(pods, number) for number in (1, shards)}
    rest = {number: await _memory(0, number) for number in (1, shards)}
    return list(_goals(shards, created, cpus, resident, rest))


async def _memory(pods: int, shards: int) -> int:
    """The memory of the largest replica."""
    seed = f"running:{pods}" if pods else ""
    async with cluster(EMBEDDED, seed) as server, replicas(str(server.kubeconfig), shards, in_pod=True) as running:
        return running.resident


def _goals(
    shards: int,
    created: dict[int, float],
    cpus: dict[int, list[float]],
    resident: dict[int, int],
    rest: dict[int, int],
) -> Iterator[Goal]:
    yield Goal(f"{shards} replicas: creation over one alone", created[shards] / created[1], TIME, "×")
    mean, most = sum(cpus[shards]) / shards / cpus[1][0], max(cpus[shards]) / cpus[1][0]
    yield Goal(f"{shards} replicas: CPU of each over one alone (the busiest {most:.2f} ×)", mean, CPU_SHARE, "×")
    yield Goal(f"{shards} replicas: memory of the largest over one alone", resident[shards] / resident[1], MEMORY_SHARE, "×")
    growth = (resident[shards] - rest[shards]) / (resident[1] - rest[1])
    yield Goal(f"{shards} replicas: the same, without what a process has at rest", growth, MEMORY_SHARE, "×")
