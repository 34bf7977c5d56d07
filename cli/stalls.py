"""When a run cannot get any further: by what its pods do and a clock that is handed in."""

from collections.abc import Collection
from enum import Enum, auto

# Pods count as started after this many seconds; what ends sooner is still failing.
STARTED = 30.0


class State(Enum):
    """What a pod is to the progress of its job."""

    RUNS = auto()
    WAITS = auto()
    """It cannot run: it is pending, has failed, or is between two runs."""
    DONE = auto()
    GONE = auto()


class Stall:
    """Since when a job cannot get any further: one of its pods cannot run, or it has none, and the others print nothing."""

    def __init__(self, now: float) -> None:
        self._since, self._heard = now, now
        self._well_since: float | None = None

    def pods(self, states: Collection[State], now: float) -> None:
        """Those are the states of its pods now."""
        if State.RUNS in states and State.WAITS not in states:
            self._well_since = now if self._well_since is None else self._well_since
            return
        if self._well_since is not None and now - self._well_since >= STARTED:
            self._since = now
        self._well_since = None

    def suspended(self, now: float) -> None:
        """Until now the job was suspended, and nothing was expected of it."""
        self._since, self._well_since = now, None

    def line(self, now: float) -> None:
        """A pod that runs has printed a line."""
        self._heard = now

    def stuck_at(self, after: float) -> float | None:
        """When it counts as stuck if nothing changes for that many seconds; None: it makes progress, or zero is never."""
        return max(self._since, self._heard) + after if after and self._well_since is None else None
