"""Objects that the caller does not want, and a part of the query that the server may refuse."""

import pytest

from jobcommon.api.view import ObjectView, object_view
from jobcommon.cache.delta import Removed, Replaced, Upserted
from jobcommon.cache.informer import Informer
from jobcommon.cache.reflector import Reflector
from jobcommon.cache.store import Store
from tests.cache.reflector_driver import Driver, a_list, an_object, bookmark, error, event, names, refusal

HINT = (("shardSelector", "x"),)
QUERY = (("labelSelector", "a=b"),)


def wanted_only(data: bytes) -> ObjectView | None:
    view = object_view(data)
    return None if "unwanted" in view.raw else view


def choosing(*, streamed: bool = False) -> Driver:
    driver = Driver(streamed=streamed)
    driver.reflector = Reflector("/api/v1/pods", wanted_only, lambda: 0.0, streamed_lists=streamed)
    return driver


@pytest.mark.parametrize("streamed", [False, True])
def test_a_list_is_without_them(streamed: bool) -> None:
    driver = choosing(streamed=streamed)
    if streamed:
        driver.open()
        for found in (an_object("a", 1), an_object("b", 2, unwanted=True), an_object("c", 3)):
            assert driver.line(event("ADDED", found)) == []
        assert driver.line(event("MODIFIED", an_object("c", 4, unwanted=True))) == []
        (replaced,) = driver.line(bookmark(9, initial_end=True))
    else:
        driver.fetch()
        (replaced,) = driver.receive(a_list(9, an_object("a", 1), an_object("b", 2, unwanted=True)))
    assert isinstance(replaced, Replaced)
    assert names(replaced.objects) == ["a"]
    assert replaced.unreadable == ()
    assert driver.reflector.unreadable == 0


def test_their_events_advance_the_version_and_remove_what_was_wanted_before() -> None:
    store: Store[ObjectView] = Store()
    driver = choosing().sync()
    informer = Informer(driver.reflector, store)
    for kind, found, left in (
        ("ADDED", an_object("a", 11), ["a"]),
        ("ADDED", an_object("b", 12, unwanted=True), ["a"]),
        ("MODIFIED", an_object("a", 13, unwanted=True), []),
        ("MODIFIED", an_object("a", 14), ["a"]),
        ("DELETED", an_object("b", 15, unwanted=True), ["a"]),
        ("DELETED", an_object("a", 16, unwanted=True), []),
    ):
        informer.line(event(kind, found), driver.now)
        assert [view.name for view in store.all()] == left
        assert store.resource_version == found["metadata"]["resourceVersion"]
    assert driver.reflector.unreadable == 0


def test_the_deltas_are_removals() -> None:
    driver = choosing().sync()
    (removed,) = driver.line(event("MODIFIED", an_object("a", 13, unwanted=True)))
    assert isinstance(removed, Removed)
    (added,) = driver.line(event("MODIFIED", an_object("a", 14)))
    assert isinstance(added, Upserted)


@pytest.mark.parametrize("code", [400, 500])
def test_a_hint_is_part_of_the_query_until_the_server_refuses_it(code: int) -> None:
    driver = Driver(query=QUERY, hint=HINT)
    assert driver.fetch() == {"labelSelector": "a=b", "shardSelector": "x", "limit": "500"}
    driver.receive(refusal(503))
    driver.wait()
    assert "shardSelector" in driver.fetch()
    driver.receive(refusal(code, "invalid shard selector"))
    driver.wait()
    assert driver.fetch() == {"labelSelector": "a=b", "limit": "500"}
    driver.receive(a_list(9))
    assert "shardSelector" not in driver.open()


def test_a_hint_that_a_watch_refuses_is_dropped() -> None:
    driver = Driver(hint=HINT, streamed=True)
    assert driver.open()["shardSelector"] == "x"
    driver.line(error(400))
    assert driver.fetch() == {"limit": "500"}
