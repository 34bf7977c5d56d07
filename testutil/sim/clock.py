"""The clock of a simulated process: virtual time."""

from collections.abc import Callable

from jobcommon.runtime.clock import Clock, Timer
from jobcommon.testutil.sim.loop import SimLoop


class SimClock(Clock):
    """Follows `loop`; `epoch` is the wall time at the loop's zero, in Unix seconds."""

    def __init__(self, loop: SimLoop, epoch: float) -> None:
        self.loop = loop
        self._epoch = epoch

    def monotonic(self) -> float:
        """See `Clock.monotonic`."""
        return self.loop.time()

    def wall(self) -> float:
        """See `Clock.wall`."""
        return self._epoch + self.loop.time()

    def call_at(self, when: float, callback: Callable[[], object]) -> Timer:
        """See `Clock.call_at`."""
        return self.loop.call_at(when, callback)
