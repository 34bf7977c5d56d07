"""Informer and store against an API server with any history, which fails in every way they know.

Whenever the store says that it is complete up to a version, it holds exactly what there was at that version; the changes it
reports add up to what it holds; and once the faults end, it catches up within minutes.
"""

from typing import Any

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from jobcommon.api.view import ObjectView, object_view
from jobcommon.cache.informer import MAX_SILENT_RECONNECTS, WATCH_SILENCE, Informer
from jobcommon.cache.step import Fetch, Stream, Wait
from jobcommon.cache.store import Batch, ChangeKind, Store
from jobcommon.client.errors import StatusError, TransportError
from jobcommon.client.request import Request, Response
from jobcommon.testutil.models.api_history import ApiHistory, Entry, document
from tests.properties.profile import examples

pytestmark = pytest.mark.slow

NAMES = st.sampled_from(["a", "b", "c", "d", "e"])
REFUSALS = [
    StatusError(410, "Expired"), StatusError(429, "TooManyRequests", retry_after=32.0), StatusError(429),
    StatusError(500, "InternalError"), StatusError(504, "Timeout", "Too large resource version: 9, current: 7"),
    StatusError(504, "Timeout"), StatusError(403, "Forbidden"), StatusError(404, "NotFound"), StatusError(422),
]  # fmt: skip
GARBAGE = [
    b"", b"<html>", b"[]", b"null", b'{"type": 3}', b'{"type": "BOOKMARK"}', b'{"type": "BOOKMARK", "object": {}}', b"{" * 5000,
    b'{"type": "ERROR", "object": "what"}', b'{"type": "ERROR"}', b'{"type": "NEW", "object": {}}',
]  # fmt: skip
# Three watches may fall silent before a list is asked for; a pause lasts at most a minute, the longest Retry-After 32 s.
CATCH_UP = (MAX_SILENT_RECONNECTS + 2) * WATCH_SILENCE + 2 * 60.0


def decode(data: bytes) -> ObjectView:
    if msgspec.json.decode(data).get("poisoned"):
        raise ValueError("poison")
    return object_view(data)


class Informing(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.api = ApiHistory()
        self.store: Store[ObjectView] = Store({"uid": lambda view: (view.uid,)})
        self.informer = Informer("/things", decode, self.store, lambda: 0.5)
        self.fetch: Request | None = None
        self.lines: list[bytes] | None = None
        self.cursor = 0
        self.silent = False
        self.restored = False
        self.shadow: dict[str, str] = {}

    # -- the world ---------------------------------------------------------------------------------------------------

    @precondition(lambda self: not self.restored)
    @rule(name=NAMES, poisoned=st.sampled_from([False, False, False, True]))
    def put(self, name: str, poisoned: bool) -> None:
        self.api.put(name, poisoned=poisoned)

    @precondition(lambda self: not self.restored)
    @rule(name=NAMES, again=st.booleans())
    def delete(self, name: str, again: bool) -> None:
        self.api.delete(name)
        if again:
            self.api.put(name)

    @precondition(lambda self: not self.restored)
    @rule()
    def something_else_changes(self) -> None:
        self.api.tick()

    @rule()
    def compact(self) -> None:
        self.api.oldest = self.api.version

    @precondition(lambda self: self.api.version > 3 and not self.restored)
    @rule(back=st.integers(1, 8))
    def restore_from_backup(self, back: int) -> None:
        """No write until we have listed anew; a server whose versions have grown past ours could not be told."""
        self.api.restore(max(self.api.version - back, 1))
        self.restored = int(self.store.resource_version or 0) > self.api.version
        self.break_stream()

    @rule(seconds=st.sampled_from([0.1, 1.0, 30.0, 200.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.check_deadline()

    # -- what the driver does ----------------------------------------------------------------------------------------

    @precondition(lambda self: self.fetch is None and self.lines is None)
    @rule(
        how=st.sampled_from(["works", "works", "works", "refused", "no connection", "silent"]), error=st.sampled_from(REFUSALS)
    )
    def go_on(self, how: str = "works", error: StatusError = REFUSALS[0]) -> None:
        match self.informer.next(self.now):
            case Wait(until):
                assert self.now < until <= self.now + 60.0
                self.now = until
            case Fetch(request):
                self.fetch = request
            case Stream(request):
                if how == "refused":
                    self.informer.failed(error, self.now)
                elif how == "no connection":
                    self.informer.failed(TransportError("refused"), self.now)
                else:
                    self.open(dict(request.query), silent=how == "silent")

    def open(self, query: dict[str, str], *, silent: bool) -> None:
        self.lines, self.silent = [], silent
        asked = query.get("resourceVersion", "")
        if asked and int(asked) > self.api.version:
            self.silent = True
        elif asked and int(asked) < self.api.oldest:
            self.lines.append(line("ERROR", {"code": 410, "reason": "Expired"}))
        elif "sendInitialEvents" in query:
            self.cursor = self.api.version
            self.lines += [line("ADDED", document(n, e)) for n, e in self.api.states[self.cursor].items()]
            mark = {"resourceVersion": str(self.cursor), "annotations": {"k8s.io/initial-events-end": "true"}}
            self.lines.append(line("BOOKMARK", {"metadata": mark}))
        else:
            self.cursor = int(asked)

    @precondition(lambda self: self.fetch is not None)
    @rule(page=st.sampled_from([1, 2, 500]), stale=st.booleans())
    def answer(self, page: int = 500, stale: bool = False) -> None:
        assert self.fetch is not None
        query, self.fetch = dict(self.fetch.query), None
        asked, token = query.get("resourceVersion", ""), query.get("continue", "")
        version, _, start = token.partition("/") if token else ("", "", "")
        if (token and int(version) < self.api.oldest) or (token and int(version) > self.api.version):
            self.respond(410, {"code": 410, "reason": "Expired"})
        elif asked and int(asked) > self.api.version:
            self.respond(504, {"code": 504, "message": f"Too large resource version: {asked}, current: {self.api.version}"})
        else:
            at = int(version) if token else int(asked) if asked and stale else self.api.version
            names = sorted(name for name in self.api.states[at] if name > start or not token)
            shown, left = (names[:page], names[page:]) if "limit" in query else (names, [])
            metadata = {"resourceVersion": str(at), "continue": f"{at}/{shown[-1]}" if left else ""}
            self.respond(200, {"metadata": metadata, "items": [document(n, self.api.states[at][n]) for n in shown]})

    def respond(self, code: int, body: Any) -> None:
        self.take(self.informer.received(Response(code, msgspec.json.encode(body)), self.now))

    @precondition(lambda self: self.fetch is not None)
    @rule(error=st.sampled_from([*REFUSALS, None]), garbage=st.sampled_from([*GARBAGE, b'{"metadata": {}}']))
    def fail_the_list(self, error: StatusError | None, garbage: bytes) -> None:
        self.fetch = None
        if error is None:
            self.take(self.informer.received(Response(200, garbage), self.now))
        else:
            body = {"code": error.code, "message": error.message}
            headers = {"retry-after": "32"} if error.retry_after else {}
            self.take(self.informer.received(Response(error.code, msgspec.json.encode(body), headers), self.now))

    @precondition(lambda self: self.fetch is not None)
    @rule()
    def lose_the_list(self) -> None:
        self.fetch = None
        self.informer.failed(TransportError("reset"), self.now)

    @precondition(lambda self: self.lines is not None and not self.silent)
    @rule(count=st.sampled_from([1, 1, 3, 100]))
    def deliver(self, count: int = 100) -> None:
        for _ in range(count):
            if self.lines is None:
                return
            if self.lines:
                self.feed(self.lines.pop(0))
            elif change := self.api.after(self.cursor):
                self.cursor, kind, name, entry = change
                self.feed(line(kind, document(name, entry)))
            else:
                return

    @precondition(lambda self: self.lines == [] and not self.silent)
    @rule()
    def bookmark(self) -> None:
        following = self.api.after(self.cursor)
        self.cursor = following[0] - 1 if following else self.api.version
        self.feed(line("BOOKMARK", {"metadata": {"resourceVersion": str(self.cursor)}}))

    @precondition(lambda self: self.lines is not None)
    @rule(error=st.sampled_from(REFUSALS))
    def error_in_the_stream(self, error: StatusError) -> None:
        self.feed(line("ERROR", {"code": error.code, "reason": error.reason, "message": error.message}))

    @precondition(lambda self: self.lines is not None)
    @rule(garbage=st.sampled_from(GARBAGE))
    def garbage_in_the_stream(self, garbage: bytes) -> None:
        self.feed(garbage)

    @precondition(lambda self: self.lines is not None)
    @rule()
    def fall_silent(self) -> None:
        self.silent = True

    @precondition(lambda self: self.lines is not None)
    @rule(broken=st.booleans())
    def break_stream(self, broken: bool = True) -> None:
        if self.lines is not None:
            self.lines = None
            if broken:
                self.informer.failed(TransportError("reset"), self.now)
            else:
                self.informer.ended(self.now)

    @rule()
    def relist(self) -> None:
        self.informer.relist()
        self.close_unwanted()

    # -- plumbing ----------------------------------------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        self.take(self.informer.line(data, self.now))
        self.close_unwanted()

    def close_unwanted(self) -> None:
        if not self.informer.streaming:
            self.lines = None

    def check_deadline(self) -> None:
        if self.lines is not None:
            self.informer.timed_out(self.now)
            self.close_unwanted()

    def take(self, batch: Batch[ObjectView]) -> None:
        for change in batch.changes:
            view = change.new or change.old
            assert view is not None
            known = self.shadow.get(view.name)
            if change.kind is ChangeKind.ADDED:
                assert known is None
            else:
                assert known == view.uid, "a change of an object that was not there"
            self.shadow.pop(view.name, None)
            if change.kind is not ChangeKind.DELETED:
                self.shadow[view.name] = view.uid
        if batch.relisted is not None and batch.relisted.quorum:
            self.restored = False

    # -- what must hold ----------------------------------------------------------------------------------------------

    @invariant()
    def what_is_reported_adds_up(self) -> None:
        held = {view.name: view.uid for view in self.store.all()}
        assert self.shadow == held
        assert all(self.store.indexed("uid", uid) == [self.store.get("default", name)] for name, uid in held.items())
        assert sum(map(len, self.store._indexed.values())) == len(held), "an index remembers what is gone"

    @invariant()
    def complete_up_to_its_version(self) -> None:
        version = int(self.store.resource_version or 0)
        if self.informer.synced and not (self.restored and version >= self.api.oldest):
            self.compare(self.api.states[version])

    def compare(self, state: dict[str, Entry]) -> None:
        held = {view.name: Entry(view.uid, int(view.resource_version)) for view in self.store.all()}
        readable = {name: entry for name, entry in state.items() if not entry.poisoned}
        # Of an object that cannot be read, the last state that could be is kept.
        kept = {n: e for n, e in held.items() if n in state and state[n].poisoned and state[n].uid == e.uid}
        assert {name: entry for name, entry in held.items() if name not in kept} == readable

    def teardown(self) -> None:
        """The faults end. A stream that is silent stays so until it is closed."""
        end, steps = self.now + CATCH_UP, 0
        while self.restored or not self.caught_up():
            steps += 1
            assert self.now <= end, "does not catch up"
            assert steps < 200, "asks again and again"
            if self.fetch is not None:
                self.answer()
            elif self.lines is None:
                self.go_on()
            elif self.silent:
                deadline = self.informer.deadline
                assert deadline is not None
                self.now = max(deadline, self.now)
                self.check_deadline()
            else:
                self.deliver()
        self.compare(self.api.states[self.api.version])

    def caught_up(self) -> bool:
        watching = self.lines == [] and not self.silent and self.informer.synced
        return watching and self.api.after(self.cursor) is None


def line(kind: str, body: Any) -> bytes:
    return msgspec.json.encode({"type": kind, "object": body})


TestInforming = Informing.TestCase
TestInforming.settings = examples(300)
