"""Waiting for what has no watch: it is asked again and again. The deadline only ends a hang."""

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Any

PATIENCE = 120.0


async def polled(ask: Callable[[], Any], holds: Callable[[Any], Any] = bool) -> Any:
    """What `ask` answers, at once or when awaited, as soon as that `holds`. Raises AssertionError with the last answer."""
    deadline = time.monotonic() + PATIENCE
    while True:
        answer = await made if inspect.isawaitable(made := ask()) else made
        if holds(answer):
            return answer
        assert time.monotonic() < deadline, answer
        await asyncio.sleep(0.01)
