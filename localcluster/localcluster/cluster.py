"""The cluster as a whole: API server, its controllers and the kubelet.

The embedded server and its controllers share a process and an event loop with the kubelet. A real one stands in its place where
it is asked for: processes of their own, reached over HTTPS, and the same kubelet.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from localcluster import envtest
from localcluster.apiserver import ADMIN, ApiServer, Env, serve
from localcluster.apiserver.http import Running
from localcluster.apiserver.inprocess import InProcessTransport
from localcluster.controllers import Controllers
from localcluster.credentials import Credentials
from localcluster.http_client import HttpTransport
from localcluster.kubeconfig import kubeconfig
from localcluster.kubelet.kubelet import Kubelet
from localcluster.kubelet.options import PYTHON, KubeletOptions, host_environment
from localcluster.kubelet.server import NodeServer, serve_node
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
        python, volumes = python or PYTHON, directory / "kubelet"
        options = KubeletOptions(volumes, stop_grace=stop_grace, python=python, environment=host_environment(python))
        volumes.mkdir()
        if capacity is not None:
            options = replace(options, capacity={**options.capacity, **capacity}, enforce_resources=True)
        if server == REAL:
            servers, answers = await _real(stack, directory, credentials, port)
            options = replace(options, server_url=servers.endpoint.base_url, port=answers.port)
            transport: Transport = HttpTransport(servers.endpoint)
            stack.push_async_callback(transport.close)
        else:
            running = await _embedded(stack, credentials, port)
            options = replace(options, server_url=running.url)
            transport = InProcessTransport(running.server)
        if not node:
            yield Cluster(options.server_url, credentials, transport, None)
            return
        kubelet = await stack.enter_async_context(Kubelet(transport, options))
        if server == REAL:
            answers.find, answers.backend = kubelet.pod, kubelet.backend
        else:
            running.pods = kubelet.backend
            transport = InProcessTransport(running.server, pods=kubelet.backend)
        yield Cluster(options.server_url, credentials, transport, kubelet.backend)


async def _embedded(stack: AsyncExitStack, credentials: Credentials, port: int) -> Running:
    server = ApiServer(Env.system(), tokens={credentials.token: ADMIN})
    controllers = Controllers(server, root_ca=credentials.certificate.pem.decode())
    # The default namespace and ServiceAccounts exist before the first request.
    controllers.step()
    await stack.enter_async_context(background(controllers.run()))
    return await stack.enter_async_context(serve(server, port=port, ssl_context=credentials.certificate.server_context()))


async def _real(
    stack: AsyncExitStack, directory: Path, credentials: Credentials, port: int
) -> tuple[envtest.Servers, NodeServer]:
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
    return servers, await stack.enter_async_context(serve_node(servers.node, envtest.LOOPBACK))


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
