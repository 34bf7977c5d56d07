"""The processes under test: the embedded cluster and the operators, each a command that may be killed at any time."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Set
from dataclasses import dataclass, field
from pathlib import Path

from jobcommon.client.config import find_cluster
from jobcommon.client.errors import ClientError
from jobcommon.client.request import Request
from jobcommon.client.transport import HttpTransport, Timeouts
from jobcommon.testutil.polling import polled

COMMAND = (sys.executable, "-m", "jobcommon.cli")
ROOT = Path(__file__).resolve().parents[1]
MARKER = "JOBCOMMON_CHAOS"
END_SECONDS = 180.0


def processes_marked(marker: str) -> dict[int, str]:
    """The command lines of the processes whose environment has `marker`, by process id."""
    found = {}
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            environment = (directory / "environ").read_bytes()
            line = (directory / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it has ended meanwhile, or is another user's
        # A zombie has no command line any more, and does no work.
        if f"{MARKER}={marker}".encode() in environment.split(b"\0") and line:
            found[int(directory.name)] = line
    return found


def free_port() -> int:
    """A port without a listener."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@dataclass
class Process:
    """One command that can be started again and again; what it says goes to `log`. `starts` counts its lives."""

    name: str
    arguments: tuple[str, ...]
    log: Path
    marker: str
    starts: int = 0
    running: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Begin a life."""
        self.starts += 1
        with self.log.open("ab") as out:
            self.running = await asyncio.create_subprocess_exec(
                *COMMAND, *self.arguments, stdout=out, stderr=out, cwd=ROOT,
                env={**os.environ, MARKER: self.marker}, start_new_session=True,
            )  # fmt: skip

    async def kill(self) -> None:
        """kill -9, and wait until the kernel has taken it away."""
        await self.end(signal.SIGKILL)

    async def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """End it by a signal; its exit code. Raises TimeoutError when it does not end."""
        if self.running is None:
            return 0
        if self.running.returncode is None:
            self.running.send_signal(number)
        return await self.wait()

    async def wait(self) -> int:
        """Its exit code, once it has ended. Raises TimeoutError when it does not end."""
        assert self.running is not None
        async with asyncio.timeout(END_SECONDS):
            code = await self.running.wait()
        self.running = None
        return code

    def send(self, number: signal.Signals) -> None:
        """Send a signal and do not wait."""
        assert self.running is not None
        self.running.send_signal(number)

    @property
    def died(self) -> bool:
        """Whether it ended without being stopped."""
        return self.running is not None and self.running.returncode is not None


@dataclass
class Ground:
    """The processes of one trial, in `directory`, and a client of their API server."""

    directory: Path
    marker: str
    cluster: Process = field(init=False)
    operators: list[Process] = field(default_factory=list)
    transport: HttpTransport = field(init=False)
    connected: bool = False

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        arguments = ("up", "--no-operators", "--data-dir", str(self.directory / "data"), "--kubeconfig", str(self.kubeconfig))
        self.cluster = Process("cluster", (*arguments, "--port", str(free_port())), self.directory / "cluster.log", self.marker)

    @property
    def kubeconfig(self) -> Path:
        """Where the cluster writes its kubeconfig."""
        return self.directory / "kubeconfig"

    def add_operator(self, *arguments: str) -> Process:
        """Another operator, not started yet."""
        name = f"operator-{len(self.operators)}"
        told = ("operator", "--kubeconfig", str(self.kubeconfig), "--metrics-port", "-1", *arguments)
        process = Process(name, told, self.directory / f"{name}.log", self.marker)
        self.operators.append(process)
        return process

    async def open(self) -> None:
        """Start the cluster for the first time and connect to it."""
        await self.cluster.start()

        async def written() -> bool:
            assert not self.cluster.died, self.cluster.log.read_text()
            return self.kubeconfig.exists()

        await polled(written)
        self.transport = HttpTransport(await find_cluster(str(self.kubeconfig)), timeouts=Timeouts(read=5.0, write=5.0))
        self.connected = True
        await self.until_up()

    async def until_up(self) -> None:
        """Return when the API server answers."""

        async def ready() -> bool:
            assert not self.cluster.died, self.cluster.log.read_text()
            return (await self.transport.send(Request("GET", "/readyz"))).status == 200

        await polled(ready, retry_on=ClientError)

    async def close(self) -> list[str]:
        """End everything in order; what did not end as it should."""
        codes = [(process.name, await process.end()) for process in self.operators if process.running is not None]
        faults = [f"{name} ended with {code} after SIGTERM" for name, code in codes if code != 0]
        await self.transport.close()
        if self.cluster.running is not None and (code := await self.cluster.end()) not in (0, 128 + signal.SIGTERM):
            faults.append(f"the cluster ended with {code} after SIGTERM")
        return faults

    async def abandon(self) -> None:
        """Kill everything that is left: for a trial that broke off."""
        if self.connected:
            await self.transport.close()
        for process in (*self.operators, self.cluster):
            if process.running is not None:
                await process.kill()


async def until_none_marked(marker: str, spared: Set[int] = frozenset()) -> None:
    """Return when no process but those `spared` has the marker."""
    await polled(lambda: asyncio.to_thread(processes_marked, marker), lambda left: left.keys() <= spared)
