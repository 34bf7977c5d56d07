"""The bounds on requests: a gate that keys pass in turn, and a token bucket."""

import asyncio
from random import Random

import pytest

from jobcommon.client.limiter import LimitedTransport, TokenBucket
from jobcommon.client.request import Request
from jobcommon.runtime.fairness import FairGate
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


@pytest.mark.parametrize("seed", range(20))
async def test_the_bound_holds_and_no_place_is_lost_whoever_gives_up(seed: int) -> None:
    random, gate = Random(seed), FairGate(3)
    most = 0

    async def request(key: int) -> None:
        nonlocal most
        async with gate.turn(key):
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
