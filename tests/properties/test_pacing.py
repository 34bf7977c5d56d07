"""What slows us down: the informer's back-off, the rate limit, the fair gate, and the pace of restarts."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from jobcommon.cache.backoff import CAP, INITIAL, RESET_AFTER, Backoff
from jobcommon.client.limiter import TokenBucket
from jobcommon.client.responses import MAX_RETRY_AFTER, retry_after
from jobcommon.reconcile.limits import MAX_RESTART_DELAY, restart_due
from jobcommon.runtime.flow_control import FlowController
from jobcommon.testutil.builders import START
from jobcommon.testutil.models.round_robin import RoundRobinModel
from jobcommon.testutil.models.token_bucket import exceeds, schedule
from tests.properties.asynchronous import AsyncMachine
from tests.properties.profile import examples
from tests.runtime.fakes import turns

pytestmark = pytest.mark.slow

FRACTIONS = st.floats(0, 1, exclude_max=True)


@examples(200)
@given(st.lists(st.tuples(st.floats(0, 1000), FRACTIONS), max_size=30))
def test_back_off_doubles_to_its_cap_and_starts_anew_after_quiet(attempts: list[tuple[float, float]]) -> None:
    drawn, now, in_a_row = 0.0, 0.0, 0
    backoff = Backoff(lambda: drawn)
    for number, (pause, drawn) in enumerate(attempts):
        now += pause
        in_a_row = in_a_row + 1 if number and pause <= RESET_AFTER else 0
        base = min(INITIAL * 2.0**in_a_row, CAP)
        delay = backoff.next(now)
        assert delay == base * (1 + drawn)
        assert INITIAL <= delay < 2 * CAP


@examples(200)
@given(
    st.integers(-5, 2**40),
    st.floats(START - 1e6, START + 1e6),
    st.none() | st.floats(START - 1e6, START + 1e6),
    st.none() | st.floats(START - 1e6, START + 1e6),
)
def test_a_restart_is_never_put_off_for_more_than_a_minute(
    earlier: int, now: float, started: float | None, recorded: float | None
) -> None:
    due = restart_due(started, earlier, now, recorded)
    assert due.at <= now + MAX_RESTART_DELAY
    assert due.passed == (now >= due.at)


@examples(200)
@given(st.text(max_size=40) | st.integers().map(str) | st.none(), st.none() | st.floats(0, 4e9))
def test_retry_after_is_bounded_whatever_it_says(header: str | None, now: float | None) -> None:
    seconds = retry_after(header, now)
    assert seconds is None or 0 <= seconds <= MAX_RETRY_AFTER


class Bucket(AsyncMachine):
    """Takers come and give up at any time."""

    def __init__(self) -> None:
        super().__init__()
        self.bucket = TokenBucket(self.rate, self.burst, self.clock.monotonic, self.clock.sleep_until)
        self.asked: list[float] = []
        self.taken: list[float] = []
        self.given_up = 0

    rate, burst = 2.0, 3.0

    async def take(self) -> None:
        await self.bucket.take()
        self.taken.append(self.clock.monotonic())

    @rule(count=st.sampled_from([1, 1, 2, 5]))
    def ask(self, count: int) -> None:
        for _ in range(count):
            self.asked.append(self.clock.monotonic())
            self.start(self.take())

    @rule(data=st.data())
    def give_up(self, data: Any) -> None:
        if waiting := [task for task in self.tasks if not task.done()]:
            data.draw(st.sampled_from(waiting)).cancel()
            self.run(turns(6))
            self.given_up += 1

    @rule(seconds=st.sampled_from([0.1, 0.5, 1.0, 7.25]))
    def wait(self, seconds: float) -> None:
        self.advance(seconds)

    @invariant()
    def the_rate_holds(self) -> None:
        assert not exceeds(self.taken, self.rate, self.burst)

    def in_the_end(self) -> None:
        self.advance(len(self.asked) / self.rate + 1)
        assert len(self.taken) == len(self.asked) - self.given_up, "a waiter is never served"
        if not self.given_up:
            wanted = schedule(self.asked, self.rate, self.burst)
            assert all(abs(real - model) < 1e-6 for real, model in zip(self.taken, wanted, strict=True))


class Gate(AsyncMachine):
    """Holders hold for as long as they like; those who wait may give up, also in the very turn in which they are let in."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = FlowController(3)
        self.model = RoundRobinModel(3)
        self.inside: dict[int, asyncio.Event] = {}
        self.by_number: dict[int, asyncio.Task[Any]] = {}

    async def hold(self, who: int, key: str) -> None:
        async with self.gate.seat(key):
            self.inside[who] = asyncio.Event()
            try:
                await self.inside[who].wait()
            finally:
                del self.inside[who]

    @rule(key=st.sampled_from("abc"), count=st.sampled_from([1, 1, 2, 6]))
    def arrive(self, key: str, count: int) -> None:
        for _ in range(count):
            who = len(self.by_number)
            self.by_number[who] = self.start(self.hold(who, key))
            self.model.arrive(who, key)

    @precondition(lambda self: self.inside)
    @rule(data=st.data(), killed=st.booleans())
    def leave(self, data: Any, killed: bool) -> None:
        who = data.draw(st.sampled_from(sorted(self.inside)))
        if killed:
            self.by_number[who].cancel()
        else:
            self.inside[who].set()
        self.model.leave(who)
        self.run(turns(6))

    @precondition(lambda self: self.model.waiting)
    @rule(data=st.data())
    def give_up(self, data: Any) -> None:
        waiting = [who for _, members in self.model.lines for who in members]
        who = data.draw(st.sampled_from(waiting))
        self.by_number[who].cancel()
        self.model.give_up(who)
        self.run(turns(6))

    @precondition(lambda self: self.inside and self.model.waiting)
    @rule(data=st.data())
    def leave_and_the_next_gives_up_at_once(self, data: Any) -> None:
        """The seat has been given to a waiter that has been cancelled."""
        who = data.draw(st.sampled_from(sorted(self.inside)))
        following = self.model.lines[0][1][0]
        self.inside[who].set()
        self.model.leave(who)
        self.run(turns(1))
        self.by_number[following].cancel()
        self.model.leave(following)
        self.run(turns(6))

    @invariant()
    def same(self) -> None:
        assert set(self.inside) == self.model.inside
        assert (self.gate.in_use, self.gate.waiting) == (len(self.model.inside), self.model.waiting)

    def when_all_is_over(self) -> None:
        assert (self.gate.in_use, self.gate.waiting) == (0, 0), "a place is lost"


TestBucket = Bucket.TestCase
TestBucket.settings = examples(60)
TestGate = Gate.TestCase
TestGate.settings = examples(60)
