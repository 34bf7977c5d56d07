"""Requests beside each other, of which none is in flight any more on return, also after an exception that nothing expected.

With slow start a series of requests that all fail costs one call, and one that succeeds reaches full concurrency (rule R16).
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


async def together(parts: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run all parts concurrently and return their results, or raise the first exception when all of them have ended.

    They are not cancelled, as a TaskGroup would do: the server may carry out a write whose answer is not awaited.
    """
    coroutines = list(parts)
    if len(coroutines) == 1:  # as in most plans; it needs no task of its own
        return [await coroutines[0]]
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    await asyncio.gather(*tasks, return_exceptions=True)
    return [task.result() for task in tasks]


async def slow_start(things: Iterable[T], carry_out: Callable[[T], Awaitable[bool]], cap: int) -> tuple[T, ...]:
    """Carry out `things` in order: one at first, then one more concurrently for each success, at most `cap`.

    The concurrency doubles with each round trip, as with the Job controller's batches of 1, 2, 4, …, but without waiting for
    the slowest of a batch. When `carry_out` returns False, no more is started. Returns what was not started.
    """
    waiting = deque(things)
    hands = 1
    stopped = False
    failures: list[Exception] = []

    async def work() -> None:
        nonlocal hands, stopped
        while waiting and not stopped:
            try:
                goes_on = await carry_out(waiting.popleft())
            except Exception as error:
                failures.append(error)
                goes_on = False
            if not goes_on:
                stopped = True
            elif not stopped and len(waiting) > 1 and hands < cap:
                hands += 1
                group.create_task(work())

    async with asyncio.TaskGroup() as group:
        await work()
    if failures:
        raise failures[0]
    return tuple(waiting)
