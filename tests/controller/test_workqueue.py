"""The work queue: levels, timers, back-off, the end, and what is announced."""

from collections.abc import Callable

import pytest

from jobcommon.controller.workqueue import BASE_BACKOFF, MAX_BACKOFF, WorkQueue


@pytest.mark.parametrize(
    "add",
    [
        lambda queue: queue.add("b"),
        lambda queue: queue.add_at("b", 0.0),
        lambda queue: queue.add_after("b", 0.0, 0.0),
        lambda queue: queue.add_rate_limited("b", 0.0),
    ],
)
def test_after_shutdown_nothing_is_handed_out(add: Callable[[WorkQueue[str]], None]) -> None:
    queue: WorkQueue[str] = WorkQueue(lambda: 1.0)
    queue.add("a")
    queue.add("ready")
    queue.add_at("later", 1.0)
    assert queue.get(0.0) == "a"
    queue.add("a")
    queue.shutdown()
    add(queue)
    assert queue.get(100.0) is None
    assert queue.next_wakeup() is None
    queue.done("a")
    assert (len(queue), queue.failing) == (0, 0)


def test_a_key_that_is_added_again_moves_to_its_level_and_is_handed_out_once() -> None:
    levels = {"a": 1, "b": 1, "c": 1}
    queue: WorkQueue[str] = WorkQueue(lambda: 0.0, level=levels.__getitem__, levels=2)
    for key in "abc":
        queue.add(key)
    levels["c"] = 0
    queue.add("c")
    queue.add("c")
    assert len(queue) == 3
    assert [queue.get(0.0) for _ in range(4)] == ["c", "a", "b", None]
    queue.add("c")
    assert queue.get(0.0) is None, "it is being processed"
    queue.done("c")
    assert queue.get(0.0) == "c"


@pytest.mark.parametrize("level", [0, 1])
def test_a_key_that_was_added_meanwhile_may_have_to_wait_unless_it_is_at_the_first_level(level: int) -> None:
    queue: WorkQueue[str] = WorkQueue(lambda: 0.0, level=lambda _: level, levels=2)
    queue.add("a")
    assert queue.get(0.0) == "a"
    queue.add("a")
    queue.done("a", not_before=5.0)
    assert queue.get(4.9) == ("a" if level == 0 else None)
    assert queue.get(5.0) == (None if level == 0 else "a")


def test_an_earlier_timer_is_announced() -> None:
    queue: WorkQueue[str] = WorkQueue(lambda: 0.0)
    wakeups: list[float | None] = []
    queue.on_timer = lambda: wakeups.append(queue.next_wakeup())
    for key, when in (("a", 9.0), ("b", 10.0), ("c", 8.0), ("a", 7.0)):
        queue.add_at(key, when)
    assert wakeups == [9.0, 8.0, 7.0]


def test_each_key_that_becomes_ready_is_announced_once() -> None:
    queue: WorkQueue[str] = WorkQueue(lambda: 0.0)
    announced: list[str] = []
    queue.on_ready = announced.append
    queue.add("a")
    queue.add("a")
    queue.add_at("b", 5.0)
    assert announced == ["a"]
    assert queue.get(6.0) == "a"
    assert announced == ["a", "b"]
    queue.add("a")
    assert announced == ["a", "b"]
    queue.done("a")
    assert announced == ["a", "b", "a"]


def test_a_key_comes_back_at_its_earliest_time_and_after_a_failure_later_each_time() -> None:
    queue: WorkQueue[str] = WorkQueue(lambda: 1.0)
    for when in (9.0, 5.0, 7.0):
        queue.add_at("a", when)
    queue.add_after("b", 4.0, now=2.0)
    assert [queue.get(4.9), queue.get(5.0), queue.get(6.0), queue.get(1e6)] == [None, "a", "b", None]
    pauses = []
    for now in (100.0 * number for number in range(1, 17)):
        queue.add_rate_limited("c", now)
        pauses.append(round((queue.next_wakeup() or now) - now, 6))
        assert queue.get(now + MAX_BACKOFF) == "c"
        queue.done("c")
    assert pauses == [min(BASE_BACKOFF * 2**number, MAX_BACKOFF) for number in range(16)]
    assert (queue.requeues("c"), queue.failing) == (16, 1)
    queue.forget("c")
    assert (queue.requeues("c"), queue.failing, queue.next_wakeup()) == (0, 0, None)
