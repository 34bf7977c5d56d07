"""The server of the dashboard, on the loopback interface."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web

from jobcommon.cli.dashboard.cluster import ClusterReader
from jobcommon.cli.dashboard.guard import Handler, add_headers, guard, new_token
from jobcommon.cli.dashboard.log_stream import stream_log
from jobcommon.cli.dashboard.pages import NotFound, Pages
from jobcommon.client.errors import ClientError
from jobcommon.client.request import Transport
from jobcommon.framework import Framework

HOST = "127.0.0.1"
STATIC = Path(__file__).parent / "static"
# Open log streams are not waited for.
SHUTDOWN_SECONDS = 0.2


@asynccontextmanager
async def serve_dashboard(
    transport: Transport,
    frameworks: Sequence[Framework],
    *,
    where: str,
    namespace: str | None = None,
    port: int = 0,
    token: str | None = None,
) -> AsyncIterator[str]:
    """Serve inside the context; yields the address with its token. `where` names the cluster on each page.

    `port` 0 is a free one; without a `token` there is a new one. Raises OSError if the port is in use.
    """
    token = token or new_token()
    runner = web.AppRunner(
        application(ClusterReader(transport, frameworks, namespace), where, token),
        access_log=None,
        handle_signals=False,
        shutdown_timeout=SHUTDOWN_SECONDS,
        handler_cancellation=True,
    )
    await runner.setup()
    try:
        await web.TCPSite(runner, HOST, port).start()
        yield f"http://{HOST}:{runner.addresses[0][1]}/?token={token}"
    finally:
        await runner.cleanup()


def application(cluster: ClusterReader, where: str, token: str) -> web.Application:
    """The dashboard as an application."""
    pages = Pages(cluster, where=where)

    @web.middleware
    async def explain(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except NotFound as error:
            return pages.not_found(str(error))
        except web.HTTPNotFound:
            return pages.not_found("There is no such page.")
        except ClientError as error:
            return pages.problem(error)

    async def log_stream(request: web.Request) -> web.StreamResponse:
        return await stream_log(request, cluster)

    app = web.Application(middlewares=[guard(token), explain])
    app.on_response_prepare.append(add_headers)
    app.add_routes(pages.routes())
    app.add_routes([web.get("/pods/{namespace}/{name}/log/stream", log_stream), web.static("/static", STATIC)])
    return app
