"""The servers to compare: the embedded one, and the real one if there is one."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from localcluster import envtest
from localcluster.apiserver import ApiServer, Env, User, serve
from localcluster.apiserver.authentication import MASTERS
from localcluster.http_client import Endpoint, HttpTransport
from localcluster.request import Transport

WHY_NOT = f"no real API server to compare with: set {envtest.ASSETS} to a directory with {', '.join(envtest.PROGRAMS)}"


@dataclass(frozen=True, slots=True)
class Target:
    """A server: `name` for reports, `transport` as an administrator. `wait` lets time pass on it."""

    name: str
    transport: Transport
    wait: Callable[[float], Awaitable[None]] = asyncio.sleep


def available() -> bool:
    """Whether there is a real one. Raises envtest.StartError when the variable is set wrongly."""
    return envtest.assets() is not None


@asynccontextmanager
async def real() -> AsyncIterator[Target | None]:
    """The real server, started; None when there is none. Raises envtest.StartError."""
    directory = envtest.assets()
    if directory is None:
        yield None
        return
    async with envtest.servers(directory) as found, _connected("kube-apiserver", found.endpoint) as target:
        yield target


@asynccontextmanager
async def embedded() -> AsyncIterator[Target]:
    """The embedded API server, empty, behind HTTP on the loopback interface. Its clock is moved where a case waits."""
    token = secrets.token_hex(16)
    system = Env.system()
    passed = 0.0

    async def wait(seconds: float) -> None:
        nonlocal passed
        passed += seconds

    env = Env(lambda: system.now() + passed, system.uuid, system.random)
    server = ApiServer(env, tokens={token: User("admin", (MASTERS,))})
    async with serve(server) as running, _connected("embedded", Endpoint(running.url, token)) as target:
        yield replace(target, wait=wait)


@asynccontextmanager
async def _connected(name: str, endpoint: Endpoint) -> AsyncIterator[Target]:
    transport = HttpTransport(endpoint)
    try:
        yield Target(name, transport)
    finally:
        await transport.close()
