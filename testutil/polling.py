"""Waiting for what has no watch: it is asked again and again. The deadline only ends a hang."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")
SECONDS, INTERVAL = 180.0, 0.1


async def polled(
    ask: Callable[[], Awaitable[T]], holds: Callable[[T], object] = bool, seconds: float = SECONDS,
    retry_on: type[Exception] | tuple[type[Exception], ...] = (),
) -> T:  # fmt: skip
    """What `ask` answers once that `holds`; an error of `retry_on` does not. Raises TimeoutError with the last answer."""
    last: T | Exception | None = None
    try:
        async with asyncio.timeout(seconds):
            while True:
                try:
                    last = answer = await ask()
                    if holds(answer):
                        return answer
                except retry_on as error:
                    last = error
                await asyncio.sleep(INTERVAL)
    except TimeoutError as error:
        raise TimeoutError(f"not so after {seconds:g} s; the last answer: {last!r}") from error
