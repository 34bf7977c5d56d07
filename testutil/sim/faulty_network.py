"""The effects of faults on requests, watches and processes, and the record of those injected."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import msgspec

from jobcommon.cli.embedded import from_cluster
from jobcommon.client.request import Request, Response
from jobcommon.testutil.recording import access
from jobcommon.testutil.sim.faults import Fault
from jobcommon.testutil.sim.network import Delivery, Links, SimStream, Write
from localcluster.client import ApiError
from localcluster.model import expired, too_large_version, unauthorized

#: The value of a lag that delivers nothing until its end: ``frozen``, with a plural or an operator after a colon.
BOOKMARK = b'{"type":"BOOKMARK"'
_DELETED = b'{"type":"DELETED"'
_END_MARK = b"k8s.io/initial-events-end"
#: How far back a re-opened watch replays (fault F12).
REPLAYED = 8
_DISCARDED_AS_EVENT = ("events", "leases")
_ABOUT_THE_SERVER = ("/openapi/", "/version")
#: These are about plain lists.
_WITHOUT_STREAMED_LISTS = frozenset({"old-list", "page-expired"})
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


class _Meta(msgspec.Struct):
    name: str = ""
    namespace: str = ""


class _Object(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


class _Event(msgspec.Struct):
    type: str
    object: _Object


_event = msgspec.json.Decoder(_Event).decode


class FaultyNetwork:
    """Carries out `faults`. Requests of operators are counted: `writes` without events and leases, and `reads`."""

    def __init__(self, host: FaultTarget, faults: Sequence[Fault]) -> None:
        self.host = host
        self.fired: Counter[str] = Counter()
        self.trace: list[Write] = []
        self.reads = 0
        self.active: dict[str, Fault] = {}
        """The lasting faults that are active, by kind."""
        self.until: dict[str, float] = {}
        self.fresh: set[str] = set()
        """Those of them without an effect so far."""
        self.isolated: set[str] = set()
        """The partitioned processes."""
        self.replaying: set[str] = set()
        """The paths whose next watch replays."""
        self.links: Links
        self._by_write: dict[int, list[Fault]] = {}
        self._by_read: dict[int, list[Fault]] = {}
        for fault in faults:
            if fault.write is not None:
                self._by_write.setdefault(fault.write, []).append(fault)
            elif fault.read is not None:
                self._by_read.setdefault(fault.read, []).append(fault)

    # -- requests -------------------------------------------------------------------------------------------------------

    def depart(self, sender: str, request: Request) -> Delivery:
        """See `NetworkFaults.depart`."""
        delivery = Delivery(self._rewritten(request))
        wanted = access(request)
        resource = wanted.resource if wanted is not None else ""
        if resource not in _DISCARDED_AS_EVENT and not request.path.startswith(_ABOUT_THE_SERVER):
            if request.method == "GET":
                self._count_read(sender, delivery)
            else:
                self._count_write(sender, delivery, resource)
        if wanted is not None and (wanted.resource, wanted.verb) == ("pods", "create") and self._on("slow-writes"):
            delivery.admission = float(self.active["slow-writes"].value or 6.0)
        self._cut(sender, delivery)
        return delivery

    def _count_write(self, sender: str, delivery: Delivery, resource: str) -> None:
        request, index = delivery.request, len(self.trace)
        write = Write(index, self.links.loop.time(), sender, request.method, request.path)
        self.trace.append(write)
        delivery.write = write
        for fault in self._by_write.pop(index, ()):
            if fault.kind == "crash-in-status" and not resource.endswith("/status"):
                self._by_write.setdefault(index + 1, []).append(replace(fault, write=index + 1))
            else:
                self._apply(fault, sender, delivery)

    def _count_read(self, sender: str, delivery: Delivery) -> None:
        index, self.reads = self.reads, self.reads + 1
        for fault in self._by_read.pop(index, ()):
            self._apply(fault, sender, delivery)

    def _apply(self, fault: Fault, sender: str, delivery: Delivery) -> None:
        if fault.kind in _ANSWERS:
            self.fired[fault.kind] += 1
            delivery.answer = _ANSWERS[fault.kind](fault)
            delivery.after = fault.kind == "timeout-after" or fault.value.endswith(STORED)
        elif fault.kind == "reply-lost":
            self.fired[fault.kind] += 1
            delivery.lost = fault.value or "reset"
        elif fault.kind == "crash-before":
            self.fired[fault.kind] += 1
            self.host.crash(sender)
        elif fault.kind in ("crash-after", "crash-in-status"):
            self.fired[fault.kind] += 1
            delivery.lost = "silence"
            delivery.on_stored = lambda: self.host.crash(sender)
        else:
            self.host.inject(fault, sender)

    def _cut(self, sender: str, delivery: Delivery) -> None:
        """Connections that fail, or whose answers are lost."""
        if sender in self.isolated:
            delivery.lost, delivery.dropped = "silence", True
        partition = self.active.get("partition")
        if partition is not None:
            self._hit("partition")
            delivery.lost = "silence"
            delivery.dropped = partition.value != "replies"
        if "apiserver-restart" in self.active:
            self._hit("apiserver-restart")
            delivery.dropped, delivery.lost = True, "reset"
        if "missed-deletes" in self.active and _query(delivery.request, "watch"):
            self._hit("missed-deletes")
            delivery.dropped, delivery.lost = True, "reset"

    def arrive(self, sender: str, request: Request) -> Response | None:
        """See `NetworkFaults.arrive`."""
        del sender
        refusal = self._refusal(request)
        return None if refusal is None else from_cluster(refusal.response())

    def _refusal(self, request: Request) -> ApiError | None:
        if self._on("unauthorized"):
            return unauthorized()
        if self._on("forbidden"):
            return ApiError(403, "Forbidden", "simulated: the role binding is gone")
        wanted = access(request)
        if wanted is None:
            return None
        revoked = self.active.get("rights-revoked")
        if revoked is not None and f"{wanted.verb} {wanted.resource.rpartition('/')[2]}" == revoked.value:
            self._hit("rights-revoked")
            return ApiError(403, "Forbidden", f"simulated: cannot {revoked.value}")
        if wanted.resource == "events" and request.method != "GET" and self._on("events-refused"):
            return ApiError(403, "Forbidden", "simulated: no events")
        if wanted.resource == "pods" and wanted.verb in ("create", "patch") and self._on("webhook-down"):
            message = 'Internal error occurred: failed calling webhook "simulated": connection refused'
            return ApiError(500, "InternalError", message)
        if wanted.resource == "pods" and wanted.verb == "create" and self._on("admission-refused"):
            return _denied(self.active["admission-refused"].value or "400")
        if _query(request, "sendInitialEvents") and self.active.keys() & _WITHOUT_STREAMED_LISTS:
            return ApiError(422, "Invalid", "sendInitialEvents: Forbidden: not known by this server")
        version = _query(request, "resourceVersion")
        if request.method == "GET" and version.isdigit() and "version-too-large" in self.active:
            self._hit("version-too-large")
            return too_large_version(int(version) + 1000, self.links.server.storage.rv)
        if "page-expired" in self.active and request.method == "GET" and version.isdigit() and not _query(request, "watch"):
            # Only a list that is bound to no version comes in pages.
            return expired("The resourceVersion for the provided list is too old.")
        if _query(request, "continue") and self._on("page-expired"):
            return expired("The provided continue parameter is too old to display a consistent list result.")
        return None

    def _on(self, kind: str) -> bool:
        """Whether a fault of that kind is active; counts it as injected."""
        if kind not in self.active:
            return False
        self._hit(kind)
        return True

    def _hit(self, kind: str) -> None:
        """A lasting fault has had an effect: it counts once."""
        if kind in self.fresh:
            self.fresh.discard(kind)
            self.fired[kind] += 1

    def _rewritten(self, request: Request) -> Request:
        """The request as another server would handle it: an older replica, smaller pages, a shorter history."""
        if request.method != "GET" or not request.query:
            return request
        query = dict(request.query)
        version = query.get("resourceVersion", "")
        if "watch" in query:
            if version.isdigit() and request.path in self.replaying:
                self.replaying.discard(request.path)
                self.fired["duplicate-events"] += 1
                table = self.links.server.storage.table(request.path.rsplit("/", 1)[-1])
                query["resourceVersion"] = str(replayed_from(int(version), table.history.compacted))
            elif version.isdigit() and "gone-storm" in self.active:
                self._hit("gone-storm")
                self.links.server.storage.compact(self.links.server.storage.rv)
                query["resourceVersion"] = "1"
        elif version.isdigit() and "old-list" in self.active:
            self._hit("old-list")
            query |= {"resourceVersionMatch": "Exact"}
        elif "limit" in query and "page-expired" in self.active:
            query["limit"] = "2"
        return replace(request, query=tuple(query.items()))

    # -- watches --------------------------------------------------------------------------------------------------------

    def line(self, stream: SimStream, line: bytes) -> list[tuple[float, bytes]]:
        """See `NetworkFaults.line`."""
        now = self.links.loop.time()
        bookmark = line.startswith(BOOKMARK)
        if not bookmark and not self._read_line(stream):
            return []
        delay = 0.0
        if "partition" in self.active:
            self._hit("partition")
            delay = max(self.until["partition"] - now, 0.0)
        for kind in ("watch-lag", "coalesced"):
            if (fault := self.active.get(kind)) is not None:
                if stream.extra < 0:
                    stream.extra = self.links.random.uniform(0.0, float(fault.value or 10.0))
                if not bookmark and kind == "watch-lag":
                    self._hit(kind)
                delay = max(delay, stream.extra)
        if "coalesced" in self.active and not bookmark:
            line = self._coalesce(stream, line)
        if bookmark and _END_MARK in line and (broken := self.active.get("streamed-list-broken")) is not None:
            self._hit("streamed-list-broken")
            if broken.value == "hangs":
                return []
            why = ApiError(500, "InternalError", "storage feature RequestWatchProgress is required")
            return [(delay, b'{"type":"ERROR","object":%s}' % msgspec.json.encode(why.status()))]
        return [(delay, line)]

    def _read_line(self, stream: SimStream) -> bool:
        """Count an event as read; whether it is delivered."""
        index, self.reads = self.reads, self.reads + 1
        for fault in self._by_read.pop(index, ()):
            if fault.kind.startswith("crash"):
                self.fired[fault.kind] += 1
                self.host.crash(stream.owner)
                return False
            if fault.kind in _ANSWERS or fault.kind == "reply-lost":
                self.fired[fault.kind] += 1
                stream.break_off()
                return False
            self.host.inject(fault, stream.owner)
        return True

    def _coalesce(self, stream: SimStream, line: bytes) -> bytes:
        """A creation whose predecessor's deletion is still on its way becomes one update with it."""
        new = _event(line)
        if new.type != "ADDED":
            return line
        merged = False

        def without(lines: list[bytes]) -> list[bytes]:
            nonlocal merged
            # A line of another type may be one that cannot be decoded (fault F21).
            deleted = new.object.metadata
            kept = [old for old in lines if not (old.startswith(_DELETED) and _event(old).object.metadata == deleted)]
            merged = len(kept) < len(lines)
            return kept

        stream.replace_pending(without)
        if not merged:
            return line
        self.fired["coalesced"] += 1
        return line.replace(b'"ADDED"', b'"MODIFIED"', 1)


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


#: The suffix of the value of a foreign answer whose request was carried out nevertheless.
STORED = " stored"
_FOREIGN = {
    "redirect": Response(302, b"", {"location": "https://login.test/"}),
    "page": Response(200, b"<html>Please log in</html>", {"content-type": "text/html"}),
    "nothing": Response(200, b"{}", {"content-type": "application/json"}),
}

_ANSWERS: Mapping[str, Callable[[Fault], Response]] = {
    "conflict": lambda _: _answer(409, "Conflict", "the object has been modified"),
    "throttled": _throttled,
    "server-error": _server_error,
    "timeout-after": lambda _: _answer(504, "Timeout", "request did not complete within the time"),
    "foreign-answer": lambda fault: _FOREIGN[fault.value.removesuffix(STORED) or "redirect"],
    "invalid": lambda _: _answer(422, "Invalid", "a new validator says no"),
}


def replayed_from(version: int, compacted: int) -> int:
    """The version at which a replaying watch begins that was requested from `version`.

    Of what is compacted nothing can be replayed; from such a version the answer is 410, as without the fault.
    """
    return min(version, max(version - REPLAYED, compacted))
