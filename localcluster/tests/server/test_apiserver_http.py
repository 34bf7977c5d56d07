"""The HTTP shell and the in-process transport, with a pod backend that echoes."""

import asyncio
import gc
import io
import json
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp.web_protocol import RequestHandler

from localcluster.apiserver import ADMIN, ApiServer, Env, serve
from localcluster.apiserver.inprocess import InProcessTransport
from localcluster.credentials import self_signed
from localcluster.pod_backend import LogOptions
from localcluster.request import Request, StatusError
from tests.polling import polled
from tests.server.api import pod
from tests.server.echo import Echo

Json = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"
HEADERS = {"Authorization": "Bearer secret"}


class Http:
    """A served cluster and a client session."""

    def __init__(self, server: ApiServer, url: str, session: aiohttp.ClientSession, backend: Echo) -> None:
        self.server, self.url, self.session, self.backend = server, url, session, backend

    async def running_pod(self, name: str = "a", *containers: str) -> None:
        spec = {"nodeName": "n", "containers": [{"name": one, "image": "i"} for one in containers or ("c",)]}
        async with self.session.post(self.url + PODS, json={**pod(name), "spec": spec}) as answer:
            assert answer.status == 201
        status = {"status": {"phase": "Running"}}
        headers = {"Content-Type": "application/merge-patch+json"}
        async with self.session.patch(f"{self.url}{PODS}/{name}/status", data=json.dumps(status), headers=headers) as answer:
            assert answer.status == 200


@asynccontextmanager
async def served(connected: bool = True) -> AsyncIterator[Http]:
    server, backend = ApiServer(Env.system(), tokens={"secret": ADMIN}), Echo()
    async with serve(server, pods=backend if connected else None) as running, aiohttp.ClientSession(headers=HEADERS) as session:
        yield Http(server, running.url, session, backend)


@pytest.fixture
async def http() -> AsyncIterator[Http]:
    async with served() as http:
        yield http


@pytest.mark.parametrize("chunked", [False, True])
async def test_bodies_have_a_limit(http: Http, chunked: bool) -> None:
    data = json.dumps({"metadata": {"name": "m"}, "data": {"x": "y" * 4_000_000}}).encode()

    async def pieces() -> AsyncIterator[bytes]:
        yield data

    headers = {"Content-Type": "application/json"}
    async with http.session.post(http.url + MAPS, data=pieces() if chunked else io.BytesIO(data), headers=headers) as answer:
        assert (answer.status, (await answer.json())["reason"]) == (413, "RequestEntityTooLarge")


async def test_a_watcher_that_goes_away_is_forgotten(http: Http) -> None:
    listeners = http.server.storage.table("configmaps").history.listeners
    answer = await http.session.get(http.url + MAPS, params={"watch": "true"})
    assert len(listeners) == 1
    answer.close()
    await polled(lambda: not listeners)


async def test_the_connection_of_an_idle_client_is_closed() -> None:
    """As Helm does within a test's process: it neither sends nor reads until it needs the connection again."""
    certificate = self_signed()
    trusting = ssl.create_default_context(cadata=certificate.pem.decode())
    async with serve(ApiServer(Env.system()), ssl_context=certificate.server_context()) as running:

        def ask() -> ssl.SSLSocket:
            kept = trusting.wrap_socket(socket.create_connection(("127.0.0.1", running.port)), server_hostname="localhost")
            kept.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert kept.recv(12) == b"HTTP/1.1 200"
            return kept

        client = await asyncio.to_thread(ask)
        transports = [handler.transport for handler in gc.get_objects() if isinstance(handler, RequestHandler)]
        sockets = [transport.get_extra_info("socket") for transport in transports if transport is not None]
        assert [one.getpeername() for one in sockets] == [client.getsockname()]
    with client:
        assert [one.fileno() for one in sockets] == [-1]


async def test_logs(http: Http) -> None:
    await http.running_pod()
    query = {"follow": "true", "tailLines": "5", "timestamps": "true", "sinceTime": "2027-01-15T08:00:00Z"}
    async with http.session.get(f"{http.url}{PODS}/a/log", params=query) as answer:
        assert (answer.status, await answer.text()) == (200, "one\ntwo and more\nthree")
        assert answer.content_type == "text/plain"
    expected = LogOptions("c", follow=True, timestamps=True, tail_lines=5, since_time=1_800_000_000.0)
    assert http.backend.asked == [expected]


@pytest.mark.parametrize(
    ("query", "code", "message"),
    [
        ({"container": "x"}, 400, "container x is not valid for pod a"),
        ({}, 400, "a container name must be specified for pod a, choose one of: [c d]"),
        ({"container": "c", "tailLines": "many"}, 400, "tailLines must be a whole number"),
        ({"container": "c", "previous": "true"}, 404, 'previous terminated container "c" not found'),
    ],
)
async def test_refused_logs(http: Http, query: dict[str, str], code: int, message: str) -> None:
    await http.running_pod("a", "c", "d")
    async with http.session.get(f"{http.url}{PODS}/a/log", params=query) as answer:
        status = await answer.json()
    assert (answer.status, message in status["message"]) == (code, True)


Run = Callable[[aiohttp.ClientWebSocketResponse], Awaitable[None]]


async def session(http: Http, path: str, query: list[tuple[str, str]], protocol: str | None, run: Run) -> dict[int, bytes]:
    """What came back on each channel."""
    received: dict[int, bytes] = {}
    protocols = (protocol,) if protocol else ()
    async with http.session.ws_connect(f"{http.url}{PODS}/a/{path}", params=query, protocols=protocols) as socket:
        assert socket.protocol == protocol
        await run(socket)
        async for message in socket:
            received[message.data[0]] = received.get(message.data[0], b"") + message.data[1:]
    return received


async def test_exec_with_an_exit_code(http: Http) -> None:
    await http.running_pod()

    async def talk(socket: aiohttp.ClientWebSocketResponse) -> None:
        await socket.send_bytes(b"\x00typed")
        await socket.send_bytes(b"\xff\x00")

    query = [("command", "fail"), ("stdin", "true"), ("stdout", "true")]
    received = await session(http, "exec", query, "v5.channel.k8s.io", talk)
    status = json.loads(received[3])
    assert received[1] == b"TYPED"
    assert (status["reason"], status["details"]["causes"]) == ("NonZeroExitCode", [{"reason": "ExitCode", "message": "7"}])


async def test_logs_and_refusals_in_process() -> None:
    server = ApiServer(Env.system())
    transport = InProcessTransport(server, pods=Echo())
    for made in (pod("a", spec={"nodeName": "n"}), pod("unscheduled")):
        await transport.send(Request("POST", PODS, (), json.dumps(made).encode()))
    assert [line async for line in transport.stream(Request("GET", f"{PODS}/unscheduled/log"))] == []
    assert [line async for line in transport.stream(Request("GET", f"{PODS}/a/log"))] == [b"one", b"two and more", b"three"]
    for path in (f"{PODS}/a/log?", "/api/v1/nothing"):
        with pytest.raises(StatusError) as refused:
            await anext(transport.stream(Request("GET", path, (("watch", "true"), ("container", "x")))))
        assert refused.value.code in (400, 404)
    await transport.close()
