"""A real etcd and kube-apiserver of the user's own, found and started by the convention of controller-runtime's envtest.

Nothing is fetched: the directory that ``KUBEBUILDER_ASSETS`` names holds the two programs. They listen on the loopback
interface, with a certificate, a token and a data directory that are gone when the context ends.
"""

import asyncio
import os
import secrets
import socket
import ssl
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import msgspec

from localcluster.certificates import self_signed
from localcluster.conformance.target import ADMINISTRATORS, Target, connected
from localcluster.errors import TransportError
from localcluster.http_client import Endpoint, HttpTransport
from localcluster.request import Request

ASSETS = "KUBEBUILDER_ASSETS"
PROGRAMS = ("etcd", "kube-apiserver")
_START_SECONDS = 90.0
_STOP_SECONDS = 20.0
LOOPBACK = "127.0.0.1"


class StartError(Exception):
    """A program did not come up. The text holds the end of what it printed."""


def assets() -> Path | None:
    """The directory of the two programs; None when the variable is not set. Raises StartError when they are not there."""
    named = os.environ.get(ASSETS)
    if not named:
        return None
    directory = Path(named)
    missing = [name for name in PROGRAMS if not os.access(directory / name, os.X_OK)]
    if missing:
        raise StartError(f"{ASSETS}={named}: no executable {' and '.join(missing)} there; point it at a directory with both")
    return directory


@asynccontextmanager
async def control_plane(directory: Path) -> AsyncIterator[Target]:
    """Both programs, ready, and connections to them. Raises StartError."""
    async with servers(directory) as found, connected("kube-apiserver", found.version, found.endpoint) as target:
        yield target


@dataclass
class Servers:
    """Both programs while they run. `work` has the server's certificate, its key and the programs' logs."""

    work: Path
    endpoint: Endpoint
    certificate: bytes
    program: "Program"
    store: "Program"
    version: str = ""

    async def restart(self) -> None:
        """kill -9 of the API server; it is back and ready on return. Raises StartError."""
        await self.program.kill()
        await self.program.start()
        await _ready(self.endpoint, self.program)

    async def restart_store(self) -> None:
        """kill -9 of etcd; it is back and the API server ready on return. Raises StartError."""
        await self.store.kill()
        await self.store.start()
        await _ready(self.endpoint, self.program)


@asynccontextmanager
async def servers(directory: Path, extra: Sequence[str] = ()) -> AsyncIterator[Servers]:
    """Both programs, ready, the API server with `extra` arguments. Raises StartError."""
    async with AsyncExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="conformance-")))
        client, peer, port = free_port(), free_port(), free_port()
        store = f"http://{LOOPBACK}:{client}"
        etcd = await stack.enter_async_context(Program(directory / "etcd", work, [
            f"--data-dir={work / 'etcd'}", f"--listen-client-urls={store}", f"--advertise-client-urls={store}",
            f"--listen-peer-urls=http://{LOOPBACK}:{peer}", "--unsafe-no-fsync",
        ]))  # fmt: skip
        certificate = self_signed()
        token = secrets.token_hex(16)
        for name, content in (
            ("server.crt", certificate.pem), ("server.key", certificate.key),
            ("tokens.csv", f'{token},admin,admin,"{ADMINISTRATORS}"\n'.encode()),
        ):  # fmt: skip
            (work / name).touch(0o600)
            (work / name).write_bytes(content)
        endpoint = Endpoint(f"https://{LOOPBACK}:{port}", token, ssl.create_default_context(cadata=certificate.pem.decode()))
        program = Program(directory / "kube-apiserver", work, [*_arguments(work, store, port), *extra])
        await stack.enter_async_context(program)
        found = Servers(work, endpoint, certificate.pem, program, etcd)
        found.version = await _ready(endpoint, program)
        yield found


def _arguments(work: Path, store: str, port: int) -> list[str]:
    return [
        f"--etcd-servers={store}",
        f"--bind-address={LOOPBACK}",
        f"--advertise-address={LOOPBACK}",
        f"--secure-port={port}",
        f"--tls-cert-file={work / 'server.crt'}",
        f"--tls-private-key-file={work / 'server.key'}",
        f"--token-auth-file={work / 'tokens.csv'}",
        f"--cert-dir={work}",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://conformance.invalid",
        f"--service-account-key-file={work / 'server.crt'}",
        f"--service-account-signing-key-file={work / 'server.key'}",
        # Thousands of Services, most of them never deleted: the usual ranges are not enough.
        "--service-cluster-ip-range=10.96.0.0/12",
        "--service-node-port-range=20000-60000",
        "--endpoint-reconciler-type=none",
        "--allow-privileged=true",
    ]


class Program:
    """An external program, for as long as a context lasts. What it prints goes to `log`."""

    def __init__(self, path: Path, work: Path, arguments: Sequence[str], log: Path | None = None) -> None:
        self.path, self.work, self.arguments = path, work, arguments
        self.log = log or work / f"{path.name}.log"
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start it, again if it has ended."""
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                self.path, *self.arguments, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.work
            )  # fmt: skip

    async def kill(self) -> None:
        """kill -9."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    @property
    def pid(self) -> int:
        """Its process, which has been started."""
        assert self._process is not None
        return self._process.pid

    @property
    def ended(self) -> str | None:
        """Why it ended, if it did."""
        if self._process is None or self._process.returncode is None:
            return None
        tail = self.log.read_text(errors="replace")[-2000:]
        return f"{self.path} ended with exit code {self._process.returncode}:\n{tail}"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """SIGTERM, and SIGKILL when that is not enough."""
        if self._process is not None and self._process.returncode is None:
            self._process.terminate()
            try:
                async with asyncio.timeout(_STOP_SECONDS):
                    await self._process.wait()
            except TimeoutError:
                await self.kill()


async def _ready(endpoint: Endpoint, program: Program) -> str:
    transport = HttpTransport(endpoint, seconds=5.0)
    try:
        async with asyncio.timeout(_START_SECONDS):
            while not await _answers(transport, "/readyz"):
                if why := program.ended:
                    raise StartError(why)
                await asyncio.sleep(0.2)
            found = await transport.send(Request("GET", "/version"))
            return str(msgspec.json.decode(found.body)["gitVersion"])
    except TimeoutError:
        raise StartError(f"kube-apiserver was not ready within {_START_SECONDS:g} s") from None
    finally:
        await transport.close()


async def _answers(transport: HttpTransport, path: str) -> bool:
    try:
        return (await transport.send(Request("GET", path))).status == 200
    except TransportError:
        return False


def free_port() -> int:
    """A port that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])
