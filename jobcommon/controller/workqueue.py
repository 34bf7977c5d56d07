"""The work queue: which key is reconciled next.

Semantics of client-go's queue: a key is never handed out twice at once, no add is lost,
keys are served in the order in which they became ready. Unlike there, keys have priority levels, and inside a level the flows
of the keys, such as namespaces, take turns: a tenant with a hundred thousand jobs delays a job of another by one key (attack
case S10). All calls are O(1), or O(log n) in the number of delayed keys.
"""

from collections.abc import Callable, Hashable
from heapq import heapify, heappop, heappush
from math import ldexp
from typing import Generic, TypeVar

from jobcommon.controller.fair_queue import FairQueue

K = TypeVar("K", bound=Hashable)

BASE_BACKOFF = 0.005
MAX_BACKOFF = 60.0

# 5 ms doubled this many times exceeds any cap; without a limit a key that always fails would overflow the float.
_MAX_DOUBLINGS = 64
_HEAP_SLACK = 64


def backoff(failures: int, random: float) -> float:
    """The delay in seconds after `failures` earlier failures: exponential, capped, with full jitter by `random` in [0, 1)."""
    return min(MAX_BACKOFF, ldexp(BASE_BACKOFF, min(failures, _MAX_DOUBLINGS))) * random


class WorkQueue(Generic[K]):
    """A queue of distinct keys with delays and per-key exponential back-off.

    `random` gives floats in [0, 1). Times are monotonic seconds. The n-th failure of a key in a row delays it by a
    uniform draw from [0, min(60 s, 5 ms · 2ⁿ)], counting from n = 0 (rule R14: exponential, capped, full
    jitter). `flow` gives the flow of a key; without it there is one. `level` gives the key's level among `levels` priority
    levels; a lower number goes first (see `FairQueue`). A waiting key moves up when `add` finds its level lower.
    """

    def __init__(
        self,
        random: Callable[[], float],
        *,
        flow: Callable[[K], Hashable] = lambda _: None,
        level: Callable[[K], int] = lambda _: 0,
        levels: int = 1,
    ) -> None:
        self._random = random
        self._flow = flow
        self._level = level
        # A key that moved to another level also stays in the old one, where it is skipped.
        self._ready: FairQueue[K] = FairQueue(levels)
        self._waiting: dict[K, int] = {}
        self._dirty: set[K] = set()
        self._processing: set[K] = set()
        self._due: dict[K, float] = {}
        # Entries whose time is no longer that of `_due` are left in place and skipped: a heap cannot delete cheaply.
        self._timers: list[tuple[float, int, K]] = []
        self._timer_count = 0
        self._failures: dict[K, int] = {}
        self._shut_down = False
        self.on_ready: Callable[[K], None] = lambda _: None
        """Called with each key that becomes ready: to wake the driver, and to measure the wait."""
        self.on_timer: Callable[[], None] = lambda: None
        """Called when `next_wakeup` has become earlier."""

    def __len__(self) -> int:
        """The number of ready keys."""
        return len(self._waiting)

    @property
    def failing(self) -> int:
        """The number of keys with a back-off that `forget` has not cleared."""
        return len(self._failures)

    def add(self, key: K, level: int | None = None) -> None:
        """Make `key` ready now, or as soon as it is done if it is being processed. `level`: that of the key, if known."""
        if self._shut_down:
            return
        if key in self._dirty:
            if (waiting := self._waiting.get(key, 0)) and (now := self._level(key) if level is None else level) < waiting:
                self._put(key, now)
            return
        self._dirty.add(key)
        if key not in self._processing:
            self._append(key, self._level(key) if level is None else level)

    def add_at(self, key: K, when: float) -> None:
        """Make `key` ready at `when` (monotonic seconds). Of several times for one key the earliest counts."""
        if self._shut_down or when >= self._due.get(key, float("inf")):
            return
        self._due[key] = when
        self._timer_count += 1
        is_next = not self._timers or when < self._timers[0][0]
        heappush(self._timers, (when, self._timer_count, key))
        if is_next:
            self.on_timer()
        if len(self._timers) > 2 * len(self._due) + _HEAP_SLACK:
            self._timers = [timer for timer in self._timers if self._due.get(timer[2]) == timer[0]]
            heapify(self._timers)

    def add_after(self, key: K, delay: float, now: float) -> None:
        """Make `key` ready in `delay` seconds; at once when `delay` is not positive."""
        if delay > 0:
            self.add_at(key, now + delay)
        else:
            self.add(key)

    def add_rate_limited(self, key: K, now: float) -> None:
        """Count a failure of `key` and make it ready after its back-off."""
        if self._shut_down:
            return
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        self.add_after(key, backoff(failures, self._random()), now)

    def requeues(self, key: K) -> int:
        """The number of failures of `key` since it was last forgotten (client-go's NumRequeues)."""
        return self._failures.get(key, 0)

    def forget(self, key: K) -> None:
        """Clear the back-off of `key`. It stays queued if it is."""
        self._failures.pop(key, None)

    def get(self, now: float) -> K | None:
        """The next ready key, which must be passed to `done`; None if no key is ready, or after `shutdown`.

        Its delayed entry is dropped: what it waited for is decided again now.
        """
        self._promote(now)
        if not self._waiting:
            self._ready.clear()
            return None
        while (key := self._ready.pop()) not in self._waiting:
            pass
        del self._waiting[key]
        self._due.pop(key, None)
        self._processing.add(key)
        self._dirty.discard(key)
        return key

    def done(self, key: K, not_before: float | None = None) -> None:
        """Mark a key from `get` as processed. If added meanwhile it is ready again, from `not_before` unless at level 0."""
        if key not in self._processing:
            return
        self._processing.remove(key)
        if key not in self._dirty:
            return
        if not_before is not None and self._level(key):
            self._dirty.remove(key)
            self.add_at(key, not_before)
        else:
            self._append(key, self._level(key))

    def next_wakeup(self) -> float | None:
        """When the earliest delayed key is ready (monotonic seconds); None without one. May be past until the next `get`."""
        self._drop_stale_timers()
        return self._timers[0][0] if self._timers else None

    def shutdown(self) -> None:
        """Drop the waiting keys, refuse new ones, and return no more keys from `get`.

        Unlike client-go's, the queue does not first drain the ready keys: the next process computes everything again
        from the cluster, and the time until a SIGKILL is needed for the writes in flight.
        """
        self._shut_down = True
        self._ready.clear()
        self._waiting.clear()
        self._dirty.clear()
        self._due.clear()
        self._timers.clear()

    def _append(self, key: K, level: int) -> None:
        self._put(key, level)
        self.on_ready(key)

    def _put(self, key: K, level: int) -> None:
        self._waiting[key] = level
        self._ready.append((self._flow(key),), key, level)

    def _promote(self, now: float) -> None:
        while (when := self.next_wakeup()) is not None and when <= now:
            _, _, key = heappop(self._timers)
            del self._due[key]
            self.add(key)

    def _drop_stale_timers(self) -> None:
        while self._timers and self._due.get(self._timers[0][2]) != self._timers[0][0]:
            heappop(self._timers)
