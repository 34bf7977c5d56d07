"""An event loop whose time is the CPU time of this process; time in which nothing is to be done is skipped.

A delay then measures what the process does and nothing of what else the machine is busy with, and hours of waiting cost
nothing. What in truth would be done by another machine is done `elsewhere`, in no time.
"""

import asyncio
import selectors
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from jobcommon.runtime.clock import Clock, Timer

EPOCH = 1_700_000_000.0
"""The wall-clock time at which every loop begins."""


class _Skipping(selectors.DefaultSelector):
    """Does not wait for a timer: it adds up the waiting."""

    skipped = 0.0

    def select(self, timeout: float | None = None) -> Any:
        """See `selectors.BaseSelector.select`."""
        if timeout is None:
            raise RuntimeError("nothing is ready and nothing is scheduled: the loop would never end")
        ready = super().select(0)
        if not ready:
            self.skipped += max(timeout, 0.0)
        return ready


class CpuTimeLoop(asyncio.SelectorEventLoop):
    """The loop. Not for what waits for sockets, threads or child processes."""

    def __init__(self) -> None:
        self._skipping = _Skipping()
        self._began = time.process_time()
        self._elsewhere = 0.0
        self._away = False
        super().__init__(self._skipping)

    def time(self) -> float:
        """CPU seconds used here since the beginning, and what was skipped."""
        return time.process_time() - self._began - self._elsewhere + self._skipping.skipped

    @contextmanager
    def elsewhere(self) -> Iterator[None]:
        """What is done inside takes no time of ours, once it is done. Not for what awaits."""
        if self._away:
            yield
            return
        self._away, started = True, time.process_time()
        try:
            yield
        finally:
            self._away = False
            self._elsewhere += time.process_time() - started


class LoopClock(Clock):
    """The runtime's clock on a loop's time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def monotonic(self) -> float:
        """See `Clock.monotonic`."""
        return self._loop.time()

    def wall(self) -> float:
        """See `Clock.wall`."""
        return EPOCH + self._loop.time()

    def call_at(self, when: float, callback: Callable[[], object]) -> Timer:
        """See `Clock.call_at`."""
        return self._loop.call_at(when, callback)
