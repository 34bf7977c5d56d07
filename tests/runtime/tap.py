"""Transports around another one: passing everything on, and showing what passes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

from jobcommon.client.lines import closing
from jobcommon.client.request import Request, Response, Transport
from jobcommon.testutil.recording import access

Before = Callable[[Request], Awaitable[Response | None]]


async def nothing(_: Request) -> None:
    """What happens before a request as a rule."""


class Passing:
    """Passes everything on to `transport`, which stays open, after `before`, which may take its time or answer instead."""

    def __init__(self, transport: Transport, before: Before = nothing) -> None:
        self.transport, self.before = transport, before

    async def send(self, request: Request) -> Response:
        return await self.before(request) or await self.transport.send(request)

    async def stream(self, request: Request) -> AsyncIterator[bytes]:
        await self.before(request)
        async with closing(self.transport.stream(request)) as lines:
            async for line in lines:
                yield line

    async def close(self) -> None:
        pass


class WithoutStreams:
    """For a server that only answers requests, with `send`."""

    def stream(self, request: Request) -> AsyncIterator[bytes]:
        raise NotImplementedError

    async def close(self) -> None:
        pass


class Tap(Passing):
    """A transport that keeps writes and the selectors of watches, and can hold up writes: as long as `open` is not set."""

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport)
        self.writes: list[Request] = []
        self.watched: dict[str, list[dict[str, str]]] = {}
        self.open = asyncio.Event()
        self.open.set()

    async def send(self, request: Request) -> Response:
        if request.method != "GET":
            await self.open.wait()
            self.writes.append(request)
        return await super().send(request)

    def stream(self, request: Request) -> AsyncIterator[bytes]:
        wanted = access(request)
        assert wanted is not None
        self.watched.setdefault(wanted.resource, []).append(dict(request.query))
        return super().stream(request)
