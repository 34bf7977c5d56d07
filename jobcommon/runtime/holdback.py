"""Holding back a status that nobody waits for."""

import asyncio
from collections.abc import Callable

from jobcommon.controller.job_controller import JobKey
from jobcommon.controller.result import Work
from jobcommon.runtime.backlog import Backlog
from jobcommon.runtime.clock import Clock

#: Pods of one job start and end close together: what changes no more than counts is written so much later, in one go, as the
#: Job controller of Kubernetes does, and after MOST_SECONDS at the latest.
COUNTS_SECONDS = 0.5
MOST_SECONDS = 1.0


class HoldBack:
    """Lets a job's first status and new counts of its pods wait for others; not when there is more to be done for the job.

    `plural` tells the jobs of one framework from those of another; `is_wanted` says whether a job is to be looked at again.
    """

    def __init__(self, clock: Clock, backlog: Backlog, plural: str, is_wanted: Callable[[JobKey], bool]) -> None:
        self._clock = clock
        self._backlog = backlog
        self._plural = plural
        self._is_wanted = is_wanted
        self._news: dict[JobKey, asyncio.Event] = {}
        self._since: dict[JobKey, float] = {}
        self._seconds: dict[JobKey, float] = {}

    def begin(self, key: JobKey) -> None:
        """A job is being looked at; what happens to it from now on is news."""
        self._news[key] = asyncio.Event()

    async def wait(self, work: Work) -> bool:
        """Wait with a first status or new counts, but not after `hasten` was called.

        Returns whether the status is still to be written: new counts are not if the job is to be looked at again anyway.
        """
        key, started = (work.namespace, work.name), self._clock.monotonic()
        counts, news = not work.is_first_status, self._news[key]
        if counts:
            await self._clock.wait(news, started + COUNTS_SECONDS)
        if not news.is_set():
            await self._backlog.over((self._plural, key))
        now = self._clock.monotonic()
        self._seconds[key] = now - started
        if not counts:
            return True
        since = self._since.pop(key, now)
        if not self._is_wanted(key) or now - since >= MOST_SECONDS:
            return True
        self._since[key] = since
        return False

    def hasten(self, key: JobKey) -> None:
        """There is news of the job: it waits no longer."""
        if (news := self._news.get(key)) is not None:
            news.set()
            self._backlog.hasten((self._plural, key))

    def finish(self, work: Work) -> float:
        """The work is done. Returns for how many seconds it was held back."""
        key = (work.namespace, work.name)
        self._news.pop(key, None)
        if key in self._since and not work.only_counts:
            del self._since[key]
        return self._seconds.pop(key, 0.0)
