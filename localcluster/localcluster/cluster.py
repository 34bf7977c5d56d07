"""The cluster as a whole: API server, its controllers and the kubelet.

The embedded server and its controllers share a process and an event loop with the kubelet. A real one stands in its place where
it is asked for: processes of their own, reached over HTTPS, and the same kubelet.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from localcluster import envtest
from localcluster.apiserver import ADMIN, ApiServer, Env, FileJournal, serve
from localcluster.apiserver.http import Running
from localcluster.apiserver.inprocess import InProcessTransport
from localcluster.apiserver.journal import MemoryJournal
from localcluster.controllers import Controllers
from localcluster.credentials import Credentials
from localcluster.http_client import HttpTransport
from localcluster.kubeconfig import kubeconfig
from localcluster.kubelet.kubelet import Kubelet
from localcluster.kubelet.options import PYTHON, KubeletOptions, host_environment
from localcluster.kubelet.server import serve_node
from localcluster.pod_backend import PodBackend
from localcluster.request import Transport
from localcluster.scratch import scratch_directory

EMBEDDED, REAL = "embedded", "real"


@dataclass(frozen=True)
class Cluster:
    """A running cluster. `transport` reaches it as administrator, in process or over HTTPS if it is a real one.

    `pods` has its pods' logs, if it has a node.
    """

    url: str
    credentials: Credentials
    transport: Transport
    pods: PodBackend | None

    def kubeconfig(self, namespace: str = "default") -> str:
        """The text of a kubeconfig for it. It holds a secret."""
        return kubeconfig(self.url, self.credentials.token, self.credentials.certificate.pem, namespace)


@asynccontextmanager
async def local_cluster(
    *,
    data_dir: Path | None = None,
    port: int = 0,
    stop_grace: float = 5.0,
    capacity: Mapping[str, str] | None = None,
    node: bool = True,
    server: str = EMBEDDED,
    python: Path | None = None,
) -> AsyncIterator[Cluster]:
    """A cluster that runs while the context lasts; afterwards no process of a pod is left.

    State is kept in memory, or in `data_dir`, which also restores it after a crash; so do the token, the certificate
    and, unless `port` says otherwise, the port. `stop_grace` bounds in seconds how long pods may take to end. With `capacity`
    the node has these amounts, of cpu and memory the machine's where none is given, and pods that ask for more than is free
    wait. Without a `node` pods stay Pending. `python` is the interpreter that pods find by that name, by
    default that of this process. `server` REAL takes etcd and kube-apiserver from
    KUBEBUILDER_ASSETS, and kube-controller-manager in place of our controllers.

    Raises JournalError when the data directory is in use or damaged, OSError when the port is taken, and StartError when there
    is no real server or it does not start. When one of the parts fails the body is cancelled and the failure raised.
    """
    async with AsyncExitStack() as stack:
        # Pods and servers run in directories of their own, so a relative path leads nowhere there.
        directory = (data_dir or stack.enter_context(scratch_directory())).absolute()
        directory.mkdir(parents=True, exist_ok=True)
        credentials = Credentials.kept_in(directory) if data_dir else Credentials.fresh()
        begin = _real if server == REAL else _embedded
        started = await begin(stack, directory, credentials, port, kept=data_dir is not None)
        if not node:
            yield Cluster(started.url, credentials, started.transport(), None)
            return
        volumes = directory / "kubelet"
        volumes.mkdir(exist_ok=True)
        options = KubeletOptions(
            volumes, started.url, stop_grace=stop_grace, port=started.kubelet_port, python=python or PYTHON,
            environment=host_environment(python or PYTHON),
        )  # fmt: skip
        if capacity is not None:
            options = replace(options, capacity={**options.capacity, **capacity}, enforce_resources=True)
        kubelet = await stack.enter_async_context(Kubelet(started.transport(), options))
        started.connect(kubelet)
        yield Cluster(started.url, credentials, started.transport(), kubelet.backend)


@dataclass(frozen=True)
class _Started:
    """An API server that is up, with controllers. `transport` makes a client, `connect` gives it the node."""

    url: str
    transport: Callable[[], Transport]
    connect: Callable[[Kubelet], None]
    kubelet_port: int = 0


async def _embedded(
    stack: AsyncExitStack, directory: Path, credentials: Credentials, port: int, *, kept: bool
) -> _Started:  # fmt: skip
    journal = FileJournal(directory / "state") if kept else MemoryJournal()
    stack.callback(journal.close)
    server = ApiServer(Env.system(), journal=journal, tokens={credentials.token: ADMIN})
    controllers = Controllers(server, root_ca=credentials.certificate.pem.decode())
    # The default namespace and ServiceAccounts exist before the first request.
    controllers.step()
    await stack.enter_async_context(background(controllers.run()))
    running = await _listen(stack, server, credentials, directory, port)

    def transport() -> Transport:
        return InProcessTransport(server, pods=running.pods)

    def connect(kubelet: Kubelet) -> None:
        running.pods = kubelet.backend

    return _Started(running.url, transport, connect)


async def _real(stack: AsyncExitStack, directory: Path, credentials: Credentials, port: int, *, kept: bool) -> _Started:
    assets = envtest.assets()
    if assets is None:
        raise envtest.StartError(f"set {envtest.ASSETS} to a directory with {', '.join(envtest.PROGRAMS)}")
    work, port = directory / "servers", _port(directory, port)
    serving = envtest.servers(assets, work=work, credentials=credentials, port=port, kept=kept)
    servers = await stack.enter_async_context(serving)
    (directory / "port").write_text(servers.endpoint.base_url.rpartition(":")[2])
    controllers = await stack.enter_async_context(envtest.controllers(assets, servers))
    for program in (servers.store, servers.program, controllers):
        await stack.enter_async_context(background(program.watch()))
    node = await stack.enter_async_context(serve_node(servers.node, envtest.LOOPBACK))

    def transport() -> Transport:
        found = HttpTransport(servers.endpoint)
        stack.push_async_callback(found.close)
        return found

    def connect(kubelet: Kubelet) -> None:
        node.find, node.backend = kubelet.pod, kubelet.backend

    return _Started(servers.endpoint.base_url, transport, connect, node.port)


@asynccontextmanager
async def background(work: Coroutine[Any, Any, None]) -> AsyncIterator[asyncio.Task[None]]:
    """Run `work` until the context is left. If it fails before, the body is cancelled and the failure raised in its place."""
    body = asyncio.current_task()
    task = asyncio.create_task(work)
    broken = False

    def ended(_: asyncio.Task[None]) -> None:
        nonlocal broken
        if body is not None and not task.cancelled() and task.exception() is not None:
            broken = True
            body.cancel()

    task.add_done_callback(ended)
    try:
        yield task
    except asyncio.CancelledError:
        if broken and body is not None and body.uncancel() == 0:
            task.result()
        raise
    finally:
        task.remove_done_callback(ended)
        task.cancel()
        await asyncio.wait([task])


async def _listen(stack: AsyncExitStack, server: ApiServer, credentials: Credentials, directory: Path, port: int) -> Running:
    """Serve on the port and remember it."""
    context = credentials.certificate.server_context()
    running = await stack.enter_async_context(serve(server, port=_port(directory, port), ssl_context=context))
    (directory / "port").write_text(str(running.port))
    return running


def _port(directory: Path, port: int) -> int:
    """`port`, else that of the last run if it is free, so that kubeconfigs stay valid, else 0. Raises OSError."""
    memory = directory / "port"
    wanted = port or (int(memory.read_text()) if memory.exists() else 0)
    try:
        with socket.create_server((envtest.LOOPBACK, wanted)):
            return wanted
    except OSError:
        if port:
            raise
        return 0
