"""The HTTP server for /metrics, /healthz and /readyz. Read-only; it shows no environment, stack or configuration.

It has a thread of its own, so that /healthz can report that the operator's loop is blocked, because a framework's function or a
plan takes too long, and the kubelet restarts the container.
"""

import asyncio
import hmac
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus

from aiohttp import web

from jobcommon.runtime.clock import Clock, cancelled
from jobcommon.runtime.logging import Log
from jobcommon.runtime.metrics import Metrics
from jobcommon.runtime.reports.bounded_server import Limits, serving

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
#: The loop is unhealthy when it has been blocked for this many seconds. The charts' probe fails three times before a restart.
STALLED_AFTER = 15.0
BEAT_SECONDS = 1.0
#: A page of metrics is shown for so long: with many jobs it takes long to make, and any pod may ask for it.
PAGE_SECONDS = 1.0


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
    limits: Limits | None = None,
) -> AsyncIterator[int]:
    """Serve inside the context; yields the port, which the system chooses if `port` is 0.

    With `token`, /metrics requires it as a bearer token. `ready` is called in another thread. Raises OSError if the address is
    in use.
    """
    ran_at = clock.monotonic()
    shown, shown_at = b"", float("-inf")

    async def beat() -> None:
        nonlocal ran_at
        while True:
            ran_at = clock.monotonic()
            await clock.sleep(BEAT_SECONDS)

    def page(path: str, authorization: str) -> tuple[HTTPStatus, str | bytes]:
        nonlocal shown, shown_at
        if path == "/metrics":
            if token is not None and not authorization.startswith("Bearer "):
                return HTTPStatus.UNAUTHORIZED, "a bearer token is needed"
            given = authorization.removeprefix("Bearer ").encode(errors="surrogateescape")
            if token is not None and not hmac.compare_digest(given, token.encode()):
                return HTTPStatus.FORBIDDEN, "this token is not accepted"
            if clock.monotonic() >= shown_at + PAGE_SECONDS:
                shown, shown_at = metrics.render(), clock.monotonic()
            return HTTPStatus.OK, shown
        if path not in ("/healthz", "/readyz"):
            return HTTPStatus.NOT_FOUND, "Not Found"
        if clock.monotonic() - ran_at >= stalled_after:
            return HTTPStatus.SERVICE_UNAVAILABLE, f"event loop blocked for more than {stalled_after:g} s"
        if path == "/readyz" and not ready():
            return HTTPStatus.SERVICE_UNAVAILABLE, "not ready"
        return HTTPStatus.OK, "ok"

    async def answer(request: web.BaseRequest, _: object) -> web.Response:
        text: str | bytes
        path = request.raw_path.partition("?")[0]
        status, text = HTTPStatus.METHOD_NOT_ALLOWED, "Method Not Allowed"
        if request.method in ("GET", "HEAD"):
            try:
                status, text = page(path, request.headers.get("Authorization", "").strip())
            except Exception:
                log.exception("could not serve a page", path=path)
                status, text = HTTPStatus.INTERNAL_SERVER_ERROR, "Internal Server Error"
        headers = {"WWW-Authenticate": "Bearer"} if status is HTTPStatus.UNAUTHORIZED else {}
        body = text if isinstance(text, bytes) else f"{text}\n".encode()
        return web.Response(status=status, body=body, headers={"Content-Type": CONTENT_TYPE, **headers})

    beating = asyncio.create_task(beat(), name="health")
    try:
        async with serving(answer, "health", host=host, port=port, limits=limits or Limits()) as bound:
            yield bound
    finally:
        await cancelled(beating)
