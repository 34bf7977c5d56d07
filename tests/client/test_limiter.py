"""The token bucket that limits the rate of requests."""

import asyncio

import pytest

from jobcommon.client.limiter import TokenBucket
from tests.runtime.fakes import FakeClock, turns


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


async def test_a_cancelled_wait_causes_no_burst() -> None:
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


@pytest.mark.parametrize(("rate", "burst"), [(0, 1), (-1, 1), (1, 0)])
def test_a_bucket_that_gives_nothing_is_refused(rate: float, burst: float) -> None:
    clock = FakeClock()
    with pytest.raises(ValueError, match="the limit must be"):
        TokenBucket(rate, burst, clock.monotonic, clock.sleep_until)
