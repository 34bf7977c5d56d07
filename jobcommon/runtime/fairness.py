"""A bound on requests under way that is shared fairly: keys take turns, so one big job cannot starve small ones."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager


class FairGate:
    """Lets at most `limit` in at once. Whoever waits is let in round-robin by key, within a key in order of arrival."""

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise ValueError(f"concurrency must be at least 1, not {limit}")
        self.limit = limit
        self.inside = 0
        self._waiting: dict[Hashable, deque[asyncio.Future[None]]] = {}

    @property
    def waiting(self) -> int:
        """How many wait."""
        return sum(len(queue) for queue in self._waiting.values())

    @asynccontextmanager
    async def turn(self, key: Hashable) -> AsyncIterator[None]:
        """Wait for a turn and hold a place meanwhile."""
        if self.inside < self.limit and not self._waiting:
            self.inside += 1
        else:
            await self._wait(key)
        try:
            yield
        finally:
            self._pass_on()

    async def _wait(self, key: Hashable) -> None:
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, deque()).append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self._pass_on()
            else:
                self._leave_line(key, place)
            raise

    def _leave_line(self, key: Hashable, place: asyncio.Future[None]) -> None:
        queue = self._waiting.get(key, deque())
        # Its turn may have come, and passed it by, before it learnt that it was cancelled.
        if place in queue:
            queue.remove(place)
        if not queue:
            self._waiting.pop(key, None)

    def _pass_on(self) -> None:
        """Give the place to the next in turn, whose key then goes to the end of the line."""
        while self._waiting:
            key, queue = next(iter(self._waiting.items()))
            place = queue.popleft()
            del self._waiting[key]
            if queue:
                self._waiting[key] = queue
            if not place.done():
                place.set_result(None)
                return
        self.inside -= 1
