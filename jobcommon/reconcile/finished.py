"""A finished job: its clean-up by cleanPodPolicy, the successes of replicas that end after it, and its time to live."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from jobcommon.api import reasons
from jobcommon.api.job import CleanPodPolicy
from jobcommon.api.observed import Observed
from jobcommon.api.replica import format_indexes
from jobcommon.api.status import ConditionType, JobStatus, ReplicaStatus
from jobcommon.api.timestamp import parse_time, readable_time
from jobcommon.framework import FINALIZER, Framework, Job
from jobcommon.reconcile import limits
from jobcommon.reconcile.accounting import Accounting
from jobcommon.reconcile.companions import delete_services, with_companions_deleted
from jobcommon.reconcile.compose import compose, urgency
from jobcommon.reconcile.ending import Life, Verdict
from jobcommon.reconcile.intents import Course, Standing
from jobcommon.reconcile.plan import Action, Delete, Plan, in_order
from jobcommon.reconcile.pod_actions import pod_actions, remove_all_finalizers
from jobcommon.reconcile.situation import Feature, Situation
from jobcommon.reconcile.slots import Slot, Slots, Succeeded, has_failed


def plan_finished(framework: Framework, job: Job, observed: Observed, now: float, features: Iterable[Feature]) -> Plan:
    """Clean up, keep the counts equal to what the remaining pods show, and delete the job when its TTL has expired.

    A job that another operator finished may lack completionTime; then the condition's time is used. `now`: seconds since the
    epoch.
    """
    expiry = limits.expiry(job, now)
    if expiry is not None and expiry.passed:
        # Delete the job as it was read: its TTL may have been changed since (rule R1).
        version = job.resource_version
        owner = Delete(job.api_version, framework.plural, job.name, job.uid, "ttlSecondsAfterFinished", version)
        actions: list[Action] = [*remove_all_finalizers(observed.pods), owner]
        return Plan(in_order(actions, observed.backed_off), reason="time to live is over")
    view = Situation.start(framework, job, observed, now, features)
    slots, accounting, policy, grace = view.slots, view.counted, _effective_policy(job), limits.grace(job, now)
    late = _late_successes(job, accounting)
    may_end = _ending_by_themselves(framework, slots) if grace is not None and not grace.passed else frozenset()
    known = dict.fromkeys(may_end, Standing.MAY_END)
    known |= dict.fromkeys(_without_servers(framework, job, slots) if grace is not None else (), Standing.LOST)
    known |= {slot.pod.uid: Standing.UNRECORDED for slot in late}
    clean_up: list[Action] = [*pod_actions(slots, _COURSES[policy], known, view.extensions)]
    # Replicas that may end by themselves need the Services.
    if policy != CleanPodPolicy.NONE and not may_end:
        clean_up += delete_services(observed, "job finished")
    actions = with_companions_deleted(framework, job, observed, clean_up)
    actions += view.actions(_COURSES[policy])
    status = _with_counts(job, slots, {slot.replica.type: accounting.succeeded[slot.replica.type] for slot in late})
    if parse_time(status.completion_time) is None:
        end = status.since(ConditionType.SUCCEEDED, ConditionType.FAILED)
        status = status.model_copy(update={"completion_time": readable_time(end, now)})
    wakes = [*view.wakes, *([expiry.at] if expiry else ()), *([grace.at] if grace and may_end else ())]
    urgent = urgency(job.status, status)
    return compose(view, "job has finished", actions, status, urgency=urgent, wake_at=min(wakes, default=None))


_COURSES = {
    CleanPodPolicy.ALL: Course.FINISHED_ALL,
    CleanPodPolicy.RUNNING: Course.FINISHED_RUNNING,
    CleanPodPolicy.NONE: Course.FINISHED_NONE,
}


def _late_successes(job: Job, accounting: Accounting) -> tuple[Slot, ...]:
    """The successes since the job's end that make the number on record higher.

    Another operator counts replicas as succeeded that still run when it finishes a job.
    """
    if not (late := accounting.having(Verdict.SUCCEEDED)):
        return ()
    statuses, wanted = job.status.replica_statuses, {kind: job.count(kind) for kind in job.replica_specs}
    more = {
        kind
        for kind, indexes in accounting.succeeded.items()
        if kind in statuses and sum(index < wanted[kind] for index in indexes) > (statuses[kind].succeeded or 0)
    }
    return tuple(slot for slot in late if slot.replica.type in more)


def _effective_policy(job: Job) -> CleanPodPolicy:
    """The effective policy of a finished job, with the default filled in.

    A job that failed for another reason than the end of a replica must stop: policy None then keeps the finished pods only.
    """
    policy = job.run_policy.clean_pod_policy or CleanPodPolicy.RUNNING
    # Other operators have named the kind in other ways.
    stopped = job.status.has(ConditionType.FAILED) and not job.status.reason(ConditionType.FAILED).endswith(reasons.FAILED)
    return CleanPodPolicy.RUNNING if policy == CleanPodPolicy.NONE and stopped else policy


def _ending_by_themselves(framework: Framework, slots: Slots) -> frozenset[str]:
    """The UIDs of the pods that may end by themselves after the success: those with work of their own that are on a node.

    One that has failed for good and which another container keeps alive is on record.
    """
    working = (slot for slot in slots.wanted.values() if slot.pod.scheduled and not framework.serves(slot.replica.type))
    return frozenset(slot.pod.uid for slot in working if slot.stays and not slot.recorded)


def _without_servers(framework: Framework, job: Job, slots: Slots) -> frozenset[str]:
    """The UIDs of the pods that failed after the success of a job with servers: we deleted these, so that end has no meaning.

    A pod without our finalizer may have ended before.
    """
    if not any(framework.serves(kind) and job.count(kind) for kind in job.replica_specs):
        return frozenset()
    over = [s for s in slots.wanted.values() if s.life is Life.OVER and FINALIZER in s.pod.finalizers and not s.recorded]
    return frozenset(slot.pod.uid for slot in over if has_failed(framework, job, slot))


def _with_counts(job: Job, slots: Slots, succeeded: Mapping[str, frozenset[int]]) -> JobStatus:
    """The status with the pods that are still active, and with the indexes that have `succeeded` of types with new ones."""
    running = (s for s in slots.wanted.values() if s.life is Life.RUNNING and not isinstance(s.state, Succeeded))
    active = Counter(slot.replica.type for slot in running)
    # Most finished jobs need no change; a restart of the operator plans all of them.
    changed: dict[str, ReplicaStatus] = {}
    for kind, status in job.status.replica_statuses.items():
        changes: dict[str, Any] = {"active": active[kind] or None} if status.active != (active[kind] or None) else {}
        if (indexes := succeeded.get(kind)) is not None:
            changes |= {"succeeded": sum(i < job.count(kind) for i in indexes), "succeeded_indexes": format_indexes(indexes)}
        if changes:
            changed[kind] = status.model_copy(update=changes)
    if not changed:
        return job.status
    return job.status.model_copy(update={"replica_statuses": {**job.status.replica_statuses, **changed}})
