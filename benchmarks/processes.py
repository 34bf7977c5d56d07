"""The processes of this benchmark: the API server, and the operator with its metrics and its cost.

``python -m benchmarks.processes KIND DIRECTORY`` is the server, without a node: the embedded one, or etcd and
kube-apiserver from KUBEBUILDER_ASSETS. kube-controller-manager would share their cores, and still work on the endpoints of
one round's pods while the next is measured.
"""

import asyncio
import json
import os
import re
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from jobcommon.cli.embedded import install
from jobcommon.cli.frameworks import installed
from jobcommon.client.config import find_cluster
from jobcommon.client.request import Request
from jobcommon.client.transport import Endpoint, HttpTransport, Timeouts
from jobcommon.runtime.health import PAGE_SECONDS
from localcluster import local_cluster
from localcluster.client import kubeconfig, write_secret
from localcluster.conformance import envtest, free_port

EMBEDDED, REAL = "embedded", "real"
STOP_SECONDS = 20.0
START_SECONDS = 120.0
RECONCILE_SECONDS = 300.0
IDLE_SECONDS = 0.4
_CALL = re.compile(rb'^rest_client_requests_total\{code="([^"]*)",verb="([^"]*)"\} (\S+)', re.MULTILINE)
_RECONCILES = re.compile(rb"^training_operator_reconcile_duration_seconds_count\{[^}]*\} (\S+)", re.MULTILINE)
_DEPTH = re.compile(rb"^workqueue_depth\{[^}]*\} (\S+)", re.MULTILINE)
ROOT = Path(__file__).resolve().parents[1]
_TICKS = os.sysconf("SC_CLK_TCK")
_PATIENT = Timeouts(connect=10.0, read=300.0, write=300.0)


async def child(module: str, *arguments: str, stdout: int | None = None) -> asyncio.subprocess.Process:
    """A Python process running `module`. It ends when its standard input does, if it reads it."""
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, *arguments, stdin=asyncio.subprocess.PIPE, stdout=stdout, cwd=ROOT, limit=1 << 26
    )  # fmt: skip


async def stop(process: asyncio.subprocess.Process) -> None:
    """End it and wait for that."""
    if process.returncode is None:
        process.terminate()
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


async def speaking(*command: str) -> asyncio.subprocess.Process:
    """A process that has printed its first line. Raises RuntimeError if it ends before."""
    process = await child(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    if not await process.stdout.readline():
        raise RuntimeError(f"{command[0]} did not start; its error is above")
    return process


# -- the API server ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Server:
    """An API server that is up, a process of its own."""

    kind: str
    kubeconfig: Path
    endpoint: Endpoint

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[HttpTransport]:
        """A client of it."""
        transport = HttpTransport(self.endpoint, timeouts=_PATIENT, concurrency=64, user_agent="benchmarks")
        try:
            yield transport
        finally:
            await transport.close()

    async def name(self) -> str:
        """What it is, for a table."""
        if self.kind == EMBEDDED:
            return EMBEDDED
        async with self.connected() as transport:
            return f"kube-apiserver {json.loads((await transport.send(Request('GET', '/version'))).body)['gitVersion']}"


@asynccontextmanager
async def cluster(kind: str) -> AsyncIterator[Server]:
    """A server of that kind, with our kinds. Raises RuntimeError, and envtest.StartError if there is no real one."""
    if kind == REAL and envtest.assets() is None:
        raise envtest.StartError(f"set {envtest.ASSETS} to a directory with {' and '.join(envtest.PROGRAMS)}")
    with tempfile.TemporaryDirectory(prefix="benchmarks-") as directory:
        process = await speaking("benchmarks.processes", kind, directory)
        try:
            kubeconfig = Path(directory, "kubeconfig")
            server = Server(kind, kubeconfig, await find_cluster(str(kubeconfig)))
            async with server.connected() as transport:
                await install(transport, list(installed().values()))
            yield server
        finally:
            await stop(process)


# -- the operator ---------------------------------------------------------------------------------------------------------


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
        self._before = self._used()

    def _used(self) -> float:
        """CPU seconds since the start, in user and system mode together."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:13])) / _TICKS

    @property
    def cpu(self) -> float:
        """CPU seconds since `mark`, or since the start."""
        return self._used() - self._before

    @property
    def peak(self) -> int:
        """The most resident memory so far, in bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024

    async def idle(self) -> None:
        """Return once the process has used next to no CPU for `IDLE_SECONDS`."""
        async with asyncio.timeout(START_SECONDS):
            while True:
                before = self._used()
                await asyncio.sleep(IDLE_SECONDS)
                if self._used() - before <= 0.02:
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


@asynccontextmanager
async def _server(kind: str) -> AsyncIterator[str]:
    """The kubeconfig of a server of that kind, while it runs."""
    if (assets := envtest.assets() if kind == REAL else None) is None:
        async with local_cluster(node=False) as served:
            yield served.kubeconfig()
        return
    async with envtest.servers(assets) as servers:
        yield kubeconfig(servers.endpoint.base_url, str(servers.endpoint.token), servers.certificate)


async def _serve(kind: str, directory: str) -> None:
    over = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
    async with _server(kind) as text:
        write_secret(Path(directory, "kubeconfig"), text.encode())
        print("ready", flush=True)
        await over.wait()


if __name__ == "__main__":
    asyncio.run(_serve(*sys.argv[1:]))
