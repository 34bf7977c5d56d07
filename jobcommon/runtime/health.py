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

_Page = Callable[[str, str], tuple[HTTPStatus, str | bytes]]


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
    ran_at = clock.monotonic()

    async def beat() -> None:
        nonlocal ran_at
        while True:
            ran_at = clock.monotonic()
            await clock.sleep(BEAT_SECONDS)

    def page(path: str, authorization: str) -> tuple[HTTPStatus, str | bytes]:
        if path == "/metrics":
            if token is not None and not authorization.startswith("Bearer "):
                return HTTPStatus.UNAUTHORIZED, "a bearer token is needed"
            if token is not None and not hmac.compare_digest(authorization.removeprefix("Bearer ").encode(), token.encode()):
                return HTTPStatus.FORBIDDEN, "this token is not accepted"
            return HTTPStatus.OK, metrics.render()
        if path not in ("/healthz", "/readyz"):
            return HTTPStatus.NOT_FOUND, "Not Found"
        if clock.monotonic() - ran_at >= stalled_after:
            return HTTPStatus.SERVICE_UNAVAILABLE, f"event loop blocked for more than {stalled_after:g} s"
        if path == "/readyz" and not ready():
            return HTTPStatus.SERVICE_UNAVAILABLE, "not ready"
        return HTTPStatus.OK, "ok"

    beating = asyncio.create_task(beat(), name="health")
    try:
        async with serving(ThreadedServer(host, port, _handler(page, log)), "health") as bound:
            yield bound
    finally:
        beating.cancel()
        with suppress(asyncio.CancelledError):
            await beating


def _handler(page: _Page, log: Log) -> type[Handler]:
    class Pages(Handler):
        error_content_type = CONTENT_TYPE
        error_message_format = "%(message)s\n"

        def do_GET(self) -> None:  # noqa: N802  the standard library calls it
            try:
                status, text = page(self.path.partition("?")[0], self.headers.get("Authorization", "").strip())
            except Exception:
                log.exception("could not serve a page", path=self.path)
                status, text = HTTPStatus.INTERNAL_SERVER_ERROR, "Internal Server Error"
            asked = {"WWW-Authenticate": "Bearer"} if status is HTTPStatus.UNAUTHORIZED else {}
            self.answer(status, text if isinstance(text, bytes) else f"{text}\n".encode(), CONTENT_TYPE, **asked)

        do_HEAD = do_GET  # noqa: N815

        def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
            # The standard library answers other methods with 501, as if a later version could know them.
            known = code != HTTPStatus.NOT_IMPLEMENTED
            super().send_error(code if known else HTTPStatus.METHOD_NOT_ALLOWED, message if known else None, explain)

    return Pages
