"""How many requests may be under way, learnt from how long the API server takes.

TCP Vegas' idea (Brakmo and Peterson, 1995): of n requests under way that take t, while the fastest take b, about n·(1 - b/t)
stand in a queue somewhere. A server that has enough to do is not made faster by a longer queue, and everybody else's requests
stand in it, too. So the number grows while the queue is short and shrinks when it is long.
"""

SHORT, LONG = 12.0, 24.0
FEWEST = 4
START = 8
# How fast the server can be is looked at anew after this many answers, with so few under way for a moment that no queue is
# left: it may have become slower for good, and under load the queue would be taken for slowness.
SPAN = 1000
_SMOOTHING = 0.1


class Pace:
    """The bound, between `FEWEST` and `most`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._fewest = min(FEWEST, most)
        self._limit = float(min(START, most))
        self._typical = 0.0
        self._fastest = float("inf")
        self._answers = 0
        self._probes = 0

    @property
    def limit(self) -> int:
        """How many requests may be under way now."""
        return self._fewest if self._probes else int(self._limit)

    def answered(self, seconds: float, full: bool) -> None:
        """A request took so long. `full`: as many were under way as may be."""
        if seconds <= 0:
            return
        if self._probes:
            self._probe(seconds)
            return
        self._answers += 1
        if self._answers == SPAN:
            self._answers = 0
            # So many are under way, and only what is sent after them finds no queue.
            self._probes = self.limit + 2 * self._fewest
            self._fastest = float("inf")
            return
        self._fastest = min(self._fastest, seconds)
        self._typical += _SMOOTHING * (seconds - self._typical) if self._typical else seconds
        queued = self._limit * max(1 - self._fastest / self._typical, 0.0)
        # One more or one less for as many answers as are under way: once in a round trip.
        if queued < SHORT and full:
            self._limit = min(self._limit + 1 / self._limit, float(self._most))
        elif queued > LONG:
            self._limit = max(self._limit - 1 / self._limit, float(self._fewest))

    def _probe(self, seconds: float) -> None:
        self._probes -= 1
        self._fastest = min(self._fastest, seconds)
