"""Records what programs have reported in the statuses of their jobs: of each job the latest report, at most every 10 s, and
more often while a run is young.

A report becomes a plan, which the executor carries out as all others. Any replica of the operator does so for the reports that
reach it, also without the lease: the plan depends on the job alone, whose version is the precondition of the write. A report
counts only if a pod of the job made it: a pod of the same namespace can get a token for any job. So the reports of a pod wait
apart until its owner has been read from the API server, not from a cache, which may not know a new pod yet.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from http import HTTPStatus
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any

from jobcommon.api.status import TrainerStatus
from jobcommon.client import objects
from jobcommon.client.errors import ClientError, StatusError
from jobcommon.client.objects import object_path
from jobcommon.client.request import Transport
from jobcommon.client.responses import answered, response_error
from jobcommon.controller.result import Work
from jobcommon.framework import Framework
from jobcommon.reconcile.reports import RECORD_SECONDS, ReportedStep, plan_report, record_seconds, step_of
from jobcommon.runtime.clock import Clock
from jobcommon.runtime.executor import Executor
from jobcommon.runtime.logging import Log
from jobcommon.runtime.metrics import Metrics
from jobcommon.runtime.reports.account_tokens import BoundPod
from jobcommon.runtime.reports.server import BusyError, ForbiddenError, ReportedJob
from jobcommon.spec import read_job

CONCURRENCY = 8
_RETRY_SECONDS = 1.0
# Clients report every 5 s. The first steps of a run are told apart by two.
MAX_STEPS = 8
# The pods whose owner is remembered. Beyond it, it is asked for again.
MAX_OWNERS = 20_000
# The pods whose reports wait for the answer who owns them. A report may have 64 KiB.
MAX_UNKNOWN = 256
# Of a job its plural, namespace and name, of one of its pods, maybe, its UID as well.
_Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Pending:
    """The latest report of a job, when it arrived (seconds since the epoch), and the last steps.

    `owner` is the UID of the job whose pods have made them, "" while that is not known.
    """

    target: ReportedJob
    pod: BoundPod
    report: TrainerStatus
    at: float
    steps: tuple[ReportedStep, ...] = ()
    owner: str = ""

    def joined(self, other: "_Pending | None") -> "_Pending":
        """This and another one of the same pods, which may be earlier or later: one that could not be written comes back."""
        if other is None:
            return self
        last = max(self, other, key=attrgetter("at"))
        if other.owner != self.owner:
            return last
        steps = sorted({*other.steps, *self.steps}, key=attrgetter("since", "step"))
        return replace(last, steps=tuple(next(same) for _, same in groupby(steps, key=itemgetter(0, 2)))[-MAX_STEPS:])


class ReportWriter:
    """Takes reports in any thread, and records them while `run` runs. Only reports of pods of the job are recorded.

    The reports of other pods neither change, delay nor displace them. `transport` reads jobs and pods; `executor` gives the one
    of a framework, which writes.
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
        self._adding = threading.Lock()
        self._inbox: dict[_Key, _Pending] = {}
        self._unknown: dict[_Key, _Pending] = {}
        self._not_before: dict[_Key, float] = {}
        # The UIDs of the controllers of pods, and of jobs as they were read last.
        self._owners: dict[str, str] = {}
        self._jobs: dict[_Key, str] = {}
        self._foreign: set[_Key] = set()

    def take(self, target: ReportedJob, pod: BoundPod, report: TrainerStatus) -> None:
        """Keep the report until it is written.

        Raises ForbiddenError for a pod that is known to be none of the job's, and BusyError while too many pods are unknown.
        """
        key = target.key
        if (*key, pod.uid) in self._foreign:
            raise ForbiddenError
        at, step, owner = self._clock.wall(), step_of(report), self._owners.get(pod.uid, "")
        new = _Pending(target, pod, report, at, (ReportedStep(step, at, pod.uid),) if step is not None else ())
        if owner and owner == self._jobs.get(key):
            self._add(self._inbox, key, replace(new, owner=owner))
        elif len(self._unknown) < MAX_UNKNOWN:
            self._add(self._unknown, (*key, pod.uid), new)
        else:
            raise BusyError
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._arrived.set)

    def _add(self, box: dict[_Key, _Pending], key: _Key, new: _Pending) -> None:
        """In any thread: what arrives while the event loop is blocked does not pile up there."""
        with self._adding:
            box[key] = new.joined(box.get(key))

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
        while not self._finishing or self._inbox or self._unknown:
            async with asyncio.TaskGroup() as tasks:
                await self._write_reports(tasks)
        self._finished.set()

    async def _write_reports(self, tasks: asyncio.TaskGroup) -> None:
        # Many unknown pods do not hold up the reports of others.
        writes, reads = asyncio.Semaphore(CONCURRENCY), asyncio.Semaphore(CONCURRENCY)
        while not self._finishing or self._inbox or self._unknown:
            self._arrived.clear()
            now, waiting = self._clock.monotonic(), {**self._inbox, **self._unknown}
            # A job that has reported nothing for a while may be gone.
            self._not_before = {key: at for key, at in self._not_before.items() if at > now or key in waiting}
            for key in [key for key in waiting if self._not_before.get(key, now) <= now]:
                self._not_before[key] = now + RECORD_SECONDS
                known = key in self._inbox
                tasks.create_task(self._serve(key, self._inbox, writes) if known else self._serve(key, self._unknown, reads))
            soon = min((self._not_before[key] for key in waiting if key in self._not_before), default=None)
            await self._clock.wait(self._arrived, soon)

    async def _serve(self, key: _Key, box: dict[_Key, _Pending], turn: asyncio.Semaphore) -> None:
        async with turn:
            if (pending := box.pop(key, None)) is None:
                return
            again = await self._attempt(pending, self._record if box is self._inbox else self._introduce)
        if again is not None:
            self._not_before[key] = self._clock.monotonic() + again
            self._add(box, key, pending)
            self._arrived.set()

    async def _attempt(self, pending: _Pending, work: Callable[[_Pending], Awaitable[float | None]]) -> float | None:
        """Returns after how many seconds to try again, None if it is done."""
        job = f"{pending.target.namespace}/{pending.target.name}"
        try:
            # A request that gets no answer times out long after a report is due, and the job would count as stalled.
            async with asyncio.timeout(RECORD_SECONDS):
                return await work(pending)
        except TimeoutError:
            self._log.warning("a report of progress is not recorded yet", job=job, seconds=RECORD_SECONDS)
            return _RETRY_SECONDS
        except ClientError as error:
            code = error.code if isinstance(error, StatusError) else None
            if code == HTTPStatus.NOT_FOUND:
                return None
            if code == HTTPStatus.CONFLICT:
                return _RETRY_SECONDS
            self._log.warning("could not record a report of progress", job=job, error=str(error))
            return RECORD_SECONDS
        except Exception:
            self._log.exception("could not record a report of progress", job=job)
            return None

    async def _introduce(self, pending: _Pending) -> None:
        """Read whose the pod is. Only a pod of the job adds to its reports."""
        target, job = pending.target, pending.target.key
        key = (*job, pending.pod.uid)
        owner = await self._owner_of(pending.pod)
        if owner and owner != self._jobs.get(job):
            self._jobs[job] = read_job(target.framework, await self._read(target)).uid
        if owner and owner == self._jobs[job]:
            # What the pod has sent meanwhile follows.
            self._add(self._inbox, job, replace(pending, owner=owner))
        else:
            self._foreign.add(key)
        self._not_before.pop(key, None)
        self._arrived.set()

    async def _record(self, pending: _Pending) -> float | None:
        """Carry out the plan for the reports of a job."""
        target, framework = pending.target, pending.target.framework
        raw = await self._read(target)
        job, now = read_job(framework, raw), self._clock.wall()
        if job.uid != pending.owner:
            # Another job of this name.
            return None
        plan = plan_report(job, pending.report, pending.steps, pending.at, now, at_once=self._finishing)
        if plan.status is None:
            return plan.wake_at - now if plan.wake_at is not None else None
        work = Work(target.namespace, target.name, job.uid, plan, job, raw)
        if (error := (await self._executor(framework).execute(work)).status_error) is not None:
            raise error
        self._metrics.progressed(framework.name, job.status.time_spent, plan.status.time_spent)
        self._not_before[target.key] = self._clock.monotonic() + record_seconds(plan.status, now)
        self._arrived.set()
        return None

    async def _read(self, target: ReportedJob) -> dict[str, Any]:
        path = object_path(target.framework.api_version, target.framework.plural, target.namespace, target.name)
        return answered(await objects.sent(self._transport, objects.get(path)))

    async def _owner_of(self, pod: BoundPod) -> str:
        """The UID of the pod's controller; "" if the pod is gone."""
        if pod.uid not in self._owners:
            path = object_path("v1", "pods", pod.namespace, pod.name)
            response = await self._transport.send(objects.metadata_only(objects.get(path)))
            if response.status not in (HTTPStatus.OK, HTTPStatus.NOT_FOUND):
                raise response_error(response)
            found = objects.written(response.body)
            if max(len(self._owners), len(self._foreign)) >= MAX_OWNERS:
                self._owners.clear()
                self._jobs.clear()
                self._foreign.clear()
            self._owners[pod.uid] = found.controller_uid if found.uid == pod.uid else ""
        return self._owners[pod.uid]
