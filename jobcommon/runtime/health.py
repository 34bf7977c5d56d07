"""The HTTP server for /metrics, /healthz and /readyz. Read-only; it shows no environment, stack or configuration."""

import hmac
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from jobcommon.runtime.metrics import Metrics

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@asynccontextmanager
async def serve_health(
    metrics: Metrics,
    ready: Callable[[], bool],
    *,
    host: str,
    port: int,
    token: str | None = None,
) -> AsyncIterator[int]:
    """Serve while inside; gives the port, which the system chooses if `port` is 0.

    With `token`, /metrics wants it as a bearer token. Raises OSError when the address is in use.
    """

    async def show_metrics(request: web.Request) -> web.Response:
        if token is not None:
            given = request.headers.get("Authorization", "")
            if not given.startswith("Bearer "):
                return web.Response(status=401, headers={"WWW-Authenticate": "Bearer"}, text="a bearer token is needed\n")
            if not hmac.compare_digest(given.removeprefix("Bearer ").encode(), token.encode()):
                return web.Response(status=403, text="this token is not accepted\n")
        return web.Response(body=metrics.render(), headers={"Content-Type": CONTENT_TYPE})

    async def show_health(_request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def show_readiness(_request: web.Request) -> web.Response:
        return web.Response(text="ok\n") if ready() else web.Response(status=503, text="not ready\n")

    app = web.Application()
    app.add_routes([web.get("/metrics", show_metrics), web.get("/healthz", show_health), web.get("/readyz", show_readiness)])
    runner = web.AppRunner(app, access_log=None, handle_signals=False)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        await site.start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()
