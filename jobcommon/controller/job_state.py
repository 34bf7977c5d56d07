"""What the controller keeps of one job. It is an optimisation only: losing it with the process must never change an outcome."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from http import HTTPStatus
from sys import intern
from typing import Any

from jobcommon.api import reasons
from jobcommon.api.definition import CompanionKind
from jobcommon.api.observed import Observed, Rejection
from jobcommon.api.pod import PodView
from jobcommon.api.status import ConditionType, TrainerStatus
from jobcommon.api.view import ObjectView
from jobcommon.cache.store import Change
from jobcommon.client.errors import StatusError
from jobcommon.controller.last_observed import LastObserved
from jobcommon.controller.moment import Moment
from jobcommon.controller.refusals import Answer, Refusals, answer_of
from jobcommon.controller.result import ActionResult, Effect, Result, Work
from jobcommon.framework import Framework, Job, ObjectKey
from jobcommon.reconcile.ending import is_over
from jobcommon.reconcile.failed_logs import UNKEPT
from jobcommon.reconcile.plan import Create, Plan, Urgency
from jobcommon.reconcile.reports import signs_of_life
from jobcommon.spec import differs_in_status_alone, read_job, reread_job

COUNTS_DELAY = 1.0
"""Pods of one job start and end close together. A status with new counts only is written this many seconds after the first
change, as the Job controller of Kubernetes does it (syncJobBatchPeriod)."""
COOLDOWN_FACTOR = 10.0
"""The cost of a plan grows with the job's pods, and so does the number of events: a plan per event would be quadratic. The next
plan is therefore delayed by this multiple of the last plan's cost, and covers all events of that time."""
MAX_COOLDOWN = 1.0
MIN_COST = 0.0005


class QueueLevel(IntEnum):
    """The priority level at which a job waits in the queue, the first before the others."""

    AWAITED = 0
    """A user waits: for the pods of a new job, or for the end of one whose last pod has ended."""
    RUNNING = 1
    FINISHED = 2


@dataclass(frozen=True, slots=True)
class Requeue:
    """How a job is queued again: at once, with the back-off of a job that has `failed`, and at a time (monotonic seconds)."""

    at_once: bool
    failed: bool
    at: float | None = None


@dataclass(slots=True)
class JobState:
    """What was refused, emitted and observed of a job, and when it is planned next. Times are monotonic seconds.

    `begun` once something was made for it or it had its start, `finished` once it is known to have come to its end,
    `running` while it has the Running condition; `condition` is the type of its current one, "" without one. `active_pods` are
    those not over, counted when the job is planned and with each event. `emitted` are the lasting events; `unkept` says which
    right is missing to keep logs. `raw` is the whole job as `read` last; it must not be changed.
    """

    generation: int = 0
    rejections: dict[tuple[str, str], Rejection] = field(default_factory=dict)
    refusals: Refusals = field(default_factory=Refusals)
    taken_services: frozenset[str] = frozenset()
    emitted: dict[tuple[str, str], None] = field(default_factory=dict)
    asked_until: float = 0.0
    last_observed: LastObserved = field(default_factory=LastObserved)
    begun: bool = False
    finished: bool = False
    running: bool = False
    condition: str = ""
    active_pods: int = 0
    cooldown_until: float = 0.0
    counts_since: float | None = None
    unkept: str = ""
    raw: dict[str, Any] = field(default_factory=dict)
    _alive: tuple[object, float] = (None, 0.0)
    _first_report: tuple[TrainerStatus | None] | None = None
    _has_run: bool = False
    _seen: ObjectView | None = None
    _job: Job | None = None
    _framework: Framework | None = None
    _related: Mapping[ObjectKey, ObjectView] = field(default_factory=dict)

    def finish(self, work: Work, result: Result, moment: Moment, unwatched: Collection[CompanionKind]) -> Requeue:
        """Record the result of a plan. Returns how the job is to be queued again. No cache shows companions `unwatched`."""
        outcomes, now, before = result.outcomes, moment.monotonic, (self.refusals.text, self.unkept)
        if work.plan.logs and not result.stale:
            forbidden = getattr(result.log_error, "code", 0) == HTTPStatus.FORBIDDEN
            self.unkept = f"{UNKEPT}: {result.log_error}" if forbidden else ""
        self.begun = self.begun or any(isinstance(o.action, Create) and o.effect is Effect.APPLIED for o in outcomes)
        if result.status_version is not None and work.plan.status is not None:
            self.finished = self.finished or work.plan.status.finished
        seen = [o for o in outcomes if any(o.action.plural == kind.plural for kind in unwatched)]
        changed = True in [self.last_observed.record(outcome, moment.wall) for outcome in seen]
        taken = {o.action.name for o in outcomes if answer_of(o) is Answer.GIVEN_UP}
        self.taken_services |= taken
        waits = self._refused(outcomes, now)
        failed = _is_unfinished(work, result, waits=waits)
        # The transport waits for a short Retry-After itself; the controller honours a longer one.
        errors = (result.read_error, result.status_error, *(outcome.error for outcome in outcomes))
        self.asked_until = now + max(getattr(error, "retry_after", None) or 0.0 for error in errors)
        if not (pending := self.refusals.pending(now)) and not failed:
            self.refusals = Refusals()
        # A new refusal is to be told by the status, and so is the end of one.
        at_once = changed or bool(taken) or (self.refusals.text, self.unkept) != before
        return Requeue(at_once, failed, self.refusals.until) if pending else Requeue(at_once, failed)

    def _refused(self, outcomes: Iterable[ActionResult], now: float) -> bool:
        """Record what the API server refused to create. Returns whether it is to be retried at `refusals.until`."""
        for_now: list[ActionResult] = []
        failed = False
        for outcome in outcomes:
            action, error = outcome.action, outcome.error
            if isinstance(action, Create) and isinstance(error, StatusError) and self.is_final(outcome):
                self.rejections[action.plural, action.name] = Rejection(error.message, required=action.required)
                failed = failed or action.required
            else:
                for_now.append(outcome)
        return not failed and self.refusals.record(for_now, now)

    def is_final(self, outcome: ActionResult) -> bool:
        """Whether a refused create is not retried for this spec: the spec is certainly the cause, and the object is optional or
        no pod of the job has run. That depends on the stored status only: another process must come to the same end.
        """
        required = isinstance(outcome.action, Create) and outcome.action.required
        return answer_of(outcome) is Answer.INVALID and not (required and self._has_run)

    @property
    def level(self) -> QueueLevel:
        """The job's priority level in the queue."""
        if self.finished:
            return QueueLevel.FINISHED
        return QueueLevel.RUNNING if self.begun and self.active_pods > 0 else QueueLevel.AWAITED

    def observed(
        self, pods: Collection[PodView], predecessors: frozenset[str], unwatched: Collection[CompanionKind], now: float
    ) -> Observed:
        """What this process knows of the job beside the caches. Its pods as cached are counted."""
        self.active_pods = sum(not is_over(pod) for pod in pods)
        self.begun = self.begun or bool(pods)
        job = self._job if self._job is not None and self._job.run_policy.report_progress else None
        if job is not None and (alive := signs_of_life(job.status)) != self._alive[0]:
            self._alive = alive, now
        report = job.status.trainer_status if job is not None else None
        self._first_report = self._first_report or (report,)
        return Observed(
            pods=tuple(pods),
            companions={(kind.plural, v.name): v for kind in unwatched for v in self.last_observed.found(kind.plural)},
            last_observed={kind.plural: self.last_observed.of(kind.plural) for kind in unwatched},
            rejections=dict(self.rejections),
            refusal=self.refusals.text,
            unkept=self.unkept,
            backed_off=self.refusals.backed_off(now),
            quota_refuses_for=self.refusals.quota_refuses_for(now),
            predecessors=predecessors,
            begun=self.begun,
            same_for=now - self._alive[1] if job is not None else None,
            reported=report != self._first_report[0],
            taken_services=self.taken_services,
        )

    def urgency_of(self, change: Change[PodView]) -> Urgency:
        """How soon the job is to be planned after a change of one of its pods; `active_pods` follows the change.

        The number may be wrong, because a deletion event carries a later state than the last one counted. It only affects when
        the job is planned, never the plan.
        """
        new = change.new
        before = change.old is not None and not is_over(change.old)
        after = new is not None and not is_over(new)
        self.active_pods += after - before
        if before and not after and self.active_pods <= 0:
            return Urgency.TERMINAL
        significant = new is None or new.deletion_time is not None or new.phase == "Failed" or not self.running
        return Urgency.TRANSITION if significant else Urgency.COUNTS

    def not_before(self, urgency: Urgency) -> float:
        """The earliest time (monotonic seconds) for a plan after an event of that urgency."""
        if urgency is Urgency.TERMINAL:
            return 0.0
        if urgency is Urgency.COUNTS and self.counts_since is not None:
            return max(self.cooldown_until, self.counts_since + COUNTS_DELAY)
        return self.cooldown_until

    def planned(self, cost: float, now: float) -> None:
        """Record that the plan at `now` took `cost` seconds."""
        self.cooldown_until = now + min(cost * COOLDOWN_FACTOR, MAX_COOLDOWN) if cost >= MIN_COST else 0.0

    def read(
        self,
        framework: Framework,
        cached: ObjectView,
        related_to: Callable[[Mapping[str, Any]], Mapping[ObjectKey, ObjectView]] = lambda _: {},
    ) -> tuple[Framework, Job]:
        """The job in `cached`, parsed once for all events of its pods, and its framework, given the objects related to it.

        Refusals of an earlier spec are dropped.
        """
        seen = cached is self._seen
        raw = self.raw if seen else cached.raw
        related, job = related_to(raw), self._job
        if (
            job is None
            or self._framework is None
            or related != self._related
            or not (seen or differs_in_status_alone(self.raw, raw))
        ):
            self._framework, made = framework.specialized(raw, {key: view.raw for key, view in related.items()})
            job = read_job(self._framework, made)
        elif not seen:
            job = reread_job(self._framework, job, raw)
        self._related = related
        if job.generation != self.generation:
            self.generation, self.rejections, self.refusals = job.generation, {}, Refusals()
        self.begun = self.begun or job.status.start_time is not None
        self._has_run = job.status.has_run
        self.finished, self.running = job.status.finished, job.status.has(ConditionType.RUNNING)
        self.condition = intern(job.status.conditions[-1].type) if job.status.conditions else ""
        self._seen, self._job, self.raw = cached, job, raw
        return self._framework, job

    def decided(self, plan: Plan, now: float) -> float | None:
        """Record the plan. Returns the time (monotonic seconds) until which it is deferred, or None.

        A plan that only writes new counts is deferred, so that several changes become one write.
        """
        self.running = plan.status.has(ConditionType.RUNNING) if plan.status is not None else self.running
        if self.finished and not plan.actions and plan.status is None:
            # Most jobs in a cluster are over and rarely planned: what a new operator would read again is not worth the memory.
            self._seen, self._job, self.raw, self._framework, self._related = None, None, {}, None, {}
            self.last_observed = LastObserved()
        if plan.status is not None and plan.urgency is Urgency.COUNTS and not plan.actions:
            if self.counts_since is None:
                self.counts_since = now
            if now < (due := self.counts_since + COUNTS_DELAY):
                return due
        self.counts_since = None
        return None


def _is_unfinished(work: Work, result: Result, *, waits: bool) -> bool:
    """Whether the plan is to be made again with back-off. `waits`: what was refused is retried later."""
    answers = set(map(answer_of, result.outcomes))
    left = Answer.TRANSIENT in answers or not (waits or Answer.GIVEN_UP in answers or answers <= {Answer.DONE})
    return left or result.stale or result.status_error is not None or work.plan.reason == reasons.INTERNAL_ERROR
