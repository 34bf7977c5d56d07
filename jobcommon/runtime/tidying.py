"""Tidying: what nobody waits for, a few at a time, so that it never stands in the way of anything."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import replace

from jobcommon.controller.result import Effect, Outcome, Result, Work
from jobcommon.reconcile.plan import Plan
from jobcommon.runtime.backlog import Backlog

#: It takes up no more of the API server than this.
RELEASES_AT_ONCE = 16


class Tidying:
    """Carries out the releases of works by `execute`, while there is no backlog; tells `done` what became of them."""

    def __init__(
        self,
        execute: Callable[[Work], Awaitable[Result]],
        backlog: Backlog,
        done: Callable[[Work, Result, Exception | None], None],
    ) -> None:
        self._execute = execute
        self._backlog = backlog
        self._done = done
        self._waiting: deque[Work] = deque()
        self._wake = asyncio.Event()

    def add(self, work: Work) -> None:
        """Release what `work` has to release, some time."""
        self._waiting.append(work)
        self._wake.set()

    async def run(self) -> None:
        """Go on until it is cancelled."""
        while True:
            self._wake.clear()
            while self._waiting:
                work = self._waiting.popleft()
                for start in range(0, len(work.releases), RELEASES_AT_ONCE):
                    part = work.releases[start : start + RELEASES_AT_ONCE]
                    await self._backlog.over()
                    await self._release(replace(work, plan=Plan(part, reason="releases"), releases=(), later=True))
            await self._wake.wait()

    async def _release(self, work: Work) -> None:
        try:
            result = await self._execute(work)
        except Exception as error:
            self._done(work, Result(tuple(Outcome(action, Effect.SKIPPED) for action in work.plan.actions)), error)
        else:
            self._done(work, result, None)
