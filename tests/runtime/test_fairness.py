"""The bounds on requests: a gate that keys pass in turn, and a token bucket."""

import asyncio
from random import Random

import pytest

from jobcommon.client.limiter import LimitedTransport, TokenBucket
from jobcommon.client.request import Request
from jobcommon.runtime.fairness import COURTEOUS, COURTEOUS_SHARE, COURTESY_SECONDS, FairGate, Lane
from tests.runtime.fakes import FakeClock, ScriptedTransport, reply, turns


async def test_a_small_job_does_not_wait_behind_a_big_one() -> None:
    gate, order = FairGate(2), []
    release = asyncio.Event()

    async def request(key: str) -> None:
        async with gate.turn(key):
            order.append(key)
            await release.wait()

    big = [asyncio.create_task(request("big")) for _ in range(20)]
    await turns()
    small = [asyncio.create_task(request("small")) for _ in range(2)]
    await turns()
    assert order == ["big", "big"]
    assert gate.waiting == 20
    release.set()
    await asyncio.gather(*big, *small)
    assert order[2:6] == ["big", "small", "big", "small"]
    assert (gate.inside, gate.waiting) == (0, 0)


class Crowd:
    """Requests that stay inside until they are let go."""

    def __init__(self, gate: FairGate) -> None:
        self.gate = gate
        self.inside: list[str] = []
        self.doors: dict[str, asyncio.Event] = {}
        self.tasks: list[asyncio.Task[None]] = []

    async def come(self, name: str, lane: Lane, count: int = 1) -> None:
        self.doors.setdefault(name, asyncio.Event())
        self.tasks += [asyncio.create_task(self._request(name, lane)) for _ in range(count)]
        await turns()

    async def leave(self, name: str) -> None:
        self.doors[name].set()
        await turns()

    async def _request(self, name: str, lane: Lane) -> None:
        async with self.gate.turn(name, lane=lane):
            self.inside.append(name)
            await self.doors[name].wait()
            self.inside.remove(name)


def quick_gate(limit: int, clock: FakeClock) -> FairGate:
    """A gate with a clock that lets in as many as it may."""
    gate = FairGate(limit, clock.monotonic)
    for _ in range(5000):
        if gate._pace is not None and gate.limit < limit:
            gate._pace.answered(0.001, full=True)
    assert gate.limit == limit
    return gate


async def test_bulk_holds_all_places_until_it_is_to_make_way() -> None:
    clock = FakeClock()
    crowd = Crowd(quick_gate(10, clock))
    await crowd.come("big", Lane.BULK, 10)
    assert len(crowd.inside) == 10
    await crowd.come("more", Lane.BULK, 20)
    await crowd.come("small", Lane.PROMPT)
    crowd.gate.make_way()
    assert "small" not in crowd.inside, "nobody is thrown out"
    await crowd.leave("big")
    assert sorted(crowd.inside) == ["more"] * COURTEOUS + ["small"]
    await crowd.come("small", Lane.PROMPT)
    await crowd.come("event", Lane.LATER)
    assert sorted(crowd.inside) == ["event"] + ["more"] * COURTEOUS + ["small"] * 2, "they do not wait behind the bulk"
    await crowd.leave("small")
    await crowd.leave("event")
    assert crowd.inside == ["more"] * COURTEOUS, "another one may come"
    await clock.advance(COURTESY_SECONDS)
    await crowd.come("much later", Lane.BULK)
    assert len(crowd.inside) == 10, "nobody has come for a while"
    await crowd.leave("more")
    await crowd.leave("much later")
    await asyncio.gather(*crowd.tasks)
    assert (crowd.gate.inside, crowd.gate.waiting) == (0, 0)


async def test_of_a_wide_gate_bulk_holds_its_share() -> None:
    crowd = Crowd(quick_gate(COURTEOUS_SHARE * (COURTEOUS + 1), FakeClock()))
    crowd.gate.make_way()
    await crowd.come("big", Lane.BULK, 20)
    assert crowd.inside == ["big"] * (COURTEOUS + 1)
    for task in crowd.tasks:
        task.cancel()


async def test_the_patient_get_their_places_however_many_others_come() -> None:
    clock = FakeClock()
    gate, order = quick_gate(1, clock), []

    async def request(lane: Lane) -> None:
        async with gate.turn("job", lane=lane):
            order.append(lane)
            await turns()

    tasks = [asyncio.create_task(request(lane)) for lane in (Lane.BULK, Lane.LATER) for _ in range(3)]
    tasks += [asyncio.create_task(request(Lane.PROMPT)) for _ in range(60)]
    await asyncio.gather(*tasks)
    assert max(i for i, lane in enumerate(order) if lane is not Lane.PROMPT) < 40


@pytest.mark.parametrize("clocked", [False, True])
@pytest.mark.parametrize("seed", range(20))
async def test_the_bound_holds_and_no_place_is_lost_whoever_gives_up(seed: int, clocked: bool) -> None:
    random, clock = Random(seed), FakeClock()
    gate = FairGate(3, clock.monotonic if clocked else None)
    most = 0

    async def request(key: int) -> None:
        nonlocal most
        async with gate.turn(key, lane=random.choice(tuple(Lane))):
            most = max(most, gate.inside)
            await turns(random.randrange(5))

    tasks = [asyncio.create_task(request(random.randrange(4))) for _ in range(60)]
    for _ in range(40):
        await turns(random.randrange(4))
        random.choice(tasks).cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert most == 3
    assert (gate.inside, gate.waiting) == (0, 0)


def test_a_gate_that_lets_nobody_in_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        FairGate(0)


async def test_tokens_come_at_their_rate_after_the_burst() -> None:
    clock = FakeClock()
    bucket = TokenBucket(10, 5, clock.monotonic, clock.sleep_until)
    taken: list[float] = []

    async def take() -> None:
        await bucket.take()
        taken.append(round(clock.monotonic() - 1000, 3))

    tasks = [asyncio.create_task(take()) for _ in range(8)]
    await clock.advance(1)
    assert taken == [0, 0, 0, 0, 0, 0.1, 0.2, 0.3]
    await asyncio.gather(*tasks)


async def test_who_gives_up_leaves_his_token_to_others() -> None:
    clock = FakeClock()
    bucket = TokenBucket(1, 1, clock.monotonic, clock.sleep_until)
    await bucket.take()
    first = asyncio.create_task(bucket.take())
    await turns()
    first.cancel()
    second = asyncio.create_task(bucket.take())
    await clock.advance(1.1)
    assert second.done()


async def test_who_gives_up_in_the_middle_does_not_make_a_burst_of_the_others() -> None:
    clock = FakeClock()
    bucket = TokenBucket(1, 1, clock.monotonic, clock.sleep_until)
    await bucket.take()
    waiting = [asyncio.create_task(bucket.take()) for _ in range(5)]
    await turns()
    for task in waiting[:4]:
        task.cancel()
    await turns()
    late = [asyncio.create_task(bucket.take()) for _ in range(4)]
    await clock.advance(5)
    assert [task.done() for task in (waiting[4], *late)] == [True, False, False, False, False]
    await clock.advance(4)
    await asyncio.gather(*late)


async def test_who_gives_up_waiting_is_not_counted_any_more() -> None:
    gate = FairGate(1)
    async with gate.turn("a"):
        waiting = [asyncio.create_task(gate.turn(key).__aenter__()) for key in "aab"]
        await turns()
        waiting[0].cancel()
        waiting[2].cancel()
        await turns()
        assert gate.waiting == 1
    await waiting[1]
    assert (gate.inside, gate.waiting) == (1, 0)


async def test_a_limited_transport_limits_requests_and_streams() -> None:
    clock = FakeClock()
    server = ScriptedTransport().on("GET", "/", reply())
    limited = LimitedTransport(server, TokenBucket(1, 1, clock.monotonic, clock.sleep_until).take)
    tasks = [asyncio.create_task(limited.send(Request("GET", "/"))) for _ in range(3)]
    await turns()
    assert len(server.sent) == 1
    await clock.advance(2.1)
    assert len(server.sent) == 3
    await asyncio.gather(*tasks)


@pytest.mark.parametrize(("rate", "burst"), [(0, 1), (-1, 1), (1, 0)])
def test_a_bucket_that_gives_nothing_is_refused(rate: float, burst: float) -> None:
    clock = FakeClock()
    with pytest.raises(ValueError, match="the limit must be"):
        TokenBucket(rate, burst, clock.monotonic, clock.sleep_until)
