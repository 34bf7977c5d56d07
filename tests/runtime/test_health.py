"""The server of health and metrics, what it answers, and to whom; and metrics."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import aiohttp
import pytest

from jobcommon.cli.errors import UserError
from jobcommon.cli.main import app
from jobcommon.cli.operate import token_in
from jobcommon.runtime import logging
from jobcommon.runtime.clock import SystemClock
from jobcommon.runtime.health import STALLED_AFTER, serve_health
from jobcommon.runtime.logging import Log
from jobcommon.runtime.metrics import Metrics, Readings
from jobcommon.runtime.reports.bounded_server import Limits
from jobcommon.runtime.settings import Settings
from tests.runtime.fakes import TESTJOB, FakeClock, a_job, quiet_log
from tests.runtime.world import JOBS, SETTINGS, Process, World, processes, world_with_testjobs

TOKEN = "a-token-for-scraping"


def health_of(metrics: Metrics, *, log: Log | None = None, **options: Any) -> AbstractAsyncContextManager[int]:
    return serve_health(metrics, lambda: True, SystemClock(), log or quiet_log(), **options)


@asynccontextmanager
async def served(token: str | None = TOKEN) -> AsyncIterator[tuple[aiohttp.ClientSession, str]]:
    server = health_of(Metrics(), host="127.0.0.1", port=0, token=token)
    async with server as port, aiohttp.ClientSession() as client:
        yield client, f"http://127.0.0.1:{port}"


async def test_health_fails_while_the_event_loop_is_blocked() -> None:
    """It is asked without a turn of the loop, as with a plan that never ends."""
    clock = FakeClock()

    def status(port: int) -> int:
        try:
            with urlopen(f"http://127.0.0.1:{port}/healthz", timeout=180) as answer:
                return int(answer.status)
        except HTTPError as error:
            return error.code

    async with serve_health(Metrics(), lambda: True, clock, quiet_log(), host="127.0.0.1", port=0) as port:
        await clock.advance(0)
        assert status(port) == 200
        clock.now += STALLED_AFTER
        assert status(port) == 503
        await clock.advance(0)
        assert status(port) == 200, "it goes on"


async def test_a_port_that_is_taken_is_an_error() -> None:
    async with health_of(Metrics(), host="127.0.0.1", port=0) as port:
        with pytest.raises(OSError, match=str(port)):
            async with health_of(Metrics(), host="127.0.0.1", port=port):
                pass


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (None, 401),
        ("", 401),
        ("Basic eDp5", 401),
        (TOKEN, 401),
        ("Bearer ", 401),
        ("Bearer wrong", 403),
        (f"Bearer {TOKEN}x", 403),
        (f"Bearer {TOKEN[:-1]}", 403),
        (f"Bearer {TOKEN}", 200),
    ],
)
async def test_metrics_want_the_token(header: str | None, status: int) -> None:
    headers = {} if header is None else {"Authorization": header}
    async with served() as (client, url), client.get(f"{url}/metrics", headers=headers) as answer:
        assert answer.status == status
        text = await answer.text()
    assert ("process_cpu_seconds_total" in text) == (status == 200)
    assert TOKEN not in text


def test_the_token_comes_from_a_file_and_never_from_an_argument(tmp_path: Path) -> None:
    operator = next(command.callback for command in app.registered_commands if command.name == "operator")
    assert operator is not None
    assert {name for name in operator.__annotations__ if "token" in name} == {"metrics_token_file"}
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    assert token_in(file) == TOKEN
    assert TOKEN not in repr(Settings(metrics_token=TOKEN))
    for content in ("", " \n", "two words", "a\nb", "naïve"):
        file.write_text(content)
        with pytest.raises(UserError, match="must hold one token"):
            token_in(file)
    with pytest.raises(UserError, match="cannot be read"):
        token_in(tmp_path / "missing")


PAGES = ("/metrics", "/healthz", "/readyz")
OTHERS = ("/", "/debug", "/debug/pprof/", "/debug/vars", "/config", "/env", "/metrics/", "/../etc/passwd")
ASKED = [("GET", path, 404) for path in OTHERS]
ASKED += [(method, path, 405) for method in ("POST", "PUT", "DELETE", "PATCH") for path in PAGES]


async def test_there_is_nothing_else_to_be_asked_and_nothing_can_be_changed() -> None:
    async with served(None) as (client, url):
        for method, path, status in ASKED:
            async with client.request(method, url + path, headers={"Authorization": f"Bearer {TOKEN}"}) as answer:
                assert answer.status == status, (method, path)


async def test_a_failure_shows_no_traceback_and_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY", "environment-canary")

    def breaks() -> bytes:
        raise RuntimeError(os.environ["CANARY"])

    metrics, out = Metrics(), StringIO()
    log = logging.setup("json", "info", out)
    monkeypatch.setattr(metrics, "render", breaks)
    async with (
        health_of(metrics, log=log, host="127.0.0.1", port=0) as port,
        aiohttp.ClientSession() as client,
        client.get(f"http://127.0.0.1:{port}/metrics") as answer,
    ):
        assert answer.status == 500
        text = await answer.text()
    assert "Traceback" not in text
    assert "canary" not in text
    assert "could not serve a page" in out.getvalue()
    assert "RuntimeError" in out.getvalue(), "the log says what has failed"


async def test_a_page_of_metrics_is_made_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any pod may ask for it, in a loop."""
    metrics, clock, made = Metrics(), FakeClock(), list[int]()

    def render() -> bytes:
        made.append(1)
        return str(len(made)).encode()

    monkeypatch.setattr(metrics, "render", render)
    server = serve_health(metrics, lambda: True, clock, quiet_log(), host="127.0.0.1", port=0)
    async with server as port, aiohttp.ClientSession() as client:
        for shown in ("1", "1", "2"):
            for _ in range(2):
                async with client.get(f"http://127.0.0.1:{port}/metrics") as answer:
                    assert await answer.text() == shown
            await clock.advance(0.5)


HEAD = b"POST /metrics HTTP/1.1\r\nHost: a\r\n"
HOSTILE = {
    "nothing": b"",
    "a slow head": HEAD + b"A: b",
    "a head without an end": HEAD + b"A: b\r\n" * (1 << 16),
    "a slow body": HEAD + b"Content-Length: 65536\r\n\r\nx",
    "a huge body": HEAD + b"Content-Length: 1000000000\r\n\r\n" + b"x" * (1 << 20),
    "chunks without an end": HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * (1 << 16),
    "many requests": b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n" * 10_000,
}  # fmt: skip


@pytest.mark.parametrize("sent", HOSTILE.values(), ids=HOSTILE)
async def test_hostile_connections_end_in_their_time_and_hold_up_no_other(sent: bytes) -> None:
    limits = Limits(request_seconds=1, connections=8, per_address=4)
    async with health_of(Metrics(), host="127.0.0.1", port=0, limits=limits) as port, aiohttp.ClientSession() as client:
        opened = [await asyncio.open_connection("127.0.0.1", port, local_addr=(f"127.0.1.{n % 4}", 0)) for n in range(16)]
        for _, writer in opened:
            writer.write(sent)
        async with client.get(f"http://127.0.0.1:{port}/metrics") as answer:
            assert answer.status == 200
        for reader, writer in opened:
            with suppress(ConnectionError):
                assert len(await reader.read()) < 1 << 16
            writer.close()


# -- An operator's metrics over a job's life: what is exposed, with which labels and values


@pytest.fixture
def world() -> World:
    return world_with_testjobs()


def reader(metrics: Metrics) -> Callable[..., float | None]:
    """Reads a sample of the framework's."""
    return lambda name, **labels: metrics.registry.get_sample_value(name, {"framework": TESTJOB.name, **labels})


async def test_the_age_of_a_cache_grows_while_the_api_server_is_silent(world: World) -> None:
    process = Process(world, "a", SETTINGS)
    read = reader(process.manager.metrics)

    def age(resource: str) -> float | None:
        return read("training_operator_cache_age_seconds", resource=resource)

    async with processes(world, process):
        await world.clock.until(lambda: process.manager.ready)
        world.ok("POST", JOBS, a_job())
        await world.clock.until(lambda: len(world.pods()) == 2)
        await world.clock.advance(20)
        found = age("pods")
        assert found is not None
        assert 20 <= found < 30
        world.play_all("Running")
        await world.clock.until(lambda: (age("pods") or 0) < 1)
        assert (age("services") or 0) >= 20


def test_foreign_conditions_add_no_label_value() -> None:
    metrics = Metrics(process=False)
    counts = {"Running": 2, "": 1, "Written by a stranger": 3}
    metrics.watch({"test": lambda: Readings(0, counts, {}, 0)})
    read = reader(metrics)
    assert {state: read("training_operator_jobs", state=state) for state in ("Running", "New")} == {"Running": 2, "New": 4}
    assert b"stranger" not in metrics.render()
