"""A real API server of the user's own, found and started by the convention of controller-runtime's envtest.

Nothing is fetched: the directory that ``KUBEBUILDER_ASSETS`` names holds the programs. They listen on the loopback
interface and end with the context, and with this process. So do their certificate, token and data without a directory for them.
"""

import asyncio
import ctypes
import os
import signal
import socket
import ssl
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import msgspec

from localcluster.apiserver.authentication import MASTERS
from localcluster.credentials import Certificate, Credentials, self_signed, write_secret
from localcluster.http_client import Endpoint, HttpTransport
from localcluster.kubeconfig import kubeconfig
from localcluster.request import Request, TransportError

ASSETS = "KUBEBUILDER_ASSETS"
CONTROLLERS = "kube-controller-manager"
PROGRAMS = ("etcd", "kube-apiserver", CONTROLLERS)
_START_SECONDS = 90.0
_STOP_SECONDS = 20.0
LOOPBACK = "127.0.0.1"
#: The name of the files of the certificate between the API server and the kubelet.
NODE = "node"
_PR_SET_PDEATHSIG = 1


class StartError(Exception):
    """A program did not come up. The text holds the end of what it printed."""


def assets() -> Path | None:
    """The directory of the programs; None when the variable is not set. Raises StartError when they are not there."""
    named = os.environ.get(ASSETS)
    if not named:
        return None
    directory = Path(named).absolute()
    missing = [name for name in PROGRAMS if not os.access(directory / name, os.X_OK)]
    if missing:
        raise StartError(f"{ASSETS}={named}: no executable {' and '.join(missing)} there, which must have all three")
    return directory


@dataclass
class Servers:
    """Both programs while they run. `work` has the server's certificate, its key and the logs; `node` is a kubelet's."""

    work: Path
    endpoint: Endpoint
    certificate: bytes
    node: Certificate
    program: "Program"
    store: "Program"
    version: str = ""

    async def restart(self) -> None:
        """kill -9 of the API server; it is back and ready on return. Raises StartError."""
        await self.program.kill()
        await self.program.start()
        await _ready(self.endpoint, self.store, self.program)


@asynccontextmanager
async def servers(
    directory: Path,
    extra: Sequence[str] = (),
    *,
    work: Path | None = None,
    credentials: Credentials | None = None,
    port: int = 0,
) -> AsyncIterator[Servers]:
    """Both programs, ready. `extra` arguments of the API server replace those of ours.

    Raises StartError.
    """
    async with AsyncExitStack() as stack:
        work = work or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kube-apiserver-")))
        work.mkdir(parents=True, exist_ok=True)
        client, peer, port = free_port(), free_port(), port or free_port()
        store = f"http://{LOOPBACK}:{client}"
        etcd = await stack.enter_async_context(Program(directory / "etcd", work, [
            f"--data-dir={work / 'etcd'}", f"--listen-client-urls={store}", f"--advertise-client-urls={store}",
            f"--listen-peer-urls=http://{LOOPBACK}:{peer}", "--unsafe-no-fsync",
        ]))  # fmt: skip
        credentials = credentials or Credentials.fresh()
        certificate, node = credentials.certificate, self_signed()
        for name, content in (
            ("server.crt", certificate.pem), ("server.key", certificate.key),
            (f"{NODE}.crt", node.pem), (f"{NODE}.key", node.key),
            ("tokens.csv", f'{credentials.token},admin,admin,"{MASTERS}"\n'.encode()),
        ):  # fmt: skip
            write_secret(work / name, content)
        context = ssl.create_default_context(cadata=certificate.pem.decode())
        endpoint = Endpoint(f"https://{LOOPBACK}:{port}", credentials.token, context)
        flags = {argument.partition("=")[0] for argument in extra}
        ours = [argument for argument in _arguments(work, store, port) if argument.partition("=")[0] not in flags]
        program = Program(directory / "kube-apiserver", work, [*ours, *extra])
        await stack.enter_async_context(program)
        found = Servers(work, endpoint, certificate.pem, node, program, etcd)
        found.version = await _ready(endpoint, etcd, program)
        yield found


@asynccontextmanager
async def controllers(directory: Path, servers: Servers, *extra: str) -> AsyncIterator["Program"]:
    """kube-controller-manager with `extra` arguments; pods can be made on entry. Raises StartError."""
    path = servers.work / "controllers.kubeconfig"
    write_secret(path, kubeconfig(servers.endpoint.base_url, str(servers.endpoint.token), servers.certificate).encode())
    options = [
        f"--kubeconfig={path}",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={free_port()}",
        "--leader-elect=false",
        f"--service-account-private-key-file={servers.work / 'server.key'}",
        f"--root-ca-file={servers.work / 'server.crt'}",
        f"--cert-dir={servers.work / CONTROLLERS}",
    ]
    async with Program(directory / CONTROLLERS, servers.work, [*options, *extra]) as program:
        for content in ("serviceaccounts/default", "configmaps/kube-root-ca.crt"):
            await _answer(servers.endpoint, f"/api/v1/namespaces/default/{content}", program)
        yield program


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
        # The node's kubelet serves with this certificate, and knows the API server by it.
        f"--kubelet-certificate-authority={work / NODE}.crt",
        f"--kubelet-client-certificate={work / NODE}.crt",
        f"--kubelet-client-key={work / NODE}.key",
        "--kubelet-preferred-address-types=InternalIP",
    ]


def _end_with_parent() -> None:
    """In the new process: SIGKILL when the one that has started it dies, as after a kill -9."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Program:
    """An external program, for as long as a context lasts. What it prints goes to `log`. Ctrl-C does not reach it."""

    def __init__(self, path: Path, work: Path, arguments: Sequence[str], log: Path | None = None) -> None:
        self.path, self.work, self.arguments = path, work, arguments
        self.log = log or work / f"{path.name}.log"
        self._process: asyncio.subprocess.Process | None = None
        self.pid = 0

    async def start(self) -> None:
        """Start it, again if it has ended."""
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                self.path, *self.arguments, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.work,
                start_new_session=True, preexec_fn=_end_with_parent if sys.platform == "linux" else None,
            )  # fmt: skip
        self.pid = self._process.pid

    async def kill(self) -> None:
        """kill -9."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def watch(self) -> None:
        """Raise StartError once it has ended."""
        if self._process is not None:
            await self._process.wait()
        raise StartError(str(self.ended))

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


async def _ready(endpoint: Endpoint, *programs: Program) -> str:
    await _answer(endpoint, "/readyz", *programs)
    return str(msgspec.json.decode(await _answer(endpoint, "/version", *programs))["gitVersion"])


async def _answer(endpoint: Endpoint, path: str, *programs: Program) -> bytes:
    """What the API server answers at `path`, once it does. Raises StartError when a program ends, or after a time."""
    transport = HttpTransport(endpoint, seconds=5.0)
    try:
        async with asyncio.timeout(_START_SECONDS):
            while True:
                with suppress(TransportError):
                    found = await transport.send(Request("GET", path))
                    if found.status == 200:
                        return found.body
                for program in programs:
                    if why := program.ended:
                        raise StartError(why)
                await asyncio.sleep(0.2)
    except TimeoutError:
        raise StartError(f"{programs[-1].path.name} was not ready within {_START_SECONDS:g} s") from None
    finally:
        await transport.close()


def free_port() -> int:
    """A port that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])
