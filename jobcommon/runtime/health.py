"""The HTTP server for /metrics, /healthz and /readyz. Read-only; it shows no environment, stack or configuration.

It runs in threads, so that /healthz can report that the operator's loop is blocked, because a framework's function or a plan
takes too long, and the kubelet restarts the container. aiohttp would take a quarter of an operator's memory.
"""

import asyncio
import hmac
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus

from jobcommon.runtime.clock import Clock
from jobcommon.runtime.logging import Log
from jobcommon.runtime.metrics import Metrics
from jobcommon.runtime.threaded_server import Handler, ThreadedServer, serving

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
#: The loop is unhealthy when it has been blocked for this many seconds. The charts' probe fails three times before a restart.
STALLED_AFTER = 15.0
BEAT_SECONDS = 1.0

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
        async with serving(ThreadedServer(host, port, _handler(pages, log)), "health") as bound:
            yield bound
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


def _handler(pages: dict[str, Callable[[str], _Answer]], log: Log) -> type[Handler]:
    class Pages(Handler):
        error_content_type = CONTENT_TYPE
        error_message_format = "%(message)s\n"

        def do_GET(self) -> None:  # noqa: N802  the standard library calls it
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
            asked = {"WWW-Authenticate": "Bearer"} if status is HTTPStatus.UNAUTHORIZED else {}
            self.answer(status, body, content_type, **asked)

        def do_HEAD(self) -> None:  # noqa: N802  the standard library calls it
            self.do_GET()

        def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
            # The standard library answers other methods with 501, as if a later version could know them.
            known = code != HTTPStatus.NOT_IMPLEMENTED
            super().send_error(code if known else HTTPStatus.METHOD_NOT_ALLOWED, message if known else None, explain)

    return Pages
