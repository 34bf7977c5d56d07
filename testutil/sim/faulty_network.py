"""The effects of faults on requests, watches and processes, and the record of those injected."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from jobcommon.cli.embedded import from_cluster
from jobcommon.client.request import Request, Response
from jobcommon.testutil.recording import access
from jobcommon.testutil.sim.faults import Fault
from jobcommon.testutil.sim.network import Delivery, Links, SimStream, Write
from localcluster.client import ApiError

BOOKMARK = b'{"type":"BOOKMARK"'
_DISCARDED_AS_EVENT = ("events", "leases")
BROKEN = (
    b'{"type":"ERROR","object":{"kind":"Status","status":"Failure","code":500,"reason":"InternalError","message":"simulated"}}'
)


class FaultTarget(Protocol):
    """What faults act on besides requests."""

    def crash(self, process: str) -> None:
        """Kill a process; another one starts later."""
        ...

    def inject(self, fault: Fault, process: str) -> None:
        """A fault that lasts begins."""
        ...


class FaultyNetwork:
    """Carries out `faults`. The writes of operators are counted, without events and leases."""

    def __init__(self, host: FaultTarget, faults: Sequence[Fault]) -> None:
        self.host = host
        self.fired: Counter[str] = Counter()
        self.trace: list[Write] = []
        self.active: dict[str, Fault] = {}
        """The lasting faults that are active, by kind."""
        self.until: dict[str, float] = {}
        self.fresh: set[str] = set()
        """Those of them without an effect so far."""
        self.links: Links
        self._by_write: dict[int, list[Fault]] = {}
        for fault in faults:
            if fault.write is not None:
                self._by_write.setdefault(fault.write, []).append(fault)

    # -- requests -------------------------------------------------------------------------------------------------------

    def depart(self, sender: str, request: Request) -> Delivery:
        """See `NetworkFaults.depart`."""
        delivery = Delivery(self._rewritten(request))
        wanted = access(request)
        resource = wanted.resource if wanted is not None else ""
        if resource not in _DISCARDED_AS_EVENT and request.method != "GET":
            self._count_write(sender, delivery)
        if wanted is not None and (wanted.resource, wanted.verb) == ("pods", "create") and self._on("slow-writes"):
            delivery.admission = float(self.active["slow-writes"].value or 6.0)
        if self._on("partition"):
            delivery.lost = "silence"
            delivery.dropped = self.active["partition"].value != "replies"
        if _query(request, "watch") and self._on("missed-deletes"):
            delivery.dropped, delivery.lost = True, "reset"
        return delivery

    def _count_write(self, sender: str, delivery: Delivery) -> None:
        request, index = delivery.request, len(self.trace)
        write = Write(index, self.links.loop.time(), sender, request.method, request.path)
        self.trace.append(write)
        delivery.write = write
        for fault in self._by_write.pop(index, ()):
            self._apply(fault, sender, delivery)

    def _apply(self, fault: Fault, sender: str, delivery: Delivery) -> None:
        if fault.kind in _ANSWERS:
            delivery.answer = _ANSWERS[fault.kind](fault)
            delivery.after = fault.kind == "timeout-after"
        elif fault.kind == "reply-lost":
            delivery.lost = fault.value or "reset"
        elif fault.kind == "crash-before":
            self.host.crash(sender)
        elif fault.kind == "crash-after":
            delivery.lost = "silence"
            delivery.on_stored = lambda: self.host.crash(sender)
        else:
            self.host.inject(fault, sender)
            return
        self.fired[fault.kind] += 1

    def arrive(self, sender: str, request: Request) -> Response | None:
        """See `NetworkFaults.arrive`."""
        del sender
        refusal = self._refusal(request)
        return None if refusal is None else from_cluster(refusal.response())

    def _refusal(self, request: Request) -> ApiError | None:
        if self._on("forbidden"):
            return ApiError(403, "Forbidden", "simulated: the role binding is gone")
        wanted = access(request)
        if wanted is not None and (wanted.resource, wanted.verb) == ("pods", "create") and self._on("admission-refused"):
            return _denied(self.active["admission-refused"].value or "400")
        return None

    def _on(self, kind: str) -> bool:
        """Whether a fault of that kind is active; counts it as injected, once."""
        if kind in self.active and kind in self.fresh:
            self.fresh.discard(kind)
            self.fired[kind] += 1
        return kind in self.active

    def _rewritten(self, request: Request) -> Request:
        """The request as a server with a shorter history would handle it."""
        query = dict(request.query)
        if "watch" not in query or not query.get("resourceVersion", "").isdigit() or not self._on("gone-storm"):
            return request
        self.links.server.storage.compact(self.links.server.storage.rv)
        return replace(request, query=tuple({**query, "resourceVersion": "1"}.items()))

    # -- watches --------------------------------------------------------------------------------------------------------

    def line(self, stream: SimStream, line: bytes) -> list[tuple[float, bytes]]:
        """See `NetworkFaults.line`."""
        delay = 0.0
        if self._on("partition"):
            delay = max(self.until["partition"] - self.links.loop.time(), 0.0)
        if (lag := self.active.get("watch-lag")) is not None:
            if stream.extra < 0:
                stream.extra = self.links.random.uniform(0.0, float(lag.value or 10.0))
            delay = max(delay, stream.extra)
            if not line.startswith(BOOKMARK):
                self._on("watch-lag")
        return [(delay, line)]


def _query(request: Request, name: str) -> str:
    return dict(request.query).get(name, "")


def _denied(code: str) -> ApiError:
    """What an API server makes of a webhook that denies without a code, a quota, a policy, and a webhook that is too slow."""
    texts = {
        "400": ("BadRequest", 'admission webhook "pods.example.com" denied the request: simulated'),
        "403": ("Forbidden", 'pods "x" is forbidden: exceeded quota: simulated'),
        "422": ("Invalid", "pods \"x\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: simulated"),
        "500": ("InternalError", 'Internal error occurred: failed calling webhook "pods.example.com": deadline exceeded'),
    }
    return ApiError(int(code), *texts[code])


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
