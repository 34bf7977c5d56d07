"""A bound on requests under way that is shared fairly: neither one big job nor one big tenant can starve the others."""

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from enum import IntEnum

from jobcommon.client.request import Request, Response, Transport
from jobcommon.controller.lanes import Lanes
from jobcommon.runtime.pace import Pace

#: While pods of a job are made that wants little, jobs that want much hold no more than one place in so many: what they have
#: under way stands before its requests in the API server.
COURTEOUS_SHARE = 8
#: But so many they hold in any case, which keeps a server that is near and small all but busy.
COURTEOUS = 2
#: It goes on for so long after the last of them: a small job is several requests one after the other, its user's included.
COURTESY_SECONDS = 0.5


class Lane(IntEnum):
    """How urgent a request is."""

    PROMPT = 0
    """Somebody waits for it, or for its job, which wants little."""
    BULK = 1
    """Somebody waits for its job, which wants much: one request more or less makes no difference."""
    LATER = 2
    """It can wait."""


class FairGate:
    """Lets at most `limit` in at once. Whoever waits is let in as lanes and the shares of its path take turns (`Lanes`).

    With `now`, a clock in seconds, fewer are let in while that makes the server answer sooner and not less (`Pace`), and little
    bulk after `make_way`.
    """

    def __init__(self, limit: int, now: Callable[[], float] | None = None) -> None:
        if limit < 1:
            raise ValueError(f"concurrency must be at least 1, not {limit}")
        self.inside = 0
        self._bulk = 0
        self._most = limit
        self._now = now or (lambda: 0.0)
        self._pace = Pace(limit) if now is not None else None
        self._courteous_until = 0.0
        self._line: Lanes[tuple[asyncio.Future[None], Lane]] = Lanes(len(Lane))

    @property
    def limit(self) -> int:
        """How many may be in at once now."""
        return self._most if self._pace is None else self._pace.limit

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._line)

    def make_way(self) -> None:
        """For the next `COURTESY_SECONDS` bulk is to hold few places. Without a clock it never does."""
        if self._pace is not None:
            self._courteous_until = self._now() + COURTESY_SECONDS

    def turn(self, *path: Hashable, lane: Lane = Lane.PROMPT, kind: Hashable = None) -> "Turn":
        """Wait for a turn and hold a place meanwhile. `path`: who asks, such as a namespace and a job; `kind`: see `Pace`."""
        return Turn(self, path, lane, kind)

    async def _come_in(self, path: Sequence[Hashable], lane: Lane) -> float:
        if not self._line and self._has_room(lane):
            self._enter(lane)
        else:
            await self._wait(path, lane)
        return self._now()

    def _go(self, lane: Lane, came: float, kind: Hashable) -> None:
        if self._pace is not None:
            self._pace.answered(self._now() - came, self.inside >= self.limit, kind)
        self._leave(lane)

    def _has_room(self, lane: Lane) -> bool:
        limit = self.limit
        if self.inside >= limit:
            return False
        if lane is not Lane.BULK or self._bulk < max(COURTEOUS, limit // COURTEOUS_SHARE):
            return True
        return self._now() >= self._courteous_until

    def _enter(self, lane: Lane) -> None:
        self.inside += 1
        self._bulk += lane is Lane.BULK

    def _leave(self, lane: Lane) -> None:
        self.inside -= 1
        self._bulk -= lane is Lane.BULK
        self._pass_on()

    async def _wait(self, path: Sequence[Hashable], lane: Lane) -> None:
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = (place, lane)
        self._line.append(path, waiting, lane)
        # Those who stand there may all be bulk, which lets others pass.
        self._pass_on()
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self._leave(lane)
            else:
                # Its turn may have come, and passed it by, before it learnt that it was cancelled.
                self._line.remove(path, waiting)
            raise

    def _pass_on(self) -> None:
        """Let in whom there is room for: after one has left it may be more than one, or nobody.

        Bulk that lets others pass is not forgotten: that which holds places passes them on.
        """
        while self.inside < self.limit:
            shut = None if self._has_room(Lane.BULK) else Lane.BULK
            if not self._line.count(but=shut):
                return
            place, lane = self._line.pop(but=shut)
            if not place.done():
                place.set_result(None)
                self._enter(lane)


class Turn:
    """A place at a gate, had with ``async with``. A class, because each request has one and a generator costs more."""

    __slots__ = ("_came", "_gate", "_kind", "_lane", "_path")

    def __init__(self, gate: FairGate, path: Sequence[Hashable], lane: Lane, kind: Hashable) -> None:
        self._gate = gate
        self._kind = kind
        self._path = path
        self._lane = lane
        self._came = 0.0

    async def __aenter__(self) -> None:
        self._came = await self._gate._come_in(self._path, self._lane)

    async def __aexit__(self, *_: object) -> None:
        self._gate._go(self._lane, self._came, self._kind)


class GatedTransport:
    """A transport whose requests take turns at a gate, and let others pass. Streams do not."""

    def __init__(self, transport: Transport, gate: FairGate, *path: Hashable) -> None:
        self._transport = transport
        self._gate = gate
        self._path = path

    async def send(self, request: Request) -> Response:
        """See `Transport.send`."""
        async with self._gate.turn(*self._path, lane=Lane.LATER):
            return await self._transport.send(request)

    def stream(self, request: Request) -> AsyncIterator[bytes]:
        """See `Transport.stream`."""
        return self._transport.stream(request)

    async def close(self) -> None:
        """See `Transport.close`."""
        await self._transport.close()
