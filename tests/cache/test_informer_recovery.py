"""The informer against a server that fails in every way it can: it never shows what was not so, and always recovers."""

import json
import random
from typing import Any

import hypothesis.strategies as st
from hypothesis import given, settings

from jobcommon.api.view import ObjectView, object_view
from jobcommon.cache.informer import Informer
from jobcommon.cache.step import Fetch, Stream, Wait
from jobcommon.cache.store import Batch, Change, ChangeKind, Store
from jobcommon.client.errors import StatusError, TransportError
from jobcommon.client.request import Request, Response

NAMES = ["a", "b", "c", "d", "e"]


class Server:
    """One resource with a history: lists in pages, watches from a version, compaction, streamed lists or not."""

    def __init__(self, rng: random.Random, *, streamed_lists: bool) -> None:
        self.rng = rng
        self.streamed_lists = streamed_lists
        self.version = 1
        self.compacted = 1
        self.objects: dict[str, dict[str, Any]] = {}
        self.history: list[tuple[int, str, dict[str, Any]]] = []
        self.states: dict[int, dict[str, str]] = {1: {}}

    def change(self) -> None:
        """One object is created, changed, deleted, or deleted and created anew."""
        name = self.rng.choice(NAMES)
        old = self.objects.get(name)
        self.version += 1
        if old is not None and self.rng.random() < 0.4:
            del self.objects[name]
            self.record("DELETED", {"metadata": {**old["metadata"], "resourceVersion": str(self.version)}})
            return
        uid = old["metadata"]["uid"] if old else f"{name}-{self.version}"
        metadata = {"namespace": "n", "name": name, "uid": uid, "resourceVersion": str(self.version)}
        self.objects[name] = {"metadata": metadata}
        self.record("MODIFIED" if old else "ADDED", self.objects[name])

    def record(self, kind: str, obj: dict[str, Any]) -> None:
        self.history.append((self.version, kind, obj))
        self.states[self.version] = self.state()

    def state(self) -> dict[str, str]:
        return {name: obj["metadata"]["uid"] for name, obj in self.objects.items()}

    def compact(self) -> None:
        self.compacted = self.version
        self.history.clear()

    def answer(self, request: Request) -> Response:
        query = dict(request.query)
        if int(query.get("resourceVersion", 0)) > self.version:
            return Response(504, json.dumps({"code": 504, "message": "Too large resource version"}).encode())
        start, version = 0, self.version
        if token := query.get("continue"):
            start, version = (int(part) for part in token.split("@"))
            if version != self.version:
                return Response(410, b'{"code": 410, "reason": "Expired"}')
        items = sorted(self.objects.values(), key=lambda obj: obj["metadata"]["name"])
        # Pages of two whatever the limit: the informer must go by the token.
        end = start + 2 if "limit" in query else len(items)
        token = f"{end}@{version}" if end < len(items) else ""
        body = {"metadata": {"resourceVersion": str(version), "continue": token}, "items": items[start:end]}
        return Response(200, json.dumps(body).encode())

    def watch(self, request: Request, since: int | None) -> list[tuple[int, bytes]]:
        """What a watch opened now has to say at once; later calls pass how far it got."""
        query = dict(request.query)
        if since is None and "sendInitialEvents" in query:
            items = [("ADDED", obj) for obj in self.objects.values()]
            mark = {"resourceVersion": str(self.version), "annotations": {"k8s.io/initial-events-end": "true"}}
            lines = [(self.version, encode(kind, obj)) for kind, obj in items]
            return [*lines, (self.version, encode("BOOKMARK", {"metadata": mark}))]
        since = int(query["resourceVersion"]) if since is None else since
        if since < self.compacted:
            return [(since, encode("ERROR", {"code": 410, "reason": "Expired"}))]
        return [(version, encode(kind, obj)) for version, kind, obj in self.history if version > since]


def encode(kind: str, obj: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode()


class Run:
    """The informer and its driver on virtual time. Faults strike while `faulty`."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.server = Server(self.rng, streamed_lists=self.rng.random() < 0.5)
        self.store: Store[ObjectView] = Store()
        self.informer = Informer("/x", object_view, self.store, self.rng.random, streamed_lists=True)
        self.now = 0.0
        self.faulty = True
        self.requests = 0
        self.told: dict[str, str] = {}

    def fault(self, probability: float) -> bool:
        return self.faulty and self.rng.random() < probability

    def step(self) -> None:
        match self.informer.next(self.now):
            case Wait(until):
                assert until > self.now
                self.now = until
            case Fetch(request):
                self.requests += 1
                self.fetch(request)
            case Stream(request):
                self.requests += 1
                self.stream(request)
        if self.faulty and self.rng.random() < 0.5:
            self.server.change()

    def fetch(self, request: Request) -> None:
        self.now += 0.01
        if self.fault(0.1):
            self.informer.failed(TransportError("reset"), self.now)
        elif self.fault(0.1):
            self.told_by(self.informer.received(Response(self.rng.choice([410, 429, 500, 503, 504]), b"oops"), self.now))
        else:
            self.told_by(self.informer.received(self.server.answer(request), self.now))

    def stream(self, request: Request) -> None:
        if not self.server.streamed_lists and "sendInitialEvents" in dict(request.query):
            self.informer.failed(StatusError(422, "Invalid"), self.now)
            return
        if self.fault(0.2):
            problem = self.rng.choice([TransportError("refused"), StatusError(429), StatusError(500), StatusError(410)])
            self.informer.failed(problem, self.now)
            return
        position: int | None = None
        while self.informer.streaming:
            if self.fault(0.1):
                # The connection hangs: changes happen and are not delivered.
                self.server.change()
                assert self.informer.deadline is not None
                self.now = self.informer.deadline
                self.informer.timed_out(self.now)
                return
            for version, line in self.server.watch(request, position):
                self.told_by(self.informer.line(line, self.now))
                position = version
                if not self.informer.streaming:
                    return
            position = position if position is not None else int(dict(request.query).get("resourceVersion", 0))
            if self.interrupted():
                return
            if not self.faulty and position >= self.server.version:
                return
            self.now += 60
            mark = {"metadata": {"resourceVersion": str(self.server.version)}}
            if position == self.server.version:
                self.told_by(self.informer.line(encode("BOOKMARK", mark), self.now))

    def interrupted(self) -> bool:
        if self.fault(0.1):
            self.informer.ended(self.now)
            return True
        if self.fault(0.1):
            self.informer.failed(TransportError("reset"), self.now)
            return True
        if self.fault(0.1):
            self.told_by(self.informer.line(encode("ERROR", {"code": self.rng.choice([410, 429, 500])}), self.now))
            return True
        if self.fault(0.3):
            self.server.change()
        if self.fault(0.1):
            self.server.compact()
        return False

    def told_by(self, batch: Batch[ObjectView]) -> None:
        """The reported changes add up to what the store holds, and that is a state the server once had."""
        for change in batch.changes:
            self.follow(change)
        state = {view.name: view.uid for view in self.store.all()}
        assert state == self.told
        if self.informer.synced and self.informer.store.resource_version == str(self.server.version):
            assert state == self.server.state()
        if batch.relisted:
            assert state == self.server.states[int(batch.relisted.resource_version)]

    def follow(self, change: Change[ObjectView]) -> None:
        match change:
            case Change(kind=ChangeKind.ADDED, new=ObjectView() as new):
                assert new.name not in self.told
                self.told[new.name] = new.uid
            case Change(kind=ChangeKind.UPDATED, new=ObjectView() as new):
                assert self.told[new.name] == new.uid
            case Change(kind=ChangeKind.DELETED, old=ObjectView() as old):
                assert self.told.pop(old.name) == old.uid


@settings(derandomize=True, database=None, max_examples=150, deadline=None)
@given(st.integers(0, 2**32))
def test_the_informer_recovers_from_any_sequence_of_faults(seed: int) -> None:
    run = Run(seed)
    for _ in range(60):
        run.step()
    run.faulty = False
    run.server.change()
    healed = run.now
    while run.store.resource_version != str(run.server.version):
        run.step()
        assert run.now - healed < 150, "it is up to date 150 s after the last fault"
    assert {view.name: view.uid for view in run.store.all()} == run.server.state()


def test_an_idle_cluster_costs_one_request_per_watch() -> None:
    run = Run(1)
    run.faulty = False
    run.server.streamed_lists = True
    run.step()
    assert run.informer.synced
    assert run.requests == 1
