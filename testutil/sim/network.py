"""The network between one simulated operator and the API server.

`SimTransport` is the product's own HTTP transport, with its timeouts and retries, on simulated connections: each request and
each answer takes a random time, each watch is a queue in order. What has been sent arrives even if the sender has died since.
Faults on the way are for a subclass of `Links`.
"""

import asyncio
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


@dataclass(slots=True)
class Write:
    """One write of an operator; `status` is that of the answer, 0 without one."""

    writer: str
    path: str
    status: int = 0


@dataclass(slots=True)
class Delivery:
    """The fate of one request: `answer` replaces the server's, before or `after` it is stored; `lost` answers."""

    request: Request
    answer: Response | None = None
    after: bool = False
    dropped: bool = False
    lost: str = ""
    on_stored: Callable[[], None] | None = None
    write: Write | None = None


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

    def delay(self, stream: "SimStream") -> float:
        """The seconds by which the next line of a watch is late."""
        del stream
        return 0.0

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
            raise TransportError("the process has ended")
        delivery = self._links.depart(self._owner, request)
        if self._dead:
            raise TransportError("the process has ended")
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
        links = self._links
        if not delivery.dropped:
            response = self._answer(delivery)
            if delivery.write is not None:
                delivery.write.status = response.status
            if not delivery.lost:
                links.later(links.request_seconds, self._respond, answered, response)
        if delivery.lost not in ("", "silence"):
            links.later(links.request_seconds, self._break, answered)

    def _answer(self, delivery: Delivery) -> Response:
        early = delivery.answer if not delivery.after else None
        if (response := early or self._links.arrive(self._owner, delivery.request)) is not None:
            return response
        response = self._links.handle(self._owner, delivery.request)
        if delivery.on_stored is not None:
            delivery.on_stored()
        return delivery.answer or response

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
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._clock: asyncio.TimerHandle | None = None
        self._last = 0.0
        self._ended = False
        self._watch = links.server.watch(to_cluster(request), self._pull, ADMIN)
        links.streams[self] = None
        self._pull()
        self._tick()

    def break_off(self) -> None:
        """The server ends the stream after what is on its way."""
        if not self._ended:
            self._ended = True
            self._send(_END, 0.0)

    def close(self) -> None:
        """The client has closed it."""
        self._ended = True
        self._watch.close()
        self._links.streams.pop(self, None)
        if self._clock is not None:
            self._clock.cancel()

    async def line(self) -> bytes | None:
        """The next line; None when the server has ended the stream."""
        return await self._lines.get()

    def _pull(self) -> None:
        if self._ended:
            return
        for line in self._watch.drain().splitlines():
            self._send(line, self._links.delay(self))
        if self._watch.closed:
            self.break_off()

    def _send(self, line: bytes | None, delay: float) -> None:
        """Timers for the same moment run in their order: no line overtakes another."""
        links = self._links
        if not self.silent:
            self._last = max(self._last, links.loop.time() + delay + links.random.uniform(*links.watch_seconds))
            links.loop.call_at(self._last, self._lines.put_nowait, line, context=links.world)

    def _tick(self) -> None:
        if self._ended:
            return
        self._watch.tick()
        self._pull()
        if not self._watch.closed:
            due = self._watch.next_at - START
            loop = self._links.loop
            # Unix seconds round; a moment later is sure to be due.
            self._clock = loop.call_at(max(due, loop.time()) + 1e-6, self._tick, context=self._links.world)
