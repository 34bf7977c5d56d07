"""The cluster of a long run, whose server can be killed: the embedded one, or a real one with its garbage collector."""

import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from benchmarks.apiserver import EMBEDDED, EmbeddedServer, Server, prepare, real_server, serve_kinds
from benchmarks.soak.jobs import NAMESPACE
from localcluster.conformance import envtest

Kill = Callable[[], Awaitable[None]]
_CONTROLLERS = "kube-controller-manager"


@asynccontextmanager
async def soak_cluster(kind: str) -> AsyncIterator[tuple[Server, Mapping[str, Kill]]]:
    """A server with our kinds, and by name what can be killed; each is back on return. Raises envtest.StartError."""
    with tempfile.TemporaryDirectory(prefix="benchmarks-") as work:
        async with _embedded(Path(work)) if kind == EMBEDDED else _real(Path(work)) as (server, kills):
            await serve_kinds(server)
            async with server.connected() as transport:
                await prepare(transport, NAMESPACE)
            yield server, kills


@asynccontextmanager
async def _embedded(work: Path) -> AsyncIterator[tuple[Server, Mapping[str, Kill]]]:
    embedded = EmbeddedServer(work, data_dir=work / "data")
    try:
        yield await embedded.start(), {"API server": embedded.restart}
    finally:
        await embedded.stop()


@asynccontextmanager
async def _real(work: Path) -> AsyncIterator[tuple[Server, Mapping[str, Kill]]]:
    assets = envtest.assets()
    if assets is None or not (assets / _CONTROLLERS).exists():
        text = f"set {envtest.ASSETS} to a directory with {', '.join(envtest.PROGRAMS)} and {_CONTROLLERS}"
        raise envtest.StartError(f"no control plane that may be killed: {text}")
    async with envtest.servers(assets) as servers:
        server = real_server(servers, work)
        options = [
            f"--kubeconfig={server.kubeconfig}", f"--bind-address={envtest.LOOPBACK}", f"--secure-port={envtest.free_port()}",
            "--leader-elect=false", f"--cert-dir={work}", "--controllers=garbage-collector-controller",
            "--kube-api-qps=1000", "--kube-api-burst=1000",
        ]  # fmt: skip
        async with envtest.Program(assets / _CONTROLLERS, servers.work, options):
            yield server, {"API server": servers.restart, "etcd": servers.restart_store}
