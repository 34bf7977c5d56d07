"""The runtime's source of time (rule R20). All waiting uses a Clock, so that a test can drive it."""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from jobcommon.controller.job_controller import Moment


class Timer(Protocol):
    """A scheduled callback."""

    def cancel(self) -> None:
        """Cancel the callback."""
        ...


class Clock(ABC):
    """Time on two scales, and waiting for it."""

    @abstractmethod
    def monotonic(self) -> float:
        """Seconds on a clock that never jumps, for delays and leases."""

    @abstractmethod
    def wall(self) -> float:
        """Seconds since the epoch, for recorded times."""

    @abstractmethod
    def call_at(self, when: float, callback: Callable[[], object]) -> Timer:
        """Call `callback` in the event loop once `monotonic` has reached `when`."""

    def moment(self) -> Moment:
        """Now, on both clocks."""
        return Moment(self.monotonic(), self.wall())

    async def sleep_until(self, when: float) -> None:
        """Wait until `monotonic` has reached `when`."""
        await self.wait(asyncio.Event(), when)

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds`."""
        await self.sleep_until(self.monotonic() + seconds)

    async def wait(self, event: asyncio.Event, until: float | None = None) -> bool:
        """Wait until `event` is set, at the longest until `until` (monotonic seconds). Returns whether it is set."""
        if until is None:
            await event.wait()
            return True
        if event.is_set() or until <= self.monotonic():
            await asyncio.sleep(0)
            return event.is_set()
        waiter = asyncio.ensure_future(event.wait())
        due = asyncio.get_running_loop().create_future()
        timer = self.call_at(until, lambda: None if due.done() else due.set_result(None))
        try:
            await asyncio.wait((waiter, due), return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()
            due.cancel()
            waiter.cancel()
        return event.is_set()

    async def bounded(self, what: Coroutine[Any, Any, object], until: float) -> None:
        """Run `what`; cancel it if it has not ended at `until` (monotonic seconds). asyncio logs its exception."""
        over = asyncio.Event()
        task = asyncio.ensure_future(what)
        task.add_done_callback(lambda _: over.set())
        try:
            await self.wait(over, until)
        finally:
            await cancelled(task)


async def cancelled(task: "asyncio.Future[Any]") -> None:
    """Cancel the task and wait for its end. asyncio logs its exception, unless its owner has seen that."""
    if not task.done():  # asyncio does not log the exception of a task that is cancelled after it
        task.cancel()
    await asyncio.wait((task,))


class SystemClock(Clock):
    """The system's clocks."""

    def monotonic(self) -> float:
        """See `Clock.monotonic`."""
        return time.monotonic()

    def wall(self) -> float:
        """See `Clock.wall`."""
        return time.time()

    def call_at(self, when: float, callback: Callable[[], object]) -> Timer:
        """See `Clock.call_at`."""
        return asyncio.get_running_loop().call_later(max(when - self.monotonic(), 0.0), callback)
