"""HTTP/1.1 connections against servers that are a script of bytes."""

import asyncio
import base64
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import trustme
import uvloop

from jobcommon.client import http1
from jobcommon.client.errors import TransportError
from jobcommon.client.http1 import Exchange, HttpError, Pool, Route, StreamedExchange, connect, head
from jobcommon.client.request import Request
from jobcommon.client.transport import HttpTransport, StaticEndpoint, Timeouts

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
GET = head("GET", "/a", [("Host", "b")], None)
Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Answers:
    """Answers the requests of each connection with `parts`, one part a request, and keeps what it was sent."""

    def __init__(self, *parts: bytes, hang_up: bool = False) -> None:
        self.parts, self.hang_up = parts, hang_up
        self.connections = 0
        self.heads: list[bytes] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        for part in self.parts:
            self.heads.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(part)
            await writer.drain()
        if not self.hang_up:
            await reader.read()


@asynccontextmanager
async def serving(script: Script, context: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """A server's `host:port`."""

    connections: set[asyncio.Task[None]] = set()

    async def run(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await script(reader, writer)
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.add(asyncio.create_task(run(reader, writer)))

    server = await asyncio.start_server(begin, "127.0.0.1", 0, ssl=context)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for connection in connections:
            connection.cancel()
        await asyncio.gather(*connections, return_exceptions=True)


async def until(condition: Callable[[], bool]) -> None:
    """Let the event loop run until `condition` holds."""
    while not condition():  # noqa: ASYNC110 (asyncio's transports have no event for it)
        await asyncio.sleep(0)


def plain(place: str, proxy: str | None = None) -> Route:
    return Route(f"http://{place}", None, None, proxy)


BODIES: dict[str, tuple[bytes, bool, int, bytes]] = {
    "sized": (b"HTTP/1.1 201 Created\r\nContent-Length: 3\r\n\r\nabc", False, 201, b"abc"),
    "chunked": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n", False, 200, b"abc"),
    "until the end of the connection": (b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nabc", True, 200, b"abc"),
    "none": (b"HTTP/1.1 204 No Content\r\n\r\n", False, 204, b""),
    "after 100 Continue": (b"HTTP/1.1 100 Continue\r\nX: y\r\n\r\n" + OK, False, 200, b"{}"),
}


@pytest.mark.parametrize("case", BODIES)
async def test_a_body_is_read_to_its_end(case: str) -> None:
    answer, hang_up, status, body = BODIES[case]
    async with serving(Answers(answer, hang_up=hang_up)) as place:
        connection = await connect(plain(place), 5.0)
        exchange = connection.send(GET, Exchange())
        await exchange.ended
        assert (exchange.status, exchange.body(), "x" in exchange.headers) == (status, body, False)
        connection.close()


BROKEN = {
    "before the head": b"",
    "in the head": b"HTTP/1.1 200 OK\r\nConte",
    "in a sized body": b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
    "in a chunked body": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n",
    "not HTTP": b"SSH-2.0-OpenSSH_9.2\r\n",
}


@pytest.mark.parametrize("case", BROKEN)
async def test_a_response_that_breaks_off_is_an_error(case: str) -> None:
    async with serving(Answers(BROKEN[case], hang_up=True)) as place:
        connection = await connect(plain(place), 5.0)
        with pytest.raises(HttpError):
            await connection.send(GET, Exchange()).ended
        assert not connection.reusable


async def test_connections_are_kept_for_further_requests() -> None:
    script = Answers(OK, OK, OK)
    async with serving(script) as place:
        pool = Pool(4, 5.0)
        for _ in range(3):
            connection = await pool.acquire(plain(place))
            await connection.send(GET, Exchange()).ended
            pool.release(connection)
        pool.close()
    assert (script.connections, len(script.heads)) == (1, 3)


NOT_KEPT = {
    "the server says so": Answers(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}"),
    "the server hangs up": Answers(OK, hang_up=True),
    "the server says more than it was asked": Answers(OK + b"HTTP/1.1 408 Request Timeout\r\n\r\n"),
}


@pytest.mark.parametrize("case", NOT_KEPT)
async def test_a_connection_that_the_server_ends_is_replaced(case: str) -> None:
    script = NOT_KEPT[case]
    async with serving(script) as place:
        pool = Pool(4, 5.0)
        first = await pool.acquire(plain(place))
        await first.send(GET, Exchange()).ended
        pool.release(first)
        await until(lambda: not first.reusable)
        second = await pool.acquire(plain(place))
        await second.send(GET, Exchange()).ended
        pool.release(second)
        pool.close()
    assert script.connections == 2


async def test_an_idle_connection_is_not_used_after_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    script, loop = Answers(OK, OK), asyncio.get_running_loop()
    async with serving(script) as place:
        pool = Pool(4, 1000.0)
        first = await pool.acquire(plain(place))
        await first.send(GET, Exchange()).ended
        pool.release(first)
        now = loop.time
        monkeypatch.setattr(loop, "time", lambda: now() + http1.KEEP_IDLE + 1)
        second = await pool.acquire(plain(place))
        assert second is not first
        pool.release(second)
        pool.close()


async def test_a_slow_reader_stops_the_reading() -> None:
    size, sent = 40 * http1.MAX_UNREAD, 0

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        while sent < size:
            writer.write(bytes(http1.MAX_UNREAD))
            await writer.drain()
            sent += http1.MAX_UNREAD
        await reader.read()

    async with serving(flood) as place:
        connection = await connect(plain(place), 5.0)
        exchange = connection.send(GET, StreamedExchange(connection.opened()))
        await exchange.start()
        await until(lambda: not connection.opened().is_reading())
        assert len(exchange.body()) < size
        received = 0
        async for chunk in exchange.chunks():
            received += len(chunk)
        assert received == size
        connection.close()


@pytest.mark.parametrize("token", ["a\r\nX: y", "a\ny", "ключ"])
async def test_a_token_that_is_no_header_is_an_error(token: str) -> None:
    async with serving(Answers(OK)) as place:
        transport = HttpTransport(StaticEndpoint(f"http://{place}", token))
        with pytest.raises(TransportError, match="the token"):
            await transport.send(Request("POST", "/a", body=b"{}"))
        await transport.close()


async def test_a_server_that_does_not_accept_in_time() -> None:
    async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    async with serving(silent) as place:
        endpoint = StaticEndpoint(f"https://{place}", ssl_context=ssl.create_default_context())
        transport = HttpTransport(endpoint, timeouts=Timeouts(connect=0.05))
        with pytest.raises(TransportError, match=r"no connection to 127\.0\.0\.1 within 0\.05 s"):
            await transport.send(Request("POST", "/a", body=b"{}"))
        await transport.close()


async def test_a_proxy_without_tls_is_sent_the_whole_url() -> None:
    proxy = Answers(OK)
    async with serving(proxy) as place:
        transport = HttpTransport(StaticEndpoint("http://api.test:8080/prefix", proxy=f"http://user:p%40ss@{place}"))
        assert (await transport.send(Request("GET", "/a"))).body == b"{}"
        await transport.close()
    lines = proxy.heads[0].decode().split("\r\n")
    assert lines[0] == "GET http://api.test:8080/prefix/a HTTP/1.1"
    assert "Host: api.test:8080" in lines
    assert f"Proxy-Authorization: Basic {base64.b64encode(b'user:p@ss').decode()}" in lines


class Tunnel:
    """A proxy that joins the connections after CONNECT."""

    def __init__(self, refusal: bytes = b"") -> None:
        self.refusal, self.asked = refusal, b""

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked = await reader.readuntil(b"\r\n\r\n")
        if self.refusal:
            writer.write(self.refusal)
            return
        host, _, port = self.asked.split()[1].decode().partition(":")
        behind, to = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        try:
            await asyncio.gather(_copy(reader, to), _copy(behind, writer))
        finally:
            to.close()
            await to.wait_closed()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
    raise ConnectionResetError


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_tls_goes_through_a_tunnel(
    scheme: str, loop: Callable[[], asyncio.AbstractEventLoop], monkeypatch: pytest.MonkeyPatch
) -> None:
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(_goes_through_a_tunnel(scheme, monkeypatch))


async def _goes_through_a_tunnel(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = trustme.CA()
    serverside, clientside = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), ssl.create_default_context()
    authority.issue_cert("127.0.0.1", "api.test").configure_cert(serverside)
    authority.configure_trust(clientside)
    monkeypatch.setattr(ssl, "create_default_context", lambda: clientside)  # that of the connection to the proxy
    tunnel = Tunnel()
    async with serving(Answers(OK), serverside) as place, serving(tunnel, serverside if scheme == "https" else None) as proxy:
        endpoint = StaticEndpoint(
            f"https://{place}", ssl_context=clientside, server_name="api.test", proxy=f"{scheme}://{proxy}"
        )
        transport = HttpTransport(endpoint)
        assert (await transport.send(Request("GET", "/a"))).body == b"{}"
        await transport.close()
    assert tunnel.asked.startswith(f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n".encode())


async def test_a_connect_that_is_cancelled_at_any_turn_leaves_no_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[socket.socket] = []

    class Kept(socket.socket):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            made.append(self)

    async with serving(Answers(OK)) as place:
        monkeypatch.setattr(socket, "socket", Kept)
        for turns in range(12):
            task = asyncio.create_task(connect(Route(f"http://{place}", None, None, None), 5.0))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            (made_one,) = await asyncio.gather(task, return_exceptions=True)
            if isinstance(made_one, http1.Connection):
                made_one.close()
            for _ in range(3):
                await asyncio.sleep(0)
        port = int(place.rpartition(":")[2])
        ours = [one for one in made if one.fileno() >= 0 and one.getsockname()[1] != port]
    assert (ours, len(made) >= 11) == ([], True)


async def test_a_proxy_that_refuses_is_named() -> None:
    refusal = b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"
    async with serving(Tunnel(refusal)) as proxy:
        transport = HttpTransport(StaticEndpoint("https://api.test:6443", proxy=f"http://{proxy}"))
        with pytest.raises(TransportError, match=r"the proxy 127\.0\.0\.1 answers 407 to CONNECT api\.test:6443"):
            await transport.send(Request("POST", "/a", body=b"{}"))
        await transport.close()
