"""The API server that is measured on: the embedded one as a process of its own, or a real one.

What gives the conformance suite a real one gives it here, too (`testutil.conformance.real`): ``KUBEBUILDER_ASSETS``, a
directory with etcd and kube-apiserver, which are started and thrown away, or a kubeconfig that is marked for it.
"""

import argparse
import asyncio
import json
import secrets
import ssl
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks import seeds
from benchmarks.processes import child, stop
from jobcommon.cli.gc_tuning import collect_garbage_rarely
from jobcommon.client.config import find_cluster
from jobcommon.client.request import Request
from jobcommon.client.transport import Endpoint, HttpTransport, StaticEndpoint, Timeouts
from jobcommon.localcluster.apiserver import ADMIN, ApiServer, Env, serve
from jobcommon.localcluster.certificates import self_signed
from jobcommon.localcluster.kubeconfig import kubeconfig
from jobcommon.testutil.conformance import envtest, real

EMBEDDED, REAL = "embedded", "real"
# The largest workload is taken in within the history that a watch may lag behind.
HISTORY = 65_536
_PATIENT = Timeouts(connect=10.0, read=300.0, write=300.0)


@dataclass(frozen=True)
class Server:
    """A server that is up. `kubeconfig` leads processes to it. A `lasting` one outlives the run: what it made is deleted."""

    name: str
    endpoint: Endpoint
    kubeconfig: Path
    lasting: bool = False

    @asynccontextmanager
    async def connected(self, concurrency: int = 64) -> AsyncIterator[HttpTransport]:
        """A client of it."""
        transport = HttpTransport(self.endpoint, timeouts=_PATIENT, concurrency=concurrency, user_agent="benchmarks")
        try:
            yield transport
        finally:
            await transport.close()


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


@asynccontextmanager
async def _embedded(directory: Path, seed: str) -> AsyncIterator[Server]:
    process = await child("benchmarks.apiserver", "--seed", seed, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout is not None
        line = await process.stdout.readline()
        if not line:
            raise RuntimeError("the embedded API server did not start; its error is above")
        told = json.loads(line)
        context = ssl.create_default_context(cadata=told["ca"])
        yield Server(EMBEDDED, StaticEndpoint(told["url"], told["token"], context), _written(directory, **told))
    finally:
        await stop(process)


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
    async with envtest.api_server(assets) as (endpoint, version):
        assert endpoint.ssl_context is not None
        assert endpoint.token is not None
        pem = ssl.DER_cert_to_PEM_cert(endpoint.ssl_context.get_ca_certs(binary_form=True)[0])
        path = _written(directory, endpoint.base_url, endpoint.token, pem)
        yield Server(f"kube-apiserver {version}", endpoint, path)


def _written(directory: Path, url: str, token: str, ca: str) -> Path:
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


async def _main(seed: str) -> None:
    """Serve until the standard input ends, as `jobcommon up` does."""
    collect_garbage_rarely()
    certificate, token = self_signed(), secrets.token_hex(16)
    server = ApiServer(Env.system(), tokens={token: ADMIN}, history=HISTORY)
    if seed:
        seeds.put(server, seed)
    async with serve(server, ssl_context=certificate.server_context()) as running:
        print(json.dumps({"url": running.url, "token": token, "ca": certificate.pem.decode()}), flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="An embedded API server, until its standard input ends.")
    parser.add_argument("--seed", default="", help="what is in it from the start: running:PODS or finished:JOBS")
    asyncio.run(_main(parser.parse_args().seed))
