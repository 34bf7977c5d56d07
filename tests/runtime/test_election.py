"""Leader election: several processes on one lease, with replies late or lost, processes frozen, killed and started again.

At no moment do two hold the lease, and a write that one may begin has ended before another may begin one (rule R8).
"""

import asyncio
import os
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from jobcommon.client.errors import TransportError
from jobcommon.client.request import Request, Response
from jobcommon.runtime.clock import Clock, Timer
from jobcommon.runtime.leader import LeaderElector, LeaseSettings
from localcluster.client import ADMIN
from tests.runtime.fakes import FakeClock, quiet_log, refusal, turns
from tests.runtime.tap import WithoutStreams
from tests.runtime.world import World

pytestmark = pytest.mark.slow

TIMEOUT = 4.0
CRASH_TAKE_OVER = 24.0
GRACEFUL_TAKE_OVER = 5.0


class ProcessClock(Clock):
    """The clock of one process: while it is frozen nothing of it runs, but its time goes on."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.frozen_until = 0.0
        self.jump = 0.0

    def monotonic(self) -> float:
        return self.clock.monotonic()

    def wall(self) -> float:
        return self.clock.wall() + self.jump

    def call_at(self, when: float, callback: Callable[[], object]) -> Timer:
        def fire() -> None:
            if self.clock.now < self.frozen_until:
                self.clock.call_at(self.frozen_until, fire)
            else:
                callback()

        return self.clock.call_at(when, fire)


class Line(WithoutStreams):
    """The way to the server: `out` and `back` seconds long, losing requests or replies on demand."""

    def __init__(self, world: World, clock: ProcessClock) -> None:
        self.world, self.clock = world, clock
        self.out = self.back = 0.01
        self.fault = ""

    async def send(self, request: Request) -> Response:
        asked = self.clock.monotonic()
        reply: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        fault, back = self.fault, self.back

        def arrive() -> None:
            answer = refusal(500, "InternalError") if fault == "refused" else self.world.server.handle(request, ADMIN)
            if fault != "reply lost":
                self.clock.call_at(self.clock.monotonic() + back, lambda: reply.done() or reply.set_result(answer))

        if fault != "request lost":
            # The network goes on while a process is frozen.
            self.clock.clock.call_at(asked + self.out, arrive)
        self.clock.call_at(asked + TIMEOUT, lambda: reply.done() or reply.set_exception(TransportError("no answer")))
        return await reply


class Process:
    """One process: candidate, leader, candidate again."""

    def __init__(self, number: int, world: World, times: tuple[float, float, float]) -> None:
        self.clock = ProcessClock(world.clock)
        self.line = Line(world, self.clock)
        settings = LeaseSettings("default", "operators", f"p{number}", *times)
        self.elector = LeaderElector(self.line, settings, self.clock, Random(number).random, quiet_log())

    async def run(self) -> None:
        while True:
            await self.elector.acquire()
            await self.elector.hold()


class Election(RuleBasedStateMachine):
    """Its steps run on an event loop with a clock that stands still."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.world = World()
        self.clock = self.world.clock
        self.tasks: list[asyncio.Task[Any]] = []
        self.processes: dict[int, tuple[Process, asyncio.Task[None]]] = {}
        self.started = 0
        self.last: tuple[int, float] | None = None
        # A release promises that no write is in flight.
        self.let_go: set[int] = set()

    def run(self, work: Coroutine[Any, Any, object]) -> None:
        self.loop.run_until_complete(work)

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        self.tasks.append(self.loop.create_task(work))
        self.run(turns(6))
        return self.tasks[-1]

    @initialize(times=st.sampled_from([(15.0, 10.0, 2.0), (15.0, 9.7, 2.3), (11.0, 10.5, 1.9)]))
    def begin(self, times: tuple[float, float, float]) -> None:
        self.times = times
        # Renewals are good for the second, the lease for the first: in between, writes begun under it come to their end.
        self.guard = times[0] - times[1]
        for _ in range(2):
            self.start_one()

    @precondition(lambda self: len(self.processes) < 4)
    @rule()
    def start_one(self) -> None:
        self.started += 1
        process = Process(self.started, self.world, self.times)
        self.processes[self.started] = (process, self.start(process.run()))

    @precondition(lambda self: self.processes)
    @rule(data=st.data())
    def crash(self, data: Any) -> None:
        number = data.draw(st.sampled_from(sorted(self.processes)))
        self.processes.pop(number)[1].cancel()
        self.pass_time(0.0)

    @precondition(lambda self: self.processes)
    @rule(data=st.data())
    def end_gracefully(self, data: Any) -> None:
        number = data.draw(st.sampled_from(sorted(self.processes)))
        process, task = self.processes.pop(number)
        task.cancel()
        self.pass_time(0.0)
        if process.elector.held():
            self.let_go.add(number)
        self.start(process.elector.release())

    @precondition(lambda self: self.processes)
    @rule(data=st.data(), seconds=st.sampled_from([1.0, 6.0, 11.0, 16.0, 60.0]))
    def freeze(self, data: Any, seconds: float) -> None:
        process, _ = self.processes[data.draw(st.sampled_from(sorted(self.processes)))]
        process.clock.frozen_until = self.clock.now + seconds

    @precondition(lambda self: self.processes)
    @rule(data=st.data(), seconds=st.sampled_from([-86400.0, -5.0, 3600.0]))
    def wall_clock_jumps(self, data: Any, seconds: float) -> None:
        process, _ = self.processes[data.draw(st.sampled_from(sorted(self.processes)))]
        process.clock.jump += seconds

    @precondition(lambda self: self.processes)
    @rule(
        data=st.data(),
        fault=st.sampled_from(["", "", "request lost", "reply lost", "refused"]),
        out=st.sampled_from([0.01, 0.01, 1.0, 3.9, 9.0]),
        back=st.sampled_from([0.01, 0.01, 1.0, 3.9]),
    )
    def line(self, data: Any, fault: str, out: float, back: float) -> None:
        process, _ = self.processes[data.draw(st.sampled_from(sorted(self.processes)))]
        process.line.fault, process.line.out, process.line.back = fault, out, back

    @rule()
    def all_lines_work(self) -> None:
        for process, _ in self.processes.values():
            process.line.fault, process.line.out, process.line.back = "", 0.01, 0.01

    @rule(seconds=st.sampled_from([0.3, 2.0, 5.0, 12.0, 20.0]))
    def wait(self, seconds: float) -> None:
        self.pass_time(seconds)

    @precondition(lambda self: any(process.elector.held() for process, _ in self.processes.values()))
    @rule(seconds=st.sampled_from([2.0, 3.0, 4.2, 6.0]))
    def the_leader_is_cut_off_after_slow_replies(self, seconds: float) -> None:
        """What it believes to have renewed at the reply was stored long before."""
        self.all_lines_work()
        process, _ = self.processes[self.leader()]
        process.line.back = 3.9
        self.pass_time(seconds)
        process.line.fault = "request lost"
        self.pass_time(17.0)

    def pass_time(self, seconds: float) -> None:
        """All of them are checked four times a second."""
        for _ in range(max(round(seconds / 0.25), 1)):
            self.run(self.clock.advance(0.25 if seconds else 0.0))
            self.look()

    def look(self) -> None:
        holders = [number for number, (process, _) in self.processes.items() if process.elector.held()]
        assert len(holders) <= 1, f"{holders} hold the lease at once"
        if holders:
            now = self.clock.now
            if self.last is not None and self.last[0] not in (holders[0], *self.let_go):
                assert now - self.last[1] >= self.guard - 0.6, "a write of the one before may still be under way"
            self.last = (holders[0], now)

    def in_the_end(self) -> None:
        """The faults end: soon one of them leads. It dies, or goes, and soon another leads."""
        while len(self.processes) < 3:
            self.start_one()
        for process, _ in self.processes.values():
            process.clock.frozen_until = 0.0
        self.all_lines_work()
        # Timers that were put off while a process was frozen keep their time; and a request may be up to 9 s late.
        self.settle(60.0 + CRASH_TAKE_OVER)
        graceful = self.started % 2 == 0
        leader = self.leader()
        process, task = self.processes.pop(leader)
        task.cancel()
        if graceful:
            self.pass_time(0.0)
            self.let_go.add(leader)
            self.start(process.elector.release())
        self.settle(GRACEFUL_TAKE_OVER if graceful else CRASH_TAKE_OVER)

    def leader(self) -> int:
        return next(number for number, (process, _) in self.processes.items() if process.elector.held())

    def settle(self, within: float) -> None:
        end = self.clock.now + within
        while not any(process.elector.held() for process, _ in self.processes.values()):
            assert self.clock.now < end, f"no replica leads after {within} s"
            self.pass_time(0.25)

    def teardown(self) -> None:
        try:
            self.in_the_end()
        finally:
            for task in self.tasks:
                task.cancel()
            self.run(asyncio.wait(self.tasks) if self.tasks else turns(1))
            self.loop.close()
        assert all(task.cancelled() or task.exception() is None for task in self.tasks)


FULL = os.environ.get("PROFILE") == "full"
TestElection = Election.TestCase
TestElection.settings = settings(
    max_examples=int(os.environ.get("EXAMPLES", "10000")) if FULL else 25, stateful_step_count=100 if FULL else 50,
    derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck),
)  # fmt: skip
