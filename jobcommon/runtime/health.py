"""The HTTP server for /metrics, /healthz and /readyz. Read-only; it shows no environment, stack or configuration.

It runs in a thread with an event loop of its own. So /healthz can report that the operator's loop is blocked, because a
framework's function or a plan takes too long, and the kubelet restarts the container.
"""

import asyncio
import hmac
import threading
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress

from aiohttp import web

from jobcommon.runtime.metrics import Metrics

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
#: The loop is unhealthy when it has been blocked for this many seconds. The charts' probe fails three times before a restart.
STALLED_AFTER = 15.0
BEAT_SECONDS = 1.0

_Started = Future[tuple[int, Callable[[], object]]]


@asynccontextmanager
async def serve_health(
    metrics: Metrics,
    ready: Callable[[], bool],
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
    beat = _Beat()
    beating = asyncio.create_task(beat.run(), name="health")
    started: _Started = Future()
    app = _app(metrics, ready, lambda: beat.age < stalled_after, token)
    thread = threading.Thread(target=lambda: asyncio.run(_serve(app, host, port, started)), name="health", daemon=True)
    thread.start()
    try:
        chosen, stop = await asyncio.wrap_future(started)
        try:
            yield chosen
        finally:
            stop()
            await asyncio.to_thread(thread.join)
    finally:
        beating.cancel()
        with suppress(asyncio.CancelledError):
            await beating


class _Beat:
    """Measures for how long an event loop has been blocked."""

    def __init__(self) -> None:
        self._at = time.monotonic()

    @property
    def age(self) -> float:
        """Seconds since the loop last ran. Thread-safe."""
        return time.monotonic() - self._at

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            self._at = time.monotonic()
            await asyncio.sleep(BEAT_SECONDS)


def _app(metrics: Metrics, ready: Callable[[], bool], alive: Callable[[], bool], token: str | None) -> web.Application:
    async def show_metrics(request: web.Request) -> web.Response:
        if token is not None:
            given = request.headers.get("Authorization", "")
            if not given.startswith("Bearer "):
                return web.Response(status=401, headers={"WWW-Authenticate": "Bearer"}, text="a bearer token is needed\n")
            if not hmac.compare_digest(given.removeprefix("Bearer ").encode(), token.encode()):
                return web.Response(status=403, text="this token is not accepted\n")
        return web.Response(body=metrics.render(), headers={"Content-Type": CONTENT_TYPE})

    async def show_health(_request: web.Request) -> web.Response:
        return web.Response(text="ok\n") if alive() else web.Response(status=503, text="the event loop stands still\n")

    async def show_readiness(_request: web.Request) -> web.Response:
        fine = alive() and ready()
        return web.Response(text="ok\n") if fine else web.Response(status=503, text="not ready\n")

    app = web.Application()
    app.add_routes([web.get("/metrics", show_metrics), web.get("/healthz", show_health), web.get("/readyz", show_readiness)])
    return app


async def _serve(app: web.Application, host: str, port: int, started: _Started) -> None:
    """Serve until the stop function that `started` receives with the port is called."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    runner = web.AppRunner(app, access_log=None, handle_signals=False)
    try:
        await runner.setup()
        await web.TCPSite(runner, host, port).start()
    except BaseException as error:
        await runner.cleanup()
        started.set_exception(error)
        return
    started.set_result((runner.addresses[0][1], lambda: loop.call_soon_threadsafe(stop.set)))
    try:
        await stop.wait()
    finally:
        await runner.cleanup()
