"""The reflector, by scripted traces: one for each row of the reliability reference 2.1 and 2.2, and for our own additions."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from jobcommon.api.view import Identity, ObjectView, object_view
from jobcommon.cache.delta import Advanced, Removed, Replaced, Unreadable, Upserted
from jobcommon.cache.reflector import STREAMED_LIST_SILENCE, WATCH_SILENCE, Fetch, Reflector, Stream, Wait
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


class Driver:
    """Runs one reflector by hand; random draws are 0, so waits are the shortest possible."""

    def __init__(self, *, streamed: bool = False, random: Callable[[], float] = lambda: 0.0, **options: Any) -> None:
        self.reflector = Reflector(PATH, picky, random, streamed_lists=streamed, **options)
        self.now = 1000.0

    def fetch(self) -> dict[str, str]:
        step = self.reflector.next(self.now)
        assert isinstance(step, Fetch), step
        assert step.request.path == PATH
        return dict(step.request.query)

    def open(self) -> dict[str, str]:
        step = self.reflector.next(self.now)
        assert isinstance(step, Stream), step
        assert step.request.path == PATH
        assert self.reflector.streaming
        return dict(step.request.query)

    def wait(self) -> float:
        """How long the reflector wants to wait; the clock is moved there."""
        step = self.reflector.next(self.now)
        assert isinstance(step, Wait), step
        waited = step.until - self.now
        self.now = step.until
        return round(waited, 6)

    def receive(self, response: Response) -> list[Any]:
        return self.reflector.received(response, self.now)

    def line(self, data: bytes) -> list[Any]:
        return self.reflector.line(data, self.now)

    def fail(self, problem: StatusError | TransportError) -> None:
        self.reflector.failed(problem, self.now)

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.reflector.timed_out(self.now)

    def sync(self, version: int = 10) -> "Driver":
        """List and open the watch."""
        self.fetch()
        self.receive(a_list(version))
        self.open()
        return self


def names(objects: Any) -> list[str]:
    return [view.name for view in objects]


class TestList:
    def test_the_first_list_is_a_quorum_read_in_pages(self) -> None:
        driver = Driver(query=(("labelSelector", "a=b"),))
        assert driver.fetch() == {"labelSelector": "a=b", "limit": "500"}

    def test_pages_are_joined_and_the_watch_starts_at_the_version_of_the_first(self) -> None:
        driver = Driver()
        driver.fetch()
        assert driver.receive(a_list(10, an_object("a", 1), token="t1")) == []
        driver.now += 5
        assert driver.fetch() == {"limit": "500", "continue": "t1"}
        (replaced,) = driver.receive(a_list(12, an_object("b", 2)))
        assert isinstance(replaced, Replaced)
        assert names(replaced.objects) == ["a", "b"]
        assert (replaced.resource_version, replaced.requested_at, replaced.quorum) == ("10", 1000.0, True)
        assert driver.open()["resourceVersion"] == "10"

    def test_a_list_without_items_is_empty(self) -> None:
        driver = Driver()
        driver.fetch()
        (replaced,) = driver.receive(Response(200, b'{"metadata": {"resourceVersion": "7"}, "items": null}'))
        assert replaced.objects == ()

    def test_later_lists_are_bound_to_the_last_version_and_not_paged(self) -> None:
        driver = Driver().sync()
        driver.line(event("ADDED", an_object("a", 12)))
        driver.line(error(410))
        driver.wait()
        assert driver.fetch() == {"resourceVersion": "12"}
        (replaced,) = driver.receive(a_list(12, an_object("a", 12)))
        assert not replaced.quorum

    @pytest.mark.parametrize(
        "response", [refusal(410), refusal(504, "Too large resource version: 99, current: 5")], ids=["expired", "future"]
    )
    def test_a_bound_list_the_server_cannot_serve_becomes_a_quorum_read_at_once(self, response: Response) -> None:
        driver = Driver().sync()
        driver.line(error(410))
        driver.wait()
        assert "resourceVersion" in driver.fetch()
        driver.receive(response)
        assert driver.fetch() == {"limit": "500"}
        (replaced,) = driver.receive(a_list(3))
        assert (replaced.resource_version, replaced.quorum) == ("3", True)
        driver.open()
        driver.line(error(410))
        driver.wait()
        assert driver.fetch() == {"resourceVersion": "3"}, "the flag is cleared by success"

    def test_a_410_storm_backs_off(self) -> None:
        driver = Driver()
        waits = []
        for _ in range(8):
            driver.fetch()
            driver.receive(refusal(410))
            waits.append(driver.wait())
        assert waits == [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]

    def test_another_504_backs_off(self) -> None:
        driver = Driver().sync()
        driver.line(error(410))
        driver.wait()
        driver.fetch()
        driver.receive(refusal(504, "the server was unable to return a response in time"))
        assert driver.wait() == 1.6
        assert driver.fetch() == {"resourceVersion": "10"}

    def test_an_expired_continue_token_leads_to_one_whole_list_from_the_start(self) -> None:
        driver = Driver()
        driver.fetch()
        driver.receive(a_list(10, an_object("gone", 1), token="t1"))
        driver.fetch()
        driver.receive(refusal(410))
        assert driver.fetch() == {}
        (replaced,) = driver.receive(a_list(20, an_object("a", 15)))
        assert names(replaced.objects) == ["a"]

    def test_a_server_that_pages_unasked_and_expires_is_not_asked_in_a_tight_loop(self) -> None:
        driver = Driver()
        for _ in range(2):
            driver.fetch()
            driver.receive(a_list(10, token="t"))
            driver.fetch()
            driver.receive(refusal(410))
        assert driver.wait() == 0.8

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
        assert driver.receive(response) == []
        assert driver.reflector.last_error is not None
        assert driver.wait() == expected
        assert driver.fetch() == {"limit": "500"}
        driver.receive(a_list(1))
        assert driver.reflector.last_error is None

    def test_a_lost_response_starts_the_list_anew(self) -> None:
        driver = Driver()
        driver.fetch()
        driver.receive(a_list(10, an_object("a", 1), token="t"))
        driver.fetch()
        driver.fail(REFUSED)
        assert driver.wait() == 0.8
        assert driver.fetch() == {"limit": "500"}
        (replaced,) = driver.receive(a_list(11))
        assert replaced.objects == ()

    def test_a_malformed_item_does_not_lose_the_page(self) -> None:
        driver = Driver()
        driver.fetch()
        deltas = driver.receive(a_list(10, an_object("a", 1), an_object("b", 2, bad=1), 5, None, {}, an_object("c", 3)))
        *skipped, replaced = deltas
        assert [delta.identity.name if delta.identity else None for delta in skipped] == ["b", None, None, None]
        assert "bad" in skipped[0].error
        assert names(replaced.objects) == ["a", "c"]
        assert replaced.unreadable == (Identity("n", "b", "uid-b", "2"),)
        assert driver.reflector.unreadable == 4


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

    @pytest.mark.parametrize(("draw", "seconds"), [(0.0, "300"), (0.999999, "599")])
    def test_the_time_out_is_spread(self, draw: float, seconds: str) -> None:
        driver = Driver(random=lambda: draw)
        driver.fetch()
        driver.receive(a_list(1))
        assert driver.open()["timeoutSeconds"] == seconds

    def test_events_become_deltas(self) -> None:
        driver = Driver().sync()
        (added,) = driver.line(event("ADDED", an_object("a", 11)))
        (changed,) = driver.line(event("MODIFIED", an_object("a", 12)))
        (removed,) = driver.line(event("DELETED", an_object("a", 13)))
        assert isinstance(added, Upserted)
        assert isinstance(changed, Upserted)
        assert (added.object.resource_version, changed.object.resource_version) == ("11", "12")
        assert isinstance(removed, Removed)
        assert removed.identity == Identity("n", "a", "uid-a", "13")
        assert removed.object is not None

    @pytest.mark.parametrize(
        ("last", "version"),
        [(event("ADDED", an_object("a", 15)), "15"), (event("DELETED", an_object("a", 16)), "16"), (bookmark(17), "17")],
    )
    def test_the_end_of_a_watch_leads_to_another_from_the_last_version_at_once(self, last: bytes, version: str) -> None:
        driver = Driver().sync()
        driver.line(last)
        driver.reflector.ended(driver.now)
        assert not driver.reflector.streaming
        assert driver.open()["resourceVersion"] == version

    def test_a_broken_watch_is_resumed_at_once(self) -> None:
        driver = Driver().sync()
        driver.line(bookmark(17))
        driver.fail(TransportError("reset"))
        assert driver.open()["resourceVersion"] == "17"

    def test_a_bookmark_advances_the_store(self) -> None:
        assert Driver().sync().line(bookmark(17)) == [Advanced("17")]

    @pytest.mark.parametrize("lines", [[], [bookmark(10)]], ids=["no event", "no news"])
    def test_a_watch_that_ends_at_once_without_news_backs_off_and_lists(self, lines: list[bytes]) -> None:
        driver = Driver().sync()
        for line in lines:
            driver.line(line)
        driver.now += 0.9
        driver.reflector.ended(driver.now)
        assert driver.wait() == 0.8
        assert driver.fetch() == {"resourceVersion": "10"}

    def test_a_quiet_watch_that_ends_later_is_resumed(self) -> None:
        driver = Driver().sync()
        driver.now += 1
        driver.reflector.ended(driver.now)
        assert driver.open()["resourceVersion"] == "10"

    @pytest.mark.parametrize(
        ("problem", "wait"),
        [(REFUSED, 0.8), (StatusError(429, "TooManyRequests"), 0.8), (StatusError(429, retry_after=9.0), 9.0)],
    )
    def test_opening_refused_for_the_moment_costs_no_list(self, problem: Any, wait: float) -> None:
        driver = Driver().sync()
        driver.fail(problem)
        assert driver.wait() == wait
        assert driver.open()["resourceVersion"] == "10"

    @pytest.mark.parametrize("code", [400, 401, 403, 404, 410, 422, 500, 503, 504])
    def test_opening_refused_otherwise_backs_off_and_lists(self, code: int) -> None:
        driver = Driver().sync()
        driver.fail(StatusError(code))
        assert driver.wait() == 0.8
        assert driver.fetch() == {"resourceVersion": "10"}

    def test_throttled_in_the_stream_resumes_without_a_list(self) -> None:
        driver = Driver().sync()
        driver.line(bookmark(17))
        driver.line(error(429))
        assert not driver.reflector.streaming
        assert driver.wait() == 0.8
        assert driver.open()["resourceVersion"] == "17"

    @pytest.mark.parametrize("code", [410, 500, 504, 403])
    def test_another_error_in_the_stream_lists(self, code: int) -> None:
        driver = Driver().sync()
        driver.line(error(code))
        assert not driver.reflector.streaming
        assert driver.wait() == 0.8
        assert driver.fetch() == {"resourceVersion": "10"}

    @pytest.mark.parametrize("line", [b"", b"{", b"[]", b"5", b'{"object": {}}', b'{"type": "BOOKMARK", "object": 5}'])
    def test_a_line_that_is_no_event_leads_to_a_list_since_nobody_knows_what_it_was(self, line: bytes) -> None:
        driver = Driver().sync()
        assert driver.line(line) == []
        assert driver.wait() == 0.8
        assert driver.fetch() == {"resourceVersion": "10"}

    @pytest.mark.parametrize("line", [b'{"type": "ERROR"}', b'{"type": "ERROR", "object": {"code": "x"}}'])
    def test_an_error_without_a_status_is_taken_for_a_500(self, line: bytes) -> None:
        driver = Driver().sync()
        driver.line(line)
        assert isinstance(driver.reflector.last_error, StatusError)
        assert driver.reflector.last_error.code == 500

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
        (skipped,) = driver.line(line)
        assert isinstance(skipped, Unreadable)
        assert skipped.identity == identity
        assert driver.reflector.unreadable == 1
        assert driver.reflector.streaming
        assert len(driver.line(event("ADDED", an_object("c", 12)))) == 1

    def test_a_deletion_counts_even_if_the_final_state_cannot_be_decoded(self) -> None:
        driver = Driver().sync()
        (removed,) = driver.line(event("DELETED", an_object("b", 11, bad=1)))
        assert removed == Removed(Identity("n", "b", "uid-b", "11"), None)
        assert driver.reflector.unreadable == 1

    def test_silence_leads_to_reconnects_and_then_to_a_quorum_list(self) -> None:
        driver = Driver().sync()
        for _ in range(2):
            assert driver.reflector.deadline == driver.now + WATCH_SILENCE
            driver.pass_time(WATCH_SILENCE)
            assert not driver.reflector.streaming
            assert driver.open()["resourceVersion"] == "10"
        driver.pass_time(WATCH_SILENCE)
        assert driver.fetch() == {"limit": "500"}

    def test_a_bookmark_breaks_the_silence(self) -> None:
        driver = Driver().sync()
        driver.pass_time(WATCH_SILENCE)
        driver.open()
        driver.pass_time(WATCH_SILENCE)
        driver.open()
        driver.pass_time(WATCH_SILENCE - 1)
        driver.line(bookmark(11))
        driver.pass_time(2)
        assert driver.reflector.streaming
        driver.pass_time(WATCH_SILENCE)
        assert driver.open()["resourceVersion"] == "11"

    def test_back_off_starts_anew_after_two_quiet_minutes(self) -> None:
        driver = Driver().sync()
        waits = []
        for pause in (0, 0, 118, 121):
            driver.now += pause
            driver.fail(StatusError(429))
            waits.append(driver.wait())
            driver.open()
        assert waits == [0.8, 1.6, 3.2, 0.8]

    def test_back_off_is_jittered_up_to_double(self) -> None:
        driver = Driver(random=lambda: 0.75)
        driver.fetch()
        driver.fail(REFUSED)
        assert driver.wait() == pytest.approx(1.4)

    def test_input_after_the_stream_was_given_up_is_ignored(self) -> None:
        driver = Driver().sync()
        driver.line(error(410))
        assert driver.line(event("ADDED", an_object("a", 12))) == []
        driver.reflector.ended(driver.now)
        driver.pass_time(0)
        assert driver.wait() == 0.8
        assert driver.fetch() == {"resourceVersion": "10"}
        assert driver.reflector.deadline is None

    def test_relist_gives_up_the_watch_for_a_quorum_list(self) -> None:
        driver = Driver().sync()
        driver.reflector.relist()
        assert not driver.reflector.streaming
        assert driver.fetch() == {"limit": "500"}
        driver.receive(a_list(10, an_object("a", 1), token="t"))
        driver.reflector.relist()
        assert driver.fetch() == {"limit": "500", "continue": "t"}, "a list under way is not disturbed"


class TestStreamedList:
    def collecting(self) -> Driver:
        driver = Driver(streamed=True)
        driver.open()
        return driver

    def test_the_request(self) -> None:
        assert Driver(streamed=True).open() == {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": "300",
            "sendInitialEvents": "true",
            "resourceVersionMatch": "NotOlderThan",
        }

    def test_the_list_is_complete_at_the_mark_and_the_stream_goes_on(self) -> None:
        driver = self.collecting()
        assert driver.line(event("ADDED", an_object("a", 1))) == []
        assert driver.line(event("ADDED", an_object("b", 2))) == []
        assert driver.line(event("MODIFIED", an_object("a", 11))) == []
        assert driver.line(event("DELETED", an_object("b", 12))) == []
        assert driver.line(bookmark(12)) == [], "not the mark"
        driver.now += 1
        (replaced,) = driver.line(bookmark(13, initial_end=True))
        assert [(view.name, view.resource_version) for view in replaced.objects] == [("a", "11")]
        assert (replaced.resource_version, replaced.requested_at, replaced.quorum) == ("13", 1000.0, True)
        assert driver.reflector.streaming
        (added,) = driver.line(event("ADDED", an_object("c", 14)))
        assert isinstance(added, Upserted)
        driver.reflector.ended(driver.now)
        query = driver.open()
        assert query["resourceVersion"] == "14"
        assert "sendInitialEvents" not in query

    def test_a_later_one_is_bound_to_the_last_version(self) -> None:
        driver = self.collecting()
        driver.line(bookmark(13, initial_end=True))
        driver.line(error(410))
        driver.wait()
        query = driver.open()
        assert (query["sendInitialEvents"], query["resourceVersion"]) == ("true", "13")
        driver.line(error(504, "Too large resource version: 13, current: 5"))
        assert "resourceVersion" not in driver.open(), "at once, and from a quorum"

    @pytest.mark.parametrize(
        "spoil",
        [
            lambda driver: driver.fail(StatusError(422, "Invalid")),
            lambda driver: driver.fail(StatusError(403, "Forbidden")),
            lambda driver: driver.line(error(500, "required storage feature RequestWatchProgress")),
            lambda driver: driver.line(error(504, "etcd is too old")),
            lambda driver: driver.line(b"<html>"),
            lambda driver: driver.line(event("BOOKMARK", {"metadata": {"annotations": {"k8s.io/initial-events-end": "true"}}})),
            lambda driver: driver.reflector.ended(driver.now),
            lambda driver: driver.pass_time(STREAMED_LIST_SILENCE),
        ],
        ids=["422", "403", "500 in the stream", "504 in the stream", "garbage", "no version", "end", "silence"],
    )
    def test_anything_else_falls_back_to_plain_lists_at_once_and_for_good(self, spoil: Callable[[Driver], Any]) -> None:
        driver = self.collecting()
        driver.line(event("ADDED", an_object("ghost", 1)))
        spoil(driver)
        assert not driver.reflector.streaming
        assert driver.fetch() == {"limit": "500"}
        (replaced,) = driver.receive(a_list(10, an_object("a", 3)))
        assert names(replaced.objects) == ["a"]
        driver.open()
        driver.line(error(410))
        driver.wait()
        assert driver.fetch() == {"resourceVersion": "10"}

    @pytest.mark.parametrize("problem", [REFUSED, StatusError(429)])
    def test_trouble_of_the_moment_is_waited_out(self, problem: Any) -> None:
        driver = self.collecting()
        driver.line(event("ADDED", an_object("ghost", 1)))
        driver.fail(problem)
        assert driver.wait() == 0.8
        assert driver.open()["sendInitialEvents"] == "true"
        (replaced,) = driver.line(bookmark(13, initial_end=True))
        assert replaced.objects == ()

    def test_the_fall_back_waits_as_long_as_the_server_asks(self) -> None:
        driver = self.collecting()
        driver.fail(StatusError(503, retry_after=5.0))
        assert driver.wait() == 5.0
        assert driver.fetch() == {"limit": "500"}

    def test_bookmarks_without_the_mark_do_not_put_off_the_fall_back(self) -> None:
        driver = self.collecting()
        driver.pass_time(STREAMED_LIST_SILENCE - 1)
        driver.line(bookmark(12))
        driver.pass_time(1)
        assert driver.fetch() == {"limit": "500"}

    def test_a_long_list_may_take_its_time(self) -> None:
        driver = self.collecting()
        for number in range(5):
            driver.pass_time(STREAMED_LIST_SILENCE - 1)
            driver.line(event("ADDED", an_object(f"a{number}", number + 1)))
        (replaced,) = driver.line(bookmark(13, initial_end=True))
        assert len(replaced.objects) == 5

    def test_an_undecodable_object_is_skipped_but_known_to_exist(self) -> None:
        driver = self.collecting()
        (skipped,) = driver.line(event("ADDED", an_object("b", 2, bad=1)))
        driver.line(event("ADDED", an_object("c", 3, bad=1)))
        driver.line(event("ADDED", an_object("d", 3, bad=1)))
        driver.line(event("MODIFIED", an_object("d", 4)))
        driver.line(event("DELETED", an_object("c", 4, bad=1)))
        assert isinstance(skipped, Unreadable)
        (replaced,) = driver.line(bookmark(13, initial_end=True))
        assert replaced.unreadable == (Identity("n", "b", "uid-b", "2"),)


def test_ten_minutes_of_a_dead_server_keep_the_version_and_cost_few_requests() -> None:
    driver = Driver().sync()
    requests = 0
    start = driver.now
    while driver.now - start < 600:
        driver.fail(REFUSED)
        driver.wait()
        assert driver.open()["resourceVersion"] == "10"
        requests += 1
    assert requests < 30
