"""A process that was paused sends nothing whose time is over (rule R8), however it was paused."""

import asyncio

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from jobcommon.client.errors import TransportError
from jobcommon.client.http1 import Connection, Pool, Route
from jobcommon.client.request import Request
from jobcommon.client.transport import HttpTransport, StaticEndpoint, Timeouts

BUDGET = 30.0


@pytest.mark.parametrize("warm", [False, True], ids=["new connection", "kept connection"])
async def test_a_write_that_got_its_connection_too_late_is_not_sent(warm: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    async def handle(request: web.Request) -> web.Response:
        seen.append(request.path)
        return web.json_response({})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    server = TestServer(app)
    await server.start_server()
    loop = asyncio.get_running_loop()
    usual = loop.time
    transport = HttpTransport(StaticEndpoint(str(server.make_url("")).rstrip("/")), timeouts=Timeouts(write=BUDGET))
    try:
        if warm:
            await transport.send(Request("GET", "/warm"))
        acquire = Pool.acquire

        async def paused(self: Pool, route: Route) -> Connection:
            connection = await acquire(self, route)
            # The whole process stands still, as under SIGSTOP: to the loop all that time has passed at once.
            monkeypatch.setattr(loop, "time", lambda: usual() + 1.5 * BUDGET)
            return connection

        monkeypatch.setattr(Pool, "acquire", paused)
        with pytest.raises(TransportError, match="/late"):
            await transport.send(Request("PUT", "/late", body=b"{}"))
        monkeypatch.setattr(Pool, "acquire", acquire)
        await transport.send(Request("PUT", "/next", body=b"{}"))
    finally:
        await transport.close()
        await server.close()
    assert seen == [*(["/warm"] if warm else []), "/next"]
