"""The channel protocol of pods/exec: several streams over one WebSocket, the first byte says which.

Source: k8s.io/apimachinery remotecommand constants. v4: 0 stdin, 1 stdout, 2 stderr, 3 error (the final Status). v5
adds 255, by which the client closes a channel (its standard input). Without a subprotocol 3 is a text, of an error only.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
from aiohttp import WSMsgType, web

STDIN, STDOUT, STDERR, ERROR, CLOSE = 0, 1, 2, 3, 255
#: The real server's piece size: larger writes are cut so that stdout and stderr interleave fairly.
_PIECE = 32 * 1024


class Channels:
    """An `ExecStreams` over a prepared WebSocket; `read` must run beside the command."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._socket = socket
        self._stdin: asyncio.Queue[bytes] = asyncio.Queue()
        self._closed = asyncio.Event()

    async def read(self) -> None:
        """Sort what the client sends until it goes away."""
        try:
            async for message in self._socket:
                if message.type in (WSMsgType.BINARY, WSMsgType.TEXT):
                    data = message.data if isinstance(message.data, bytes) else message.data.encode()
                    self._sort(data)
        finally:
            self.leave()

    def leave(self) -> None:
        """The client has disconnected: end its input and wake what waits in `closed`."""
        self._closed.set()
        self._stdin.put_nowait(b"")

    def _sort(self, data: bytes) -> None:
        if not data:
            return
        channel, content = data[0], data[1:]
        if channel == STDIN and content:
            self._stdin.put_nowait(content)
        elif channel == CLOSE and content[:1] == bytes([STDIN]):
            self._stdin.put_nowait(b"")

    async def read_stdin(self) -> bytes:
        """See `ExecStreams`."""
        return await self._stdin.get()

    async def write_stdout(self, data: bytes) -> None:
        """See `ExecStreams`."""
        await self._send(STDOUT, data)

    async def write_stderr(self, data: bytes) -> None:
        """See `ExecStreams`."""
        await self._send(STDERR, data)

    async def closed(self) -> None:
        """See `ExecStreams`."""
        await self._closed.wait()

    async def _send(self, channel: int, data: bytes) -> None:
        for start in range(0, len(data), _PIECE):
            await self._socket.send_bytes(bytes([channel]) + data[start : start + _PIECE])

    async def finish(self, status: Mapping[str, Any]) -> None:
        """Send the final Status and close."""
        told = msgspec.json.encode(status) if self._socket.ws_protocol else str(status.get("message", "")).encode()
        try:
            if told:
                await self._socket.send_bytes(bytes([ERROR]) + told)
            await self._socket.close()
        except ConnectionError:
            return
