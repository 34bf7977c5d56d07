"""Slow start: a doomed lot costs one call, a good one keeps as many under way as it may (rule R16)."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


async def slow_start(things: Iterable[T], carry_out: Callable[[T], Awaitable[bool]], cap: int) -> tuple[T, ...]:
    """Carry out `things` in their order: one at first, then one more at once for each that has gone well, at most `cap`.

    So their number doubles with each round trip, as it does in batches of 1, 2, 4, …; but nobody waits for the slowest of
    a batch. When `carry_out` says no, nothing more is begun. Returns what was not begun.
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
