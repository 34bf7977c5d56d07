"""An HTTP server on aiohttp.web for clients that are not trusted: bounded in time, bytes and connections.

It runs in a thread with an event loop of its own, so a plan that blocks the operator's loop holds up no answer. A connection
carries one request. aiohttp sees its head when it is complete, and of its body what the handler asks for: nothing that a client
sends is kept before the handler has accepted it.
"""

import asyncio
import logging
import socket
import ssl
import threading
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from itertools import count
from typing import Any, cast

from aiohttp import web

from jobcommon.runtime.clock import cancelled

# For what is under way when the server is closed (seconds).
_CLOSING_SECONDS = 1.0
_HEAD_ENDS = b"\r\n\r\n"
_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
# What a client sends is no error of ours.
_UNLOGGED = logging.Logger("requests")
_UNLOGGED.disabled = True

Handler = Callable[[web.BaseRequest, Callable[[], Awaitable[bytes]]], Awaitable[web.Response]]
"""Answers a request; the second argument reads its body, or raises BodyError."""


class BodyError(Exception):
    """A body that is not read: it is too large, or of unknown length."""

    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status.phrase)
        self.status = status


@dataclass(frozen=True, slots=True)
class Limits:
    """The seconds for the TLS handshake, and again for a request with its answer; bytes of a head and of a body; connections.

    A connection too many closes the oldest of the address that has most: a new client is not refused.
    """

    handshake_seconds: float = 10.0
    request_seconds: float = 10.0
    head: int = 1 << 14
    body: int = 1 << 16
    discarded: int = 1 << 20
    connections: int = 128
    per_address: int = 32


@asynccontextmanager
async def serving(
    handler: Handler,
    name: str,
    *,
    host: str,
    port: int,
    limits: Limits,
    context: Callable[[], ssl.SSLContext] | None = None,
    refused: Callable[[], object] = lambda: None,
) -> AsyncIterator[int]:
    """Serve inside the context, in a thread of that name; yields the port, which the system chooses if `port` is 0.

    `context` gives the TLS context for a new connection; `refused` is called while the process can accept none, which no client
    can bring about. Both are called in that thread. Raises OSError that names the address.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
    try:
        listener = socket.create_server((host, port), family=family, backlog=limits.connections, dualstack_ipv6=both)
    except OSError as error:
        raise OSError(error.errno, f"{host}:{port}: {error.strerror}") from error
    stop = Future[None]()
    with listener:
        listener.setblocking(False)
        server = _Server(listener, handler, limits, context, refused)
        thread = threading.Thread(target=lambda: asyncio.run(server.run(stop)), name=name, daemon=True)
        thread.start()
        try:
            yield int(listener.getsockname()[1])
        finally:
            stop.set_result(None)
            await asyncio.to_thread(thread.join)


@dataclass
class _Server:
    listener: socket.socket
    handler: Handler
    limits: Limits
    context: Callable[[], ssl.SSLContext] | None
    refused: Callable[[], object]

    def __post_init__(self) -> None:
        self._numbers = count()
        # By address, the oldest first.
        self._open: dict[str, dict[_Connection, asyncio.Task[None]]] = {}

    async def run(self, stop: "Future[None]") -> None:
        accepting = asyncio.create_task(self._accept())
        await asyncio.wrap_future(stop)
        await cancelled(accepting)
        under_way = [task for connections in self._open.values() for task in connections.values()]
        if under_way:
            _, late = await asyncio.wait(under_way, timeout=_CLOSING_SECONDS)
            for task in late:
                await cancelled(task)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, address = await loop.sock_accept(self.listener)
            except ConnectionError:
                continue
            except OSError:
                # There is no file descriptor left.
                self.refused()
                await asyncio.sleep(1)
                continue
            self._admit(accepted, str(address[0]))
            # A connection that is there already is accepted without a pause: the others get their turn.
            await asyncio.sleep(0)

    def _admit(self, accepted: socket.socket, address: str) -> None:
        self._make_room(address)
        connection = _Connection(next(self._numbers), self.handler, self.limits)
        task = asyncio.create_task(self._serve(accepted, connection))
        self._open.setdefault(address, {})[connection] = task

        def ended(_: object) -> None:
            if not connection.begun:
                accepted.close()
            self._forget(address, connection)

        task.add_done_callback(ended)

    def _make_room(self, address: str) -> None:
        if len(self._open.get(address, ())) >= self.limits.per_address:
            crowd = address
        elif sum(map(len, self._open.values())) >= self.limits.connections:
            crowd = max(self._open, key=lambda one: (len(self._open[one]), -next(iter(self._open[one])).number))
        else:
            return
        oldest, task = next(iter(self._open[crowd].items()))
        task.cancel()
        self._forget(crowd, oldest)

    def _forget(self, address: str, connection: "_Connection") -> None:
        of_address = self._open.get(address, {})
        of_address.pop(connection, None)
        if not of_address:
            self._open.pop(address, None)

    async def _serve(self, accepted: socket.socket, connection: "_Connection") -> None:
        connection.begun = True
        context = self.context() if self.context is not None else None
        try:
            async with asyncio.timeout(self.limits.handshake_seconds):
                await asyncio.get_running_loop().connect_accepted_socket(lambda: connection, accepted, ssl=context)
            async with asyncio.timeout(self.limits.request_seconds):
                await connection.closed.wait()
        except OSError as error:
            # A client that is late, hangs up or knows no TLS. The frames keep the connection, in a cycle.
            traceback.clear_frames(error.__traceback__)
        finally:
            connection.abort()


def _request(message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
    # As aiohttp's own, which keeps each server, and with it the connection, in a reference cycle.
    return web.BaseRequest(message, payload, protocol, writer, task, asyncio.get_running_loop())


class _Connection(asyncio.Protocol):
    """Stands between the transport and aiohttp. `begun` once it owns its socket."""

    def __init__(self, number: int, handler: Handler, limits: Limits) -> None:
        self.number = number
        self.begun = False
        self.closed = asyncio.Event()
        self._handler = handler
        self._limits = limits
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        # The bytes after the head that aiohttp may still see; None until the handler has decided.
        self._wanted: int | None = None
        self._has_head = self._paused = False
        # The bytes of a body that nothing reads which are still to come before the answer.
        self._unread = 0
        self._is_read = asyncio.Event()
        self._parser: web.RequestHandler

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        server = web.Server(
            self._handle, request_factory=_request, handler_cancellation=True,
            access_log=None, logger=_UNLOGGED, keepalive_timeout=0, lingering_time=0,
        )  # fmt: skip
        self._parser = server()
        self._parser.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._parser.connection_lost(exc)
        self.closed.set()

    def pause_writing(self) -> None:
        self._parser.pause_writing()

    def resume_writing(self) -> None:
        self._parser.resume_writing()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._wanted is not None:
            self._pass_on(data, self._wanted)
            return
        transport = cast(asyncio.Transport, self._transport)
        searched = max(len(self._received) - len(_HEAD_ENDS), 0)
        self._received += data
        if not self._has_head:
            end = self._received.find(_HEAD_ENDS, searched, self._limits.head)
            if end >= 0:
                self._has_head, end = True, end + len(_HEAD_ENDS)
                head = bytes(self._received[:end])
                del self._received[:end]
                self._parser.data_received(head)
            elif len(self._received) >= self._limits.head:
                self._received, self._wanted = bytearray(), 0
                transport.write(_TOO_LARGE)
                transport.close()
        if self._has_head and len(self._received) > self._limits.body and not self._paused:
            self._paused = True
            transport.pause_reading()

    def _pass_on(self, data: bytes, wanted: int) -> None:
        part = data[:wanted]
        self._wanted = wanted - len(part)
        if part:
            self._parser.data_received(part)
        self._unread -= len(data) - len(part)
        if self._unread <= 0:
            self._is_read.set()

    def _want(self, size: int) -> None:
        """Let aiohttp see so many bytes of the body; what comes after them is dropped."""
        if self._wanted is None and self._transport is not None:
            received, self._received = bytes(self._received), bytearray()
            self._pass_on(received, size)
            if self._paused and not self._transport.is_closing():
                self._transport.resume_reading()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        length = request.content_length or 0

        async def body() -> bytes:
            if "Transfer-Encoding" in request.headers:
                raise BodyError(HTTPStatus.LENGTH_REQUIRED)
            if length > self._limits.body:
                raise BodyError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            self._want(length)
            return await request.read()

        response = await self._handler(request, body)
        response.headers.setdefault("Server", "jobcommon")
        response.force_close()
        if self._wanted is None:
            # A client that is still sending would not read the answer.
            self._unread = min(length, self._limits.discarded)
            self._want(0)
            await self._is_read.wait()
        return response
