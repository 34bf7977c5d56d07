"""A state machine of hypothesis whose steps run on an event loop with a clock that stands still."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from hypothesis.stateful import RuleBasedStateMachine

from tests.runtime.fakes import FakeClock, turns

T = TypeVar("T")


class AsyncMachine(RuleBasedStateMachine):
    """`run` runs a coroutine; `advance` lets time pass, timers in their order."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = FakeClock()
        self.tasks: list[asyncio.Task[Any]] = []

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = self.loop.create_task(work)
        self.tasks.append(task)
        self.run(turns(6))
        return task

    def advance(self, seconds: float) -> None:
        self.run(self.clock.advance(seconds))

    def in_the_end(self) -> None:
        """What must hold after the last step, with everything still running."""

    def when_all_is_over(self) -> None:
        """What must hold when every task has been cancelled."""

    def teardown(self) -> None:
        try:
            try:
                self.in_the_end()
            finally:
                for task in self.tasks:
                    task.cancel()
                self.run(asyncio.wait(self.tasks) if self.tasks else turns(1))
            for task in self.tasks:
                assert task.cancelled() or task.exception() is None
            self.when_all_is_over()
        finally:
            self.loop.close()
