"""The embedded cluster as a whole: API server, its controllers and the kubelet in one process and one event loop."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from localcluster.apiserver import ADMIN, ApiServer, Env, FileJournal, serve
from localcluster.apiserver.http import Running
from localcluster.apiserver.inprocess import InProcessTransport
from localcluster.apiserver.journal import MemoryJournal
from localcluster.controllers import Controllers
from localcluster.credentials import Credentials
from localcluster.kubeconfig import kubeconfig
from localcluster.kubelet.kubelet import Kubelet
from localcluster.kubelet.options import KubeletOptions
from localcluster.pod_backend import PodBackend
from localcluster.request import Transport
from localcluster.scratch import scratch_directory


@dataclass(frozen=True)
class LocalCluster:
    """A running cluster. `transport` reaches it in process, as administrator; `pods` has its pods' logs, if it has a node."""

    url: str
    credentials: Credentials
    server: ApiServer
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
) -> AsyncIterator[LocalCluster]:
    """A cluster that runs while the context lasts; afterwards no process of a pod is left.

    State is kept in memory, or in `data_dir`, which also restores it after a crash; so do the token, the certificate
    and, unless `port` says otherwise, the port. `stop_grace` bounds in seconds how long pods may take to end. With `capacity`
    the node has these amounts, of cpu and memory the machine's where none is given, and pods that ask for more than is free
    wait. Without a `node` pods are stored and stay Pending.

    Raises JournalError when the data directory is in use or damaged and OSError when the port is taken. When one of the
    parts fails the body is cancelled and the failure raised.
    """
    async with AsyncExitStack() as stack:
        directory = data_dir or stack.enter_context(scratch_directory())
        directory.mkdir(parents=True, exist_ok=True)
        credentials = Credentials.kept_in(directory) if data_dir else Credentials.fresh()
        journal = FileJournal(directory / "state") if data_dir else MemoryJournal()
        stack.callback(journal.close)
        server = ApiServer(Env.system(), journal=journal, tokens={credentials.token: ADMIN})
        controllers = Controllers(server, root_ca=credentials.certificate.pem.decode())
        # The default namespace and ServiceAccounts exist before the first request.
        controllers.step()
        await stack.enter_async_context(background(controllers.run()))
        running = await _listen(stack, server, credentials, directory, port)
        if not node:
            yield LocalCluster(running.url, credentials, server, InProcessTransport(server), None)
            return
        volumes = directory / "kubelet"
        volumes.mkdir(exist_ok=True)
        options = KubeletOptions(volumes, running.url, stop_grace=stop_grace)
        if capacity is not None:
            options = replace(options, capacity={**options.capacity, **capacity}, enforce_resources=True)
        kubelet = await stack.enter_async_context(Kubelet(InProcessTransport(server, user_agent="kubelet"), options))
        running.pods = kubelet.backend
        transport = InProcessTransport(server, pods=kubelet.backend)
        yield LocalCluster(running.url, credentials, server, transport, kubelet.backend)


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
    """Serve on `port`; without it on the port of the last run if that is free, so that kubeconfigs stay valid."""
    memory = directory / "port"
    remembered = int(memory.read_text()) if not port and memory.exists() else 0
    context = credentials.certificate.server_context()
    try:
        running = await stack.enter_async_context(serve(server, port=port or remembered, ssl_context=context))
    except OSError:
        if not remembered:
            raise
        running = await stack.enter_async_context(serve(server, ssl_context=context))
    memory.write_text(str(running.port))
    return running
