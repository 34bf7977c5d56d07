"""A bound on requests under way that is shared fairly: neither one big job nor one big tenant can starve the others."""

import asyncio
from collections.abc import AsyncIterator, Hashable, Sequence
from contextlib import asynccontextmanager

from jobcommon.round_robin import RoundRobin


class FairGate:
    """Lets at most `limit` in at once. Whoever waits is let in as the shares of its path take turns (`RoundRobin`)."""

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise ValueError(f"concurrency must be at least 1, not {limit}")
        self.limit = limit
        self.inside = 0
        self._line: RoundRobin[asyncio.Future[None]] = RoundRobin()

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._line)

    @asynccontextmanager
    async def turn(self, *path: Hashable) -> AsyncIterator[None]:
        """Wait for a turn and hold a place meanwhile. `path`: who asks, such as a namespace and a job."""
        if self.inside < self.limit and not self._line:
            self.inside += 1
        else:
            await self._wait(path)
        try:
            yield
        finally:
            self._pass_on()

    async def _wait(self, path: Sequence[Hashable]) -> None:
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.append(path, place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self._pass_on()
            else:
                # Its turn may have come, and passed it by, before it learnt that it was cancelled.
                self._line.remove(path, place)
            raise

    def _pass_on(self) -> None:
        """Give the place to the next in turn."""
        while self._line:
            place = self._line.pop()
            if not place.done():
                place.set_result(None)
                return
        self.inside -= 1
