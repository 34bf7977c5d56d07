"""Records what programs have reported in the statuses of their jobs: of each job the latest report, at most every 10 s.

A report becomes a plan, which the executor carries out as all others. Any replica of the operator does so for the reports that
reach it, also without the lease: the plan depends on the job alone, whose version is the precondition of the write. A report
counts only if a pod of the job made it: a pod of the same namespace can get a token for any job.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from http import HTTPStatus
from operator import itemgetter
from typing import Any

from jobcommon.api.decoding import decoder
from jobcommon.api.status import TrainerStatus
from jobcommon.client import objects
from jobcommon.client.errors import ClientError, StatusError
from jobcommon.client.objects import object_path
from jobcommon.client.request import Transport
from jobcommon.client.responses import response_error
from jobcommon.controller.result import Work
from jobcommon.framework import Framework
from jobcommon.reconcile import read_job
from jobcommon.reconcile.progress import RECORD_SECONDS, plan_report, step_of
from jobcommon.runtime.account_tokens import BoundPod
from jobcommon.runtime.clock import Clock
from jobcommon.runtime.executor import Executor
from jobcommon.runtime.logging import Log
from jobcommon.runtime.metrics import Metrics
from jobcommon.runtime.report_server import ForbiddenError, ReportedJob

CONCURRENCY = 8
_RETRY_SECONDS = 1.0
# Clients report every 5 s. The first steps of a run are told apart by two.
MAX_STEPS = 8
# The pods whose owner is remembered. Beyond it, it is asked for again.
MAX_OWNERS = 20_000
_Key = tuple[str, str, str]
_object = decoder(dict[str, Any])


@dataclass(frozen=True, slots=True)
class _Pending:
    """The latest report of a job, when it arrived, and the last steps, each with its first report (seconds since the epoch)."""

    target: ReportedJob
    pod: BoundPod
    report: TrainerStatus
    at: float
    steps: tuple[tuple[int, float], ...] = ()


class ReportWriter:
    """Takes reports in any thread, and records them while `run` runs. Only reports of pods of the job are recorded.

    `transport` reads jobs and pods; `executor` gives the one of a framework, which writes.
    """

    def __init__(
        self, transport: Transport, executor: Callable[[Framework], Executor], clock: Clock, log: Log, metrics: Metrics
    ) -> None:
        self._transport = transport
        self._executor = executor
        self._metrics = metrics
        self._clock = clock
        self._log = log
        self._loop: asyncio.AbstractEventLoop | None = None
        self._arrived = asyncio.Event()
        self._finishing = False
        self._finished = asyncio.Event()
        self._inbox: dict[_Key, _Pending] = {}
        self._not_before: dict[_Key, float] = {}
        self._owners: dict[str, str] = {}
        self._foreign: set[tuple[str, _Key]] = set()

    def take(self, target: ReportedJob, pod: BoundPod, report: TrainerStatus) -> None:
        """Keep the report until it is written. Raises ForbiddenError for a pod that is known to be none of the job's."""
        key = target.framework.plural, target.namespace, target.name
        if (pod.uid, key) in self._foreign:
            raise ForbiddenError
        if self._loop is not None:
            new = _Pending(target, pod, report, self._clock.wall())
            self._loop.call_soon_threadsafe(self._keep, key, new)

    def _keep(self, key: _Key, new: _Pending) -> None:
        old = self._inbox.get(key)
        step, steps = step_of(new.report), old.steps if old is not None else ()
        if step is not None and (not steps or steps[-1][0] != step):
            steps = (*steps, (step, new.at))[-MAX_STEPS:]
        self._inbox[key] = replace(new, steps=steps)
        self._arrived.set()

    async def finish(self) -> None:
        """Have what is in memory written, without waiting for a job's next turn; return when that is done."""
        self._finishing = True
        self._not_before.clear()
        self._arrived.set()
        await self._finished.wait()

    async def run(self) -> None:
        """Write until cancelled, or until `finish` and then what is left."""
        self._loop = asyncio.get_running_loop()
        # A write that fails puts its report back.
        while not self._finishing or self._inbox:
            async with asyncio.TaskGroup() as tasks:
                await self._write_reports(tasks)
        self._finished.set()

    async def _write_reports(self, tasks: asyncio.TaskGroup) -> None:
        turn = asyncio.Semaphore(CONCURRENCY)
        while not self._finishing or self._inbox:
            self._arrived.clear()
            now = self._clock.monotonic()
            # A job that has reported nothing for a while may be gone.
            self._not_before = {key: at for key, at in self._not_before.items() if at > now or key in self._inbox}
            for key in [key for key in self._inbox if self._not_before.get(key, now) <= now]:
                self._not_before[key] = now + RECORD_SECONDS
                await turn.acquire()
                writing = tasks.create_task(self._write(key, self._inbox.pop(key)))
                writing.add_done_callback(lambda _: turn.release())
            soon = min((self._not_before[key] for key in self._inbox if key in self._not_before), default=None)
            await self._clock.wait(self._arrived, soon)

    async def _write(self, key: _Key, pending: _Pending) -> None:
        try:
            # A request that gets no answer times out long after a report is due, and the job would count as stalled.
            async with asyncio.timeout(RECORD_SECONDS):
                again = await self._record(key, pending)
        except TimeoutError:
            self._log.warning("a report of progress is not recorded yet", job=f"{key[1]}/{key[2]}", seconds=RECORD_SECONDS)
            again = _RETRY_SECONDS
        except ClientError as error:
            code = error.code if isinstance(error, StatusError) else None
            if code == HTTPStatus.NOT_FOUND:
                return
            again = _RETRY_SECONDS
            if code != HTTPStatus.CONFLICT:
                self._log.warning("could not record a report of progress", job=f"{key[1]}/{key[2]}", error=str(error))
                again = RECORD_SECONDS
        except Exception:
            self._log.exception("could not record a report of progress", job=f"{key[1]}/{key[2]}")
            return
        if again is not None:
            self._not_before[key] = self._clock.monotonic() + again
            newer = self._inbox.get(key, pending)
            # After an outage several writes of a job may fail in any order.
            steps = sorted({*pending.steps, *newer.steps}, key=itemgetter(1))
            self._inbox[key] = replace(newer, steps=tuple(steps[-MAX_STEPS:]))
            self._arrived.set()

    async def _record(self, key: _Key, pending: _Pending) -> float | None:
        """Carry out the plan for one report. Returns after how many seconds to try again, None if it is done."""
        target, framework = pending.target, pending.target.framework
        path = object_path(framework.api_version, framework.plural, target.namespace, target.name)
        raw = _object((await objects.sent(self._transport, objects.get(path))).body)
        job, now = read_job(framework, raw), self._clock.wall()
        if await self._owner_of(pending.pod) != job.uid:
            self._foreign.add((pending.pod.uid, key))
            return None
        plan = plan_report(job, pending.report, pending.steps, pending.at, now, at_once=self._finishing)
        if plan.status is None:
            return plan.wake_at - now if plan.wake_at is not None else None
        work = Work(target.namespace, target.name, job.uid, plan, job, raw)
        if (error := (await self._executor(framework).execute(work)).status_error) is not None:
            raise error
        self._metrics.progressed(framework.name, job.status.time_spent, plan.status.time_spent)
        return None

    async def _owner_of(self, pod: BoundPod) -> str:
        """The UID of the pod's controller; "" if the pod is gone."""
        if pod.uid not in self._owners:
            path = object_path("v1", "pods", pod.namespace, pod.name)
            response = await self._transport.send(objects.metadata_only(objects.get(path)))
            if response.status not in (HTTPStatus.OK, HTTPStatus.NOT_FOUND):
                raise response_error(response)
            found = objects.written(response.body)
            if len(self._owners) >= MAX_OWNERS:
                self._owners.clear()
                self._foreign.clear()
            self._owners[pod.uid] = found.controller_uid if found.uid == pod.uid else ""
        return self._owners[pod.uid]
