"""How many requests may be under way, learnt from how long the API server takes.

TCP Vegas' idea (Brakmo and Peterson, 1995): of n requests under way that take t, while the fastest take b, about n·(1 - b/t)
stand in a queue somewhere. A server that has enough to do is not made faster by a longer queue, and everybody else's requests
stand in it, too. So the number grows while the queue is short and shrinks when it is long. Requests are compared with their
like: a create waits for admission, which may take seconds, and a read does not.
"""

from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass

SHORT, LONG = 12.0, 24.0
FEWEST = 4
START = 8
# How fast the server can be is looked at anew after this many answers, with so few under way for a moment that no queue is
# left: it may have become slower for good, and under load the queue would be taken for slowness.
SPAN = 1000
_SMOOTHING = 0.1
# What takes longer even at its fastest waits for something else, such as admission by a webhook, and costs the server little:
# then the number grows with each answer, or a large job would take a round trip for each further request.
WAITING = 1.0


@dataclass(slots=True)
class _Times:
    """How long the requests of one kind take, in seconds."""

    typical: float = 0.0
    fastest: float = float("inf")

    def add(self, seconds: float) -> float:
        """Take note of one; the share of it that it spent in a queue, from 0 to 1."""
        self.fastest = min(self.fastest, seconds)
        self.typical += _SMOOTHING * (seconds - self.typical) if self.typical else seconds
        return max(1 - self.fastest / self.typical, 0.0)


class Pace:
    """The bound, between `FEWEST` and `most`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._fewest = min(FEWEST, most)
        self._limit = float(min(START, most))
        self._times: defaultdict[Hashable, _Times] = defaultdict(_Times)
        self._answers = 0
        self._probes = 0

    @property
    def limit(self) -> int:
        """How many requests may be under way now."""
        return self._fewest if self._probes else int(self._limit)

    def answered(self, seconds: float, full: bool, kind: Hashable = None) -> None:
        """A request of that kind took so long. `full`: as many were under way as may be."""
        if seconds <= 0:
            return
        times = self._times[kind]
        if self._probes:
            self._probes -= 1
            times.fastest = min(times.fastest, seconds)
            return
        self._answers += 1
        if self._answers == SPAN:
            self._answers = 0
            # So many are under way, and only what is sent after them finds no queue.
            self._probes = self.limit + 2 * self._fewest
            for known in self._times.values():
                known.fastest = float("inf")
            return
        queued = self._limit * times.add(seconds)
        # One more or one less for as many answers as are under way: once in a round trip.
        if queued < SHORT and full:
            more = 1.0 if times.fastest >= WAITING else 1 / self._limit
            self._limit = min(self._limit + more, float(self._most))
        elif queued > LONG:
            self._limit = max(self._limit - 1 / self._limit, float(self._fewest))
