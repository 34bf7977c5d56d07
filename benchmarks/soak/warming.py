"""An API server that warms its caches: how often it is asked meanwhile, and how soon the operator is back afterwards.

Once the operator runs when the server restarts, once the operator starts while the server warms.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

import aiohttp

from benchmarks.apiserver import Server
from benchmarks.operator_process import START_SECONDS, started, until_ready
from benchmarks.processes import stop
from benchmarks.soak.churn import Churn, JobWatch
from jobcommon.testutil.real.intermediary import WarmingServer, intermediary

#: Submitted while the server refuses lists and watches: two of each kind.
JOBS = 8


@dataclass(frozen=True)
class Warming:
    """Watches, their requests that were refused, the most of one watch by the second, and seconds until all were back."""

    what: str
    watches: int
    refused: int
    rate: float
    back: float


async def measure(server: Server, churn: Churn, watch: JobWatch, seconds: float) -> Sequence[Warming]:
    """Both, each with `seconds` of warming. Raises TimeoutError if the operator does not come back."""
    async with _proxied(server) as (proxy, path), aiohttp.ClientSession() as session:
        return [
            await _restarted(proxy, path, session, (churn, watch), seconds),
            await _starting(proxy, path, session, seconds),
        ]


@asynccontextmanager
async def _proxied(server: Server) -> AsyncIterator[tuple[WarmingServer, Path]]:
    with TemporaryDirectory(prefix="benchmarks-") as work:
        path = Path(work) / "kubeconfig"
        async with intermediary(server.kubeconfig, path, WarmingServer) as proxy:
            yield proxy, path


async def _restarted(
    proxy: WarmingServer, path: Path, session: aiohttp.ClientSession, jobs: tuple[Churn, JobWatch], seconds: float
) -> Warming:
    """Back is the operator when its watches are open and every job submitted meanwhile has its first condition."""
    churn, watch = jobs
    process, operator = await started(str(path), session)
    try:
        await until_ready(process, operator)
        await operator.idle()
        before = set(proxy.watched)
        proxy.restart()
        # Some of them are deleted as soon as they run.
        seen = asyncio.gather(*(watch.until(churn.submit().name, bool) for _ in range(JOBS)))
        await _warm(proxy, seconds)
        async with asyncio.timeout(START_SECONDS):
            await seen
            while not before <= proxy.watched.keys():  # noqa: ASYNC110  there is no event to wait for
                await asyncio.sleep(0.02)
        found = _found("restart of the server", proxy, monotonic())
        await churn.finish()
        return found
    finally:
        await stop(process)


async def _starting(proxy: WarmingServer, path: Path, session: aiohttp.ClientSession, seconds: float) -> Warming:
    """Back is the operator when it is ready."""
    proxy.refused.clear()
    proxy.restart()
    process, operator = await started(str(path), session)
    try:
        await _warm(proxy, seconds)
        await until_ready(process, operator)
        return _found("start of the operator", proxy, monotonic())
    finally:
        await stop(process)


async def _warm(proxy: WarmingServer, seconds: float) -> None:
    """Return once the caches are warm, `seconds` after the first request was refused. Raises TimeoutError if there is none."""
    async with asyncio.timeout(START_SECONDS):
        while not proxy.refused:  # noqa: ASYNC110  there is no event to wait for
            await asyncio.sleep(0.02)
    await asyncio.sleep(seconds)
    proxy.warming = False


def _found(what: str, proxy: WarmingServer, back: float) -> Warming:
    times = list(proxy.refused.values())
    last = max(max(each) for each in times)
    rate = max(((len(each) - 1) / (each[-1] - each[0]) for each in times if len(each) > 1), default=0.0)
    return Warming(what, len(times), sum(map(len, times)), rate, back - last)
