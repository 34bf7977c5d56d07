"""One informer, run by hand, and what an API server would say: lists and watches."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from jobcommon.api.view import Identity, ObjectView, object_view
from jobcommon.cache.informer import WATCH_SILENCE, Informer
from jobcommon.cache.step import Fetch, Sleep, Stream
from jobcommon.cache.store import Batch, ChangeKind, Relisted, Store
from jobcommon.client.errors import StatusError, TransportError
from jobcommon.client.request import Response

PATH = "/api/v1/pods"
REFUSED = TransportError("connection refused")


def an_object(name: str, version: int, **extra: Any) -> dict[str, Any]:
    return {"metadata": {"namespace": "n", "name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}, **extra}


def event(kind: str, obj: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode()


def bookmark(version: int) -> bytes:
    return event("BOOKMARK", {"metadata": {"resourceVersion": str(version)}})


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


class Driver:
    """Runs one informer by hand; random draws are 0, so waits are the shortest possible."""

    def __init__(self, *, random: Callable[[], float] = lambda: 0.0, **options: Any) -> None:
        self.store: Store[ObjectView] = Store()
        self.informer = Informer(PATH, picky, self.store, random, **options)
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

    def receive(self, response: Response) -> Batch[ObjectView]:
        return self.informer.received(response, self.now)

    def line(self, data: bytes) -> Batch[ObjectView]:
        return self.informer.line(data, self.now)

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


def names(driver: Driver) -> list[str]:
    return [view.name for view in driver.store.all()]


# -- Lists. Scripted traces, one for each row


class TestList:
    def test_a_list_is_a_quorum_read_in_pages(self) -> None:
        driver = Driver(query=(("labelSelector", "a=b"),))
        assert driver.fetch() == {"labelSelector": "a=b", "limit": "500"}

    def test_pages_are_joined_and_the_watch_starts_at_the_version_of_the_first(self) -> None:
        driver = Driver()
        driver.fetch()
        assert driver.receive(a_list(10, an_object("a", 1), token="t1")) == Batch()
        driver.now += 5
        assert driver.fetch() == {"limit": "500", "continue": "t1"}
        assert driver.receive(a_list(12, an_object("b", 2))).relisted == Relisted("10", 1000.0)
        assert names(driver) == ["a", "b"]
        assert driver.open()["resourceVersion"] == "10"

    def test_a_410_storm_backs_off(self) -> None:
        driver = Driver()
        waits = []
        for _ in range(8):
            driver.fetch()
            driver.receive(refusal(410))
            waits.append(driver.wait())
        assert waits == [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]

    def test_an_expired_continue_token_leads_to_one_whole_list_from_the_start(self) -> None:
        driver = Driver()
        driver.fetch()
        driver.receive(a_list(10, an_object("gone", 1), token="t1"))
        driver.fetch()
        driver.receive(refusal(410))
        assert driver.fetch() == {}
        driver.receive(a_list(20, an_object("a", 15)))
        assert names(driver) == ["a"]

    @pytest.mark.parametrize(
        ("response", "expected"),
        [
            (refusal(429, retry_after="32"), 32.0),
            (refusal(429), 0.8),
            (refusal(503, retry_after="5"), 5.0),
            (refusal(429, retry_after="0"), 0.8),
            (refusal(429, retry_after="Wed, 21 Oct 2026 07:28:00 GMT"), 0.8),
            (refusal(429, retry_after="99999999999999"), 300.0),
            (Response(429, b'{"code": 429, "details": {"retryAfterSeconds": 7}}'), 7.0),
            (refusal(500), 0.8),
            (refusal(404), 0.8),
            (refusal(401), 0.8),
            (Response(502, b"<html>Bad Gateway</html>"), 0.8),
            (Response(200, b"<html>login</html>"), 0.8),
            (Response(200, b'{"items": []}'), 0.8),
            (Response(200, b'{"metadata": {}, "items": []}'), 0.8),
            (Response(200, b""), 0.8),
        ],
    )
    def test_a_refused_list_is_tried_again_after_a_back_off(self, response: Response, expected: float) -> None:
        driver = Driver()
        driver.fetch()
        assert driver.receive(response) == Batch()
        assert driver.informer.last_error is not None
        assert driver.wait() == expected
        assert driver.fetch() == {"limit": "500"}
        driver.receive(a_list(1))
        assert driver.informer.last_error is None

    def test_a_malformed_item_does_not_lose_the_page(self) -> None:
        driver = Driver()
        driver.store.upsert(object_view(json.dumps(an_object("b", 1)).encode()))
        driver.fetch()
        batch = driver.receive(a_list(10, an_object("a", 1), an_object("b", 2, bad=1), 5, None, {}, an_object("c", 3)))
        assert [one.identity for one in batch.unreadable] == [Identity("n", "b", "uid-b", "2"), None, None, None]
        assert "bad" in batch.unreadable[0].error
        assert names(driver) == ["a", "b", "c"], "what cannot be read is there"
        assert driver.informer.unreadable == 4


# -- Watches. Scripted traces, one for each row

Step = Callable[[Driver], object]


def ends(after: float = 0.0) -> Step:
    def step(driver: Driver) -> None:
        driver.now += after
        driver.informer.ended(driver.now)

    return step


def fails(problem: StatusError | TransportError) -> Step:
    return lambda driver: driver.fail(problem)


def said(line: bytes) -> Step:
    return lambda driver: driver.line(line)


BACK_OFF, AT_ONCE = 0.8, 0.0
NO_EVENTS = (b"", b"{", b"[]", b"5", b'{"object": {}}', b'{"type": "BOOKMARK", "object": 5}')
#: what becomes of a watch from version 10, the wait, whether a watch follows or a list, and from which version
FOLLOWS: dict[str, tuple[list[Step], float, bool, str]] = {
    "it ends": ([ends(1.0)], AT_ONCE, True, "10"),
    "it ends after an event": ([said(event("ADDED", an_object("a", 15))), ends()], AT_ONCE, True, "15"),
    "it ends after a deletion": ([said(event("DELETED", an_object("a", 16))), ends()], AT_ONCE, True, "16"),
    "it ends after a bookmark": ([said(bookmark(17)), ends()], AT_ONCE, True, "17"),
    "it ends at once": ([ends(0.9)], BACK_OFF, False, "10"),
    "it ends at once without news": ([said(bookmark(10)), ends(0.9)], BACK_OFF, False, "10"),
    "it breaks": ([said(bookmark(17)), fails(TransportError("reset"))], AT_ONCE, True, "17"),
    "no connection": ([fails(REFUSED)], BACK_OFF, True, "10"),
    "429": ([fails(StatusError(429, "TooManyRequests"))], BACK_OFF, True, "10"),
    "429 for a time": ([fails(StatusError(429, retry_after=9.0))], 9.0, True, "10"),
    "429 in the stream": ([said(bookmark(17)), said(error(429))], BACK_OFF, True, "17"),
    **{f"{c}": ([fails(StatusError(c))], BACK_OFF, False, "10") for c in (400, 401, 403, 404, 410, 422, 500, 503, 504)},
    **{f"{code} in the stream": ([said(error(code))], BACK_OFF, False, "10") for code in (410, 500, 504, 403)},
    **{f"no event: {line!r}": ([said(line)], BACK_OFF, False, "10") for line in NO_EVENTS},
}


@pytest.mark.parametrize(("steps", "wait", "watches", "version"), FOLLOWS.values(), ids=FOLLOWS)
def test_what_follows_a_watch(steps: list[Step], wait: float, watches: bool, version: str) -> None:
    driver = Driver().sync()
    for step in steps:
        step(driver)
    assert not driver.informer.streaming
    if wait:
        assert driver.wait() == wait
    if watches:
        assert driver.open()["resourceVersion"] == version
    else:
        assert driver.fetch() == {"limit": "500"}


class TestWatch:
    def test_the_request(self) -> None:
        driver = Driver(random=lambda: 0.5, query=(("labelSelector", "a=b"),))
        driver.fetch()
        driver.receive(a_list(10))
        assert driver.open() == {
            "labelSelector": "a=b",
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": "450",
            "resourceVersion": "10",
        }

    def test_events_become_changes(self) -> None:
        driver = Driver().sync()
        kinds = {"ADDED": ChangeKind.ADDED, "MODIFIED": ChangeKind.UPDATED, "DELETED": ChangeKind.DELETED}
        for version, (of_event, kind) in enumerate(kinds.items(), 11):
            (change,) = driver.line(event(of_event, an_object("a", version))).changes
            final = change.old if kind is ChangeKind.DELETED else change.new
            assert change.kind is kind
            assert final is not None
            assert final.resource_version == driver.store.resource_version == str(version)

    @pytest.mark.parametrize(("asked", "shortest"), [(1.0, 1.0), (3.0, 3.0), (0.2, 1.0)])
    def test_a_server_that_asks_to_wait_again_and_again_is_asked_as_often(self, asked: float, shortest: float) -> None:
        driver = Driver(random=lambda: 0.5).sync()
        for _ in range(60):
            driver.fail(StatusError(429, "TooManyRequests", retry_after=asked))
            assert driver.wait() == shortest + 0.5
        assert driver.open()["resourceVersion"] == "10"

    @pytest.mark.parametrize("line", [b'{"type": "ERROR"}', b'{"type": "ERROR", "object": {"code": "x"}}'])
    def test_an_error_without_a_status_is_taken_for_a_500(self, line: bytes) -> None:
        driver = Driver().sync()
        driver.line(line)
        assert isinstance(driver.informer.last_error, StatusError)
        assert driver.informer.last_error.code == 500

    @pytest.mark.parametrize(
        ("line", "identity"),
        [
            (event("ADDED", an_object("b", 11, bad=1)), Identity("n", "b", "uid-b", "11")),
            (event("SOMETHING", an_object("b", 11)), Identity("n", "b", "uid-b", "11")),
            (event("ADDED", {"metadata": {}}), None),
            (b'{"type": "ADDED"}', None),
            (b'{"type": "DELETED", "object": 3}', None),
        ],
    )
    def test_an_undecodable_object_is_skipped_and_counted(self, line: bytes, identity: Identity | None) -> None:
        driver = Driver().sync()
        (skipped,) = driver.line(line).unreadable
        assert skipped.identity == identity
        assert driver.store.resource_version == (identity.resource_version if identity is not None else "10")
        assert driver.informer.unreadable == 1
        assert driver.informer.streaming
        assert len(driver.line(event("ADDED", an_object("c", 12))).changes) == 1

    def test_a_deletion_counts_even_if_the_final_state_cannot_be_decoded(self) -> None:
        driver = Driver().sync()
        driver.line(event("ADDED", an_object("b", 11)))
        (change,) = driver.line(event("DELETED", an_object("b", 12, bad=1))).changes
        assert (change.kind, names(driver)) == (ChangeKind.DELETED, [])
        assert driver.informer.unreadable == 1

    def test_silence_leads_to_reconnects_and_then_to_a_list(self) -> None:
        driver = Driver().sync()
        for _ in range(2):
            assert driver.informer.deadline == driver.now + WATCH_SILENCE
            driver.pass_time(WATCH_SILENCE)
            assert not driver.informer.streaming
            assert driver.open()["resourceVersion"] == "10"
        driver.pass_time(WATCH_SILENCE)
        assert driver.fetch() == {"limit": "500"}

    def test_back_off_starts_anew_after_two_quiet_minutes(self) -> None:
        driver = Driver().sync()
        waits = []
        for pause in (0, 0, 118, 121):
            driver.now += pause
            driver.fail(StatusError(429))
            waits.append(driver.wait())
            driver.open()
        assert waits == [0.8, 1.6, 3.2, 0.8]

    def test_relist_gives_up_the_watch_for_a_list(self) -> None:
        driver = Driver().sync()
        driver.informer.relist()
        assert not driver.informer.streaming
        assert driver.fetch() == {"limit": "500"}
        driver.receive(a_list(10, an_object("a", 1), token="t"))
        driver.informer.relist()
        assert driver.fetch() == {"limit": "500", "continue": "t"}, "a list under way is not disturbed"
