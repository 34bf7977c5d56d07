"""A bound on requests under way that is shared fairly: neither one big job nor one big tenant can starve the others."""

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from contextlib import asynccontextmanager

from jobcommon.client.request import Request, Response, Transport
from jobcommon.lanes import Lanes
from jobcommon.runtime.pace import Pace


class FairGate:
    """Lets at most `limit` in at once. Whoever waits is let in as the shares of its path take turns (`Lanes`).

    With `now`, a clock in seconds, fewer are let in while that makes the server answer sooner and not less (`Pace`).
    """

    def __init__(self, limit: int, now: Callable[[], float] | None = None) -> None:
        if limit < 1:
            raise ValueError(f"concurrency must be at least 1, not {limit}")
        self.inside = 0
        self._most = limit
        self._now = now
        self._pace = Pace(limit) if now is not None else None
        self._line: Lanes[asyncio.Future[None]] = Lanes(2)

    @property
    def limit(self) -> int:
        """How many may be in at once now."""
        return self._most if self._pace is None else self._pace.limit

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._line)

    @asynccontextmanager
    async def turn(self, *path: Hashable, later: bool = False) -> AsyncIterator[None]:
        """Wait for a turn and hold a place meanwhile.

        `path`: who asks, such as a namespace and a job. `later`: what can wait lets others pass.
        """
        if self.inside < self.limit and not self._line:
            self.inside += 1
        else:
            await self._wait(path, later)
        began = self._now() if self._now is not None else 0.0
        try:
            yield
        finally:
            if self._now is not None and self._pace is not None:
                self._pace.answered(self._now() - began, full=self.inside >= self.limit)
            self._pass_on()

    async def _wait(self, path: Sequence[Hashable], later: bool) -> None:
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.append(path, place, int(later))
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
        """Give the place to the next in turn; to more than one when there is room for more, to nobody when for less."""
        self.inside -= 1
        while self._line and self.inside < self.limit:
            place = self._line.pop()
            if not place.done():
                place.set_result(None)
                self.inside += 1


class GatedTransport:
    """A transport whose requests take turns at a gate, and let others pass. Streams do not."""

    def __init__(self, transport: Transport, gate: FairGate, *path: Hashable) -> None:
        self._transport = transport
        self._gate = gate
        self._path = path

    async def send(self, request: Request) -> Response:
        """See `Transport.send`."""
        async with self._gate.turn(*self._path, later=True):
            return await self._transport.send(request)

    def stream(self, request: Request) -> AsyncIterator[bytes]:
        """See `Transport.stream`."""
        return self._transport.stream(request)

    async def close(self) -> None:
        """See `Transport.close`."""
        await self._transport.close()
