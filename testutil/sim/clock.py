"""The clocks of one simulated process: they may run fast or slow, and the one on the wall may jump (fault F23)."""

from collections.abc import Callable
from math import inf

from jobcommon.runtime.clock import Clock, Timer
from jobcommon.testutil.sim.loop import SimLoop


class _Alarm:
    """One `call_at`, on the process's own scale."""

    __slots__ = ("_callback", "_clock", "_handle", "when")

    def __init__(self, clock: "SimClock", when: float, callback: Callable[[], object]) -> None:
        self._clock = clock
        self._callback = callback
        self.when = when
        self.arm()

    def arm(self) -> None:
        loop = self._clock.loop
        self._handle = loop.call_at(self._clock.loop_time(self.when), self._ring)

    def rearm(self) -> None:
        self._handle.cancel()
        self.arm()

    def cancel(self) -> None:
        self._handle.cancel()
        self._clock.alarms.pop(self, None)

    def _ring(self) -> None:
        self._clock.alarms.pop(self, None)
        self._callback()


class SimClock(Clock):
    """Follows `loop`; `epoch` is the wall time at the loop's zero, in Unix seconds."""

    def __init__(self, loop: SimLoop, epoch: float) -> None:
        self.loop = loop
        self.alarms: dict[_Alarm, None] = {}
        self._epoch = epoch
        self._jump = 0.0
        self._rate = 1.0
        self._base = 0.0, 0.0

    def monotonic(self) -> float:
        """See `Clock.monotonic`."""
        since, value = self._base
        return value + (self.loop.time() - since) * self._rate

    def wall(self) -> float:
        """See `Clock.wall`. It does not follow `set_rate`: a clock on the wall is disciplined from outside, by jumps."""
        return self._epoch + self.loop.time() + self._jump

    def call_at(self, when: float, callback: Callable[[], object]) -> Timer:
        """See `Clock.call_at`."""
        alarm = _Alarm(self, when, callback)
        self.alarms[alarm] = None
        return alarm

    def loop_time(self, when: float) -> float:
        """The loop's time at which `monotonic` will read `when`."""
        since, value = self._base
        if when == inf:
            return inf
        if since == value == 0.0 and self._rate == 1.0:
            return when
        # A rounding step late rather than early: who wakes up too early would sleep again without end.
        return since + (when - value) / self._rate + 1e-9

    def jump(self, seconds: float) -> None:
        """Move the wall clock."""
        self._jump += seconds

    def set_rate(self, rate: float) -> None:
        """Let the monotonic clock run at `rate` from now on."""
        self._base = self.loop.time(), self.monotonic()
        self._rate = rate
        for alarm in tuple(self.alarms):
            alarm.rearm()
