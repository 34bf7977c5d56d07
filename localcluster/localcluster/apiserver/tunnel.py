"""kubectl's port-forward: SPDY streams in the binary messages of one WebSocket.

Each forwarded connection is a pair of streams with the same ``requestid``: an error stream and a data stream. Source:
k8s.io/kubelet cri/streaming/portforward.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from aiohttp import WSMsgType, web

from localcluster.apiserver.spdy import Connection, Frame, SpdyError
from localcluster.pod_backend import PodBackendError, PortForwardStream

PROTOCOL = "SPDY/3.1+portforward.k8s.io"
_PIECE = 32 * 1024

Forward = Callable[[int, PortForwardStream], Awaitable[None]]


@dataclass(slots=True)
class _Pair:
    """The streams of one forwarded connection; 0 until opened."""

    error: int = 0
    data: int = 0
    port: int = 0
    incoming: "asyncio.Queue[bytes]" = field(default_factory=asyncio.Queue)


class _Stream:
    """A `PortForwardStream` on a data stream."""

    def __init__(self, tunnel: "Tunnel", pair: _Pair) -> None:
        self._tunnel = tunnel
        self._pair = pair

    async def read(self) -> bytes:
        """See `PortForwardStream`."""
        return await self._pair.incoming.get()

    async def write(self, data: bytes) -> None:
        """See `PortForwardStream`."""
        for start in range(0, len(data), _PIECE):
            await self._tunnel.send(Connection.data(self._pair.data, data[start : start + _PIECE]))


class Tunnel:
    """Serves one prepared WebSocket until the client leaves."""

    def __init__(self, socket: web.WebSocketResponse, forward: Forward) -> None:
        self._socket = socket
        self._forward = forward
        self._connection = Connection()
        self._pairs: dict[str, _Pair] = {}
        self._by_stream: dict[int, _Pair] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}

    async def send(self, frame: bytes) -> None:
        """Send a frame as one message."""
        await self._socket.send_bytes(frame)

    async def run(self) -> None:
        """Forward until the client leaves or breaks the protocol."""
        try:
            async for message in self._socket:
                if message.type is WSMsgType.BINARY:
                    for frame in self._connection.feed(message.data):
                        await self._handle(frame)
        except (SpdyError, ConnectionError):
            return
        finally:
            tasks = list(self._tasks.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._socket.close()

    async def _handle(self, frame: Frame) -> None:
        if frame.kind == "ping":
            await self.send(Connection.pong(frame.stream))
        elif frame.kind == "open":
            await self.send(self._connection.reply(frame.stream))
            self._open(frame.stream, *(frame.headers.get(name, "") for name in ("streamtype", "port", "requestid")))
        elif frame.stream in self._by_stream:
            pair = self._by_stream[frame.stream]
            if frame.data:
                pair.incoming.put_nowait(frame.data)
            if frame.fin:
                pair.incoming.put_nowait(b"")

    def _open(self, stream: int, kind: str, port: str, request: str) -> None:
        pair = self._pairs.setdefault(request or port, _Pair())
        if kind == "error":
            pair.error = stream
        elif kind == "data":
            pair.data, pair.port = stream, int(port) if port.isdecimal() else 0
            self._by_stream[stream] = pair
        if pair.error and pair.data:
            del self._pairs[request or port]
            self._tasks[pair.data] = asyncio.create_task(self._serve(pair))

    async def _serve(self, pair: _Pair) -> None:
        try:
            try:
                await self._forward(pair.port, _Stream(self, pair))
            except PodBackendError as error:
                await self.send(Connection.data(pair.error, error.message.encode()))
            await self.send(Connection.data(pair.data, b"", fin=True))
            await self.send(Connection.data(pair.error, b"", fin=True))
        except ConnectionError:
            return
        finally:
            self._tasks.pop(pair.data, None)
            self._by_stream.pop(pair.data, None)
