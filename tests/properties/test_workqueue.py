"""The work queue does what its model does, whatever the order of calls."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from jobcommon.controller.workqueue import BASE_BACKOFF, MAX_BACKOFF, WorkQueue
from jobcommon.testutil.models.work_queue import WorkQueueModel
from tests.properties.profile import examples

KEYS = st.sampled_from("abcd")
# Few distinct values, so that equal times happen.
TIMES = st.sampled_from([0.0, 0.5, 1.0, 1.0, 2.0, 3.5, 60.0, 1e6])


class Queue(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = 100.0
        self.draw = 0.0
        self.queue: WorkQueue[str] = WorkQueue(lambda: self.draw)
        self.model = WorkQueueModel(BASE_BACKOFF, MAX_BACKOFF)
        self.announced: list[str] = []
        self.queue.on_ready = self.announced.append
        self.handed_out: list[str] = []

    @rule(key=KEYS)
    def add(self, key: str) -> None:
        self.queue.add(key)
        self.model.add(key)

    @rule(key=KEYS, delay=TIMES, late=st.booleans())
    def add_at(self, key: str, delay: float, late: bool) -> None:
        when = self.now - delay if late else self.now + delay
        self.queue.add_at(key, when)
        self.model.add_at(key, when)

    @rule(key=KEYS, delay=st.sampled_from([-1.0, 0.0, 0.25, 4.0]))
    def add_after(self, key: str, delay: float) -> None:
        self.queue.add_after(key, delay, self.now)
        if delay > 0:
            self.model.add_at(key, self.now + delay)
        else:
            self.model.add(key)

    @rule(key=KEYS, draw=st.sampled_from([0.0, 0.5, 0.999]), times=st.sampled_from([1, 1, 2, 30, 2000]))
    def fail(self, key: str, draw: float, times: int) -> None:
        self.draw = draw
        for _ in range(times):
            self.queue.add_rate_limited(key, self.now)
            # Beyond this the model's power would overflow; the queue's must not.
            if self.model.failures.get(key, 0) < 60:
                self.model.fail(key, self.now, draw)
            elif not self.model.down:
                self.model.failures[key] += 1
                self.model.add_at(key, self.now + MAX_BACKOFF * draw) if draw else self.model.add(key)

    @rule(key=KEYS)
    def forget(self, key: str) -> None:
        self.queue.forget(key)
        self.model.failures.pop(key, None)

    @rule()
    def get(self) -> None:
        found = self.queue.get(self.now)
        assert found == self.model.get(self.now)
        if found is not None:
            assert found not in self.handed_out, "one key in two hands"
            self.handed_out.append(found)

    @precondition(lambda self: self.handed_out)
    @rule(data=st.data())
    def done(self, data: Any) -> None:
        key = data.draw(st.sampled_from(self.handed_out))
        self.handed_out.remove(key)
        self.queue.done(key)
        self.model.done(key)

    @rule(key=KEYS)
    def done_without_get(self, key: str) -> None:
        if key not in self.handed_out:
            self.queue.done(key)
            self.model.done(key)

    @rule(seconds=TIMES)
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def wait_for_the_next(self) -> None:
        if (when := self.queue.next_wakeup()) is not None:
            self.now = max(self.now, when)

    @precondition(lambda self: len(self.announced) > 20)
    @rule()
    def shutdown(self) -> None:
        self.queue.shutdown()
        self.model.shutdown()

    @invariant()
    def same(self) -> None:
        model = self.model
        assert len(self.queue) == len(model.ready)
        assert self.queue.delayed == len(model.timers)
        assert self.queue.failing == len(model.failures)
        assert self.queue.next_wakeup() == min((timer[0] for timer in model.timers), default=None)
        assert [self.queue.requeues(key) for key in "abcd"] == [model.failures.get(key, 0) for key in "abcd"]
        assert self.queue.drained == (model.down and not model.processing)
        assert len(self.queue._timers) <= 2 * self.queue.delayed + 65, "memory grows"

    def teardown(self) -> None:
        """No add is lost: whatever was asked for is handed out in the end."""
        owed = {*self.model.ready, *self.model.again, *(timer[2] for timer in self.model.timers)}
        for key in self.handed_out:
            self.queue.done(key)
        given = set()
        while (key := self.queue.get(float("inf"))) is not None:
            given.add(key)
            self.queue.done(key)
        assert given == owed


TestQueue = Queue.TestCase
TestQueue.settings = examples(50)
