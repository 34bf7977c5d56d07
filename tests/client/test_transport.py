"""The HTTP transport against a server that misbehaves on purpose."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from jobcommon.client import http1
from jobcommon.client.errors import StatusError, TransportError
from jobcommon.client.impersonation import Headers
from jobcommon.client.request import Request, Response
from jobcommon.client.transport import LEADER_TIMEOUTS, HttpTransport, StaticEndpoint, Timeouts
from jobcommon.runtime.leader import LeaseSettings

PATIENT = Timeouts()
Handler = Callable[[web.Request], "web.StreamResponse"]


class Server:
    """Answers each request with the next of `answers`, the last one for ever, and keeps what it was asked."""

    def __init__(self) -> None:
        self.answers: list[object] = []
        self.seen: list[tuple[str, str, bytes, str | None]] = []
        self.slept: list[float] = []
        self.url = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.seen.append((request.method, request.path_qs, await request.read(), request.headers.get("Authorization")))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer == "reset":
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        if callable(answer):
            return await answer(request)
        assert isinstance(answer, tuple)
        status, headers = answer
        return web.json_response({"kind": "Status", "reason": "Because"}, status=status, headers=headers)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


@asynccontextmanager
async def serving(*answers: object, timeouts: Timeouts = PATIENT) -> AsyncIterator[tuple[Server, HttpTransport]]:
    server = Server()
    server.answers = list(answers)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.handle)
    running = TestServer(app)
    await running.start_server()
    server.url = str(running.make_url("")).rstrip("/")
    transport = HttpTransport(StaticEndpoint(server.url, "t0ken"), timeouts=timeouts, sleep=server.sleep)
    try:
        yield server, transport
    finally:
        await transport.close()
        await running.close()


def request(method: str, body: bytes | None = None) -> Request:
    return Request(method, "/api/v1/pods", body=body)


RETRIED: dict[str, tuple[str, tuple[int, dict[str, str]], list[float]]] = {
    "429 with seconds": ("POST", (429, {"Retry-After": "3"}), [3.0]),
    "429 with a date": ("POST", (429, {"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}), [1.0]),
    "429 with an absurd number": ("POST", (429, {"Retry-After": "9" * 5000}), []),
    "429 without": ("POST", (429, {}), [1.0]),
    "503 on a read": ("GET", (503, {"Retry-After": "2"}), [2.0]),
    "503 on a delete": ("DELETE", (503, {"Retry-After": "2"}), [2.0]),
    "503 on a create": ("POST", (503, {"Retry-After": "2"}), []),
    "503 without": ("GET", (503, {}), []),
    "500": ("GET", (500, {"Retry-After": "1"}), []),
    "404": ("GET", (404, {}), []),
}


@pytest.mark.parametrize("case", RETRIED)
async def test_retries_follow_the_answer_and_its_retry_after(case: str) -> None:
    method, (status, headers), pauses = RETRIED[case]
    async with serving((status, headers), (200, {})) as (server, transport):
        response = await transport.send(request(method))
    assert server.slept == pauses
    assert response.status == (200 if pauses else status)
    assert len(server.seen) == 1 + len(pauses)


@pytest.fixture
async def later(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Puts the clock of the event loop forward."""
    loop, ahead = asyncio.get_running_loop(), 0.0
    now = loop.time

    def forward(seconds: float) -> None:
        nonlocal ahead
        ahead += seconds

    monkeypatch.setattr(loop, "time", lambda: now() + ahead, raising=False)
    return forward


async def test_an_answer_may_take_longer_than_a_write_may_take_to_be_sent(later: Callable[[float], None]) -> None:
    """As that of a create does whose admission is slow. Sent again is nothing after the time for sending."""

    async def admit(_: web.Request) -> web.Response:
        later(20)
        return web.json_response({}, status=201)

    timeouts = Timeouts(sending=10, write=40)
    async with serving(admit, timeouts=timeouts) as (server, transport):
        assert (await transport.send(request("POST", b"{}"))).status == 201
    async with serving((429, {"Retry-After": "11"}), (201, {}), timeouts=timeouts) as (server, transport):
        assert (await transport.send(request("POST", b"{}"))).status == 429
    assert len(server.seen) == 1


def test_a_leader_sends_nothing_when_another_may_lead() -> None:
    lease = LeaseSettings("default", "operators", "a")
    assert LEADER_TIMEOUTS.sending <= lease.lease_duration - lease.renew_deadline - 1
    assert LEADER_TIMEOUTS.write > 60, "the API server gives up first"


async def test_a_read_survives_a_reset_and_a_write_reports_it() -> None:
    async with serving("reset", "reset", (200, {})) as (server, transport):
        assert (await transport.send(request("GET"))).status == 200
    async with serving("reset", (201, {})) as (server, transport):
        with pytest.raises(TransportError, match="POST /api/v1/pods"):
            await transport.send(request("POST", b"{}"))
    assert len(server.seen) == 1


async def test_an_answer_that_does_not_come_is_given_up(later: Callable[[float], None]) -> None:
    async def silent(_: web.Request) -> web.StreamResponse:
        later(20)
        return await asyncio.Event().wait()  # type: ignore[return-value]

    async with serving(silent, timeouts=Timeouts(write=10)) as (_, transport):
        with pytest.raises(TransportError, match="no answer within 10 s"):
            await transport.send(request("PUT", b"{}"))


async def test_a_request_delayed_by_a_suspended_process_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, acquire = asyncio.get_running_loop(), http1.Pool.acquire
    late = 0.0

    async def standing_still(pool: http1.Pool, route: http1.Route) -> http1.Connection:
        nonlocal late
        connection = await acquire(pool, route)
        late = 1000.0
        return connection

    now = loop.time
    monkeypatch.setattr(loop, "time", lambda: now() + late, raising=False)
    monkeypatch.setattr(http1.Pool, "acquire", standing_still)
    received: asyncio.Future[bytes] = loop.create_future()

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.set_result(await reader.read())
        writer.close()

    async with await asyncio.start_server(hear, "127.0.0.1", 0) as server:
        transport = HttpTransport(StaticEndpoint(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"))
        with pytest.raises(TransportError):
            await transport.send(request("POST", b"{}"))
        await transport.close()
        assert await received == b""


async def test_credentials_are_reloaded_once() -> None:
    class Expired(StaticEndpoint):
        reloads = 0
        value = "old"

        async def headers(self) -> Headers:
            return (("Authorization", f"Bearer {type(self).value}"),)

        async def reload(self) -> None:
            type(self).reloads += 1
            type(self).value = "new"

    async with serving((401, {}), (200, {})) as (server, transport):
        renewed = HttpTransport(Expired(server.url))
        assert (await renewed.send(request("POST", b"{}"))).status == 200
        await renewed.close()
        assert [seen[3] for seen in server.seen] == ["Bearer old", "Bearer new"]
    async with serving((401, {})) as (server, transport):
        assert (await transport.send(request("GET"))).status == 401
        assert len(server.seen) == 2


async def test_the_request_arrives_as_it_is() -> None:
    async with serving((200, {})) as (server, transport):
        sent = Request(
            "PATCH", "/api/v1/namespaces/a/pods/b%2Fc", (("labelSelector", "a=b,c in (d)"),), b"[]", "x/y", {"x-a": "b"}
        )
        response: Response = await transport.send(sent)
    assert server.seen == [
        ("PATCH", "/api/v1/namespaces/a/pods/b%2Fc?labelSelector=a%3Db%2Cc+in+%28d%29", b"[]", "Bearer t0ken")
    ]
    assert response.headers["content-type"].startswith("application/json")


async def test_a_stream_that_breaks_or_is_refused() -> None:
    async def broken(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"one\ntwo")
        assert request.transport is not None
        request.transport.abort()
        return response

    async with serving(broken) as (_, transport):
        with pytest.raises(TransportError):
            _ = [line async for line in transport.stream(request("GET"))]
    async with serving((410, {"Retry-After": "7"})) as (_, transport):
        with pytest.raises(StatusError) as refused:
            _ = [line async for line in transport.stream(request("GET"))]
        assert (refused.value.code, refused.value.reason, refused.value.retry_after) == (410, "Because", 7.0)
