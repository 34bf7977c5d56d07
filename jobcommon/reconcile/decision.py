"""The decision: `plan(framework, job, observed, now)`.

Pure and deterministic: the same arguments give an equal Plan. Replica types are visited in declared order, indices
ascending. The checks are made in order of precedence, in case several apply in the same pass: success of the deciding
replicas, a final failure, suspension, the limits, progress. An intended stop is recorded first: a suspension or a resume is a
plan with a status alone, and its consequences follow when that status is stored.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import inf, isfinite
from operator import attrgetter
from typing import Any

from jobcommon.api import reasons
from jobcommon.api.kueue import MULTIKUEUE
from jobcommon.api.observed import Observed
from jobcommon.api.pod import PodView
from jobcommon.api.status import MAX_ATTEMPT, MAX_MESSAGE, ConditionType, JobStatus
from jobcommon.api.timestamp import format_moment, format_time, readable_time
from jobcommon.framework import Framework, Job, Outcome
from jobcommon.reconcile import attempt, begun, cleanup, in_place, limits, node_loss, progress, restarts
from jobcommon.reconcile.accounting import account_for_pods, with_running
from jobcommon.reconcile.children import create_pods
from jobcommon.reconcile.companions import (
    RECHECK_PERIOD,
    as_addressed,
    reconcile_companions,
    reconcile_services,
    with_companions_deleted,
)
from jobcommon.reconcile.compose import compose, urgency
from jobcommon.reconcile.deadlines import Deadline
from jobcommon.reconcile.ending import Verdict
from jobcommon.reconcile.finished import plan_finished
from jobcommon.reconcile.gang import remove_pod_group
from jobcommon.reconcile.kueue import Queue
from jobcommon.reconcile.plan import (
    NORMAL,
    WARNING,
    Action,
    Create,
    Delete,
    Event,
    Get,
    Plan,
    Update,
    Urgency,
    deletes_pod,
    ends_run,
    in_order,
)
from jobcommon.reconcile.retirement import is_stopping, pods_scaled_down, retire_recorded
from jobcommon.reconcile.situation import Situation
from jobcommon.reconcile.slots import STARTING, Slot, tally
from jobcommon.reconcile.waiting import MAX_EVENTS

NOTHING = Plan(reason="nothing to do")


def plan(framework: Framework, job: Job, observed: Observed, now: float) -> Plan:
    """What to do for `job`, given what was observed of its children at `now` (seconds since the epoch)."""
    observed = replace(
        observed,
        pods=tuple(sorted(observed.pods, key=attrgetter("name"))),
        services=tuple(sorted(observed.services, key=attrgetter("name"))),
    )
    queue = Queue(framework, job, observed)
    if job.managed_elsewhere:
        # MultiKueue runs the job elsewhere once its Workload is admitted here.
        own = queue.actions(now, active=False) if job.managed_by == MULTIKUEUE and not job.deleting else ()
        return replace(NOTHING, actions=in_order(own, observed.backed_off), reason=f"managed by {job.managed_by}")
    if job.deleting:
        return Plan(in_order(cleanup.remove_all_finalizers(observed.pods), observed.backed_off), reason="job is being deleted")
    if job.status.finished:
        return plan_finished(framework, job, observed, now)
    return _Pass.start(framework, replace(as_addressed(job, observed), unadmitted=queue.unadmitted), observed, now).decide()


def plan_for_orphans(pods: Iterable[PodView]) -> Plan:
    """The plan for pods whose job is deleted: remove the finalizer, so that the garbage collector can delete them."""
    return Plan(tuple(cleanup.remove_all_finalizers(pods)), reason="job is gone")


class _Pass(Situation):
    """One pass over a job that has not finished."""

    def decide(self) -> Plan:
        job = self.job
        if job.errors and not self.has_begun:
            return self._fail(reasons.INVALID_SPEC, "; ".join(map(str, job.errors)))
        refused = next(((name, r.message) for name, r in self.observed.rejections.items() if r.required), None)
        if refused is not None:
            (plural, name), message = refused
            return self._fail(reasons.INVALID_SPEC, f"the API server refuses {plural}/{name}: {message}")
        if self.blocked.unread:
            return self._suspend() if job.suspended else self._progress(running=False)
        outcome = self.framework.decide(job, self.tallies)
        if outcome.succeeded:
            return self._succeed()
        return self._charging_once()._decide_unfinished(outcome)

    def _charging_once(self) -> "_Pass":
        """The pass in which the first failure alone is charged, where it restarts all replicas."""
        if not self.job.restarts_together:
            return self
        counted = attempt.without_consequences(self.framework, self.job, self.accounting, self.slots)
        return replace(self, accounting=counted)

    def _decide_unfinished(self, outcome: Outcome) -> Plan:
        job = self.job
        final = [e for e in self.accounting.having(Verdict.PERMANENT) if not self.framework.tolerates_failure(job, e.replica)]
        if final:
            first = min(final, key=lambda e: e.ending.finished_at or float("inf"))
            cause = first.ending.describe(first.replica, first.pod.node_name)
            text = f"{job.kind} {job.name} has failed because {cause}"
            return self._fail(reasons.of_kind(job.kind, reasons.FAILED), text, restarts.still_terminating(job, self.slots))
        if job.suspended or is_stopping(job, self.slots, self.accounting):
            return self._suspend()
        if (over := limits.none_left(self.framework, job, self.slots)) is not None:
            return self._fail(reasons.of_kind(job.kind, reasons.FAILED), over)
        if (reached := self._reached_limit()) is not None:
            return self._fail(*reached, restarts.still_terminating(job, self.slots))
        if job.status.has(ConditionType.SUSPENDED):
            return self._resume()
        begins = self.accounting.attempt > job.attempt
        # What has ended remains as evidence while no attempt may begin, and the deadlines of the present one hold.
        goes_on = begins and self.keeps_attempt
        kept = replace(self, accounting=account_for_pods(job, self.slots, entering=False)) if goes_on else self
        for deadline in kept.deadlines:
            if self.now >= deadline.at:
                return self._end_at(deadline)
        return self._begin_attempt() if begins and not goes_on else kept._progress(outcome.running)

    def _reached_limit(self) -> tuple[str, str] | None:
        """The reason and the message with which a job fails that may not be restarted again."""
        if limits.backoff_exceeded(self.job, self.accounting):
            return reasons.BACKOFF_LIMIT_EXCEEDED, restarts.backoff_message(self.job, self.accounting, self.slots)
        if self.accounting.attempt > MAX_ATTEMPT:
            text = f"{self.job.kind} {self.job.name} has failed because no attempt follows number {MAX_ATTEMPT}"
            return reasons.of_kind(self.job.kind, reasons.FAILED), text
        text = progress.in_vain(self.job, self.accounting, self.early_failures, self.failed_replicas)
        return (reasons.NO_PROGRESS, text) if text else None

    def _end_at(self, deadline: Deadline) -> Plan:
        """Fail the job or restart all its replicas, which is charged as a failure of one is."""
        if not deadline.restarts:
            return self._fail(deadline.reason, deadline.message)
        pods = [slot.pod for slot in self.slots.ours]
        # Nothing has run in vain where some replicas found no node.
        job = progress.not_in_vain(self.job) if deadline.reason == reasons.PENDING_TOO_LONG else self.job
        again = replace(self, job=job, accounting=attempt.after_deadline(job, self.accounting, pods))
        reached = again._reached_limit()
        return again._begin_attempt(deadline.cause) if reached is None else self._fail(*reached)

    def _plan(
        self,
        status: JobStatus,
        reason: str,
        actions: Iterable[Action] = (),
        events: Iterable[Event] = (),
        wake_at: float | None = None,
        *,
        verify_live: bool = False,
        as_cached: tuple[Get, str] | None = None,
        urgency: Urgency = Urgency.TRANSITION,
    ) -> Plan:
        """The plan with that status, if it must be written, and with events for the ends that this pass enters."""
        return compose(
            self.job,
            self.observed,
            reason,
            actions,
            status,
            events=(*self.exit_events(), *events),
            wake_at=wake_at,
            verify_live=verify_live,
            must_exist=self.must_exist,
            as_cached=as_cached,
            urgency=urgency,
            restarts=restarts.causes(self.job.status, status, self.accounting, self.slots),
        )

    # -- the ends ---------------------------------------------------------------------------------------------------

    def _succeed(self) -> Plan:
        job = self.job
        reason = reasons.of_kind(job.kind, reasons.SUCCEEDED)
        message = f"{job.kind} {job.key} successfully completed."
        counted = with_running(self.framework, self.accounting, self.slots)
        ended = replace(self, accounting=counted, tallies=tally(job, self.slots, counted.succeeded))
        return ended._end(ConditionType.SUCCEEDED, reason, message, Event(NORMAL, reason, message))

    def _fail(self, reason: str, message: str, note: str = "") -> Plan:
        # The note is cut before the cause is, but a quarter of the text is left to it.
        note = _cut(note, max(MAX_MESSAGE - len(message), MAX_MESSAGE // 4))
        message = _cut(message, MAX_MESSAGE - len(note)) + note
        event = Event(WARNING, reasons.of_kind(self.job.kind, reasons.FAILED), message)
        ended = self
        if not reason.endswith(reasons.FAILED):
            # No replica has ended the job: all that have not succeeded fail with it, as the pods of a batch Job do.
            ended = replace(self, tallies={kind: replace(t, failed=t.wanted - t.succeeded) for kind, t in self.tallies.items()})
        return ended._end(ConditionType.FAILED, reason, message, event)

    def _end(self, kind: ConditionType, reason: str, message: str, event: Event) -> Plan:
        """The final status alone: pods are deleted once it is stored, because they are the evidence."""
        status = self.status(self.created(), (kind, True, reason, message), ends=True)
        moment = format_time(self.now)
        changes: dict[str, Any] = {"completion_time": moment, "start_time": readable_time(status.start_time, self.now)}
        status = status.model_copy(update=changes)
        due = limits.expiry(replace(self.job, status=status), self.now)
        wake_at = due.at if due else None
        return self._plan(status, f"{kind}: {reason}", events=[event], wake_at=wake_at, urgency=Urgency.TERMINAL)

    # -- suspension -------------------------------------------------------------------------------------------------

    def _suspend(self) -> Plan:
        """Record the suspension; once it is stored, delete the pods.

        If pods were deleted first, one that ended before the operator saw it could not be distinguished from a failed one.
        """
        job = self.job
        reason = reasons.of_kind(job.kind, reasons.SUSPENDED)
        unadmitted = f": {job.unadmitted}" if job.unadmitted and not job.run_policy.suspend else ""
        message = f"{job.kind} {job.name} is suspended{unadmitted}."[:MAX_MESSAGE]
        created = self.created(self.waits.note)
        status = self.status(created, (ConditionType.SUSPENDED, True, reason, message), active=False)
        events, why = self.waits.events[:MAX_EVENTS], "job is suspended"
        if not job.status.has(ConditionType.SUSPENDED):
            first = [] if self.slots.ours else self.queue.actions(self.now, active=False)
            live = any(isinstance(action, Update | Delete) for action in first)
            # The cache of Workloads may be older than that of jobs: another operator has let it run on a later one.
            seen = self.queue.as_cached if unadmitted and begun.is_started(job) and not self.observed.kueue_off else None
            said = [*events, Event(NORMAL, reason, message)]
            return self._plan(status, why, first, events=said, verify_live=live, as_cached=seen)
        forced, due_by_force = node_loss.force_deletions(job, self.slots.ours, self.now)
        clean_up = [
            *cleanup.stop_pods(self._recorded_or_running(), why),
            *forced,
            *cleanup.remove_finalizers(self.slots.unowned),
            *cleanup.delete_services(self.observed, why),
            *remove_pod_group(job, self.observed),
        ]
        actions = with_companions_deleted(self.framework, job, self.observed, clean_up)
        actions += self.queue.actions(self.now, active=not all(slot.over for slot in self.slots.ours))
        # The ends of pods that the suspension has stopped are no failures, so their record need not be written one by one.
        urgent = urgency(job.status, status.model_copy(update={"counted_pods": job.status.counted_pods}))
        # Another operator may have resumed the job and created its pods before this one's watch has shown it.
        live = any(deletes_pod(action) or isinstance(action, Update | Delete) for action in actions)
        wake_at = min(filter(None, (self.waits.wake_at, self.queue.wake_at(self.now), *due_by_force)), default=None)
        return self._plan(status, why, actions, events, wake_at, verify_live=live, urgency=urgent)

    def _recorded_or_running(self) -> list[Slot]:
        """The pods that may be deleted: all but those whose end this pass only begins to record, or cannot record."""
        entered = {entry.pod.uid for entry in self.accounting.entries}
        slots = [slot for slot in self.slots.ours if slot.pod.uid not in entered]
        return [slot for slot in slots if not slot.over] if self.blocked.unread else slots

    def _resume(self) -> Plan:
        """Record the resume, and with it the pods that are still terminating: their ends will not be counted."""
        job = self.job
        reason, message = reasons.of_kind(job.kind, reasons.RESUMED), f"{job.kind} {job.name} is resumed."
        status = self.status(self.created(self.obstacles + self.waits.note), (ConditionType.SUSPENDED, False, reason, message))
        changes: dict[str, Any] = {"start_time": self.start_time}
        if job.restarts_together and self.slots.ours:
            # The next life of the job begins when the pods of the last one are gone.
            changes |= {"attempt": min(self.accounting.attempt + 1, MAX_ATTEMPT), "last_restart_time": format_moment(self.now)}
        status = status.model_copy(update=changes)
        return self._plan(status, "job is resumed", events=[Event(NORMAL, reason, message)])

    def _begin_attempt(self, cause: str = "") -> Plan:
        """Record the new attempt. Once it is stored, the pods of the earlier one are deleted: they are the evidence."""
        status, events = self.progress_status(running=False, cause=cause)
        return self._plan(status, "all replicas are restarted", events=events)

    # -- progress ---------------------------------------------------------------------------------------------------

    def _progress(self, running: bool) -> Plan:
        job = self.job
        replaced, delays = retire_recorded(job, self.slots, self.now, self.blocked.types)
        to_delete = pods_scaled_down(self.slots)
        # A pod may have just succeeded; then that is recorded first (rule R1: the decision depends on its state).
        surplus = [*cleanup.stop_pods(to_delete, "scaled down", unchanged=True), *cleanup.remove_finalizers(self.slots.unowned)]
        retired, awaited = self._retire_earlier()
        forced, due_by_force = node_loss.force_deletions(job, self.slots.ours, self.now)
        surplus += [*retired, *in_place.put_back(job, self.slots.notable), *forced]
        pods = self._missing_pods() if awaited is None else []
        about_to_need = self._waiting_to_be_started or bool(pods)
        creates = self._others(self.now - RECHECK_PERIOD if about_to_need else -inf) + pods
        creates += self.queue.actions(self.now, active=True)
        status, events = self.progress_status(running)
        status = status.model_copy(update={"start_time": self.start_time})
        recheck = [self.now + RECHECK_PERIOD] if about_to_need and self.observed.last_observed else []
        delays += [awaited] if awaited is not None and isfinite(awaited) else []
        stalls = self.stall.at if self.stall is not None and self.stall.at > self.now else None
        soon = [at for at in (self.waits.wake_at, stalls, self.queue.wake_at(self.now)) if at is not None]
        to_come = [deadline.at for deadline in self.deadlines if deadline.at > self.now]
        wakes = [*delays, *due_by_force, *to_come, *recheck, *soon]
        return self._plan(
            status,
            "job is active",
            [*replaced, *surplus, *creates],
            [*events, *self.trouble_events()],
            min(wakes, default=None),
            urgency=urgency(job.status, status),
            # The first objects of a new job need no live read. Later a missing object may mean that the job is deleted and
            # the garbage collector was faster; and a surplus object may be wanted again by now.
            verify_live=any(map(ends_run, surplus))
            or any(isinstance(a, Delete) and a.resource_version for a in replaced)
            or (
                (self.has_begun or begun.may_have_begun(job, self.observed, self.now))
                and any(isinstance(a, Create) for a in creates)
            ),
        )

    def _retire_earlier(self) -> tuple[Sequence[Action], float | None]:
        """See `attempt.retire_earlier`."""
        if self.keeps_attempt and self.slots.earlier:
            return (), inf
        return attempt.retire_earlier(self.job, self.slots.earlier, self.observed.backed_off, self.now, self.images)

    def _missing_pods(self) -> list[Action]:
        """One that is not created here has its reason in `held` or, with its type, in `blocked`: the condition says it."""
        held = self.held
        return list(create_pods(self.job, (r for r in self.missing if r not in held), self.pod))

    @property
    def _waiting_to_be_started(self) -> bool:
        """Whether a scheduled pod does not run yet: if an object that it mounts is missing, it would wait for ever."""
        return any(slot.state is STARTING and slot.pod.scheduled for slot in self.slots.notable)

    def _others(self, since: float) -> list[Action]:
        if self.blocked.types:
            return []
        whose = self.framework, self.job, self.observed
        return reconcile_services(*whose) + reconcile_companions(*whose, since) + self.gang.actions()


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."
