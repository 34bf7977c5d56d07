"""The network between one simulated operator and the API server.

`SimTransport` is the product's own HTTP transport, with its timeouts and retries, on simulated connections: each request and
each answer takes a random time, each watch is a queue in order. What has been sent arrives even if the sender has died since.
Faults on the way are for a subclass of `Links`.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextvars import Context, copy_context
from dataclasses import dataclass
from random import Random

from jobcommon.cli.embedded import from_cluster, to_cluster
from jobcommon.client.errors import StatusError, TransportError
from jobcommon.client.request import Request, Response
from jobcommon.client.responses import response_error
from jobcommon.client.transport import LATE, HttpTransport, StaticEndpoint, Timeouts
from jobcommon.testutil.builders import START
from jobcommon.testutil.sim.loop import PROCESS, SimLoop
from localcluster import ApiServer
from localcluster.client import ADMIN, ApiError

ENDPOINT = StaticEndpoint("http://simulated")
_END = None


class DiedError(TransportError):
    """The process of this connection has ended."""


@dataclass(slots=True)
class Write:
    """One write of an operator; `status` is that of the answer, 0 without one."""

    index: int
    at: float
    writer: str
    method: str
    path: str
    status: int = 0


class Delivery:
    """The fate of one request: `answer` replaces the server's, before or `after` it is stored; `lost` answers."""

    __slots__ = ("after", "answer", "dropped", "lost", "on_stored", "request", "write")

    def __init__(self, request: Request) -> None:
        self.request = request
        self.answer: Response | None = None
        self.after = False
        self.dropped = False
        self.lost = ""
        self.on_stored: Callable[[], None] | None = None
        self.write: Write | None = None


class Links:
    """All connections to one server: latencies, and the loop they are on."""

    def __init__(self, loop: SimLoop, server: ApiServer, random: Random) -> None:
        self.loop = loop
        self.server = server
        self.random = random
        self.world: Context = copy_context()
        self.world.run(PROCESS.set, "")
        self.request_seconds = (0.0005, 0.005)
        self.watch_seconds = (0.001, 0.02)
        self.writer = "world"
        self.streams: dict[SimStream, None] = {}

    def later(self, bounds: tuple[float, float], callback: Callable[..., object], *args: object) -> asyncio.TimerHandle:
        """Call back outside of all processes, after a random time."""
        return self.loop.call_at(self.loop.time() + self.random.uniform(*bounds), callback, *args, context=self.world)

    def depart(self, sender: str, request: Request) -> Delivery:
        """The fate of a request that is about to be sent."""
        del sender
        return Delivery(request)

    def arrive(self, sender: str, request: Request) -> Response | None:
        """What replaces the server's own answer to a request that has reached it."""
        del sender, request
        return None

    def line(self, stream: "SimStream", line: bytes) -> list[tuple[float, bytes]]:
        """The lines to deliver in place of a line of a watch, each with its delay."""
        del stream
        return [(0.0, line)]

    def handle(self, sender: str, request: Request) -> Response:
        """Have the server answer, with the sender recorded as the writer."""
        self.writer = sender
        try:
            return from_cluster(self.server.handle(to_cluster(request), ADMIN))
        finally:
            self.writer = "world"


class SimTransport(HttpTransport):
    """The transport of the process `owner`. After `die` nothing gets through, in either direction."""

    def __init__(self, links: Links, owner: str, timeouts: Timeouts, now: Callable[[], float]) -> None:
        super().__init__(ENDPOINT, timeouts=timeouts, now=now)
        self._links = links
        self._owner = owner
        self._response_seconds = timeouts.read
        self._dead = False
        self._watches: dict[SimStream, None] = {}

    def die(self) -> None:
        """The process has ended."""
        self._dead = True
        for stream in tuple(self._watches):
            stream.close()

    async def stream(self, request: Request) -> AsyncIterator[bytes]:
        """See `Transport.stream`."""
        delivery = self._depart(request)
        answered: asyncio.Future[SimStream] = self._links.loop.create_future()
        self._links.later(self._links.request_seconds, self._connect, delivery, answered)
        try:
            async with asyncio.timeout(self._response_seconds):
                stream = await answered
        except TimeoutError:
            raise TransportError(f"{request.method} {request.path}: the stream did not open in time") from None
        self._watches[stream] = None
        try:
            while (line := await stream.line()) is not _END:
                yield line
        finally:
            self._watches.pop(stream, None)
            stream.close()

    def _connect(self, delivery: Delivery, answered: "asyncio.Future[SimStream]") -> None:
        if answered.done() or delivery.dropped or self._dead:
            return
        error = self._refusal(delivery)
        if error is None and not delivery.lost:
            try:
                opened = SimStream(self._links, self._owner, delivery.request)
            except ApiError as refused:
                error = response_error(from_cluster(refused.response()))
            else:
                # What it has to show may have been the end of the process.
                if answered.done():
                    opened.close()
                else:
                    answered.set_result(opened)
                return
        answered.set_exception(error or TransportError("connection reset"))

    def _refusal(self, delivery: Delivery) -> StatusError | None:
        answer = delivery.answer or self._links.arrive(self._owner, delivery.request)
        return None if answer is None else response_error(answer)

    def _depart(self, request: Request) -> Delivery:
        if self._dead:
            raise DiedError("the process has ended")
        delivery = self._links.depart(self._owner, request)
        if self._dead:
            raise DiedError("the process has ended")
        return delivery

    async def send_once(self, request: Request, send_by: float) -> Response:
        """See `HttpTransport.send_once`."""
        if self._links.loop.time() >= send_by:
            raise TimeoutError(LATE)
        delivery = self._depart(request)
        answered: asyncio.Future[Response] = self._links.loop.create_future()
        self._links.later(self._links.request_seconds, self._arrive, delivery, answered)
        return await answered

    def _arrive(self, delivery: Delivery, answered: "asyncio.Future[Response]") -> None:
        if delivery.dropped:
            if delivery.lost != "silence":
                self._links.later(self._links.request_seconds, self._break, answered)
            return
        links = self._links
        response = delivery.answer if not delivery.after else None
        response = response or links.arrive(self._owner, delivery.request)
        if response is None:
            response = links.handle(self._owner, delivery.request)
            if delivery.on_stored is not None:
                delivery.on_stored()
            if delivery.after and delivery.answer is not None:
                response = delivery.answer
        if delivery.write is not None:
            delivery.write.status = response.status
        if delivery.lost:
            if delivery.lost != "silence":
                links.later(links.request_seconds, self._break, answered)
            return
        links.later(links.request_seconds, self._respond, answered, response)

    def _respond(self, answered: "asyncio.Future[Response]", response: Response) -> None:
        if not answered.done() and not self._dead:
            answered.set_result(response)

    def _break(self, answered: "asyncio.Future[Response]") -> None:
        if not answered.done() and not self._dead:
            answered.set_exception(TransportError("connection reset by peer"))


class SimStream:
    """One open watch. Lines are taken from the server when they are written and delivered in order, each with its delay."""

    def __init__(self, links: Links, owner: str, request: Request) -> None:
        self.owner = owner
        self.request = request
        self.silent = False
        """Whether it delivers nothing any more."""
        self.extra = -1.0
        """How many seconds it lags, drawn when the lag begins."""
        self._links = links
        self._coming: deque[tuple[float, bytes | None]] = deque()
        self._here: deque[bytes | None] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._delivery: asyncio.TimerHandle | None = None
        self._clock: asyncio.TimerHandle | None = None
        self._last = 0.0
        self._closed = False
        self._ended = False
        self._watch = links.server.watch(to_cluster(request), self._pull, ADMIN)
        links.streams[self] = None
        self._pull()
        self._tick()

    def break_off(self) -> None:
        """The server ends the stream after what is on its way."""
        self._end(self._links.loop.time())

    def close(self) -> None:
        """The client has closed it."""
        self._closed = True
        self._watch.close()
        self._links.streams.pop(self, None)
        for handle in (self._delivery, self._clock):
            if handle is not None:
                handle.cancel()

    async def line(self) -> bytes | None:
        """The next line; None when the server has ended the stream."""
        while not self._here:
            self._waiter = self._links.loop.create_future()
            await self._waiter
        return self._here.popleft()

    def _pull(self) -> None:
        if self._closed or self._ended:
            return
        lines = self._watch.drain().splitlines()
        if lines and not self.silent:
            for line in lines:
                # What comes after a stream's end, which a fault of this line may be, is lost with it.
                self._enqueue(self._links.line(self, line) if not self._ended else [])
        if self._watch.closed:
            self._end(self._links.loop.time())

    def _enqueue(self, lines: list[tuple[float, bytes]]) -> None:
        links = self._links
        now = links.loop.time()
        for delay, line in lines:
            self._last = max(self._last, now + delay + links.random.uniform(*links.watch_seconds))
            self._coming.append((self._last, line))
        self._arm()

    def _end(self, now: float) -> None:
        if not self._ended:
            self._ended = True
            if not self.silent:
                self._last = max(self._last, now + self._links.random.uniform(*self._links.watch_seconds))
                self._coming.append((self._last, _END))
                self._arm()

    def _arm(self) -> None:
        if self._delivery is None and self._coming and not self._closed:
            self._delivery = self._links.loop.call_at(self._coming[0][0], self._deliver, context=self._links.world)

    def _deliver(self) -> None:
        self._delivery = None
        now = self._links.loop.time()
        while self._coming and self._coming[0][0] <= now:
            self._here.append(self._coming.popleft()[1])
        if self._here and self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        self._arm()

    def _tick(self) -> None:
        if self._closed or self._ended:
            return
        self._watch.tick()
        self._pull()
        if not self._watch.closed:
            due = self._watch.next_at - START
            loop = self._links.loop
            # Unix seconds round; a moment later is sure to be due.
            self._clock = loop.call_at(max(due, loop.time()) + 1e-6, self._tick, context=self._links.world)
