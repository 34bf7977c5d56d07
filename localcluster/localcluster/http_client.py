"""A client of API servers and webhooks over HTTP."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field

import aiohttp
from yarl import URL

from localcluster.request import Request, Response, TransportError, refusal


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a server is, and the bearer token it wants."""

    base_url: str
    token: str | None = field(default=None, repr=False)
    ssl_context: ssl.SSLContext | None = None


class HttpTransport:
    """A `localcluster.request.Transport` over HTTP, without retries. A request may take `seconds`; so may a stream to open."""

    def __init__(self, endpoint: Endpoint, *, seconds: float = 65.0) -> None:
        self._endpoint = endpoint
        self._seconds = seconds
        self._headers = {"User-Agent": "localcluster"}
        if endpoint.token:
            self._headers["Authorization"] = f"Bearer {endpoint.token}"
        self._session: aiohttp.ClientSession | None = None

    async def send(self, request: Request) -> Response:
        """See `Transport.send`."""
        try:
            async with asyncio.timeout(self._seconds), self._opened(request) as response:
                headers = {name.lower(): value for name, value in response.headers.items()}
                return Response(response.status, await response.read(), headers)
        except TimeoutError:
            raise TransportError(f"{request.method} {request.path}: no answer within {self._seconds:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise TransportError(f"{request.method} {request.path}: {error}") from error

    async def stream(self, request: Request) -> AsyncIterator[bytes]:
        """See `Transport.stream`. Lines may be of any length."""
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(self._seconds):
                    response = await stack.enter_async_context(self._opened(request))
                    stack.callback(_end, response)
                    if response.status >= 400:
                        raise refusal(response.status, await response.read())
                rest = b""
                async for chunk in response.content.iter_any():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        yield line
                if rest:
                    yield rest
        except TimeoutError:
            raise TransportError(f"{request.method} {request.path}: the stream did not open in time") from None
        except (aiohttp.ClientError, OSError) as error:
            raise TransportError(f"{request.method} {request.path}: {error}") from error

    async def close(self) -> None:
        """See `Transport.close`."""
        if self._session is not None:
            await self._session.close()

    def _opened(self, request: Request) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=None), headers=self._headers
            )
        headers = {"Accept": "application/json", **request.headers}
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        endpoint = self._endpoint
        return self._session.request(
            request.method, URL(endpoint.base_url + request.target, encoded=True), data=request.body, headers=headers,
            allow_redirects=False, ssl=endpoint.ssl_context or True,
        )  # fmt: skip


def _end(response: aiohttp.ClientResponse) -> None:
    """End a stream that may go on. A server need not answer the closing of TLS, and nothing waits for that."""
    if response.connection is not None and response.connection.transport is not None:
        response.connection.transport.abort()
    response.close()
