"""The operator as a process of its own, its metrics and its cost."""

import asyncio
import os
import re
import socket
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from pathlib import Path
from time import monotonic

import aiohttp

from benchmarks.in_pod import mount_account
from benchmarks.processes import child, cpu_seconds, resident_bytes, stop

START_SECONDS = 120.0
RECONCILE_SECONDS = 300.0
IDLE_SECONDS = 0.4
_CALL = re.compile(rb'^rest_client_requests_total\{code="([^"]*)",verb="([^"]*)"\} (\S+)', re.MULTILINE)
_RECONCILES = re.compile(rb"^training_operator_reconcile_duration_seconds_count\{[^}]*\} (\S+)", re.MULTILINE)
_DEPTH = re.compile(rb"^workqueue_depth\{[^}]*\} (\S+)", re.MULTILINE)


class Operator:
    """An operator's process, with its descendants. Its start does not count in `cpu`."""

    def __init__(self, pid: int, url: str, session: aiohttp.ClientSession) -> None:
        self.pid = pid
        self._before = 0.0
        self._url = url
        self._session = session
        self._calls_before: Counter[str] = Counter()

    async def mark(self) -> None:
        """Start counting `cpu` and `calls`."""
        self._calls_before = await self._all_calls()
        self._before = cpu_seconds(self.pid)

    @property
    def cpu(self) -> float:
        """CPU seconds since `mark`."""
        return cpu_seconds(self.pid) - self._before

    @property
    def resident(self) -> int:
        """Resident memory in bytes."""
        return resident_bytes(self.pid)

    async def idle(self) -> None:
        """Return once the process has used next to no CPU for `IDLE_SECONDS`."""
        async with asyncio.timeout(START_SECONDS):
            while True:
                before = cpu_seconds(self.pid)
                await asyncio.sleep(IDLE_SECONDS)
                if cpu_seconds(self.pid) - before <= 0.02:
                    return

    async def calls(self) -> Counter[str]:
        """Requests by verb since `mark`."""
        return Counter({verb: count for verb, count in ((await self._all_calls()) - self._calls_before).items() if count})

    async def reconciled(self, jobs: int) -> None:
        """Return once `jobs` jobs have been reconciled and no key is queued. Raises TimeoutError."""
        async with asyncio.timeout(RECONCILE_SECONDS):
            while True:
                done, queued = await self.reconciles()
                if done >= jobs and not queued:
                    return
                await asyncio.sleep(0.02)

    async def reconciles(self) -> tuple[int, int]:
        """The number of reconciles so far, and of keys queued."""
        text = await self._metrics()
        return int(sum(map(float, _RECONCILES.findall(text)))), int(sum(map(float, _DEPTH.findall(text))))

    async def ready(self) -> bool:
        """Whether its caches are complete."""
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


ABLATED: ContextVar[str] = ContextVar("ABLATED", default="")
"""The mechanism that the operators are measured without; see `benchmarks.ablation`."""


@asynccontextmanager
async def operator(kubeconfig: str, *options: str, in_pod: bool = False) -> AsyncIterator[Operator]:
    """The operators of all frameworks with these options, ready. Raises RuntimeError if they do not become ready.

    With `in_pod`, their credentials are those of a service account, as in a pod, instead of a kubeconfig.
    """
    async with aiohttp.ClientSession() as session:
        process, found = await started(kubeconfig, session, *options, in_pod=in_pod)
        try:
            await until_ready(process, found)
            yield found
            if process.returncode is not None:
                raise RuntimeError(f"the operator has exited with code {process.returncode}")
        finally:
            await stop(process)


async def started(
    kubeconfig: str, session: aiohttp.ClientSession, *more: str, in_pod: bool = False
) -> tuple[asyncio.subprocess.Process, Operator]:
    """The operators of all frameworks, which are not ready yet."""
    port = _free_port()
    options = ("--metrics-port", str(port), "--log-level", "warning", *more)
    if in_pod:
        account = Path(kubeconfig).with_name("account")
        account.mkdir(exist_ok=True)
        environ = mount_account(Path(kubeconfig), account)
        process = await child("benchmarks.in_pod", str(account), "operator", *options, env={**os.environ, **environ})
    else:
        command = ("benchmarks.ablation", ABLATED.get()) if ABLATED.get() else ("jobcommon.cli",)
        process = await child(*command, "operator", "--kubeconfig", kubeconfig, *options)
    return process, Operator(process.pid, f"http://127.0.0.1:{port}", session)


async def until_ready(process: asyncio.subprocess.Process, found: Operator) -> None:
    """Return once its caches are complete. Raises RuntimeError if it ends before or takes too long."""
    deadline = monotonic() + START_SECONDS
    while not await found.ready():
        if process.returncode is not None or monotonic() > deadline:
            raise RuntimeError("the operator did not become ready; its error is above")
        await asyncio.sleep(0.01)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
