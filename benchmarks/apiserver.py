"""The API server that is measured on: the embedded one as a process of its own, or a real one.

``KUBEBUILDER_ASSETS`` gives the real one, as for the conformance suite: a directory with etcd and kube-apiserver, which are
started and thrown away.
"""

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.processes import child, stop
from benchmarks.workloads import baseline_definition
from jobcommon.cli.embedded import DEFINITIONS, endpoint, install
from jobcommon.cli.frameworks import installed
from jobcommon.client.config import find_cluster
from jobcommon.client.request import Request
from jobcommon.client.transport import Endpoint, HttpTransport, Timeouts
from localcluster.client import kubeconfig
from localcluster.conformance import envtest, real

EMBEDDED, REAL = "embedded", "real"
_PATIENT = Timeouts(connect=10.0, read=300.0, write=300.0)
# Until the definitions are served everywhere, a real server answers 429 to lists of them.
ESTABLISH_SECONDS = 30.0
_CONTROLLERS = "kube-controller-manager"


@dataclass(frozen=True)
class Server:
    """A server that is up. `kubeconfig` leads processes to it; `kills` are the parts to be killed, each back on return."""

    name: str
    endpoint: Endpoint
    kubeconfig: Path
    kills: Mapping[str, Callable[[], Awaitable[None]]] = field(default_factory=dict)

    @asynccontextmanager
    async def connected(self, concurrency: int = 64) -> AsyncIterator[HttpTransport]:
        """A client of it."""
        transport = HttpTransport(self.endpoint, timeouts=_PATIENT, concurrency=concurrency, user_agent="benchmarks")
        try:
            yield transport
        finally:
            await transport.close()


@asynccontextmanager
async def cluster(kind: str, *, lasting: bool = False) -> AsyncIterator[Server]:
    """A server of that kind, with our kinds and the baseline's. Raises envtest.StartError or ConfigError.

    One that is `lasting` can be killed, and collects garbage: a real one has the controller manager for that.
    """
    async with AsyncExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="benchmarks-")))
        server = await stack.enter_async_context((_embedded if kind == EMBEDDED else _real)(work, lasting))
        await _serve_kinds(server)
        yield server


async def _serve_kinds(server: Server) -> None:
    async with server.connected() as transport:
        await install(transport, list(installed().values()))
        await transport.send(Request("POST", DEFINITIONS, body=json.dumps(baseline_definition()).encode()))
        async with asyncio.timeout(ESTABLISH_SECONDS):
            for path in (f"/apis/{f.api_version}/{f.plural}" for f in installed().values()):
                while (await transport.send(Request("GET", path))).status != 200:  # noqa: ASYNC110
                    await asyncio.sleep(0.2)


@asynccontextmanager
async def _embedded(work: Path, lasting: bool) -> AsyncIterator[Server]:
    path = work / "kubeconfig"
    arguments = (str(path), *((str(work / "data"),) if lasting else ()))

    async def start() -> asyncio.subprocess.Process:
        process = await child("benchmarks.embedded_server", *arguments, stdout=asyncio.subprocess.PIPE)
        assert process.stdout is not None
        if not await process.stdout.readline():
            raise RuntimeError("the embedded API server did not start; its error is above")
        return process

    process = await start()

    async def restart() -> None:
        nonlocal process
        process.kill()
        await process.wait()
        process = await start()

    try:
        yield Server(EMBEDDED, await find_cluster(str(path)), path, {"API server": restart})
    finally:
        await stop(process)


@asynccontextmanager
async def _real(work: Path, lasting: bool) -> AsyncIterator[Server]:
    assets = envtest.assets()
    if lasting and (assets is None or not (assets / _CONTROLLERS).exists()):
        text = f"set {envtest.ASSETS} to a directory with {', '.join(envtest.PROGRAMS)} and {_CONTROLLERS}"
        raise envtest.StartError(f"no control plane that may be killed: {text}")
    if assets is None:
        raise envtest.StartError(real.WHY_NOT)
    async with envtest.servers(assets) as servers:
        path = work / "kubeconfig"
        path.touch(0o600)
        path.write_text(kubeconfig(servers.endpoint.base_url, str(servers.endpoint.token), servers.certificate))
        kills = {"API server": servers.restart, "etcd": servers.restart_store}
        server = Server(f"kube-apiserver {servers.version}", endpoint(servers.endpoint), path, kills)
        if not lasting:
            yield server
            return
        options = [
            f"--kubeconfig={path}", f"--bind-address={envtest.LOOPBACK}", f"--secure-port={envtest.free_port()}",
            "--leader-elect=false", f"--cert-dir={work}", "--controllers=garbage-collector-controller",
            "--kube-api-qps=1000", "--kube-api-burst=1000",
        ]  # fmt: skip
        async with envtest.Program(assets / _CONTROLLERS, servers.work, options):
            yield server


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
