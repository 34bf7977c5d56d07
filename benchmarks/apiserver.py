"""The API server that is measured on: the embedded one as a process of its own, or a real one.

What gives the conformance suite a real one gives it here, too (`localcluster.conformance.real`): ``KUBEBUILDER_ASSETS``, a
directory with etcd and kube-apiserver, which are started and thrown away, or a kubeconfig that is marked for it.
"""

import argparse
import asyncio
import json
import re
import ssl
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from yarl import URL

from benchmarks import seeds
from benchmarks.processes import child, cpu_seconds, stop
from jobcommon.cli.gc_tuning import collect_garbage_rarely
from jobcommon.client.config import find_cluster
from jobcommon.client.request import Request
from jobcommon.client.transport import Endpoint, HttpTransport, StaticEndpoint, Timeouts
from jobcommon.operators.tf import TF
from jobcommon.testutil.embedded import endpoint
from localcluster.apiserver import ADMIN, ApiServer, Env, serve
from localcluster.apiserver.journal import FileJournal
from localcluster.cluster import background
from localcluster.conformance import envtest, real
from localcluster.controllers import Controllers
from localcluster.credentials import Credentials
from localcluster.kubeconfig import kubeconfig

EMBEDDED, REAL = "embedded", "real"
# The largest workload is taken in within the history that a watch may lag behind.
HISTORY = 65_536
_VERBS = ("GET", "POST", "PUT", "PATCH", "APPLY", "DELETE")
_RESOURCES = (TF.plural, "pods", "services", "events")
_PATIENT = Timeouts(connect=10.0, read=300.0, write=300.0)


@dataclass(frozen=True)
class Server:
    """A server that is up. `kubeconfig` leads processes to it. A `lasting` one outlives the run: what it made is deleted.

    `pids` are the processes of the server and its store, if they are ours.
    """

    name: str
    endpoint: Endpoint
    kubeconfig: Path
    lasting: bool = False
    pids: tuple[int, ...] = ()

    @property
    def cpu(self) -> float:
        """CPU seconds of the server and its store so far."""
        return sum(map(cpu_seconds, self.pids))

    async def operators_requests(self) -> float:
        """The requests so far that only operators send here, as the server counts them; 0 where it does not."""
        async with self.connected() as transport:
            answer = await transport.send(Request("GET", "/metrics"))
        return operators_requests(answer.body.decode()) if answer.status == 200 else 0.0

    @asynccontextmanager
    async def connected(self, concurrency: int = 64) -> AsyncIterator[HttpTransport]:
        """A client of it."""
        transport = HttpTransport(self.endpoint, timeouts=_PATIENT, concurrency=concurrency, user_agent="benchmarks")
        try:
            yield transport
        finally:
            await transport.close()


def operators_requests(metrics: str) -> float:
    """Writes and single reads of jobs and what belongs to them, without the user's POSTs and the kubelet's statuses."""
    found = 0.0
    for labels, count in re.findall(r"^apiserver_request_total\{(.*)\} (\S+)$", metrics, re.MULTILINE):
        label = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        verb, resource = label["verb"], (label["resource"], label["subresource"])
        if verb in _VERBS and resource[0] in _RESOURCES and resource != ("pods", "status"):
            found += float(count) * ((verb, resource) != ("POST", (TF.plural, "")))
    return found


@asynccontextmanager
async def api_server(kind: str, seed: str = "") -> AsyncIterator[Server]:
    """A server of that kind; an embedded one with the objects of `seed`. Raises envtest.StartError or ConfigError."""
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="benchmarks-")))
        if kind == EMBEDDED:
            yield await stack.enter_async_context(_embedded(directory, seed))
            return
        yield await stack.enter_async_context(_real(directory))


def real_is_given() -> bool:
    """Whether the environment names a real API server."""
    return real.available()


@dataclass
class EmbeddedServer:
    """The embedded API server as a process that can be killed and started again, if it has a `data_dir`."""

    directory: Path
    seed: str = ""
    data_dir: Path | None = None
    process: asyncio.subprocess.Process | None = None
    server: Server | None = None

    async def start(self) -> Server:
        """Start it, at the same port as before; it answers on return. Raises RuntimeError."""
        port = URL(self.server.endpoint.base_url).port if self.server else 0
        options = ["--data-dir", str(self.data_dir)] if self.data_dir else []
        self.process = await child(
            "benchmarks.apiserver", "--seed", self.seed, "--port", str(port), *options, stdout=asyncio.subprocess.PIPE
        )
        assert self.process.stdout is not None
        line = await self.process.stdout.readline()
        if not line:
            raise RuntimeError("the embedded API server did not start; its error is above")
        told = json.loads(line)
        endpoint = StaticEndpoint(told["url"], told["token"], ssl.create_default_context(cadata=told["ca"]))
        self.server = Server(EMBEDDED, endpoint, written(self.directory, **told), pids=(self.process.pid,))
        return self.server

    async def restart(self) -> None:
        """kill -9, and start it again."""
        assert self.process is not None
        self.process.kill()
        await self.process.wait()
        await self.start()


@asynccontextmanager
async def _embedded(directory: Path, seed: str) -> AsyncIterator[Server]:
    embedded = EmbeddedServer(directory, seed)
    try:
        yield await embedded.start()
    finally:
        if embedded.process is not None:
            await stop(embedded.process)


@asynccontextmanager
async def _real(directory: Path) -> AsyncIterator[Server]:
    assets = envtest.assets()
    if assets is None:
        path = real.kubeconfig()
        if path is None:
            raise envtest.StartError(real.WHY_NOT)
        cluster = await find_cluster(str(path))
        yield Server("cluster", cluster, path, lasting=True)
        return
    async with envtest.servers(assets) as servers:
        path = written(directory, servers.endpoint.base_url, str(servers.endpoint.token), servers.certificate.decode())
        pids = (servers.program.pid, servers.store.pid)
        yield Server(f"kube-apiserver {servers.version}", endpoint(servers.endpoint), path, pids=pids)


def written(directory: Path, url: str, token: str, ca: str) -> Path:
    """A kubeconfig in `directory`."""
    path = directory / "kubeconfig"
    path.touch(0o600)
    path.write_text(kubeconfig(url, token, ca.encode()))
    return path


async def prepare(transport: HttpTransport, namespace: str) -> None:
    """Make a namespace in which pods can be created: where no controller does it, its account is missing."""
    for path, body in (
        ("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
        (
            f"/api/v1/namespaces/{namespace}/serviceaccounts",
            {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": "default"},
                "automountServiceAccountToken": False,
            },
        ),
    ):
        answer = await transport.send(Request("POST", path, body=json.dumps(body).encode()))
        if answer.status not in (201, 409):
            raise RuntimeError(f"{path}: {answer.status} {answer.body[:200]!r}")


async def _main(seed: str, data_dir: Path | None, port: int) -> None:
    """Serve until the standard input ends, as `jobcommon up` does; with `data_dir` with its controllers, too."""
    collect_garbage_rarely()
    kept = Credentials.kept_in(data_dir) if data_dir else Credentials.fresh()
    journal = FileJournal(data_dir / "state") if data_dir else None
    server = ApiServer(Env.system(), journal=journal, tokens={kept.token: ADMIN}, history=HISTORY)
    if seed:
        seeds.put(server, seed)
    async with AsyncExitStack() as stack:
        if data_dir:
            await stack.enter_async_context(background(Controllers(server).run()))
        running = await stack.enter_async_context(serve(server, port=port, ssl_context=kept.certificate.server_context()))
        print(json.dumps({"url": running.url, "token": kept.token, "ca": kept.certificate.pem.decode()}), flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="An embedded API server, until its standard input ends.")
    parser.add_argument("--seed", default="", help="what is in it from the start: running:PODS or finished:JOBS")
    parser.add_argument("--data-dir", type=Path, help="where its state and its credentials outlive it")
    parser.add_argument("--port", type=int, default=0)
    given = parser.parse_args()
    asyncio.run(_main(given.seed, given.data_dir, given.port))
