"""The network of a simulation with the faults of a run: their beginning, their effects on requests and watches, their end."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Protocol

import msgspec

from jobcommon.cli.embedded import from_cluster
from jobcommon.client.request import Request, Response
from jobcommon.runtime.settings import Settings
from jobcommon.testutil.recording import access
from jobcommon.testutil.sim.faults import Fault
from jobcommon.testutil.sim.loop import SimLoop
from jobcommon.testutil.sim.network import Delivery, Links, SimStream, Write
from jobcommon.testutil.sim.processes import Process
from localcluster import ApiServer
from localcluster.client import ADMIN, MERGE_PATCH, ApiError
from localcluster.client import Request as ServerRequest

_DISCARDED_AS_EVENT = ("events", "leases")
#: Until a silent watch is closed (`jobcommon.cache.informer.WATCH_SILENCE`), a lease is taken over, the latest line is there.
_RECOVERY_SECONDS = {"silent-watch": 155.0, "lease-lost": 25.0, "upgrade": 25.0, "watch-lag": 60.0}


class Operators(Protocol):
    """The operator processes of a simulation."""

    settings: Settings

    @property
    def alive(self) -> list[Process]: ...
    def start(self, settings: Settings | None = None) -> None: ...


class FaultyLinks(Links):
    """Carries out `faults`. The writes of operators are counted, without events and leases. `pending`: some are yet to come."""

    def __init__(self, operators: Operators, faults: Sequence[Fault], loop: SimLoop, server: ApiServer, seed: int) -> None:
        super().__init__(loop, server, Random(f"{seed}/network"))  # noqa: S311 - reproducibility is the point
        self._operators = operators
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

    # -- requests -------------------------------------------------------------------------------------------------------

    def depart(self, sender: str, request: Request) -> Delivery:
        """See `Links.depart`."""
        delivery = Delivery(request)
        wanted = access(request)
        if request.method != "GET" and wanted.resource not in _DISCARDED_AS_EVENT:
            self._count_write(sender, delivery)
        if "partition" in self._active:
            delivery.lost, delivery.dropped = "silence", self._active["partition"][0].value != "replies"
        if dict(request.query).get("watch") and "missed-deletes" in self._active:
            delivery.dropped, delivery.lost = True, "reset"
        return delivery

    def _count_write(self, sender: str, delivery: Delivery) -> None:
        request, index = delivery.request, len(self.trace)
        delivery.write = Write(sender, request.path)
        self.trace.append(delivery.write)
        for fault in self._by_write.pop(index, ()):
            self._apply(fault, sender, delivery)

    def _apply(self, fault: Fault, sender: str, delivery: Delivery) -> None:
        match fault.kind:
            case "reply-lost":
                delivery.lost = fault.value or "reset"
            case "crash-before":
                self._crash(sender)
            case "crash-after":
                delivery.lost, delivery.on_stored = "silence", lambda: self._crash(sender)
            case kind if kind in _ANSWERS:
                delivery.answer, delivery.after = _ANSWERS[kind](fault), kind == "timeout-after"
            case _:
                self._begin(fault, sender)
                return
        self.fired[fault.kind] += 1

    def arrive(self, sender: str, request: Request) -> Response | None:
        """See `Links.arrive`."""
        del sender, request
        return _answer(403, "Forbidden", "the role binding is gone") if "forbidden" in self._active else None

    def delay(self, stream: SimStream) -> float:
        """See `Links.delay`."""
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

    def _recovers_by(self, at: float) -> None:
        self.recovered_at = max(self.recovered_at, at)

    def _crash(self, process: str) -> None:
        """Kill it; another one replaces it shortly after."""
        for one in self._operators.alive:
            if one.name == process:
                one.crash()
                self._recovers_by(self.loop.time() + 3.0)
                self._at(self.loop.time() + self.random.uniform(0.5, 3.0), self._operators.start)

    def _begin(self, fault: Fault, process: str) -> None:
        now = self.loop.time()
        victim = next((one for one in self._operators.alive if process in ("", one.name)), None)
        streams = [stream for stream in self.streams if victim is None or stream.owner == victim.name]
        self.fired[fault.kind] += 1
        self._recovers_by(now + fault.seconds + _RECOVERY_SECONDS.get(fault.kind, 0.0))
        match fault.kind:
            case "watch-closed":
                _close(streams)
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
                    _close([*self.streams])
        if fault.seconds > 0:
            self._at(now + fault.seconds, self._end, fault, victim)

    def _end(self, fault: Fault, victim: Process | None) -> None:
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


def _close(streams: Sequence[SimStream]) -> None:
    for stream in streams:
        stream.break_off()


def _throttled(fault: Fault) -> Response:
    response = _answer(429, "TooManyRequests", "too many requests, please try again later")
    return Response(429, response.body, {**response.headers, "retry-after": fault.value} if fault.value else response.headers)


def _server_error(fault: Fault) -> Response:
    code = int(fault.value or "500")
    return _answer(code, "InternalError" if code == 500 else "", "the server has a problem")


def _answer(code: int, reason: str, message: str) -> Response:
    return from_cluster(ApiError(code, reason, f"simulated: {message}").response())


_ANSWERS: Mapping[str, Callable[[Fault], Response]] = {
    "conflict": lambda _: _answer(409, "Conflict", "the object has been modified"),
    "throttled": _throttled,
    "server-error": _server_error,
    "timeout-after": lambda _: _answer(504, "Timeout", "request did not complete within the time"),
}
