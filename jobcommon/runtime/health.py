"""The HTTP server for /metrics, /healthz and /readyz. Read-only; it shows no environment, stack or configuration.

It runs in threads, so that /healthz can report that the operator's loop is blocked, because a framework's function or a plan
takes too long, and the kubelet restarts the container. aiohttp would take a quarter of an operator's memory.
"""

import asyncio
import hmac
import socket
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from jobcommon.runtime.clock import Clock
from jobcommon.runtime.logging import Log
from jobcommon.runtime.metrics import Metrics

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
#: The loop is unhealthy when it has been blocked for this many seconds. The charts' probe fails three times before a restart.
STALLED_AFTER = 15.0
BEAT_SECONDS = 1.0
# A client that sends nothing for this many seconds is disconnected.
CLIENT_TIMEOUT = 10.0

_Answer = tuple[HTTPStatus, bytes, str]


@asynccontextmanager
async def serve_health(
    metrics: Metrics,
    ready: Callable[[], bool],
    clock: Clock,
    log: Log,
    *,
    host: str,
    port: int,
    token: str | None = None,
    stalled_after: float = STALLED_AFTER,
) -> AsyncIterator[int]:
    """Serve inside the context; yields the port, which the system chooses if `port` is 0.

    With `token`, /metrics requires it as a bearer token. `ready` is called in another thread. Raises OSError if the address is
    in use.
    """
    beat = _Beat(clock)
    beating = asyncio.create_task(beat.run(), name="health")
    blocked = f"event loop blocked for more than {stalled_after:g} s\n".encode()
    pages = _pages(metrics, ready, lambda: b"" if beat.age < stalled_after else blocked, token)
    try:
        server = _server(pages, host, port, log)
        thread = threading.Thread(target=server.serve_forever, args=(0.1,), name="health", daemon=True)
        thread.start()
        try:
            yield int(server.server_address[1])
        finally:
            await asyncio.to_thread(server.shutdown)
            server.server_close()
    finally:
        beating.cancel()
        with suppress(asyncio.CancelledError):
            await beating


class _Beat:
    """Measures for how long an event loop has been blocked."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._at = clock.monotonic()

    @property
    def age(self) -> float:
        """Seconds since the loop last ran. Thread-safe."""
        return self._clock.monotonic() - self._at

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            self._at = self._clock.monotonic()
            await self._clock.sleep(BEAT_SECONDS)


def _pages(
    metrics: Metrics, ready: Callable[[], bool], problem: Callable[[], bytes], token: str | None
) -> dict[str, Callable[[str], _Answer]]:
    """What is served at each path, given the Authorization header. `problem`: why the process is not healthy, or b""."""

    def show_metrics(given: str) -> _Answer:
        if token is not None and not given.startswith("Bearer "):
            return HTTPStatus.UNAUTHORIZED, b"a bearer token is needed\n", CONTENT_TYPE
        if token is not None and not hmac.compare_digest(given.removeprefix("Bearer ").encode(), token.encode()):
            return HTTPStatus.FORBIDDEN, b"this token is not accepted\n", CONTENT_TYPE
        return HTTPStatus.OK, metrics.render(), CONTENT_TYPE

    def show_health(_: str) -> _Answer:
        return _probe(problem())

    def show_readiness(_: str) -> _Answer:
        return _probe(problem() or (b"" if ready() else b"not ready\n"))

    return {"/metrics": show_metrics, "/healthz": show_health, "/readyz": show_readiness}


def _probe(problem: bytes) -> _Answer:
    return (HTTPStatus.SERVICE_UNAVAILABLE if problem else HTTPStatus.OK), problem or b"ok\n", CONTENT_TYPE


def _server(pages: dict[str, Callable[[str], _Answer]], host: str, port: int, log: Log) -> ThreadingHTTPServer:
    """A server that is bound to its address. Raises OSError that names it."""

    class Handler(BaseHTTPRequestHandler):
        timeout = CLIENT_TIMEOUT
        error_content_type = CONTENT_TYPE
        error_message_format = "%(message)s\n"

        def do_GET(self) -> None:
            page = pages.get(self.path.partition("?")[0])
            if page is None:
                self.send_error(HTTPStatus.NOT_FOUND)
                return
            try:
                status, body, content_type = page(self.headers.get("Authorization", "").strip())
            except Exception:
                log.exception("could not serve a page", path=self.path)
                self.send_error(HTTPStatus.INTERNAL_SERVER_ERROR)
                return
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            if status is HTTPStatus.UNAUTHORIZED:
                self.send_header("WWW-Authenticate", "Bearer")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def do_HEAD(self) -> None:
            self.do_GET()

        def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
            # The standard library answers other methods with 501, as if a later version could know them.
            known = code != HTTPStatus.NOT_IMPLEMENTED
            super().send_error(code if known else HTTPStatus.METHOD_NOT_ALLOWED, message if known else None, explain)

        def version_string(self) -> str:
            return "jobcommon"

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Requests are not logged."""

    class Server(ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            """A client that hangs up is no error of ours."""

    try:
        return Server((host, port), Handler)
    except OSError as error:
        raise OSError(error.errno, f"{host}:{port}: {error.strerror}") from error
