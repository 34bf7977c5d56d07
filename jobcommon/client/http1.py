"""HTTP/1.1 connections to an API server, on asyncio and httptools.

An operator of many small jobs spends half of its CPU time on requests. A general client follows redirects, keeps cookies,
decodes and traces; over a tuned aiohttp the operator's CPU is 1.4 to 1.6 times as much as with this module, which does only
what an API server needs (docs/decisions/kubernetes-clients.md). httptools (llhttp) does the parsing.
"""

import asyncio
import base64
import ipaddress
import ssl
from collections import deque
from collections.abc import AsyncIterator, Iterable
from typing import Any, NamedTuple, TypeVar, cast
from urllib.parse import SplitResult, unquote, urlsplit

import httptools

# A connection that was idle for longer (seconds) is not used again: many servers and load balancers close it then.
KEEP_IDLE = 60.0
# A stream whose reader is this many bytes behind is not read from the socket.
MAX_UNREAD = 1 << 20
_PORTS = {"http": 80, "https": 443}
# A second address of a host name is tried beside the first after this many seconds (RFC 8305).
_NEXT_ADDRESS = 0.25


class HttpError(OSError):
    """The connection was lost or the peer does not speak HTTP/1.1."""


class Route(NamedTuple):
    """How to reach a server: its URL, TLS and the URL of a proxy."""

    base_url: str
    ssl_context: ssl.SSLContext | None
    server_name: str | None
    proxy: str | None


def head(method: str, target: str, headers: Iterable[tuple[str, str]], length: int | None) -> bytes:
    """The head of a request. Raises HttpError if a line break in a value would begin another header."""
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers)]
    if length is not None:
        lines.append(f"Content-Length: {length}")
    text = "\r\n".join(lines)
    if text.count("\n") != len(lines) - 1 or text.count("\r") != len(lines) - 1:
        raise HttpError("the path or a header, such as the token, contains a line break")
    try:
        return f"{text}\r\n\r\n".encode("latin-1")
    except UnicodeEncodeError:
        raise HttpError("the path or a header, such as the token, contains characters that are not allowed there") from None


class Exchange:
    """One response as it arrives. `ended` is done with its last byte, or has the HttpError that prevented it."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._chunks: deque[bytes] = deque()

    def body(self) -> bytes:
        """All of the body that has arrived."""
        return b"".join(self._chunks)

    def began(self) -> None:
        """The head is complete."""

    def receive(self, chunk: bytes) -> None:
        """Add a part of the body."""
        self._chunks.append(chunk)

    def end(self, error: HttpError | None = None) -> None:
        """The response is complete, or `error` prevents it."""
        if self.ended.done():
            return
        if error is None:
            self.ended.set_result(None)
        else:
            self.ended.set_exception(error)
            self.ended.exception()  # retrieved here: a caller that was cancelled does not ask


class StreamedExchange(Exchange):
    """A response that is read while it arrives. A reader that is slow stops the reading from the socket."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__()
        self._transport = transport
        self._unread = 0
        self._news = asyncio.Event()

    async def start(self) -> None:
        """Wait for the head. Raises HttpError."""
        while not self.status:
            await self._arrival()

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives. Raises HttpError if the connection is lost before its end."""
        while True:
            while self._chunks:
                chunk = self._chunks.popleft()
                if self._unread > MAX_UNREAD >= self._unread - len(chunk):
                    self._transport.resume_reading()
                self._unread -= len(chunk)
                yield chunk
            if self.ended.done():
                self.ended.result()
                return
            await self._arrival()

    async def _arrival(self) -> None:
        if self.ended.done():
            self.ended.result()
        self._news.clear()
        await self._news.wait()

    def began(self) -> None:
        self._news.set()

    def receive(self, chunk: bytes) -> None:
        super().receive(chunk)
        if self._unread <= MAX_UNREAD < self._unread + len(chunk):
            self._transport.pause_reading()
        self._unread += len(chunk)
        self._news.set()

    def end(self, error: HttpError | None = None) -> None:
        super().end(error)
        self._news.set()


_E = TypeVar("_E", bound=Exchange)


class Connection(asyncio.Protocol):
    """One connection, for one request at a time."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.idle_since = 0.0
        self.route: Route | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._exchange: Exchange | None = None
        self._keep = True

    @property
    def reusable(self) -> bool:
        """Whether it can carry another request."""
        return self._keep and self._exchange is None and self.transport is not None and not self.transport.is_closing()

    def send(self, data: bytes, exchange: _E) -> _E:
        """Write a request, whose response arrives in `exchange`. Raises HttpError if the connection is lost already."""
        transport = self.opened()
        self._keep, self._exchange = False, exchange
        transport.write(data)
        return exchange

    def close(self) -> None:
        """Drop the connection."""
        if self.transport is not None:
            self.transport.abort()

    def opened(self) -> asyncio.Transport:
        """Its transport. Raises HttpError if the connection is lost."""
        if self.transport is None or self.transport.is_closing():
            raise HttpError("the server closed the connection")
        return self.transport

    # -- asyncio.Protocol ----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._end(HttpError(f"the response is not HTTP/1.1: {error}"))
            self.close()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._keep, self.transport = False, None
        exchange = self._exchange
        if exchange is None:
            return
        sized = "content-length" in exchange.headers or "transfer-encoding" in exchange.headers
        if exchange.status and not sized and exc is None:
            self._end()  # The end of the connection is the end of such a body (RFC 9112, 6.3).
        else:
            self._end(HttpError(str(exc) if exc is not None else "the server closed the connection before its response ended"))

    # -- httptools -----------------------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self._exchange is None:
            # A response without a request: the server says why it closes. It must not be taken for the next one's.
            self.close()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._exchange is not None:
            self._exchange.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if self._exchange is not None and status >= 200:
            self._exchange.status = status
            self._exchange.began()

    def on_body(self, body: bytes) -> None:
        if self._exchange is not None:
            self._exchange.receive(body)

    def on_message_complete(self) -> None:
        exchange = self._exchange
        if exchange is None:
            return
        if not exchange.status:
            exchange.headers.clear()  # 1xx: the response is still to come
            return
        self._keep = self._parser.should_keep_alive()
        self._end()

    def _end(self, error: HttpError | None = None) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.end(error)


class Pool:
    """At most `limit` connections for requests at once; a further request waits for its turn.

    `within`: the seconds in which a new connection must be there.
    """

    def __init__(self, limit: int, within: float) -> None:
        self._within = within
        self._seats = asyncio.Semaphore(limit)
        self._idle: deque[Connection] = deque()
        self._route: Route | None = None

    async def acquire(self, route: Route) -> Connection:
        """An idle connection, else a new one. Give it back with `release`. Raises OSError."""
        await self._seats.acquire()
        try:
            if route != self._route:
                # Another server, or new credentials such as a client certificate.
                self.close()
                self._route = route
            now = asyncio.get_running_loop().time()
            while self._idle and now - self._idle[0].idle_since >= KEEP_IDLE:
                self._idle.popleft().close()
            while self._idle:
                if (connection := self._idle.pop()).reusable:
                    return connection
            connection = await connect(route, self._within)
            connection.route = route
        except BaseException:
            self._seats.release()
            raise
        return connection

    def release(self, connection: Connection) -> None:
        """Keep the connection if it can be used again; one whose response has not ended is closed."""
        if connection.reusable and connection.route == self._route:
            connection.idle_since = asyncio.get_running_loop().time()
            self._idle.append(connection)
        else:
            connection.close()
        self._seats.release()

    def close(self) -> None:
        """Close the idle connections now, and those in use when they are released."""
        self._route = None
        while self._idle:
            self._idle.pop().close()


async def connect(route: Route, within: float) -> Connection:
    """A new connection. Raises OSError, which includes those of TLS, and HttpError after `within` seconds."""
    url = urlsplit(route.base_url)
    proxy = urlsplit(route.proxy) if route.proxy else None
    try:
        async with asyncio.timeout(within):
            if proxy is None:
                return await _open(url, route.ssl_context, route.server_name)
            return await _through(proxy, url, route) if url.scheme == "https" else await _open(proxy, None, None)
    except TimeoutError:
        raise HttpError(f"no connection to {(proxy or url).hostname} within {within:g} s") from None


async def _open(url: SplitResult, context: ssl.SSLContext | None, server_name: str | None) -> Connection:
    tls = (context or ssl.create_default_context()) if url.scheme == "https" else None
    loop, host = asyncio.get_running_loop(), url.hostname or ""
    # uvloop tries one address after the other and has no such argument. For one address it is left out: asyncio's race of
    # addresses does not close the socket of an attempt that is cancelled at its end.
    races = isinstance(loop, asyncio.BaseEventLoop) and not _is_address(host)
    pace: dict[str, Any] = {"happy_eyeballs_delay": _NEXT_ADDRESS} if races else {}
    _, connection = await loop.create_connection(
        Connection,
        host,
        _port(url),
        ssl=tls,
        server_hostname=(server_name or url.hostname) if tls else None,
        **pace,
    )
    return connection


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


async def _through(proxy: SplitResult, url: SplitResult, route: Route) -> Connection:
    """A tunnel through `proxy` by CONNECT, with TLS to the server inside."""
    tunnel = await _open(proxy, None, None)
    try:
        place = f"[{url.hostname}]:{_port(url)}" if ":" in (url.hostname or "") else f"{url.hostname}:{_port(url)}"
        data = head("CONNECT", place, [("Host", place), *proxy_authorization(proxy)], None)
        exchange = tunnel.send(data, StreamedExchange(tunnel.opened()))
        await exchange.start()
        if exchange.status != 200:
            raise HttpError(f"the proxy {proxy.hostname} answers {exchange.status} to CONNECT {place}")
        connection = Connection()
        transport = await asyncio.get_running_loop().start_tls(
            tunnel.opened(),
            connection,
            route.ssl_context or ssl.create_default_context(),
            server_hostname=route.server_name or url.hostname,
        )
    except BaseException:
        tunnel.close()
        raise
    if transport is None:
        raise HttpError(f"the proxy {proxy.hostname} closed the connection")
    connection.connection_made(transport)
    return connection


def proxy_authorization(proxy: SplitResult) -> list[tuple[str, str]]:
    """The header for the user and password in the URL of a proxy, if there are any."""
    if proxy.username is None:
        return []
    plain = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return [("Proxy-Authorization", f"Basic {base64.b64encode(plain.encode()).decode()}")]


def _port(url: SplitResult) -> int:
    return url.port or _PORTS[url.scheme]
