"""The API server that is measured on: the embedded one as a process of its own, or a real one.

What gives the conformance suite a real one gives it here, too (`localcluster.conformance.real`): ``KUBEBUILDER_ASSETS``, a
directory with etcd and kube-apiserver, which are started and thrown away, or a kubeconfig that is marked for it.
"""

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.processes import child, stop
from benchmarks.workloads import baseline_definition
from jobcommon.cli.frameworks import installed
from jobcommon.client.config import find_cluster
from jobcommon.client.request import Request
from jobcommon.client.transport import Endpoint, HttpTransport, Timeouts
from jobcommon.testutil.embedded import DEFINITIONS, endpoint, install
from localcluster.conformance import envtest, real
from localcluster.kubeconfig import kubeconfig

EMBEDDED, REAL = "embedded", "real"
_PATIENT = Timeouts(connect=10.0, read=300.0, write=300.0)
# Until the definitions are served everywhere, a real server answers 429 to lists of them.
ESTABLISH_SECONDS = 30.0


@dataclass(frozen=True)
class Server:
    """A server that is up. `kubeconfig` leads processes to it."""

    name: str
    endpoint: Endpoint
    kubeconfig: Path

    @asynccontextmanager
    async def connected(self, concurrency: int = 64) -> AsyncIterator[HttpTransport]:
        """A client of it."""
        transport = HttpTransport(self.endpoint, timeouts=_PATIENT, concurrency=concurrency, user_agent="benchmarks")
        try:
            yield transport
        finally:
            await transport.close()


@asynccontextmanager
async def cluster(kind: str) -> AsyncIterator[Server]:
    """A server of that kind, with our kinds and the baseline's. Raises envtest.StartError or ConfigError."""
    async with AsyncExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="benchmarks-")))
        server = await stack.enter_async_context(_embedded(work) if kind == EMBEDDED else _real(work))
        await serve_kinds(server)
        yield server


async def serve_kinds(server: Server) -> None:
    """Install our kinds and the baseline's, and return once they are served. Raises TimeoutError if they are not soon."""
    async with server.connected() as transport:
        await install(transport, list(installed().values()))
        await transport.send(Request("POST", DEFINITIONS, body=json.dumps(baseline_definition()).encode()))
        async with asyncio.timeout(ESTABLISH_SECONDS):
            for path in (f"/apis/{f.api_version}/{f.plural}" for f in installed().values()):
                while (await transport.send(Request("GET", path))).status != 200:  # noqa: ASYNC110
                    await asyncio.sleep(0.2)


def real_is_given() -> bool:
    """Whether the environment names a real API server."""
    return real.available()


@dataclass
class EmbeddedServer:
    """The embedded API server as a process. With a `data_dir` it can be killed and started again at the same port."""

    work: Path
    data_dir: Path | None = None
    process: asyncio.subprocess.Process | None = None

    async def start(self) -> Server:
        """Start it; it answers on return. Raises RuntimeError."""
        path = self.work / "kubeconfig"
        path.unlink(missing_ok=True)
        options = ["--no-node", "--kubeconfig", str(path), *(("--data-dir", str(self.data_dir)) if self.data_dir else ())]
        self.process = await child("localcluster", "serve", *options, stdout=asyncio.subprocess.PIPE)
        assert self.process.stdout is not None
        if not await self.process.stdout.readline():
            raise RuntimeError("the embedded API server did not start; its error is above")
        return Server(EMBEDDED, await find_cluster(str(path)), path)

    async def restart(self) -> None:
        """kill -9, and start it again."""
        assert self.process is not None
        self.process.kill()
        await self.process.wait()
        await self.start()

    async def stop(self) -> None:
        """End it."""
        if self.process is not None:
            await stop(self.process)


@asynccontextmanager
async def _embedded(work: Path) -> AsyncIterator[Server]:
    embedded = EmbeddedServer(work)
    try:
        yield await embedded.start()
    finally:
        await embedded.stop()


@asynccontextmanager
async def _real(work: Path) -> AsyncIterator[Server]:
    assets = envtest.assets()
    if assets is None:
        path = real.kubeconfig()
        if path is None:
            raise envtest.StartError(real.WHY_NOT)
        yield Server("cluster", await find_cluster(str(path)), path)
        return
    async with envtest.servers(assets) as servers:
        yield real_server(servers, work)


def real_server(servers: envtest.Servers, work: Path) -> Server:
    """The server of a control plane that was started, with a kubeconfig in `work`."""
    path = work / "kubeconfig"
    path.touch(0o600)
    path.write_text(kubeconfig(servers.endpoint.base_url, str(servers.endpoint.token), servers.certificate))
    return Server(f"kube-apiserver {servers.version}", endpoint(servers.endpoint), path)


async def prepare(transport: HttpTransport, namespace: str) -> None:
    """Make a namespace in which pods can be created: where no controller does it, its account is missing."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    for path, body in (
        ("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
        (f"/api/v1/namespaces/{namespace}/serviceaccounts", {**account, "automountServiceAccountToken": False}),
    ):
        answer = await transport.send(Request("POST", path, body=json.dumps(body).encode()))
        if answer.status not in (201, 409):
            raise RuntimeError(f"{path}: {answer.status} {answer.body[:200]!r}")
