"""Runs one informer by hand, and writes what an API server would say."""

import json
from collections.abc import Callable
from typing import Any

from jobcommon.api.view import ObjectView, object_view
from jobcommon.cache.delta import Delta, Unreadable
from jobcommon.cache.informer import Informer
from jobcommon.cache.step import Fetch, Sleep, Stream
from jobcommon.cache.store import Batch, Change, Store
from jobcommon.client.errors import StatusError, TransportError
from jobcommon.client.request import Response

PATH = "/api/v1/pods"
REFUSED = TransportError("connection refused")


def an_object(name: str, version: int, **extra: Any) -> dict[str, Any]:
    return {"metadata": {"namespace": "n", "name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}, **extra}


def event(kind: str, obj: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode()


def bookmark(version: int, *, initial_end: bool = False) -> bytes:
    annotations = {"k8s.io/initial-events-end": "true"} if initial_end else {}
    return event("BOOKMARK", {"metadata": {"resourceVersion": str(version), "annotations": annotations}})


def error(code: int, message: str = "", reason: str = "") -> bytes:
    return event("ERROR", {"kind": "Status", "code": code, "message": message, "reason": reason})


def a_list(version: int, *items: Any, token: str = "") -> Response:
    body = {"metadata": {"resourceVersion": str(version), "continue": token}, "items": list(items)}
    return Response(200, json.dumps(body).encode())


def refusal(code: int, message: str = "", retry_after: str | None = None) -> Response:
    headers = {} if retry_after is None else {"retry-after": retry_after}
    return Response(code, json.dumps({"kind": "Status", "code": code, "message": message}).encode(), headers)


def picky(data: bytes) -> ObjectView:
    """A decoder that refuses objects with a field `bad`."""
    view = object_view(data)
    if "bad" in view.raw:
        raise ValueError("bad")
    return view


class Recorded(Store[ObjectView]):
    """A store that keeps what is applied to it."""

    def __init__(self) -> None:
        super().__init__()
        self.deltas: list[Delta[ObjectView]] = []

    def apply(self, delta: Delta[ObjectView]) -> list[Change[ObjectView]]:
        self.deltas.append(delta)
        return super().apply(delta)


class Driver:
    """Runs one informer by hand; random draws are 0, so waits are the shortest possible."""

    def __init__(self, *, streamed: bool = False, random: Callable[[], float] = lambda: 0.0, **options: Any) -> None:
        self.store = Recorded()
        self.informer = Informer(PATH, picky, self.store, random, streamed_lists=streamed, **options)
        self.now = 1000.0

    def fetch(self) -> dict[str, str]:
        step = self.informer.next(self.now)
        assert isinstance(step, Fetch), step
        assert step.request.path == PATH
        return dict(step.request.query)

    def open(self) -> dict[str, str]:
        step = self.informer.next(self.now)
        assert isinstance(step, Stream), step
        assert step.request.path == PATH
        assert self.informer.streaming
        return dict(step.request.query)

    def wait(self) -> float:
        """How long the informer wants to wait; the clock is moved there."""
        step = self.informer.next(self.now)
        assert isinstance(step, Sleep), step
        waited = step.until - self.now
        self.now = step.until
        return round(waited, 6)

    def receive(self, response: Response) -> list[Any]:
        return self._applied(self.informer.received(response, self.now))

    def line(self, data: bytes) -> list[Any]:
        return self._applied(self.informer.line(data, self.now))

    def _applied(self, batch: Batch[ObjectView]) -> list[Any]:
        """The deltas of one input. Those that were skipped are told."""
        deltas, self.store.deltas = self.store.deltas, []
        assert batch.unreadable == tuple(delta for delta in deltas if isinstance(delta, Unreadable))
        return deltas

    def fail(self, problem: StatusError | TransportError) -> None:
        self.informer.failed(problem, self.now)

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.informer.timed_out(self.now)

    def sync(self, version: int = 10) -> "Driver":
        """List and open the watch."""
        self.fetch()
        self.receive(a_list(version))
        self.open()
        return self


def names(objects: Any) -> list[str]:
    return [view.name for view in objects]
