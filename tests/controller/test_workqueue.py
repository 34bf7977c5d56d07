"""The work queue: tables, and a random walk against a reference model."""

import random
from collections.abc import Callable

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from jobcommon.controller.workqueue import BASE_BACKOFF, MAX_BACKOFF, WorkQueue


def a_queue(draw: float = 1.0) -> WorkQueue[str]:
    """A queue whose back-off is `draw` of the ceiling."""
    return WorkQueue(lambda: draw)


def take_all(queue: WorkQueue[str], now: float = 0.0) -> list[str]:
    taken: list[str] = []
    while (key := queue.get(now)) is not None:
        taken.append(key)
        queue.done(key)
    return taken


def test_keys_are_served_in_order_and_once() -> None:
    queue = a_queue()
    for key in ["b", "a", "b", "c", "a"]:
        queue.add(key)
    assert len(queue) == 3
    assert take_all(queue) == ["b", "a", "c"]


def test_a_key_is_never_handed_out_twice_at_once_and_no_add_is_lost() -> None:
    queue = a_queue()
    queue.add("a")
    assert queue.get(0) == "a"
    queue.add("a")
    queue.add("a")
    assert len(queue) == 0
    assert queue.get(0) is None
    queue.done("a")
    assert queue.get(0) == "a"
    queue.done("a")
    assert queue.get(0) is None


def test_a_key_that_is_always_added_again_does_not_starve_others() -> None:
    queue = a_queue()
    queue.add("greedy")
    queue.add("modest")
    served = []
    for _ in range(4):
        key = queue.get(0)
        assert key is not None
        served.append(key)
        queue.add(key)
        queue.done(key)
    assert served == ["greedy", "modest", "greedy", "modest"]


def test_done_for_a_key_that_was_not_handed_out_changes_nothing() -> None:
    queue = a_queue()
    queue.done("a")
    queue.add("a")
    queue.done("a")
    assert take_all(queue) == ["a"]


@pytest.mark.parametrize(
    ("times", "expected"),
    [([5.0, 3.0, 9.0], 3.0), ([3.0, 5.0], 3.0), ([3.0, 3.0], 3.0), ([-1.0], -1.0), ([float("inf")], None)],
)
def test_the_earliest_of_several_times_counts(times: list[float], expected: float | None) -> None:
    queue = a_queue()
    for when in times:
        queue.add_at("a", when)
    assert queue.next_wakeup() == expected
    if expected is not None:
        assert queue.get(expected - 0.001) is None
        assert take_all(queue, expected) == ["a"]
        assert take_all(queue, 1000.0) == [], "the later times are void"
    assert queue.next_wakeup() is None


def test_delayed_keys_become_ready_in_the_order_of_their_times() -> None:
    queue = a_queue()
    queue.add_at("c", 3.0)
    queue.add_at("a", 1.0)
    queue.add_at("b2", 2.0)
    queue.add_at("b1", 2.0)
    queue.add("now")
    assert take_all(queue, 5.0) == ["now", "a", "b2", "b1", "c"]


def test_a_delayed_key_that_is_handed_out_before_its_time_waits_no_longer() -> None:
    queue = a_queue()
    queue.add_at("a", 10.0)
    queue.add("a")
    assert queue.next_wakeup() == 10.0
    assert take_all(queue, 0.0) == ["a"]
    assert queue.next_wakeup() is None


def test_a_key_that_falls_due_while_it_is_processed_comes_after() -> None:
    queue = a_queue()
    queue.add("a")
    queue.get(0.0)
    queue.add_at("a", 1.0)
    assert queue.get(2.0) is None
    queue.done("a")
    assert queue.get(2.0) == "a"


@pytest.mark.parametrize(("delay", "ready"), [(0.0, True), (-5.0, True), (0.001, False)])
def test_a_delay_that_is_not_positive_is_none(delay: float, ready: bool) -> None:
    queue = a_queue()
    queue.add_after("a", delay, 100.0)
    assert (len(queue) == 1) is ready


def test_back_off_doubles_up_to_the_cap_and_never_overflows() -> None:
    queue = a_queue()
    delays = []
    for attempt in range(2000):
        queue.add_rate_limited("a", 0.0)
        assert queue.requeues("a") == attempt + 1
        wakeup = queue.next_wakeup()
        assert wakeup is not None
        delays.append(wakeup)
        assert take_all(queue, wakeup) == ["a"]
    assert delays[:4] == [BASE_BACKOFF, 2 * BASE_BACKOFF, 4 * BASE_BACKOFF, 8 * BASE_BACKOFF]
    assert delays[13] == pytest.approx(40.96)
    assert set(delays[14:]) == {MAX_BACKOFF}


def test_full_jitter_spreads_from_nothing_to_the_ceiling() -> None:
    queue: WorkQueue[int] = WorkQueue(random.Random(7).random)
    delays = []
    for key in range(1000):
        queue.add_rate_limited(key, 0.0)
        delays.append(queue.next_wakeup() or 0.0)
        queue.get(1.0)
    assert 0 <= min(delays) < 0.1 * BASE_BACKOFF
    assert 0.9 * BASE_BACKOFF < max(delays) <= BASE_BACKOFF
    assert sum(delays) / len(delays) == pytest.approx(BASE_BACKOFF / 2, rel=0.1)


def test_forget_clears_the_back_off_and_nothing_else() -> None:
    queue = a_queue()
    queue.add_rate_limited("a", 0.0)
    queue.add_rate_limited("b", 0.0)
    queue.forget("a")
    queue.forget("stranger")
    assert (queue.requeues("a"), queue.requeues("b"), queue.failing) == (0, 1, 1)
    assert take_all(queue, 1.0) == ["a", "b"]


@pytest.mark.parametrize(
    "add",
    [
        lambda queue: queue.add("b"),
        lambda queue: queue.add_at("b", 0.0),
        lambda queue: queue.add_after("b", 0.0, 0.0),
        lambda queue: queue.add_rate_limited("b", 0.0),
    ],
)
def test_after_shutdown_nothing_is_handed_out_and_the_queue_drains(add: Callable[[WorkQueue[str]], None]) -> None:
    queue = a_queue()
    queue.add("a")
    queue.add("ready")
    queue.add_at("later", 1.0)
    assert queue.get(0.0) == "a"
    queue.add("a")
    queue.shutdown()
    assert not queue.drained
    add(queue)
    assert queue.get(100.0) is None
    assert queue.next_wakeup() is None
    queue.done("a")
    assert queue.drained
    assert (len(queue), queue.delayed, queue.failing) == (0, 0, 0)


def test_timers_made_void_do_not_pile_up() -> None:
    queue: WorkQueue[str] = WorkQueue(lambda: 0.0)
    for step in range(100_000):
        queue.add_at("a", 1e6 - step)
    assert len(queue._timers) < 100
    assert queue.next_wakeup() == 1e6 - 99_999


class QueueWalk(RuleBasedStateMachine):
    """The model: lists searched from end to end."""

    keys = st.sampled_from(["a", "b", "c", "d"])
    delays = st.sampled_from([-1.0, 0.0, 0.5, 1.0, 2.0, 60.0])

    def __init__(self) -> None:
        super().__init__()
        self.queue: WorkQueue[str] = WorkQueue(lambda: 0.5, base_delay=0.5, max_delay=4.0)
        self.now = 0.0
        self.waiting: list[str] = []
        self.working: list[str] = []
        self.again: set[str] = set()
        self.timers: list[tuple[float, int, str]] = []
        self.failures: dict[str, int] = {}
        self.count = 0

    def model_add(self, key: str) -> None:
        if key in self.working:
            if key not in self.again:
                self.again.add(key)
        elif key not in self.waiting:
            self.waiting.append(key)

    def model_add_at(self, key: str, when: float) -> None:
        self.count += 1
        known = [timer for timer in self.timers if timer[2] == key]
        if not known or when < known[0][0]:
            self.timers = [timer for timer in self.timers if timer[2] != key] + [(when, self.count, key)]

    @rule(key=keys)
    def add(self, key: str) -> None:
        self.queue.add(key)
        self.model_add(key)

    @rule(key=keys, delay=delays)
    def add_at(self, key: str, delay: float) -> None:
        self.queue.add_at(key, self.now + delay)
        self.model_add_at(key, self.now + delay)

    @rule(key=keys)
    def fail(self, key: str) -> None:
        self.queue.add_rate_limited(key, self.now)
        failures = self.failures.get(key, 0)
        self.failures[key] = failures + 1
        self.model_add_at(key, self.now + 0.5 * min(4.0, 0.5 * 2**failures))

    @rule(key=keys)
    def forget(self, key: str) -> None:
        self.queue.forget(key)
        self.failures.pop(key, None)

    @rule(delay=st.sampled_from([0.0, 0.25, 1.0, 10.0]))
    def pass_time(self, delay: float) -> None:
        self.now += delay

    @rule()
    def get(self) -> None:
        for timer in sorted(self.timers):
            if timer[0] <= self.now:
                self.timers.remove(timer)
                self.model_add(timer[2])
        expected = self.waiting.pop(0) if self.waiting else None
        assert self.queue.get(self.now) == expected
        if expected is not None:
            self.timers = [timer for timer in self.timers if timer[2] != expected]
            self.working.append(expected)

    @rule(key=keys)
    def done(self, key: str) -> None:
        self.queue.done(key)
        if key in self.working:
            self.working.remove(key)
            if key in self.again:
                self.again.remove(key)
                self.waiting.append(key)

    @invariant()
    def same(self) -> None:
        assert len(self.queue) == len(self.waiting)
        assert self.queue.delayed == len(self.timers)
        assert self.queue.next_wakeup() == (min(self.timers)[0] if self.timers else None)
        assert {key: self.queue.requeues(key) for key in self.failures} == self.failures
        assert self.queue.failing == len(self.failures)


TestQueueWalk = QueueWalk.TestCase
TestQueueWalk.settings = settings(max_examples=80, stateful_step_count=50, derandomize=True, deadline=None, database=None)


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
