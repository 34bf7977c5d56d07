"""The decision: `plan(framework, job, observed, now)`.

Pure and deterministic: the same arguments give an equal Plan. Replica types are visited in declared order, indices
ascending. What a verdict destroys is recorded first: a suspension, a resume, a new attempt or the end of a job is a plan with a
status alone, and its consequences follow when that status is stored.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import inf, isfinite
from operator import attrgetter
from typing import Any

from jobcommon.api import reasons
from jobcommon.api.job import CleanPodPolicy
from jobcommon.api.observed import Observed
from jobcommon.api.pod import PodView
from jobcommon.api.replica import Replica
from jobcommon.api.status import MAX_ATTEMPT, ConditionType, JobStatus
from jobcommon.api.timestamp import format_moment, format_time, parse_time, readable_time
from jobcommon.framework import FINALIZER, Framework, Job, reported_missing_at
from jobcommon.manifests.children import CORE, as_addressed
from jobcommon.reconcile import limits
from jobcommon.reconcile.accounting import ends_after_failure, restart_causes, with_running
from jobcommon.reconcile.attempts import next_attempt
from jobcommon.reconcile.ending import Life
from jobcommon.reconcile.failed_logs import logs_of
from jobcommon.reconcile.intents import Course, Standing, pod_actions, remove_all_finalizers
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
from jobcommon.reconcile.rendering import Sentence, Statement, condition_states
from jobcommon.reconcile.situation import Situation, only
from jobcommon.reconcile.slots import Slots, Succeeded, has_failed, tally
from jobcommon.reconcile.verdicts import BeginAttempt, Fail, GoOn, Resume, Succeed, Suspend, Verdict, judge
from jobcommon.reconcile.view import Part, Proposal, Wake, look
from jobcommon.reconcile.waiting import MAX_EVENTS
from jobcommon.reconcile.wanted import (
    RECHECK_PERIOD,
    changes,
    wanted_companions,
    wanted_services,
    with_clean_up,
)

# If a job reaches us more than these seconds after its creation, another replica may have handled it already, created its pods
# and recorded its end: a live read must verify it.
FRESH_JOB_SECONDS = 10.0
NOTHING = Plan(reason="nothing to do")


def plan_with(framework: Framework, job: Job, observed: Observed, now: float, features: Sequence[type[Part]]) -> Plan:
    """What to do for `job`, given what was observed of its children at `now` (seconds since the epoch).

    `features` are asked in that order.
    """
    observed = replace(
        observed,
        pods=tuple(sorted(observed.pods, key=attrgetter("name"))),
        services=tuple(sorted(observed.services, key=attrgetter("name"))),
    )
    if job.managed_elsewhere:
        # MultiKueue runs the job elsewhere once its Workload is admitted here.
        own = () if job.deleting else _actions(Situation(look(framework, job, observed, now, features)).acts(None))
        return replace(NOTHING, actions=in_order(own, observed.backed_off), reason=f"managed by {job.managed_by}")
    if job.deleting:
        return Plan(in_order(remove_all_finalizers(observed.pods), observed.backed_off), reason="job is being deleted")
    if job.status.finished:
        return plan_finished(Situation(look(framework, job, observed, now, features)))
    if framework.corrections is not None and (changes := framework.corrections(job, now)):
        # Alone: the status is written to the version that was read.
        known = {"metadata": {"uid": job.uid, "resourceVersion": job.resource_version}}
        update = Update(job.api_version, framework.plural, job.name, known, changes)
        if actions := in_order([update], observed.backed_off):
            return Plan(actions, reason="fields of the spec are filled in")
    return carry_out(judge(Situation(look(framework, as_addressed(job, observed), observed, now, features))))


def plan_for_orphans(pods: Iterable[PodView]) -> Plan:
    """The plan for pods whose job is deleted: remove the finalizer, so that the garbage collector can delete them."""
    return Plan(tuple(remove_all_finalizers(pods)), reason="job is gone")


def carry_out(verdict: Verdict) -> Plan:
    """The plan that follows from a verdict."""
    situation = verdict.situation
    match verdict:
        case Succeed():
            return _succeed(situation)
        case Fail(reason=reason, message=message, remarks=remarks, waiting=waiting):
            return _fail(situation, reason, Sentence(message, remarks=remarks, waiting=waiting, end=""))
        case Suspend() if not situation.view.job.status.has(ConditionType.SUSPENDED):
            return _record_suspension(situation)
        case Suspend():
            return _stay_suspended(situation)
        case Resume():
            return _resume(situation)
        case BeginAttempt(cause=cause):
            # Once it is stored, the pods of the earlier attempt are deleted or stopped: they are the evidence.
            status, events = situation.status_of_active(running=False, cause=cause)
            return _plan(situation, status, "all replicas are restarted", events=events)
        case GoOn(running=running):
            return _go_on(situation, running)


def _plan(
    situation: Situation,
    status: JobStatus,
    reason: str,
    actions: Iterable[Action] = (),
    events: Iterable[Event] = (),
    urgency: Urgency = Urgency.TRANSITION,
    **more: Any,
) -> Plan:
    """The plan with that status, if it must be written, and with events for the ends that this pass enters."""
    view = situation.view
    return _compose(
        situation,
        reason,
        actions,
        status,
        events=(*situation.exit_events(), *events),
        must_exist=view.facts.entered.must_exist(view.now),
        urgency=urgency,
        restart_causes=restart_causes(view.job.status, status, view.accounting, view.slots),
        **more,
    )


def _actions(proposals: Iterable[Proposal]) -> list[Action]:
    return [proposal for proposal in proposals if isinstance(proposal, Action)]


def _wakes(proposals: Iterable[Proposal], now: float) -> list[float]:
    return [wake.at for wake in only(proposals, Wake) if wake.at > now]


# -- the ends -----------------------------------------------------------------------------------------------------------


def _succeed(situation: Situation) -> Plan:
    view, job = situation.view, situation.view.job
    reason = reasons.of_kind(job.kind, reasons.SUCCEEDED)
    sentence = Sentence(f"{job.kind} {job.key} successfully completed")
    counted = with_running(view.framework, view.accounting, view.slots)
    ended = situation.with_accounting(counted, tally(job, view.slots, counted.succeeded))
    return _end(ended, Statement(ConditionType.SUCCEEDED, True, reason, sentence), Event(NORMAL, reason, str(sentence)))


def _fail(situation: Situation, reason: str, sentence: Sentence) -> Plan:
    event = Event(WARNING, reasons.of_kind(situation.view.job.kind, reasons.FAILED), str(sentence))
    if reason != reasons.of_kind(situation.view.job.kind, reasons.FAILED):
        # No replica has ended the job: all that have not succeeded fail with it, as the pods of a batch Job do.
        all_failed = {kind: replace(t, failed=t.wanted - t.succeeded) for kind, t in situation.view.tallies.items()}
        situation = situation.with_accounting(situation.view.accounting, all_failed, situation.view.overdue)
    if situation.view.accounting.attempt > situation.view.job.attempt:
        # The attempt that would have begun does not: what has succeeded in this one stays on record, and so do its pods.
        kept = {name: getattr(situation.view.facts.entered, name) for name in ("succeeded", "counted_pods", "stopped_pods")}
        ended = replace(situation.view.accounting, **kept)
        situation = situation.with_accounting(ended, situation.view.tallies, situation.view.overdue)
    return _end(situation, Statement(ConditionType.FAILED, True, reason, sentence), event)


def _end(situation: Situation, end: Statement, event: Event) -> Plan:
    """The final status alone: pods are deleted once it is stored, because they are the evidence."""
    view = situation.view
    status = situation.status(situation.created(with_holds=False), end, ends=True)
    moment = format_time(view.now)
    fields: dict[str, Any] = {"completion_time": moment, "start_time": readable_time(status.start_time, view.now)}
    status = status.model_copy(update=fields)
    wake_at = limits.expiry(replace(view.job, status=status))
    return _plan(situation, status, f"{end.type}: {end.reason}", events=[event], wake_at=wake_at, urgency=Urgency.TERMINAL)


# -- suspension ---------------------------------------------------------------------------------------------------------


def _suspended_status(situation: Situation) -> tuple[JobStatus, Event]:
    view, job = situation.view, situation.view.job
    reason = reasons.of_kind(job.kind, reasons.SUSPENDED)
    stop = view.facts.stop if not job.run_policy.suspend else None
    blocked = (view.facts.blocked.hold.words,) if view.facts.blocked.hold is not None else ()
    text = f"{job.kind} {job.name} is suspended{f': {stop.words.text}' if stop else ''}"
    sentence = Sentence(text, stop.words.quoted if stop else "", blocked)
    created = situation.created(*situation.waits.notes, with_holds=False)
    status = situation.status(created, Statement(ConditionType.SUSPENDED, True, reason, sentence), active=False)
    return status, Event(NORMAL, reason, str(sentence))


def _record_suspension(situation: Situation) -> Plan:
    """The suspension alone: of a pod that was deleted first, and ended before that was seen, it is unknown who stopped it."""
    view = situation.view
    job, (status, event) = view.job, _suspended_status(situation)
    first = [] if view.slots.ours else _actions(situation.acts(None))
    live = any(isinstance(action, Update | Delete) for action in first)
    # The cache of other objects may be older than that of jobs: another operator has let it run on a later one.
    depends = limits.is_started(job) and not job.run_policy.suspend
    stop = view.facts.stop
    seen = stop.seen if depends and stop is not None else None
    events = [*situation.waits.events[:MAX_EVENTS], *view.facts.blocked.events, event]
    return _plan(situation, status, "job is suspended", first, events, verify_live=live, as_cached=seen)


def _stay_suspended(situation: Situation) -> Plan:
    """Delete the pods, and what must not outlive them."""
    view = situation.view
    job, (status, _) = view.job, _suspended_status(situation)
    why = "job is suspended"
    entered = {entry.pod.uid for entry in view.accounting.entries}
    if view.facts.blocked.unread:
        entered |= {slot.pod.uid for slot in view.slots.ours if slot.over}
    acts = situation.acts(Course.SUSPENDED)
    known = dict.fromkeys(entered, Standing.UNRECORDED)
    pods = list(pod_actions(view.slots, Course.SUSPENDED, known, acts))
    whose = replace(job, admitted=view.facts.stop is None)
    actions = with_clean_up(view.framework, whose, view.observed, pods, why)
    actions += _actions(acts)
    # The ends of pods that the suspension has stopped are no failures, so their record need not be written one by one.
    urgent = _urgency(job.status, status.model_copy(update={"counted_pods": job.status.counted_pods}))
    # Another operator may have resumed the job and created its pods before this one's watch has shown it.
    live = any(deletes_pod(action) or isinstance(action, Update | Delete) for action in actions)
    wake_at = min(filter(None, (situation.waits.wake_at, *_wakes(acts, view.now))), default=None)
    events = [*situation.waits.events[:MAX_EVENTS], *view.facts.blocked.events]
    return _plan(situation, status, why, actions, events, wake_at=wake_at, verify_live=live, urgency=urgent)


def _resume(situation: Situation) -> Plan:
    """Record the resume, and with it the pods that are still terminating: their ends will not be counted."""
    view, job = situation.view, situation.view.job
    reason, sentence = reasons.of_kind(job.kind, reasons.RESUMED), Sentence(f"{job.kind} {job.name} is resumed")
    status = situation.status(
        situation.created(*situation.waits.notes), Statement(ConditionType.SUSPENDED, False, reason, sentence)
    )
    fields: dict[str, Any] = {"start_time": view.start_time}
    if job.restarts_together and view.slots.ours:
        # The next life of the job begins when the pods of the last one are gone.
        fields |= {
            "attempt": min(next_attempt(job, (slot.pod for slot in view.slots.ours)), MAX_ATTEMPT),
            "last_restart_time": format_moment(view.now),
        }
    status = status.model_copy(update=fields)
    return _plan(situation, status, "job is resumed", events=[Event(NORMAL, reason, str(sentence))])


# -- a job that goes on -------------------------------------------------------------------------------------------------


def _go_on(situation: Situation, running: bool) -> Plan:
    view = situation.view
    job, now = view.job, view.now
    delayed = dict.fromkeys((*situation.delays, *view.change.delayed), Standing.DELAYED)
    pods = list(pod_actions(view.slots, Course.GO_ON, delayed, situation.going_on))
    awaited = view.change.due
    missing = list(_create_pods(job, (r for r in view.missing if r not in view.holds), view.pod))
    about_to_need = situation.waits_to_be_started or bool(missing)
    others = _others(situation, now - RECHECK_PERIOD if about_to_need else -inf)
    creates: list[Action] = [*others, *_actions(situation.going_on), *missing]
    status, events = situation.status_of_active(running)
    status = status.model_copy(update={"start_time": view.start_time})
    wakes = [*_wakes(situation.going_on, now), *(deadline.at for deadline in situation.deadlines if deadline.at > now)]
    wakes += filter(isfinite, [*situation.delays.values(), *([awaited] if awaited is not None else [])])
    wakes += [now + RECHECK_PERIOD] if about_to_need and view.observed.last_observed else []
    wakes += [situation.waits.wake_at] if situation.waits.wake_at is not None else []
    wakes += [at for at in (reported_missing_at(job),) if now < at < inf]
    return _plan(
        situation,
        status,
        "job is active",
        [*pods, *creates],
        [*events, *situation.trouble_events()],
        wake_at=min(wakes, default=None),
        urgency=_urgency(job.status, status),
        # The first objects of a new job need no live read. Later a missing object may mean that the job is deleted and
        # the garbage collector was faster; and a surplus object may be wanted again by now.
        verify_live=any(ends_run(action) and not _replaces(action) for action in pods)
        or (_may_have_begun(situation) and any(isinstance(a, Create) for a in creates)),
    )


def _create_pods(job: Job, replicas: Iterable[Replica], manifest: Callable[[Replica], dict[str, Any]]) -> Iterator[Create]:
    """Creates of the pods. A manifest is built when it is sent: building thousands at once would block the event loop.

    The first of each type is built here: a framework's function that fails does so before any write for the job.
    """
    tried: set[str] = set()
    for replica in replicas:
        make = partial(manifest, replica)
        content = make if replica.type in tried else make()
        tried.add(replica.type)
        yield Create(CORE, "pods", job.pod_name(replica), content, replica_type=replica.type)


def _may_have_begun(situation: Situation) -> bool:
    """Whether the job has begun, or may have although the cache does not show it.

    What this process remembers may only add a live read.
    """
    view = situation.view
    created = view.job.creation_time
    return view.facts.has_begun or view.observed.begun or created is None or view.now >= created + FRESH_JOB_SECONDS


def _replaces(action: Action) -> bool:
    """Whether it deletes a pod that has ended and is on record, for its replacement."""
    return isinstance(action, Delete) and action.replaced


def _others(situation: Situation, since: float) -> list[Action]:
    view = situation.view
    if view.facts.blocked.types:
        return []
    whose = view.framework, view.job, view.observed
    return changes(view.job, view.observed, [*wanted_services(*whose), *wanted_companions(*whose)], since)


# -- the plan as a whole ------------------------------------------------------------------------------------------------


def _compose(situation: Situation, reason: str, actions: Iterable[Action], status: JobStatus, **more: Any) -> Plan:
    """The plan with those actions and that status; `more` are further fields of it."""
    view = situation.view
    ordered, job = in_order(actions, view.observed.backed_off), view.job
    if (fields_of := view.framework.status_fields) is not None:
        created = {action.replica_type for action in ordered if isinstance(action, Create) and action.replica_type}
        status = status.with_fields_of_kind(fields_of(job, status, view.observed.pods, created, view.now))
        if any(job.raw_status.get(name) != value for name, value in status.of_kind.items()):
            more["urgency"] = max(more.get("urgency", Urgency.TRANSITION), Urgency.TRANSITION)
    return Plan(actions=ordered, logs=logs_of(situation.view, ordered), status=_if_changed(job, status), reason=reason, **more)


def _if_changed(job: Job, status: JobStatus) -> JobStatus | None:
    """The status if it must be written. Dropping the UIDs of deleted pods alone does not cause a write (rule R19)."""
    changed = status.to_json()
    remembered = {"countedPods": list(job.status.counted_pods), "stoppedPods": list(job.status.stopped_pods)}
    same_memory = {key: value for key, value in {**changed, **remembered}.items() if value or key not in remembered}
    forgets_only = set(status.counted_pods) <= set(job.status.counted_pods)
    return None if (same_memory if forgets_only else changed) == dict(job.raw_status) else status


# The fields that users and other programs wait for, or on which the next decision depends. A change of any other field, such as
# a count, is not urgent.
_URGENT = (
    "start_time",
    "completion_time",
    "restarts",
    "disruptions",
    "attempt",
    "gathering_since",
    "left_out",
    "service_name",
    "failures",
)


def _urgency(before: JobStatus, after: JobStatus) -> Urgency:
    """The urgency of a status that is not final.

    The message of a condition names the pods that wait, so each pod that starts may change it: it is as urgent as a count.
    """
    urgent = any(getattr(before, name) != getattr(after, name) for name in _URGENT)
    urgent |= not set(after.counted_pods) <= set(before.counted_pods)
    return Urgency.TRANSITION if urgent or condition_states(before) != condition_states(after) else Urgency.COUNTS


# -- a finished job -----------------------------------------------------------------------------------------------------


def plan_finished(situation: Situation) -> Plan:
    """Clean up, keep the counts equal to what the remaining pods show, and delete the job when its TTL has expired.

    A job that another operator finished may lack completionTime; then the condition's time is used.
    """
    view = situation.view
    framework, job, observed, now = view.framework, view.job, view.observed, view.now
    expiry = limits.expiry(job)
    if expiry is not None and now >= expiry:
        # Delete the job as it was read: its TTL may have been changed since (rule R1).
        version = job.resource_version
        owner = Delete(job.api_version, framework.plural, job.name, job.uid, "ttlSecondsAfterFinished", version)
        actions: list[Action] = [*remove_all_finalizers(observed.pods), owner]
        return Plan(in_order(actions, observed.backed_off), reason="time to live has passed")
    slots, course, grace = view.slots, _course(job), limits.grace(job, now)
    may_end = _ending_by_themselves(framework, slots) if grace is not None and now < grace else frozenset()
    known = dict.fromkeys(may_end, Standing.MAY_END)
    known |= dict.fromkeys(_without_servers(framework, job, slots) if grace is not None else (), Standing.LOST)
    after = ends_after_failure(framework, job, slots)
    known |= dict.fromkeys(after, Standing.UNRECORDED)
    acts = situation.acts(course)
    pods = list(pod_actions(view.slots, course, known, acts))
    # Replicas that may end by themselves need the Services.
    kept = course in (Course.FINISHED_NONE, Course.STOPPED_NONE)
    why = "job finished" if not kept and not may_end else ""
    actions = with_clean_up(framework, job, observed, pods, why)
    actions += _actions(acts)
    status = _with_counts(job, slots)
    if parse_time(status.completion_time) is None:
        end = status.since(ConditionType.SUCCEEDED, ConditionType.FAILED)
        status = status.model_copy(update={"completion_time": readable_time(end, now)})
    wakes = [*_wakes(acts, now), *([expiry] if expiry is not None else ()), *([grace] if grace is not None and may_end else ())]
    urgent = _urgency(job.status, status)
    if after:
        # Many end at about the same time: one write has them all.
        status = status.model_copy(update={"failures": [*status.failures, *after.values()]})
    return _compose(situation, "job has finished", actions, status, urgency=urgent, wake_at=min(wakes, default=None))


_COURSES = {
    CleanPodPolicy.ALL: Course.FINISHED_ALL,
    CleanPodPolicy.RUNNING: Course.FINISHED_RUNNING,
    CleanPodPolicy.NONE: Course.FINISHED_NONE,
}


def _course(job: Job) -> Course:
    """The course of a finished job, by its policy, with the default filled in.

    A job that failed for another reason than the end of a replica must stop: under policy None its pods are ended and kept.
    """
    policy = job.run_policy.clean_pod_policy or CleanPodPolicy.RUNNING
    reason = job.status.reason(ConditionType.FAILED)
    stopped = job.status.has(ConditionType.FAILED) and reason not in reasons.of_a_replica(job.kind)
    return Course.STOPPED_NONE if policy == CleanPodPolicy.NONE and stopped else _COURSES[policy]


def _ending_by_themselves(framework: Framework, slots: Slots) -> frozenset[str]:
    """The UIDs of the pods that may end by themselves after the success: those with work of their own that are on a node.

    One that has failed for good and which another container keeps alive is on record.
    """
    living = (slot for slot in slots.wanted.values() if slot.stays and slot.pod.scheduled and not slot.recorded)
    return frozenset(slot.pod.uid for slot in living if not framework.serves(slot.replica.type))


def _without_servers(framework: Framework, job: Job, slots: Slots) -> frozenset[str]:
    """The UIDs of the pods that failed after the success of a job with servers: we deleted these, so that end has no meaning.

    A pod without our finalizer may have ended before.
    """
    if not any(framework.serves(kind) and job.count(kind) for kind in job.replica_specs):
        return frozenset()
    over = [s for s in slots.wanted.values() if s.life is Life.OVER and FINALIZER in s.pod.finalizers and not s.recorded]
    return frozenset(slot.pod.uid for slot in over if has_failed(framework, job, slot))


def _with_counts(job: Job, slots: Slots) -> JobStatus:
    """The status with the pods that are still active."""
    running = (s for s in slots.wanted.values() if s.life is Life.RUNNING and not isinstance(s.state, Succeeded))
    active = Counter(slot.replica.type for slot in running)
    # Most finished jobs need no change; a restart of the operator plans all of them.
    statuses = job.status.replica_statuses
    changed = {
        kind: status.model_copy(update={"active": active[kind] or None})
        for kind, status in statuses.items()
        if status.active != (active[kind] or None)
    }
    return job.status.model_copy(update={"replica_statuses": {**statuses, **changed}}) if changed else job.status
