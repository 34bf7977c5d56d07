"""Slow start: a series of requests that all fail costs one call, one that succeeds reaches full concurrency (rule R16)."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


async def slow_start(things: Iterable[T], carry_out: Callable[[T], Awaitable[bool]], cap: int) -> tuple[T, ...]:
    """Carry out `things` in order: one at first, then one more concurrently for each success, at most `cap`.

    The concurrency doubles with each round trip, as with the Job controller's batches of 1, 2, 4, …, but without waiting for
    the slowest of a batch. When `carry_out` returns False, no more is started. Returns what was not started.
    """
    waiting = deque(things)
    hands = 1
    stopped = False

    async def work() -> None:
        nonlocal hands, stopped
        while waiting and not stopped:
            if not await carry_out(waiting.popleft()):
                stopped = True
            elif not stopped and len(waiting) > 1 and hands < cap:
                hands += 1
                group.create_task(work())

    async with asyncio.TaskGroup() as group:
        await work()
    return tuple(waiting)
