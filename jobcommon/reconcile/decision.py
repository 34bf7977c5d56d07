"""The decision: `plan(framework, job, observed, now)`.

Pure and deterministic: the same arguments give an equal Plan. Replica types are visited in declared order, indices
ascending. What a verdict destroys is recorded first: a suspension, a resume, a new attempt or the end of a job is a plan with a
status alone, and its consequences follow when that status is stored.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import inf, isfinite
from operator import attrgetter
from typing import Any

from jobcommon.api import reasons
from jobcommon.api.observed import Observed
from jobcommon.api.pod import PodView
from jobcommon.api.status import MAX_ATTEMPT, ConditionType, JobStatus
from jobcommon.api.timestamp import format_moment, format_time, readable_time
from jobcommon.framework import Framework, Job
from jobcommon.reconcile import begun, limits, restarts
from jobcommon.reconcile.accounting import with_running
from jobcommon.reconcile.children import create_pods
from jobcommon.reconcile.companions import (
    RECHECK_PERIOD,
    as_addressed,
    delete_services,
    reconcile_companions,
    reconcile_services,
    with_companions_deleted,
)
from jobcommon.reconcile.compose import compose, urgency
from jobcommon.reconcile.finished import plan_finished
from jobcommon.reconcile.intents import Course, Standing
from jobcommon.reconcile.plan import (
    NORMAL,
    WARNING,
    Action,
    Create,
    Delete,
    Event,
    Plan,
    Update,
    Urgency,
    deletes_pod,
    ends_run,
    in_order,
)
from jobcommon.reconcile.pod_actions import TO_BE_REPLACED, pod_actions, remove_all_finalizers
from jobcommon.reconcile.rendering import Sentence, Statement
from jobcommon.reconcile.situation import Feature, Situation
from jobcommon.reconcile.slots import tally
from jobcommon.reconcile.verdicts import BeginAttempt, Fail, GoOn, JobVerdict, Resume, Succeed, Suspend, judge
from jobcommon.reconcile.waiting import MAX_EVENTS

NOTHING = Plan(reason="nothing to do")


def plan_with(framework: Framework, job: Job, observed: Observed, now: float, features: Sequence[Feature]) -> Plan:
    """What to do for `job`, given what was observed of its children at `now` (seconds since the epoch).

    `features` make the extensions that are asked, in that order.
    """
    observed = replace(
        observed,
        pods=tuple(sorted(observed.pods, key=attrgetter("name"))),
        services=tuple(sorted(observed.services, key=attrgetter("name"))),
    )
    if job.managed_elsewhere:
        # MultiKueue runs the job elsewhere once its Workload is admitted here.
        own = () if job.deleting else Situation.start(framework, job, observed, now, features).actions(None)
        return replace(NOTHING, actions=in_order(own, observed.backed_off), reason=f"managed by {job.managed_by}")
    if job.deleting:
        return Plan(in_order(remove_all_finalizers(observed.pods), observed.backed_off), reason="job is being deleted")
    if job.status.finished:
        return plan_finished(framework, job, observed, now, features)
    job = as_addressed(job, observed)
    view = Situation.start(framework, job, observed, now, features)
    if view.suspension is not None:
        view = Situation.start(framework, replace(job, held=True), observed, now, features)
    return carry_out(judge(view))


def plan_for_orphans(pods: Iterable[PodView]) -> Plan:
    """The plan for pods whose job is deleted: remove the finalizer, so that the garbage collector can delete them."""
    return Plan(tuple(remove_all_finalizers(pods)), reason="job is gone")


def carry_out(verdict: JobVerdict) -> Plan:
    """The plan that follows from a verdict."""
    view = verdict.view
    match verdict:
        case Succeed():
            return _succeed(view)
        case Fail(reason=reason, message=message, remarks=remarks, waiting=waiting):
            return _fail(view, reason, Sentence(message, remarks=remarks, waiting=waiting, end=""))
        case Suspend() if not view.job.status.has(ConditionType.SUSPENDED):
            return _record_suspension(view)
        case Suspend():
            return _stay_suspended(view)
        case Resume():
            return _resume(view)
        case BeginAttempt(cause=cause):
            # Once it is stored, the pods of the earlier attempt are deleted or stopped: they are the evidence.
            status, events = view.progress_status(running=False, cause=cause)
            return _plan(view, status, "all replicas are restarted", events=events)
        case GoOn(running=running):
            return _go_on(view, running)


def _plan(
    view: Situation,
    status: JobStatus,
    reason: str,
    actions: Iterable[Action] = (),
    events: Iterable[Event] = (),
    urgency: Urgency = Urgency.TRANSITION,
    **more: Any,
) -> Plan:
    """The plan with that status, if it must be written, and with events for the ends that this pass enters."""
    return compose(
        view,
        reason,
        actions,
        status,
        events=(*view.exit_events(), *events),
        must_exist=view.must_exist,
        urgency=urgency,
        restarts=restarts.causes(view.job.status, status, view.accounting, view.slots),
        **more,
    )


# -- the ends -----------------------------------------------------------------------------------------------------------


def _succeed(view: Situation) -> Plan:
    job = view.job
    reason = reasons.of_kind(job.kind, reasons.SUCCEEDED)
    said = Sentence(f"{job.kind} {job.key} successfully completed")
    counted = with_running(view.framework, view.accounting, view.slots)
    ended = replace(view, accounting=counted, tallies=tally(job, view.slots, counted.succeeded))
    return _end(ended, Statement(ConditionType.SUCCEEDED, True, reason, said), Event(NORMAL, reason, str(said)))


def _fail(view: Situation, reason: str, said: Sentence) -> Plan:
    event = Event(WARNING, reasons.of_kind(view.job.kind, reasons.FAILED), str(said))
    if not reason.endswith(reasons.FAILED):
        # No replica has ended the job: all that have not succeeded fail with it, as the pods of a batch Job do.
        view = replace(view, tallies={kind: replace(t, failed=t.wanted - t.succeeded) for kind, t in view.tallies.items()})
    return _end(view, Statement(ConditionType.FAILED, True, reason, said), event)


def _end(view: Situation, end: Statement, event: Event) -> Plan:
    """The final status alone: pods are deleted once it is stored, because they are the evidence."""
    status = view.status(view.created(held=False), end, ends=True)
    moment = format_time(view.now)
    changes: dict[str, Any] = {"completion_time": moment, "start_time": readable_time(status.start_time, view.now)}
    status = status.model_copy(update=changes)
    due = limits.expiry(replace(view.job, status=status), view.now)
    wake_at = due.at if due else None
    return _plan(view, status, f"{end.type}: {end.reason}", events=[event], wake_at=wake_at, urgency=Urgency.TERMINAL)


# -- suspension ---------------------------------------------------------------------------------------------------------


def _suspended_status(view: Situation) -> tuple[JobStatus, Event]:
    job = view.job
    reason = reasons.of_kind(job.kind, reasons.SUSPENDED)
    hold = view.suspension if not job.run_policy.suspend else None
    said = Sentence(f"{job.kind} {job.name} is suspended{f': {hold.text}' if hold else ''}", hold.quoted if hold else "")
    created = view.created(*view.waits.notes, held=False)
    status = view.status(created, Statement(ConditionType.SUSPENDED, True, reason, said), active=False)
    return status, Event(NORMAL, reason, str(said))


def _record_suspension(view: Situation) -> Plan:
    """The suspension alone: of a pod that was deleted first, and ended before that was seen, it is unknown who stopped it."""
    job, (status, event) = view.job, _suspended_status(view)
    first = [] if view.slots.ours else view.actions(None)
    live = any(isinstance(action, Update | Delete) for action in first)
    # The cache of other objects may be older than that of jobs: another operator has let it run on a later one.
    depends = begun.is_started(job) and not job.run_policy.suspend
    seen = next(filter(None, (extension.as_cached for extension in view.extensions)), None) if depends else None
    events = [*view.waits.events[:MAX_EVENTS], event]
    return _plan(view, status, "job is suspended", first, events, verify_live=live, as_cached=seen)


def _stay_suspended(view: Situation) -> Plan:
    """Delete the pods, and what must not outlive them."""
    job, (status, _) = view.job, _suspended_status(view)
    why = "job is suspended"
    entered = {entry.pod.uid for entry in view.accounting.entries}
    if view.held.unread:
        entered |= {slot.pod.uid for slot in view.slots.ours if slot.over}
    pods = pod_actions(view.slots, Course.SUSPENDED, dict.fromkeys(entered, Standing.UNRECORDED), view.extensions)
    clean_up = [*pods, *delete_services(view.observed, why)]
    actions = with_companions_deleted(view.framework, job, view.observed, clean_up)
    actions += view.actions(Course.SUSPENDED)
    # The ends of pods that the suspension has stopped are no failures, so their record need not be written one by one.
    urgent = urgency(job.status, status.model_copy(update={"counted_pods": job.status.counted_pods}))
    # Another operator may have resumed the job and created its pods before this one's watch has shown it.
    live = any(deletes_pod(action) or isinstance(action, Update | Delete) for action in actions)
    wake_at = min(filter(None, (view.waits.wake_at, *view.wakes)), default=None)
    events = view.waits.events[:MAX_EVENTS]
    return _plan(view, status, why, actions, events, wake_at=wake_at, verify_live=live, urgency=urgent)


def _resume(view: Situation) -> Plan:
    """Record the resume, and with it the pods that are still terminating: their ends will not be counted."""
    job = view.job
    reason, said = reasons.of_kind(job.kind, reasons.RESUMED), Sentence(f"{job.kind} {job.name} is resumed")
    status = view.status(view.created(*view.waits.notes), Statement(ConditionType.SUSPENDED, False, reason, said))
    changes: dict[str, Any] = {"start_time": view.start_time}
    if job.restarts_together and view.slots.ours:
        # The next life of the job begins when the pods of the last one are gone.
        changes |= {"attempt": min(view.accounting.attempt + 1, MAX_ATTEMPT), "last_restart_time": format_moment(view.now)}
    status = status.model_copy(update=changes)
    return _plan(view, status, "job is resumed", events=[Event(NORMAL, reason, str(said))])


# -- progress -----------------------------------------------------------------------------------------------------------


def _go_on(view: Situation, running: bool) -> Plan:
    job, now = view.job, view.now
    delayed = dict.fromkeys((*view.delays, *view.change.delayed), Standing.DELAYED)
    pods = list(pod_actions(view.slots, Course.GO_ON, delayed, view.extensions))
    awaited = view.change.due
    missing = list(create_pods(job, (r for r in view.missing if r not in view.holds), view.pod))
    about_to_need = view.waits_to_be_started or bool(missing)
    others = _others(view, now - RECHECK_PERIOD if about_to_need else -inf)
    creates: list[Action] = [*others, *view.actions(Course.GO_ON), *missing]
    status, events = view.progress_status(running)
    status = status.model_copy(update={"start_time": view.start_time})
    wakes = [*view.wakes, *(deadline.at for deadline in view.deadlines if deadline.at > now)]
    wakes += filter(isfinite, [*view.delays.values(), *([awaited] if awaited is not None else [])])
    wakes += [now + RECHECK_PERIOD] if about_to_need and view.observed.last_observed else []
    wakes += [view.waits.wake_at] if view.waits.wake_at is not None else []
    return _plan(
        view,
        status,
        "job is active",
        [*pods, *creates],
        [*events, *view.trouble_events()],
        wake_at=min(wakes, default=None),
        urgency=urgency(job.status, status),
        # The first objects of a new job need no live read. Later a missing object may mean that the job is deleted and
        # the garbage collector was faster; and a surplus object may be wanted again by now.
        verify_live=any(ends_run(action) and not _replaces(action) for action in pods)
        or ((view.has_begun or begun.may_have_begun(job, view.observed, now)) and any(isinstance(a, Create) for a in creates)),
    )


def _replaces(action: Action) -> bool:
    """Whether it deletes a pod that has ended and is on record, for its replacement."""
    return isinstance(action, Delete) and action.why == TO_BE_REPLACED and action.resource_version is None


def _others(view: Situation, since: float) -> list[Action]:
    if view.held.types:
        return []
    whose = view.framework, view.job, view.observed
    return reconcile_services(*whose) + reconcile_companions(*whose, since)
