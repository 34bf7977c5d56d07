"""A transport that shows what passes it."""

import asyncio
from collections.abc import AsyncIterator

from jobcommon.client.request import Request, Response, Transport
from jobcommon.testutil.recording import access


class Tap:
    """A transport that keeps writes and the selectors of watches, and can hold up writes: as long as `open` is not set."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.writes: list[Request] = []
        self.watched: dict[str, list[dict[str, str]]] = {}
        self.open = asyncio.Event()
        self.open.set()

    async def send(self, request: Request) -> Response:
        if request.method != "GET":
            await self.open.wait()
            self.writes.append(request)
        return await self._transport.send(request)

    async def stream(self, request: Request) -> AsyncIterator[bytes]:
        wanted = access(request)
        assert wanted is not None
        self.watched.setdefault(wanted.resource, []).append(dict(request.query))
        lines = self._transport.stream(request)
        try:
            async for line in lines:
                yield line
        finally:
            await lines.aclose()  # type: ignore[attr-defined]

    async def close(self) -> None:
        pass
