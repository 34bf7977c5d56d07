"""One long run: fill, cold start, jobs that come and go, restarts of everything meanwhile."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from time import monotonic

import aiohttp

from benchmarks.jobs import job_watch
from benchmarks.operator_process import Operator, started, until_ready
from benchmarks.processes import cpu_seconds, stop
from benchmarks.scenarios import started_beside
from benchmarks.soak.churn import Churn
from benchmarks.soak.cluster import Kill, soak_cluster
from benchmarks.soak.figures import Run, Sample
from benchmarks.soak.jobs import CHURN, FRAMEWORKS, LABEL, NAMESPACE
from benchmarks.soak.kept import fill, names
from benchmarks.soak.node import node
from jobcommon.client.objects import collection_path

#: The first window, the restarts, and four more windows.
WINDOWS = 6
#: The operator is killed before the server and after it.
OPERATOR = "operator"
SAMPLES = 240
PATHS = [collection_path(f.api_version, f.plural, NAMESPACE) for f in FRAMEWORKS]
QUERY = (("labelSelector", f"{LABEL}={CHURN}"),)


@dataclass(frozen=True)
class Plan:
    """How long jobs are submitted and how many a second, beside how many finished ones."""

    minutes: float = 60.0
    rate: float = 20.0
    kept: int = 50_000

    @property
    def window(self) -> float:
        """Seconds: ten minutes of an hour."""
        return self.minutes * 60 / WINDOWS


@dataclass
class SoakOperator:
    """The operator's process, which is killed and started again. Its CPU seconds include those of its earlier lives."""

    kubeconfig: str
    session: aiohttp.ClientSession
    process: asyncio.subprocess.Process = field(init=False)
    measured: Operator = field(init=False)
    spent: float = 0.0

    async def start(self) -> None:
        """Start it; its caches are complete on return."""
        self.process, self.measured = await started(self.kubeconfig, self.session)
        await until_ready(self.process, self.measured)

    async def restart(self) -> None:
        """kill -9, and start it again."""
        self.spent += cpu_seconds(self.process.pid)
        self.process.kill()
        await self.process.wait()
        await self.start()

    async def stop(self) -> None:
        """End it in order. Raises RuntimeError if it has ended before."""
        if self.process.returncode is not None:
            raise RuntimeError(f"the operator has exited with code {self.process.returncode}")
        await stop(self.process)

    def sample(self, over: int) -> Sample:
        """What it uses now, `over` jobs being over."""
        return Sample(monotonic(), over, self.measured.resident, self.spent + cpu_seconds(self.process.pid))


async def run(kind: str, plan: Plan, say: Callable[[str], None]) -> Run:
    """The whole run. Raises envtest.StartError, and RuntimeError if the operator does not start or ends by itself."""
    async with AsyncExitStack() as stack:
        server, kills = await stack.enter_async_context(soak_cluster(kind))
        users = await stack.enter_async_context(server.connected())
        kubelet = await stack.enter_async_context(server.connected())
        session = await stack.enter_async_context(aiohttp.ClientSession())
        say(f"writing {plan.kept:,} finished jobs …")
        await fill(users, plan.kept)
        operator = SoakOperator(str(server.kubeconfig), session)
        say("starting the operator …")
        start = monotonic()
        await operator.start()
        stack.push_async_callback(_ended, operator)
        found = Run(
            server.name, plan.minutes, plan.rate, await started_beside(operator.measured, plan.kept, monotonic() - start)
        )
        pods = await stack.enter_async_context(node(kubelet))
        watch = await stack.enter_async_context(job_watch(users, PATHS, QUERY))
        churn = Churn(users, pods, watch, deque(names(plan.kept)))
        say(f"{plan.rate:g} jobs a second for {plan.minutes:g} minutes …")
        await _churn(plan, found, churn, operator, kills, say)
        await operator.stop()
        found.lives, found.faults = churn.lives, churn.faults
        found.ends = {str(fate): count for fate, count in churn.ends.items()}
        return found


async def _ended(operator: SoakOperator) -> None:
    await stop(operator.process)


async def _churn(
    plan: Plan, found: Run, churn: Churn, operator: SoakOperator, kills: Mapping[str, Kill], say: Callable[[str], None]
) -> None:
    found.window, found.start = plan.window, monotonic()
    sampling = asyncio.create_task(_sample(found, churn, operator, plan.minutes * 60 / SAMPLES))
    restarting = asyncio.create_task(_restart(plan, found, operator, kills, say))
    try:
        await churn.run(plan.rate, plan.minutes * 60)
        found.end = monotonic()
        await churn.finish()
        await restarting
    finally:
        sampling.cancel()
        restarting.cancel()
        await asyncio.gather(sampling, restarting, return_exceptions=True)


async def _sample(found: Run, churn: Churn, operator: SoakOperator, every: float) -> None:
    while True:
        found.samples.append(operator.sample(sum(churn.ends.values())))
        await asyncio.sleep(every)


async def _restart(
    plan: Plan, found: Run, operator: SoakOperator, kills: Mapping[str, Kill], say: Callable[[str], None]
) -> None:
    """In the second window: everything once, the operator between and at last; a third of the window is left to recover."""
    order: list[tuple[str, Callable[[], Awaitable[None]]]] = [(OPERATOR, operator.restart)]
    for killed in kills.items():
        order += [killed, (OPERATOR, operator.restart)]
    await asyncio.sleep(plan.window)
    pause = plan.window * 2 / 3 / len(order)
    for name, kill in order:
        begun = monotonic()
        say(f"kill -9 of the {name} …")
        await kill()
        found.restarts.append(name)
        await asyncio.sleep(max(0.0, begun + pause - monotonic()))
    # What was submitted meanwhile is worked off first.
    found.quiet_from = max(monotonic(), found.start + 2 * plan.window) + plan.window / 3
