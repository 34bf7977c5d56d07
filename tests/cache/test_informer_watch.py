"""Watches. Scripted traces, one for each row."""

from collections.abc import Callable

import pytest

from jobcommon.api.view import Identity
from jobcommon.cache.delta import Removed, Unreadable, Upserted
from jobcommon.cache.informer import WATCH_SILENCE
from jobcommon.client.errors import StatusError, TransportError
from tests.cache.informer_driver import REFUSED, Driver, a_list, an_object, bookmark, error, event

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
    assert (driver.open() if watches else driver.fetch())["resourceVersion"] == version


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
        (skipped,) = driver.line(line)
        assert isinstance(skipped, Unreadable)
        assert skipped.identity == identity
        assert driver.informer.unreadable == 1
        assert driver.informer.streaming
        assert len(driver.line(event("ADDED", an_object("c", 12)))) == 1

    def test_a_deletion_counts_even_if_the_final_state_cannot_be_decoded(self) -> None:
        driver = Driver().sync()
        (removed,) = driver.line(event("DELETED", an_object("b", 11, bad=1)))
        assert removed == Removed(Identity("n", "b", "uid-b", "11"), None)
        assert driver.informer.unreadable == 1

    def test_silence_leads_to_reconnects_and_then_to_a_quorum_list(self) -> None:
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

    def test_relist_gives_up_the_watch_for_a_quorum_list(self) -> None:
        driver = Driver().sync()
        driver.informer.relist()
        assert not driver.informer.streaming
        assert driver.fetch() == {"limit": "500"}
        driver.receive(a_list(10, an_object("a", 1), token="t"))
        driver.informer.relist()
        assert driver.fetch() == {"limit": "500", "continue": "t"}, "a list under way is not disturbed"


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
