"""One long run: fill, cold start, jobs that come and go, restarts of everything meanwhile."""

import asyncio
import sys
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import islice
from time import monotonic

from benchmarks.apiserver import Server, cluster, prepare
from benchmarks.kubelet import RUNNING, kubelet
from benchmarks.operator_process import Operator, operator
from benchmarks.record import Sample, Soak
from benchmarks.scenarios import started_beside
from benchmarks.seeds import NAMESPACE, write
from benchmarks.soak.churn import Churn
from benchmarks.soak.jobs import CHURN, FRAMEWORKS, LABEL, kept, kept_names
from benchmarks.watching import job_watch
from jobcommon.client.objects import collection_path

#: The first window, the restarts, and four more windows.
WINDOWS = 6
#: The operator is killed before the server and after it.
OPERATOR = "operator"
SAMPLES = 240
PATHS = [collection_path(f.api_version, f.plural, NAMESPACE) for f in FRAMEWORKS]
QUERY = (("labelSelector", f"{LABEL}={CHURN}"),)
_AT_ONCE = 1000


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


async def run(kind: str, plan: Plan) -> Soak:
    """The whole run. Raises envtest.StartError, and RuntimeError if the operator does not start or ends by itself."""
    async with cluster(kind, lasting=True) as server, server.connected() as users:
        _say(f"writing {plan.kept:,} finished jobs …")
        await prepare(users, NAMESPACE)
        objects = kept(plan.kept)
        while some := list(islice(objects, _AT_ONCE)):
            await write(users, some)
        _say("starting the operator …")
        start = monotonic()
        async with operator(str(server.kubeconfig)) as running:
            found = Soak(plan.minutes, plan.rate, await started_beside(running, plan.kept, monotonic() - start))
            async with kubelet(str(server.kubeconfig)) as agent, job_watch(users, PATHS, QUERY) as watch:
                await agent.auto(NAMESPACE, RUNNING)
                churn = Churn(users, agent, watch, deque(kept_names(plan.kept)))
                _say(f"{plan.rate:g} jobs a second for {plan.minutes:g} minutes …")
                await _churn(plan, found, churn, running, server)
        found.lives, found.faults = churn.lives, churn.faults
        found.ends = {str(fate): count for fate, count in churn.ends.items()}
        return found


async def _churn(plan: Plan, found: Soak, churn: Churn, running: Operator, server: Server) -> None:
    found.window, found.start = plan.window, monotonic()
    sampling = asyncio.create_task(_sample(found, churn, running, plan.minutes * 60 / SAMPLES))
    restarting = asyncio.create_task(_restart(plan, found, running, server))
    try:
        await churn.run(plan.rate, plan.minutes * 60)
        found.end = monotonic()
        await churn.finish()
        await restarting
    finally:
        sampling.cancel()
        restarting.cancel()
        await asyncio.gather(sampling, restarting, return_exceptions=True)


async def _sample(found: Soak, churn: Churn, running: Operator, every: float) -> None:
    while True:
        found.samples.append(Sample(monotonic(), sum(churn.ends.values()), running.resident, running.cpu))
        await asyncio.sleep(every)


async def _restart(plan: Plan, found: Soak, running: Operator, server: Server) -> None:
    """In the second window: everything once, the operator between and at last; a third of the window is left to recover."""
    order: list[tuple[str, Callable[[], Awaitable[None]]]] = [(OPERATOR, running.restart)]
    for killed in server.kills.items():
        order += [killed, (OPERATOR, running.restart)]
    await asyncio.sleep(plan.window)
    pause = plan.window * 2 / 3 / len(order)
    for name, kill in order:
        begun = monotonic()
        _say(f"kill -9 of the {name} …")
        await kill()
        found.restarts.append(name)
        await asyncio.sleep(max(0.0, begun + pause - monotonic()))
    # What was submitted meanwhile is worked off first.
    found.quiet_from = max(monotonic(), found.start + 2 * plan.window) + plan.window / 3


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
