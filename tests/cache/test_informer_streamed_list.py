"""Streamed lists (WatchList). Scripted traces, one for each row."""

from collections.abc import Callable
from typing import Any

import pytest

from jobcommon.api.view import Identity
from jobcommon.cache.delta import Unreadable, Upserted
from jobcommon.cache.informer import STREAMED_LIST_SILENCE
from jobcommon.client.errors import StatusError
from tests.cache.informer_driver import Driver, a_list, an_object, bookmark, error, event, names


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
        assert driver.informer.streaming
        (added,) = driver.line(event("ADDED", an_object("c", 14)))
        assert isinstance(added, Upserted)
        driver.informer.ended(driver.now)
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
            lambda driver: driver.informer.ended(driver.now),
            lambda driver: driver.pass_time(STREAMED_LIST_SILENCE),
        ],
        ids=["422", "403", "500 in the stream", "504 in the stream", "garbage", "no version", "end", "silence"],
    )
    def test_anything_else_falls_back_to_plain_lists_at_once_and_for_good(self, spoil: Callable[[Driver], Any]) -> None:
        driver = self.collecting()
        driver.line(event("ADDED", an_object("ghost", 1)))
        spoil(driver)
        assert not driver.informer.streaming
        assert driver.fetch() == {"limit": "500"}
        (replaced,) = driver.receive(a_list(10, an_object("a", 3)))
        assert names(replaced.objects) == ["a"]
        driver.open()
        driver.line(error(410))
        driver.wait()
        assert driver.fetch() == {"resourceVersion": "10"}

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
