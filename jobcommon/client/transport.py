"""The transport to a real API server, by aiohttp.

`trust_env` stays off, because it costs two thread hops per request; a proxy is configured once, at the start. Retried are only
requests that the server reports as not processed (429; 503 with Retry-After for idempotent ones), reads, and once those that
it refused because of expired credentials. A write without a response is never repeated: its outcome is unknown (rule R12).
"""

import asyncio
import math
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from jobcommon.client.errors import TransportError
from jobcommon.client.lines import LineSplitter
from jobcommon.client.request import Request, Response
from jobcommon.client.status import response_error, retry_after

READS = ("GET", "HEAD")
IDEMPOTENT = ("GET", "HEAD", "PUT", "DELETE")
RETRIES = 5
# The pause (seconds) after a 429 without Retry-After, which comes from a proxy rather than an API server.
DEFAULT_PAUSE = 1.0
RECONNECT_PAUSE = 0.1
_CHUNK = 1 << 18
LATE = "its time was over before it could be sent"
# Watches do not share the pool with requests: each holds a connection for minutes.
_UNLIMITED = 0
# Until when, by the loop's time, the request of the current task may be sent.
_send_by: ContextVar[float] = ContextVar("send_by", default=math.inf)


class Endpoint(Protocol):
    """Where the API server is, and the credentials for it."""

    @property
    def base_url(self) -> str:
        """Scheme, host and port, and the path prefix if there is one; without a slash at the end."""
        ...

    @property
    def ssl_context(self) -> ssl.SSLContext | None:
        """For https."""
        ...

    @property
    def server_name(self) -> str | None:
        """The name in the server's certificate, if it is not the one in the URL."""
        ...

    @property
    def proxy(self) -> str | None:
        """The URL of the proxy to use."""
        ...

    @property
    def namespace(self) -> str:
        """The namespace of the credentials."""
        ...

    async def headers(self) -> Mapping[str, str]:
        """The current authentication headers. In a multi-dict a name may occur several times."""
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
    """An API server that wants a fixed token or none."""

    base_url: str
    token: str | None = field(default=None, repr=False)
    ssl_context: ssl.SSLContext | None = None
    server_name: str | None = None
    proxy: str | None = None
    namespace: str = "default"

    async def headers(self) -> Mapping[str, str]:
        """See `Endpoint.headers`."""
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    async def reload(self) -> None:
        """No effect: the credentials are fixed."""


class HttpTransport:
    """A `jobcommon.client.request.Transport` over HTTP.

    `concurrency` is the number of connections for requests; streams have their own. `sleep` and `now` (wall clock) are
    for tests.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        timeouts: Timeouts = Timeouts(),
        concurrency: int = 64,
        user_agent: str = "jobcommon",
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._endpoint = endpoint
        self._timeouts = timeouts
        self._concurrency = concurrency
        self._user_agent = user_agent
        self._sleep = sleep
        self._now = now
        self._sessions: dict[str, aiohttp.ClientSession] = {}

    async def send(self, request: Request) -> Response:
        """See `Transport.send`."""
        timeouts, now = self._timeouts, asyncio.get_running_loop().time()
        budget = timeouts.read if request.method in READS else timeouts.write
        send_by = now + (budget if request.method in READS else min(budget, timeouts.sending))
        bound = _send_by.set(send_by)
        try:
            async with asyncio.timeout_at(now + budget):
                return await self._send(request, send_by)
        except TimeoutError as error:
            why = str(error) or f"no answer within {budget:g} s"
            raise TransportError(f"{request.method} {request.path}: {why}") from None
        finally:
            _send_by.reset(bound)

    async def stream(self, request: Request) -> AsyncIterator[bytes]:
        """See `Transport.stream`. Lines may be of any length."""
        splitter = LineSplitter()
        try:
            async with asyncio.timeout(self._timeouts.read):
                opened = await self._open(request)
                if opened.status == 401:
                    opened.release()
                    await self._endpoint.reload()
                    opened = await self._open(request)
            async with opened:
                if opened.status >= 400:
                    raise response_error(await _whole(opened), self._now())
                async for chunk in opened.content.iter_any():
                    for line in splitter.feed(chunk):
                        yield line
                if rest := splitter.rest():
                    yield rest
        except TimeoutError:
            raise TransportError(f"{request.method} {request.path}: the stream did not open in time") from None
        except (aiohttp.ClientError, OSError) as error:
            raise _no_answer(request, error) from error

    async def close(self) -> None:
        """See `Transport.close`."""
        sessions, self._sessions = self._sessions, {}
        for session in sessions.values():
            await session.close()

    async def _send(self, request: Request, send_by: float) -> Response:
        reloaded = False
        for attempt in range(RETRIES + 1):
            if _too_late():
                # The process was suspended during the pause before the retry.
                raise TimeoutError(LATE)
            try:
                response = await self._once(request)
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
        asked = retry_after(response.headers.get("retry-after"), self._now())
        if response.status == 429:
            return DEFAULT_PAUSE if asked is None else asked
        return asked if request.method in IDEMPOTENT else None

    async def _once(self, request: Request) -> Response:
        try:
            async with await self._request(self._session("send"), request) as response:
                return await _whole(response)
        except (aiohttp.ClientError, OSError) as error:
            raise _no_answer(request, error) from error

    async def _open(self, request: Request) -> aiohttp.ClientResponse:
        # Compression would delay events, and costs more than it saves on a stream.
        return await self._request(self._session("stream"), request, {"Accept-Encoding": "identity"})

    async def _request(
        self, session: aiohttp.ClientSession, request: Request, more: Mapping[str, str] | None = None
    ) -> aiohttp.ClientResponse:
        headers = CIMultiDict({"accept": "application/json", **(more or {}), **request.headers})
        headers.extend(await self._endpoint.headers())
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        # The path is encoded already, and encoding it again would change it.
        url = URL(self._endpoint.base_url + request.target, encoded=True)
        return await session.request(
            request.method,
            url,
            data=request.body,
            headers=headers,
            ssl=self._endpoint.ssl_context or True,
            server_hostname=self._endpoint.server_name,
            proxy=self._endpoint.proxy,
            allow_redirects=False,
        )

    def _session(self, kind: str) -> aiohttp.ClientSession:
        """Made at first use: aiohttp wants a running loop."""
        session = self._sessions.get(kind)
        if session is None:
            limit = _UNLIMITED if kind == "stream" else self._concurrency
            session = self._sessions[kind] = aiohttp.ClientSession(
                connector=_PunctualConnector(limit=limit, keepalive_timeout=60),
                request_class=_PunctualRequest,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=self._timeouts.connect),
                headers={"User-Agent": self._user_agent},
                read_bufsize=_CHUNK,
                trust_env=False,
            )
        return session


class _PunctualConnector(aiohttp.TCPConnector):
    """Refuses a connection to a request whose deadline has passed.

    After a pause of the whole process, such as a frozen virtual machine, the loop resumes the requests that waited for a
    connection before it runs the timeouts; a write begun under the lease would be sent long after it (rule R8).
    """

    async def connect(self, *arguments: Any, **options: Any) -> Any:
        connection = await super().connect(*arguments, **options)
        if _too_late():
            connection.close()
            raise TimeoutError(LATE)
        return connection


class _PunctualRequest(aiohttp.ClientRequest):
    """Not sent after its deadline: before Python 3.12 the loop runs once more between connection and body."""

    async def write_bytes(self, writer: Any, conn: Any, content_length: int | None = None) -> None:
        if _too_late():
            # Nothing has been sent, since the head is sent with the body. Closing fails the wait for the response.
            conn.close()
            return
        await super().write_bytes(writer, conn, content_length)


def _too_late() -> bool:
    return asyncio.get_running_loop().time() >= _send_by.get()


async def _whole(response: aiohttp.ClientResponse) -> Response:
    body = await response.read()
    return Response(response.status, body, response.headers)


def _no_answer(request: Request, error: Exception) -> TransportError:
    return TransportError(f"{request.method} {request.path}: {type(error).__name__}: {error}")
