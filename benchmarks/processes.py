"""The processes of this benchmark, what the system says of them, and the API server among them.

``python -m benchmarks.processes KIND DIRECTORY [DATA]`` is that server, without a node: the embedded one, or etcd and
kube-apiserver from KUBEBUILDER_ASSETS, with the controllers that `localcluster.local_cluster` gives each.
"""

import asyncio
import json
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from jobcommon.cli.embedded import install
from jobcommon.cli.frameworks import installed
from jobcommon.client.config import find_cluster
from jobcommon.client.request import Request
from jobcommon.client.transport import Endpoint, HttpTransport, Timeouts
from localcluster import local_cluster
from localcluster.client import write_secret
from localcluster.conformance import envtest

EMBEDDED, REAL = "embedded", "real"
STOP_SECONDS = 20.0
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


def cpu_seconds(pid: int) -> float:
    """What the process has used so far, in user and system mode together."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / _TICKS


def peak_bytes(pid: int) -> int:
    """The most resident memory that the process has had."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


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


async def _serve(kind: str, directory: str) -> None:
    over = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
    async with local_cluster(node=False, server=kind) as served:
        write_secret(Path(directory, "kubeconfig"), served.kubeconfig().encode())
        print(served.url, flush=True)
        await over.wait()


if __name__ == "__main__":
    asyncio.run(_serve(*sys.argv[1:]))
