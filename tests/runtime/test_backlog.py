"""What can wait waits while jobs wait to be looked at, and no longer than it must."""

import asyncio
from collections.abc import Awaitable

import pytest

from jobcommon.client import objects
from jobcommon.client.limiter import LimitedTransport
from jobcommon.runtime.backlog import PATIENCE, Backlog
from tests.runtime.fakes import FakeClock, ScriptedTransport, reply, turns


class Bench:
    """A backlog of as many jobs as it is told."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.jobs = 1
        self.backlog = Backlog(self.clock)
        self.backlog.follow([lambda: 0, lambda: self.jobs])

    async def begin(self, waiting: Awaitable[object]) -> "asyncio.Future[object]":
        task = asyncio.ensure_future(waiting)
        await turns()
        return task


@pytest.fixture
def bench() -> Bench:
    return Bench()


async def test_without_a_backlog_nobody_waits(bench: Bench) -> None:
    bench.jobs = 0
    assert (await bench.begin(bench.backlog.over())).done()


async def test_it_ends_when_no_job_waits_any_more(bench: Bench) -> None:
    held = [await bench.begin(bench.backlog.over(key)) for key in (None, None, "a")]
    bench.backlog.check()
    await turns()
    assert not any(task.done() for task in held)
    bench.jobs = 0
    bench.backlog.check()
    await turns()
    assert all(task.done() for task in held)


async def test_nothing_is_held_back_for_long(bench: Bench) -> None:
    held = await bench.begin(bench.backlog.over())
    await bench.clock.advance(PATIENCE - 0.1)
    assert not held.done()
    await bench.clock.advance(0.1)
    assert held.done()


async def test_a_backlog_that_lasts_holds_nobody_back_until_there_is_a_new_one(bench: Bench) -> None:
    await bench.begin(bench.backlog.over())
    await bench.clock.advance(PATIENCE)
    assert (await bench.begin(bench.backlog.over())).done()
    bench.jobs = 0
    bench.backlog.check()
    bench.jobs = 1
    held = await bench.begin(bench.backlog.over())
    assert not held.done()
    await bench.clock.advance(PATIENCE)
    assert held.done()


async def test_one_can_be_hastened(bench: Bench) -> None:
    one, other = await bench.begin(bench.backlog.over("a")), await bench.begin(bench.backlog.over("b"))
    bench.backlog.hasten("a")
    bench.backlog.hasten("unknown")
    await turns()
    assert (one.done(), other.done()) == (True, False)
    other.cancel()
    await turns()
    bench.jobs = 0
    bench.backlog.check()


async def test_what_is_followed_no_more_holds_nobody_back(bench: Bench) -> None:
    held = await bench.begin(bench.backlog.over())
    bench.backlog.follow(())
    await turns()
    assert held.done()


async def test_requests_that_can_wait(bench: Bench) -> None:
    server = ScriptedTransport().on("POST", "/", reply({}, 201))
    sending = await bench.begin(LimitedTransport(server, bench.backlog.over).send(objects.create("/api/v1/events", {})))
    assert server.sent == []
    bench.jobs = 0
    bench.backlog.check()
    await turns()
    assert sending.done()
    assert len(server.sent) == 1
