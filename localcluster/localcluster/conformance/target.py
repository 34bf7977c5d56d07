"""A server to run cases against."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from localcluster.apiserver import ApiServer, Env, User, serve
from localcluster.http_client import Endpoint, HttpTransport
from localcluster.request import Transport

ADMINISTRATORS = "system:masters"


@dataclass(frozen=True, slots=True)
class Target:
    """A server: `name` and `version` for reports, `transport` as an administrator.

    `wait` lets time pass on the server.
    """

    name: str
    version: str
    transport: Transport
    wait: Callable[[float], Awaitable[None]] = asyncio.sleep


@asynccontextmanager
async def connected(name: str, version: str, endpoint: Endpoint) -> AsyncIterator[Target]:
    """A target at an endpoint; its connections end with the context."""
    transport = HttpTransport(endpoint, user_agent="conformance")
    try:
        yield Target(name, version, transport)
    finally:
        await transport.close()


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
    server = ApiServer(env, tokens={token: User("admin", (ADMINISTRATORS,))})
    async with serve(server) as running, connected("embedded", "", Endpoint(running.url, token)) as target:
        yield replace(target, wait=wait)
