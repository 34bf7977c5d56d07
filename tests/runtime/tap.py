"""Transports of tests: one that shows what passes, and one for a server without watches."""

import asyncio
from collections.abc import AsyncGenerator

from jobcommon.client.request import Request, Response, Transport
from jobcommon.testutil.recording import Passing, access


class WithoutStreams:
    """For a server that only answers requests, with `send`."""

    def stream(self, request: Request) -> AsyncGenerator[bytes, None]:
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

    def stream(self, request: Request) -> AsyncGenerator[bytes, None]:
        self.watched.setdefault(access(request).resource, []).append(dict(request.query))
        return super().stream(request)
