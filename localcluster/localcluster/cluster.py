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
from localcluster.apiserver import ADMIN, ApiServer, Env, serve
from localcluster.apiserver.inprocess import InProcessTransport
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
    port: int = 0,
    stop_grace: float = 5.0,
    capacity: Mapping[str, str] | None = None,
    node: bool = True,
    server: str = EMBEDDED,
    python: Path | None = None,
) -> AsyncIterator[Cluster]:
    """A cluster that runs while the context lasts; afterwards no process of a pod is left.

    Its state ends with it. `stop_grace` bounds in seconds how long pods may take to end. With `capacity`
    the node has these amounts, of cpu and memory the machine's where none is given, and pods that ask for more than is free
    wait. Without a `node` pods stay Pending. `python` is the interpreter that pods find by that name, by
    default that of this process. `server` REAL takes etcd and kube-apiserver from
    KUBEBUILDER_ASSETS, and kube-controller-manager in place of our controllers.

    Raises OSError when the port is taken, and StartError when there is no real server or it does not start. When one of the
    parts fails the body is cancelled and the failure raised.
    """
    async with AsyncExitStack() as stack:
        directory = stack.enter_context(scratch_directory())
        credentials = Credentials.fresh()
        if server == REAL:
            started = await _real(stack, directory, credentials, port)
        else:
            started = await _embedded(stack, credentials, port)
        if not node:
            yield Cluster(started.url, credentials, started.transport(), None)
            return
        volumes = directory / "kubelet"
        volumes.mkdir()
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


async def _embedded(stack: AsyncExitStack, credentials: Credentials, port: int) -> _Started:
    server = ApiServer(Env.system(), tokens={credentials.token: ADMIN})
    controllers = Controllers(server, root_ca=credentials.certificate.pem.decode())
    # The default namespace and ServiceAccounts exist before the first request.
    controllers.step()
    await stack.enter_async_context(background(controllers.run()))
    context = credentials.certificate.server_context()
    running = await stack.enter_async_context(serve(server, port=port, ssl_context=context))

    def transport() -> Transport:
        return InProcessTransport(server, pods=running.pods)

    def connect(kubelet: Kubelet) -> None:
        running.pods = kubelet.backend

    return _Started(running.url, transport, connect)


async def _real(stack: AsyncExitStack, directory: Path, credentials: Credentials, port: int) -> _Started:
    assets = envtest.assets()
    if assets is None:
        raise envtest.StartError(f"set {envtest.ASSETS} to a directory with {', '.join(envtest.PROGRAMS)}")
    if port:
        # kube-apiserver would only say so in its log.
        socket.create_server((envtest.LOOPBACK, port)).close()
    serving = envtest.servers(assets, work=directory / "servers", credentials=credentials, port=port)
    servers = await stack.enter_async_context(serving)
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
