"""The operator as a process of its own, its metrics and its cost."""

import asyncio
import re
import socket
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic

import aiohttp

from benchmarks.processes import child, cpu_seconds, peak_bytes, stop
from jobcommon.runtime.health import PAGE_SECONDS

START_SECONDS = 120.0
RECONCILE_SECONDS = 300.0
IDLE_SECONDS = 0.4
_CALL = re.compile(rb'^rest_client_requests_total\{code="([^"]*)",verb="([^"]*)"\} (\S+)', re.MULTILINE)
_RECONCILES = re.compile(rb"^training_operator_reconcile_duration_seconds_count\{[^}]*\} (\S+)", re.MULTILINE)
_DEPTH = re.compile(rb"^workqueue_depth\{[^}]*\} (\S+)", re.MULTILINE)


class Operator:
    """An operator's process, with its descendants, of all frameworks."""

    process: asyncio.subprocess.Process

    def __init__(self, kubeconfig: str, session: aiohttp.ClientSession) -> None:
        port = _free_port()
        self._url = f"http://127.0.0.1:{port}"
        self._session = session
        options = ("operator", "--metrics-port", str(port), "--log-level", "warning", "--kubeconfig", kubeconfig)
        self._command = ("jobcommon.cli", *options)
        self._before = 0.0
        self._calls_before: Counter[str] = Counter()

    async def start(self) -> None:
        """Start it; its caches are complete on return. Raises RuntimeError if it ends before or takes too long."""
        self.process = await child(*self._command)
        deadline = monotonic() + START_SECONDS
        while not await self._ready():
            if self.process.returncode is not None or monotonic() > deadline:
                raise RuntimeError("the operator did not become ready; its error is above")
            await asyncio.sleep(0.01)

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

    async def _ready(self) -> bool:
        try:
            async with self._session.get(f"{self._url}/readyz") as answer:
                return answer.status == 200
        except aiohttp.ClientError:
            return False

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
    """An operator that is ready. Raises RuntimeError if it does not become ready or ends by itself."""
    async with aiohttp.ClientSession() as session:
        found = Operator(kubeconfig, session)
        try:
            await found.start()
            yield found
            if found.process.returncode is not None:
                raise RuntimeError(f"the operator has exited with code {found.process.returncode}")
        finally:
            await stop(found.process)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
