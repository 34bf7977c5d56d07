"""Lists. Scripted traces, one for each row."""

import pytest

from jobcommon.api.view import Identity
from jobcommon.cache.delta import Replaced
from jobcommon.client.request import Response
from tests.cache.informer_driver import Driver, a_list, an_object, error, event, names, refusal


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

    def test_an_expired_continue_token_leads_to_one_whole_list_from_the_start(self) -> None:
        driver = Driver()
        driver.fetch()
        driver.receive(a_list(10, an_object("gone", 1), token="t1"))
        driver.fetch()
        driver.receive(refusal(410))
        assert driver.fetch() == {}
        (replaced,) = driver.receive(a_list(20, an_object("a", 15)))
        assert names(replaced.objects) == ["a"]

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
        assert driver.informer.last_error is not None
        assert driver.wait() == expected
        assert driver.fetch() == {"limit": "500"}
        driver.receive(a_list(1))
        assert driver.informer.last_error is None

    def test_a_server_that_asks_to_wait_again_and_again_is_asked_as_often(self) -> None:
        driver = Driver()
        for _ in range(60):
            driver.fetch()
            assert driver.receive(refusal(429, retry_after="1")) == []
            assert driver.wait() == 1.0
        driver.fetch()
        (replaced,) = driver.receive(a_list(20, an_object("a", 15)))
        assert names(replaced.objects) == ["a"]

    def test_a_malformed_item_does_not_lose_the_page(self) -> None:
        driver = Driver()
        driver.fetch()
        deltas = driver.receive(a_list(10, an_object("a", 1), an_object("b", 2, bad=1), 5, None, {}, an_object("c", 3)))
        *skipped, replaced = deltas
        assert [delta.identity.name if delta.identity else None for delta in skipped] == ["b", None, None, None]
        assert "bad" in skipped[0].error
        assert names(replaced.objects) == ["a", "c"]
        assert replaced.unreadable == (Identity("n", "b", "uid-b", "2"),)
        assert driver.informer.unreadable == 4
