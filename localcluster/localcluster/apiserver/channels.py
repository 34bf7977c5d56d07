"""The channel protocols of pods/exec and portforward: several streams over one WebSocket, the first byte says which.

Source: k8s.io/apimachinery remotecommand constants. v4: 0 stdin, 1 stdout, 2 stderr, 3 error (the final Status), 4 resize. v5
adds 255, by which the client closes a channel (its standard input). Without a subprotocol 3 is a text, of an error only.
Port-forward: 2i data and 2i+1 error of the i-th port.
"""

import asyncio
import struct
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from aiohttp import WSMsgType, web

from localcluster.pod_backend import PodBackendError, PortForwardStream, TerminalSize

STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
#: The real server's piece size: larger writes are cut so that stdout and stderr interleave fairly.
_PIECE = 32 * 1024


class Channels:
    """An `ExecStreams` over a prepared WebSocket; `read` must run beside the command."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._socket = socket
        self._stdin: asyncio.Queue[bytes] = asyncio.Queue()
        self._sizes: asyncio.Queue[TerminalSize] = asyncio.Queue()
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
        elif channel == RESIZE:
            try:
                size = msgspec.json.decode(content)
                self._sizes.put_nowait(TerminalSize(int(size["Width"]), int(size["Height"])))
            except (msgspec.DecodeError, KeyError, TypeError, ValueError):
                # An unreadable size does not end the session.
                return

    async def read_stdin(self) -> bytes:
        """See `ExecStreams`."""
        return await self._stdin.get()

    async def write_stdout(self, data: bytes) -> None:
        """See `ExecStreams`."""
        await self._send(STDOUT, data)

    async def write_stderr(self, data: bytes) -> None:
        """See `ExecStreams`."""
        await self._send(STDERR, data)

    async def resized(self) -> TerminalSize:
        """See `ExecStreams`."""
        return await self._sizes.get()

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


class _Forwarded:
    """A `PortForwardStream` on one pair of channels."""

    def __init__(self, socket: web.WebSocketResponse, channel: int) -> None:
        self._socket = socket
        self.channel = channel
        self.incoming: asyncio.Queue[bytes] = asyncio.Queue()

    async def read(self) -> bytes:
        """See `PortForwardStream`."""
        return await self.incoming.get()

    async def write(self, data: bytes) -> None:
        """See `PortForwardStream`."""
        for start in range(0, len(data), _PIECE):
            await self._socket.send_bytes(bytes([self.channel]) + data[start : start + _PIECE])

    async def fail(self, message: str) -> None:
        """Report to the client why this port does not work."""
        await self._socket.send_bytes(bytes([self.channel + 1]) + message.encode())


class Forwarder:
    """Port-forward of several ports over one prepared WebSocket."""

    def __init__(self, socket: web.WebSocketResponse, ports: list[int]) -> None:
        self._socket = socket
        self._streams = [(port, _Forwarded(socket, 2 * index)) for index, port in enumerate(ports)]

    async def run(self, forward: Callable[[int, PortForwardStream], Awaitable[None]]) -> None:
        """Forward until the client leaves or every connection has ended."""
        for port, stream in self._streams:
            announced = struct.pack("<H", port)
            for channel in (stream.channel, stream.channel + 1):
                await self._socket.send_bytes(bytes([channel]) + announced)
        reader = asyncio.create_task(self._read())
        connections = asyncio.gather(*(self._one(forward, port, stream) for port, stream in self._streams))
        try:
            await asyncio.wait((reader, connections), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (reader, connections):
                task.cancel()
            await asyncio.gather(reader, connections, return_exceptions=True)
            await self._socket.close()

    async def _read(self) -> None:
        async for message in self._socket:
            if message.type is not WSMsgType.BINARY or not message.data:
                continue
            index, kind = divmod(message.data[0], 2)
            if kind == 0 and index < len(self._streams):
                self._streams[index][1].incoming.put_nowait(message.data[1:])

    async def _one(self, forward: Callable[[int, PortForwardStream], Awaitable[None]], port: int, stream: _Forwarded) -> None:
        try:
            await forward(port, stream)
        except PodBackendError as error:
            await stream.fail(error.message)
