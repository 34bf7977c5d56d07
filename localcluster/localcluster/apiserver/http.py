"""The server behind HTTP on the loopback interface.

One low-level aiohttp handler: the core does the routing, and every request pays for each microsecond here.
"""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

from aiohttp import StreamReader, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_parser import RawRequestMessage

from localcluster.apiserver import sessions
from localcluster.apiserver.call import BODY_LIMIT
from localcluster.apiserver.errors import ApiError
from localcluster.apiserver.server import ApiServer
from localcluster.pod_backend import PodBackend
from localcluster.request import Request, Response

log = logging.getLogger(__name__)

_LOOPBACK = "127.0.0.1"
_SHUTDOWN_SECONDS = 2.0
# An event is sent at once; events within this time after it are sent together. So a thousand pods in a second cost the server
# and its watchers fewer writes and reads.
_GATHER_SECONDS = 0.005


class Running:
    """A server that is listening. Assign `pods` when the kubelet is up."""

    def __init__(self, server: ApiServer, pods: PodBackend | None) -> None:
        self.server = server
        self.pods = pods
        self.url = ""
        self.port = 0
        self._watches: set[sessions.Watch] = set()

    def stop(self) -> None:
        """End open watches as if their time were up."""
        for watch in tuple(self._watches):
            watch.stream.close()
            watch.stream.wake()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one HTTP request."""
        try:
            return await self._answer(request)
        except (ConnectionError, asyncio.CancelledError):
            raise
        except Exception:
            log.exception("request failed: %s %s", request.method, request.path)
            return _whole(ApiError(500, "InternalError", "Internal error occurred: see the server's log").response())

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            body = await request.read() if request.body_exists else None
        except web.HTTPRequestEntityTooLarge:
            refused = ApiError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {BODY_LIMIT}")
            return _whole(refused.response())
        value = Request(
            request.method, request.rel_url.raw_path, tuple(request.rel_url.query.items()), body,
            request.headers.get("Content-Type", "application/json"),
            _headers(request),
        )  # fmt: skip
        try:
            if sessions.is_session(value):
                return await sessions.serve(self.server, self.pods, request, value)
            if self.server.is_watch(value):
                return await self._watch(request, value)
        except ApiError as error:
            return _whole(error.response())
        return _whole(self.server.handle(value))

    async def _watch(self, request: web.BaseRequest, value: Request) -> web.StreamResponse:
        watch = sessions.Watch(self.server, value)
        response = web.StreamResponse(headers={"Content-Type": "application/json", "Cache-Control": "no-cache, private"})
        self._watches.add(watch)
        try:
            await response.prepare(request)
            async with aclosing(watch.lines()) as events:
                async for lines in events:
                    await response.write(lines)
                    await asyncio.sleep(_GATHER_SECONDS)
            await response.write_eof()
        except ConnectionError:
            log.debug("watch ended by its client: %s", request.path)
        finally:
            self._watches.discard(watch)
            watch.stream.close()
        return response


def _request_factory(
    message: RawRequestMessage, payload: StreamReader, protocol: web.RequestHandler,
    writer: AbstractStreamWriter, task: "asyncio.Task[None]",
) -> web.BaseRequest:  # fmt: skip
    loop = asyncio.get_running_loop()
    return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=BODY_LIMIT)


_HEADERS = tuple((name.lower(), name) for name in ("Accept", "Authorization", "Impersonate-User"))


def _headers(request: web.BaseRequest) -> dict[str, str]:
    """What the core reads. The values of a header that is given more than once are separated by commas."""
    return {name: ", ".join(request.headers.getall(title)) for name, title in _HEADERS if title in request.headers}


def _whole(response: Response) -> web.Response:
    return web.Response(status=response.status, body=response.body, headers=response.headers)


@asynccontextmanager
async def serve(
    server: ApiServer,
    *,
    port: int = 0,
    ssl_context: ssl.SSLContext | None = None,
    pods: PodBackend | None = None,
) -> AsyncIterator[Running]:
    """Serve until the context is left; open watches are then ended. `port` 0 takes a free one.

    It is a development tool and must not be reachable from elsewhere: it listens on the loopback interface. Raises OSError when
    the port is taken.
    """
    running = Running(server, pods)
    # A watcher that goes away is noticed at once, not at the next event.
    handler = web.Server(running.handle, request_factory=_request_factory, handler_cancellation=True, access_log=None)
    runner = web.ServerRunner(handler, shutdown_timeout=_SHUTDOWN_SECONDS)
    await runner.setup()
    site = web.TCPSite(runner, _LOOPBACK, port, ssl_context=ssl_context)
    await site.start()
    running.port = runner.addresses[0][1]
    running.url = f"{'https' if ssl_context else 'http'}://{_LOOPBACK}:{running.port}"
    try:
        yield running
    finally:
        running.stop()
        connections = [connection.transport for connection in handler.connections]
        await runner.cleanup()
        # Closing a TLS connection waits for the other end, which may never answer if it keeps the connection for later.
        for transport in connections:
            if transport is not None:
                transport.abort()
        await asyncio.sleep(0)
