"""Flow control of our own requests, in the words of the API server's Priority and Fairness.

A request needs a seat while it is in flight. Seats are handed out by priority level, and inside a level the flows (a
namespace, then a job) take turns. BULK and BACKGROUND hold at most a share of the seats each: their requests in flight are
queued in the API server ahead of all later ones, so without that bound a small job beside a big one waits 5 to 15
times as long. So does a namespace: a webhook that answers slowly for one would hold all seats. A request that waits for a
Retry-After keeps its seat, so an overloaded API server receives fewer requests.
"""

import asyncio
from collections import Counter
from collections.abc import Hashable, Sequence
from enum import IntEnum

from jobcommon.client.request import OuterTransport, Request, Response, Transport
from jobcommon.controller.fair_queue import FairQueue

SHARE = 2
"""BULK, BACKGROUND and each namespace may hold 1/SHARE of the seats, at least one."""


class PriorityLevel(IntEnum):
    """How urgent a request is. A lower number is admitted first; `FairQueue` limits how often in a row."""

    INTERACTIVE = 0
    """A user waits for it: pods of a small job, the end of any job, a live read."""
    BULK = 1
    """A request of a plan so large that a delay of one request does not matter."""
    BACKGROUND = 2
    """Removal of finalizers, events, statuses with new counts only: nothing waits for it."""


class FlowController:
    """Admits at most `seats` requests at a time. Raises ValueError if `seats` is less than 1."""

    def __init__(self, seats: int) -> None:
        if seats < 1:
            raise ValueError(f"concurrency must be at least 1, not {seats}")
        share = max(seats // SHARE, 1)
        self._levels = tuple(PriorityLevel)
        self._seats = (seats, share, share)
        self._in_use = [0] * len(self._levels)
        # Of each namespace; those that hold their share.
        self._share, self._held, self._full = share, Counter[Hashable](), set[Hashable]()
        self.in_use = 0
        """The number of requests in flight."""
        self._queue: FairQueue[tuple[asyncio.Future[None], Hashable, PriorityLevel]] = FairQueue(len(PriorityLevel))

    @property
    def waiting(self) -> int:
        """The number of requests that wait for a seat."""
        return len(self._queue)

    def seat(self, *flow: Hashable, level: PriorityLevel = PriorityLevel.INTERACTIVE) -> "Seat":
        """A seat for one request, acquired with ``async with``. `flow`: its flow, which begins with a namespace."""
        return Seat(self, flow, level)

    async def acquire(self, flow: Sequence[Hashable], level: PriorityLevel) -> None:
        """Wait for a seat. Each must be returned with `release`."""
        if self._has_seat(level) and flow[0] not in self._full and not self._queue:
            self._take(flow[0], level)
            return
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = (granted, flow[0], level)
        self._queue.append(flow, waiting, level)
        # All waiting requests may be of a level without a free seat.
        self._dispatch()
        try:
            await granted
        except asyncio.CancelledError:
            if granted.done() and not granted.cancelled():
                self.release(flow, level)
            else:
                self._queue.remove(flow, waiting)
            raise

    def release(self, flow: Sequence[Hashable], level: PriorityLevel) -> None:
        """Return a seat."""
        self._held[flow[0]] -= 1
        self._full.discard(flow[0])
        if not self._held[flow[0]]:
            del self._held[flow[0]]
        self._in_use[level] -= 1
        self.in_use -= 1
        self._dispatch()

    def _take(self, namespace: Hashable, level: PriorityLevel) -> None:
        self._held[namespace] += 1
        if self._held[namespace] >= self._share:
            self._full.add(namespace)
        self._in_use[level] += 1
        self.in_use += 1

    def _has_seat(self, level: PriorityLevel) -> bool:
        return self.in_use < self._seats[PriorityLevel.INTERACTIVE] and self._in_use[level] < self._seats[level]

    def _dispatch(self) -> None:
        while self._queue:
            open_levels = [level for level in self._levels if self._has_seat(level) and self._queue.has(level, self._full)]
            if not open_levels:
                return
            granted, namespace, level = self._queue.pop(open_levels, self._full)
            if not granted.done():
                granted.set_result(None)
                self._take(namespace, level)


class Seat:
    """A seat at a FlowController. A class, because each request has one and a generator costs more."""

    __slots__ = ("_controller", "_flow", "_level")

    def __init__(self, controller: FlowController, flow: Sequence[Hashable], level: PriorityLevel) -> None:
        self._controller = controller
        self._flow = flow
        self._level = level

    async def __aenter__(self) -> None:
        await self._controller.acquire(self._flow, self._level)

    async def __aexit__(self, *_: object) -> None:
        self._controller.release(self._flow, self._level)


class BackgroundTransport(OuterTransport):
    """A transport whose requests are BACKGROUND. Streams need no seat."""

    def __init__(self, transport: Transport, flow_controller: FlowController, *flow: Hashable) -> None:
        super().__init__(transport)
        self._flow_controller = flow_controller
        self._flow = flow

    async def send(self, request: Request) -> Response:
        """See `Transport.send`."""
        async with self._flow_controller.seat(*self._flow, level=PriorityLevel.BACKGROUND):
            return await self._transport.send(request)
