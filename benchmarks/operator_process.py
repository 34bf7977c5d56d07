"""The operator as a process of its own, its metrics and its cost."""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import aiohttp

from benchmarks.processes import child, cpu_seconds, peak_bytes, stop
from jobcommon.runtime.health import PAGE_SECONDS
from localcluster.conformance import free_port

START_SECONDS = 120.0
RECONCILE_SECONDS = 300.0
IDLE_SECONDS = 0.4
_CALL = re.compile(rb'^rest_client_requests_total\{code="([^"]*)",verb="([^"]*)"\} (\S+)', re.MULTILINE)
_RECONCILES = re.compile(rb"^training_operator_reconcile_duration_seconds_count\{[^}]*\} (\S+)", re.MULTILINE)
_DEPTH = re.compile(rb"^workqueue_depth\{[^}]*\} (\S+)", re.MULTILINE)


class Operator:
    """An operator's process, of all frameworks, whose metrics are at `url`."""

    def __init__(self, process: asyncio.subprocess.Process, url: str, session: aiohttp.ClientSession) -> None:
        self.process = process
        self._url, self._session = url, session
        self._before = 0.0
        self._calls_before: Counter[str] = Counter()

    async def mark(self) -> None:
        """Start counting `cpu` and `calls`."""
        self._calls_before = await self._all_calls()
        self._before = cpu_seconds(self.process.pid)

    @property
    def cpu(self) -> float:
        """CPU seconds since `mark`, or since the start."""
        return cpu_seconds(self.process.pid) - self._before

    @property
    def peak(self) -> int:
        """The most resident memory so far, in bytes."""
        return peak_bytes(self.process.pid)

    async def idle(self) -> None:
        """Return once the process has used next to no CPU for `IDLE_SECONDS`."""
        async with asyncio.timeout(START_SECONDS):
            while True:
                before = cpu_seconds(self.process.pid)
                await asyncio.sleep(IDLE_SECONDS)
                if cpu_seconds(self.process.pid) - before <= 0.02:
                    return

    async def calls(self) -> Counter[str]:
        """Requests by verb since `mark`."""
        # A page of metrics is kept for so long.
        await asyncio.sleep(PAGE_SECONDS)
        return Counter({verb: count for verb, count in ((await self._all_calls()) - self._calls_before).items() if count})

    async def reconciled(self, jobs: int) -> None:
        """Return once `jobs` jobs have been reconciled and no key is queued. Raises TimeoutError."""
        async with asyncio.timeout(RECONCILE_SECONDS):
            while True:
                text = await self._metrics()
                if sum(map(float, _RECONCILES.findall(text))) >= jobs and not sum(map(float, _DEPTH.findall(text))):
                    return
                await asyncio.sleep(0.02)

    async def ready(self) -> None:
        """Return once its caches are complete. Raises RuntimeError if it ends before, TimeoutError if it takes too long."""
        async with asyncio.timeout(START_SECONDS):
            while self.process.returncode is None:
                with suppress(aiohttp.ClientError):
                    async with self._session.get(f"{self._url}/readyz") as answer:
                        if answer.status == 200:
                            return
                await asyncio.sleep(0.01)
        raise RuntimeError("the operator did not become ready; its error is above")

    async def _all_calls(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for _, verb, count in _CALL.findall(await self._metrics()):
            found[verb.decode()] += int(float(count))
        return found

    async def _metrics(self) -> bytes:
        async with self._session.get(f"{self._url}/metrics") as answer:
            return await answer.read()


@asynccontextmanager
async def operator(kubeconfig: str) -> AsyncIterator[Operator]:
    """An operator that is ready. Raises as `Operator.ready` does, and RuntimeError if it ends by itself."""
    port = free_port()
    options = ("--metrics-port", str(port), "--log-level", "warning", "--kubeconfig", kubeconfig)
    process = await child("jobcommon.cli", "operator", *options)
    try:
        async with aiohttp.ClientSession() as session:
            found = Operator(process, f"http://127.0.0.1:{port}", session)
            await found.ready()
            yield found
        if process.returncode is not None:
            raise RuntimeError(f"the operator has exited with code {process.returncode}")
    finally:
        await stop(process)
