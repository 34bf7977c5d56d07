"""The transport to a real API server, over `jobcommon.client.http1`.

A proxy is configured once, at the start. Retried are only
requests that the server reports as not processed (429; 503 with Retry-After for idempotent ones), reads, and once those that
it refused because of expired credentials. A write without a response is never repeated: its outcome is unknown (rule R12).
"""

import asyncio
import math
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import urlsplit

from jobcommon.client.errors import TransportError
from jobcommon.client.http1 import Exchange, Pool, Route, StreamedExchange, connect, head, proxy_authorization
from jobcommon.client.impersonation import Headers
from jobcommon.client.lines import LineSplitter
from jobcommon.client.request import Request, Response
from jobcommon.client.responses import response_error, retry_after

READS = ("GET", "HEAD")
IDEMPOTENT = ("GET", "HEAD", "PUT", "DELETE")
RETRIES = 5
# The pause (seconds) after a 429 without Retry-After, which comes from a proxy rather than an API server.
DEFAULT_PAUSE = 1.0
RECONNECT_PAUSE = 0.1
LATE = "its deadline passed before it could be sent"


class Endpoint(Protocol):
    """Where the API server is, and the credentials for it."""

    @property
    def route(self) -> Route:
        """How to reach it. The URL has a path prefix if there is one, and no slash at its end."""
        ...

    @property
    def namespace(self) -> str:
        """The namespace of the credentials."""
        ...

    async def headers(self) -> Headers:
        """The current authentication headers. A name may occur several times."""
        ...

    async def reload(self) -> None:
        """Get new credentials, since the server refused the present ones."""
        ...


@dataclass(frozen=True, slots=True)
class Timeouts:
    """In seconds. `read` and `write` bound a whole `send`, pauses and retries included.

    `write` exceeds the API server's own limit (60 s), for admission may take long: a client that gives up sooner does not learn
    what became of the write, and sends it again. A write is not sent later than `sending` after its beginning. With leader
    election this must not exceed lease duration - renew deadline - 1 s, so that nothing begun under the lease is sent after
    it (rule R8); the wait for the answer ends with the lease, because then the writes in flight are cancelled. Streams have
    only `connect`: their readers detect silence.
    """

    connect: float = 10.0
    read: float = 60.0
    write: float = 65.0
    sending: float = math.inf


LEADER_TIMEOUTS = Timeouts(connect=3.0, sending=4.0)
ELECTION_TIMEOUTS = Timeouts(connect=3.0, read=4.0, write=4.0)


@dataclass(frozen=True, slots=True)
class StaticEndpoint:
    """An API server with a fixed token, or without a token."""

    base_url: str
    token: str | None = field(default=None, repr=False)
    ssl_context: ssl.SSLContext | None = None
    server_name: str | None = None
    proxy: str | None = None
    namespace: str = "default"

    @property
    def route(self) -> Route:
        """See `Endpoint.route`."""
        return Route(self.base_url, self.ssl_context, self.server_name, self.proxy)

    async def headers(self) -> Headers:
        """See `Endpoint.headers`."""
        return (("Authorization", f"Bearer {self.token}"),) if self.token else ()

    async def reload(self) -> None:
        """No effect: the credentials are fixed."""


class HttpTransport:
    """A `jobcommon.client.request.Transport` over HTTP.

    `concurrency` is the number of connections for requests; streams have their own. `sleep` is for tests.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        timeouts: Timeouts = Timeouts(),
        concurrency: int = 64,
        user_agent: str = "jobcommon",
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._endpoint = endpoint
        self._timeouts = timeouts
        self._user_agent = user_agent
        self._sleep = sleep
        self._pool = Pool(concurrency, timeouts.connect)
        self._origin: _Origin | None = None

    async def send(self, request: Request) -> Response:
        """See `Transport.send`."""
        timeouts, now = self._timeouts, asyncio.get_running_loop().time()
        budget = timeouts.read if request.method in READS else timeouts.write
        send_by = now + (budget if request.method in READS else min(budget, timeouts.sending))
        try:
            async with asyncio.timeout_at(now + budget):
                return await self._send(request, send_by)
        except TimeoutError as error:
            why = str(error) or f"no answer within {budget:g} s"
            raise TransportError(f"{request.method} {request.path}: {why}") from None

    async def stream(self, request: Request) -> AsyncGenerator[bytes, None]:
        """See `Transport.stream`. Lines may be of any length."""
        splitter = LineSplitter()
        connection = None
        try:
            async with asyncio.timeout(self._timeouts.read):
                for attempt in range(2):
                    # Watches do not share the pool with requests: each holds a connection for minutes.
                    origin = self._at()
                    connection = await connect(origin.route, self._timeouts.connect)
                    data = await self._encoded(origin, request)
                    exchange = connection.send(data, StreamedExchange(connection.opened()))
                    await exchange.start()
                    if exchange.status != 401 or attempt:
                        break
                    connection.close()
                    await self._endpoint.reload()
                if exchange.status >= 400:
                    await exchange.ended
                    raise response_error(Response(exchange.status, exchange.body(), exchange.headers))
            async for chunk in exchange.chunks():
                for line in splitter.feed(chunk):
                    yield line
            if rest := splitter.rest():
                yield rest
        except TimeoutError:
            raise TransportError(f"{request.method} {request.path}: the stream did not open in time") from None
        except OSError as error:
            raise _no_answer(request, error) from error
        finally:
            if connection is not None:
                connection.close()

    async def close(self) -> None:
        """See `Transport.close`."""
        self._pool.close()

    async def _send(self, request: Request, send_by: float) -> Response:
        reloaded = False
        for attempt in range(RETRIES + 1):
            try:
                response = await self.send_once(request, send_by)
            except TransportError:
                if request.method not in READS or attempt == RETRIES:
                    raise
                await self._sleep(RECONNECT_PAUSE * 2**attempt)
                continue
            if response.status == 401 and not reloaded:
                reloaded = True
                await self._endpoint.reload()
                continue
            pause = self._pause(request, response)
            if pause is None or attempt == RETRIES or asyncio.get_running_loop().time() + pause >= send_by:
                return response
            await self._sleep(pause)
        return response

    def _pause(self, request: Request, response: Response) -> float | None:
        """The seconds to wait before a retry; None for no retry."""
        if response.status not in (429, 503):
            return None
        asked = retry_after(response.headers.get("retry-after"))
        if response.status == 429:
            return DEFAULT_PAUSE if asked is None else asked
        return asked if request.method in IDEMPOTENT else None

    async def send_once(self, request: Request, send_by: float) -> Response:
        """Send it, without retries, unless `send_by` (seconds of the loop) has passed. Raises TransportError, TimeoutError.

        After a pause of the whole process, such as a frozen virtual machine, the loop resumes the requests that waited for a
        connection before it runs the timeouts; a write begun under the lease would be sent long after it (rule R8).
        """
        origin = self._at()
        try:
            data = await self._encoded(origin, request)
            connection = await self._pool.acquire(origin.route)
            try:
                if asyncio.get_running_loop().time() >= send_by:
                    raise TimeoutError(LATE)
                exchange = connection.send(data, Exchange())
                await exchange.ended
                return Response(exchange.status, exchange.body(), exchange.headers)
            finally:
                self._pool.release(connection)
        except TimeoutError:
            raise
        except OSError as error:
            raise _no_answer(request, error) from error

    async def _encoded(self, origin: "_Origin", request: Request) -> bytes:
        """The request as it is sent. The path is percent-encoded already."""
        given = {"accept": "application/json", **request.headers}
        if request.body is not None:
            given["content-type"] = request.content_type
        credentials = await self._endpoint.headers()
        headers = [*origin.headers, ("User-Agent", self._user_agent), *credentials, *given.items()]
        body = request.body or b""
        sized = len(body) if request.body is not None or request.method not in READS else None
        return head(request.method, origin.prefix + request.target, headers, sized) + body

    def _at(self) -> "_Origin":
        """The origin of the endpoint as it is now."""
        route = self._endpoint.route
        if self._origin is None or self._origin.route != route:
            self._origin = _Origin.of(route)
        return self._origin


@dataclass(frozen=True, slots=True)
class _Origin:
    """What requests by a route have in common: the beginning of their target, and headers."""

    route: Route
    prefix: str
    headers: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, route: Route) -> "_Origin":
        url = urlsplit(route.base_url)
        host = ("Host", url.netloc.rpartition("@")[2])
        if route.proxy is None or url.scheme == "https":
            return cls(route, url.path, (host,))
        # Without TLS there is no tunnel: the proxy is sent the whole URL.
        return cls(route, route.base_url, (host, *proxy_authorization(urlsplit(route.proxy))))


def _no_answer(request: Request, error: Exception) -> TransportError:
    return TransportError(f"{request.method} {request.path}: {type(error).__name__}: {error}")
