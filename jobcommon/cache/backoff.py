"""The informer's back-off between attempts (as in client-go)."""

from collections.abc import Callable

INITIAL = 0.8
CAP = 30.0
RESET_AFTER = 120.0


class Backoff:
    """0.8 s doubled up to 30 s, each drawn from [d, 2d); reset if the last attempt was over two minutes ago."""

    def __init__(self, random: Callable[[], float]) -> None:
        self._random = random
        self._delay = INITIAL
        self._last: float | None = None

    def next(self, now: float) -> float:
        """Seconds to wait before the next attempt."""
        if self._last is not None and now - self._last > RESET_AFTER:
            self._delay = INITIAL
        self._last = now
        delay = self._delay
        self._delay = min(2 * delay, CAP)
        return delay * (1 + self._random())
