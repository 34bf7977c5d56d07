"""The network between simulated operators and the API server, and the faults of a run on it.

`SimTransport` is the product's own HTTP transport, with its timeouts and retries, on simulated connections: each request and
each answer takes a random time, each watch is a queue in order. What has been sent arrives even if the sender has died since.
`Links` are all connections to one server, with the faults: their beginning, their effects, their end.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass, replace
from random import Random
from typing import Protocol

import msgspec

from jobcommon.cli.embedded import from_cluster, to_cluster
from jobcommon.client.errors import TransportError
from jobcommon.client.request import Request, Response
from jobcommon.client.responses import response_error
from jobcommon.client.transport import LATE, HttpTransport, StaticEndpoint, Timeouts
from jobcommon.runtime.settings import Settings
from jobcommon.testutil.builders import START
from jobcommon.testutil.recording import access
from jobcommon.testutil.sim.faults import AT_WRITE, Fault
from jobcommon.testutil.sim.loop import PROCESS, SimLoop
from localcluster import ApiServer
from localcluster.client import ADMIN, MERGE_PATCH, ApiError
from localcluster.client import Request as ServerRequest

_DISCARDED_AS_EVENT = ("events", "leases")
#: Until a silent watch is closed (`jobcommon.cache.informer.WATCH_SILENCE`), a lease is taken over, the latest line is there.
_RECOVERY_SECONDS = {"silent-watch": 155.0, "lease-lost": 25.0, "upgrade": 25.0, "watch-lag": 60.0}


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


class Operator(Protocol):
    """An operator process of a simulation."""

    name: str
    settings: Settings

    def crash(self) -> None: ...
    def stop(self) -> None: ...


class Operators(Protocol):
    """All of them."""

    settings: Settings

    @property
    def alive(self) -> Sequence[Operator]: ...
    def start(self, settings: Settings | None = None) -> None: ...


class Links:
    """All connections to one server: the loop they are on, latencies, and `faults`.

    The writes of operators are counted, without events and leases. `pending`: some faults are yet to come.
    """

    def __init__(self, operators: Operators, faults: Sequence[Fault], loop: SimLoop, server: ApiServer, seed: int) -> None:
        self._operators = operators
        self.loop = loop
        self.server = server
        self.random = Random(f"{seed}/network")  # noqa: S311 - reproducibility is the point
        self.world: Context = copy_context()
        self.world.run(PROCESS.set, "")
        self.request_seconds = (0.0005, 0.005)
        self.watch_seconds = (0.001, 0.02)
        self.writer = "world"
        self.streams: dict[SimStream, None] = {}
        self.trace: list[Write] = []
        self.fired: Counter[str] = Counter()
        self.recovered_at = 0.0
        """When the last fault ends, recovery of its direct effects included."""
        self._open = 0
        self._active: dict[str, tuple[Fault, float]] = {}
        """The lasting faults that are active, by kind, and until when."""
        self._by_write: defaultdict[int, list[Fault]] = defaultdict(list)
        for fault in faults:
            if fault.at is not None:
                self._at(fault.at, self._begin, fault, "")
            elif fault.write is not None:
                self._by_write[fault.write].append(fault)

    @property
    def pending(self) -> bool:
        """Whether a fault has yet to begin or to end."""
        return self._open > 0

    def later(self, bounds: tuple[float, float], callback: Callable[..., object], *args: object) -> asyncio.TimerHandle:
        """Call back outside of all processes, after a random time."""
        return self.loop.call_at(self.loop.time() + self.random.uniform(*bounds), callback, *args, context=self.world)

    # -- requests -------------------------------------------------------------------------------------------------------

    def depart(self, sender: str, request: Request) -> Delivery:
        """The fate of a request that is about to be sent."""
        delivery = Delivery(request)
        if request.method != "GET" and access(request).resource not in _DISCARDED_AS_EVENT:
            delivery.write = Write(sender, request.path)
            self.trace.append(delivery.write)
            for fault in self._by_write.pop(len(self.trace) - 1, ()):
                self._apply(fault, sender, delivery)
        if "partition" in self._active:
            delivery.lost, delivery.dropped = "silence", self._active["partition"][0].value != "replies"
        if dict(request.query).get("watch") and "missed-deletes" in self._active:
            delivery.dropped, delivery.lost = True, "reset"
        return delivery

    def _apply(self, fault: Fault, sender: str, delivery: Delivery) -> None:
        match fault.kind:
            case "reply-lost":
                delivery.lost = fault.value or "reset"
            case "crash-before":
                self._crash(sender)
            case "crash-after":
                delivery.lost, delivery.on_stored = "silence", lambda: self._crash(sender)
            case kind if kind not in AT_WRITE:
                self._begin(fault, sender)
                return
            case kind:
                delivery.answer, delivery.after = _answer(fault), kind == "timeout-after"
        self.fired[fault.kind] += 1

    def refusal(self, delivery: Delivery) -> Response | None:
        """What replaces the server's own answer to a request that has reached it, which is not carried out then."""
        forbidden = _answer(self._active["forbidden"][0]) if "forbidden" in self._active else None
        return (None if delivery.after else delivery.answer) or forbidden

    def handle(self, sender: str, delivery: Delivery) -> Response:
        """Have the server answer, with the sender recorded as the writer."""
        if (refused := self.refusal(delivery)) is not None:
            return refused
        self.writer = sender
        try:
            response = from_cluster(self.server.handle(to_cluster(delivery.request), ADMIN))
        finally:
            self.writer = "world"
        if delivery.on_stored is not None:
            delivery.on_stored()
        return delivery.answer or response

    def delay(self, stream: "SimStream") -> float:
        """The seconds by which the next line of a watch is late."""
        delay = 0.0
        if "partition" in self._active:
            delay = max(self._active["partition"][1] - self.loop.time(), 0.0)
        if "watch-lag" in self._active:
            if stream.extra < 0:
                stream.extra = self.random.uniform(0.0, float(self._active["watch-lag"][0].value or 10.0))
            delay = max(delay, stream.extra)
        return delay

    # -- what lasts, and what affects processes and watches -------------------------------------------------------------

    def _at(self, when: float, do: Callable[..., object], *args: object) -> None:
        def due() -> None:
            self._open -= 1
            do(*args)

        self._open += 1
        self.loop.call_at(when, due, context=self.world)

    def _crash(self, process: str) -> None:
        """Kill it; another one replaces it shortly after."""
        for one in self._operators.alive:
            if one.name == process:
                one.crash()
                self.recovered_at = max(self.recovered_at, self.loop.time() + 3.0)
                self._at(self.loop.time() + self.random.uniform(0.5, 3.0), self._operators.start)

    def _begin(self, fault: Fault, process: str) -> None:
        now = self.loop.time()
        victim = next((one for one in self._operators.alive if process in ("", one.name)), None)
        streams = [stream for stream in self.streams if victim is None or stream.owner == victim.name]
        self.fired[fault.kind] += 1
        self.recovered_at = max(self.recovered_at, now + fault.seconds + _RECOVERY_SECONDS.get(fault.kind, 0.0))
        match fault.kind:
            case "watch-closed":
                for stream in streams:
                    stream.break_off()
            case "silent-watch":
                for stream in streams:
                    stream.silent = True
            case "pause" if victim is not None:
                self.loop.freeze(victim.name)
            case "lease-lost":
                self._take_lease()
            case "two-operators":
                self._operators.start(replace(self._operators.settings, leader_elect=False))
            case "upgrade" if victim is not None:
                victim.stop()
                self._at(now, self._operators.start)
            case kind:
                self._active[kind] = fault, now + fault.seconds
                if kind == "missed-deletes":
                    # The fault meets a watch that is opened again.
                    for stream in [*self.streams]:
                        stream.break_off()
        if fault.seconds > 0:
            self._at(now + fault.seconds, self._end, fault, victim)

    def _end(self, fault: Fault, victim: Operator | None) -> None:
        if self._active.get(fault.kind, (None,))[0] is fault:
            del self._active[fault.kind]
            if fault.kind == "missed-deletes":
                self.server.storage.compact(self.server.storage.rv)
            for stream in self.streams:
                stream.extra = -1.0
        if fault.kind == "pause" and victim is not None:
            self.loop.thaw(victim.name)
        elif fault.kind == "two-operators":
            for process in self._operators.alive:
                if process.settings is not self._operators.settings:
                    process.stop()

    def _take_lease(self) -> None:
        """Another identity takes the lease, and never renews it."""
        settings = self._operators.settings
        body = msgspec.json.encode(
            {"spec": {"holderIdentity": "intruder", "leaseDurationSeconds": int(settings.lease_duration)}}
        )
        for lease in self.server.storage.table("leases.coordination.k8s.io").sorted():
            if lease.name == settings.lease_name:
                path = f"/apis/coordination.k8s.io/v1/namespaces/{lease.namespace}/leases/{lease.name}"
                self.server.handle(ServerRequest("PATCH", path, (), body, MERGE_PATCH), ADMIN)


class SimTransport(HttpTransport):
    """The transport of the process `owner`. After `die` nothing gets through, in either direction."""

    def __init__(self, links: Links, owner: str, timeouts: Timeouts) -> None:
        super().__init__(StaticEndpoint("http://simulated"), timeouts=timeouts)
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

    async def stream(self, request: Request) -> AsyncGenerator[bytes, None]:
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
            while (line := await stream.line()) is not None:
                yield line
        finally:
            self._watches.pop(stream, None)
            stream.close()

    def _connect(self, delivery: Delivery, answered: "asyncio.Future[SimStream]") -> None:
        if answered.done() or delivery.dropped or self._dead:
            return
        if (refused := self._links.refusal(delivery)) is not None:
            answered.set_exception(response_error(refused))
        elif delivery.lost:
            answered.set_exception(TransportError("connection reset"))
        else:
            try:
                opened = SimStream(self._links, self._owner, delivery.request)
            except ApiError as error:
                answered.set_exception(response_error(from_cluster(error.response())))
                return
            # What it has to show may have been the end of the process.
            if answered.done():
                opened.close()
            else:
                answered.set_result(opened)

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
            response = links.handle(self._owner, delivery)
            if delivery.write is not None:
                delivery.write.status = response.status
            if not delivery.lost:
                links.later(links.request_seconds, self._respond, answered, response)
        if delivery.lost not in ("", "silence"):
            links.later(links.request_seconds, self._break, answered)

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
            self._send(None, 0.0)

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


_ANSWERS: Mapping[str, tuple[int, str]] = {
    "conflict": (409, "Conflict"),
    "throttled": (429, "TooManyRequests"),
    "server-error": (500, "InternalError"),
    "timeout-after": (504, "Timeout"),
    "forbidden": (403, "Forbidden"),
}


def _answer(fault: Fault) -> Response:
    code, reason = _ANSWERS[fault.kind]
    if fault.kind == "server-error" and fault.value:
        code, reason = int(fault.value), ""
    response = from_cluster(ApiError(code, reason, f"simulated: {fault.kind}").response())
    asks = {"retry-after": fault.value} if fault.kind == "throttled" and fault.value else {}
    return replace(response, headers={**response.headers, **asks})
