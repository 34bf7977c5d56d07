"""A finished job: its clean-up, the successes of replicas that end after it, and its time to live."""

from collections import Counter
from typing import Any

from jobcommon.api.observed import Observed
from jobcommon.api.replica import format_indexes
from jobcommon.api.status import ConditionType, JobStatus, ReplicaStatus
from jobcommon.api.timestamp import parse_time, readable_time
from jobcommon.framework import Framework, Job
from jobcommon.reconcile import cleanup, limits
from jobcommon.reconcile.accounting import LateEnds, late_ends
from jobcommon.reconcile.companions import with_companions_deleted
from jobcommon.reconcile.gang import remove_pod_group
from jobcommon.reconcile.plan import Delete, Plan
from jobcommon.reconcile.slots import Slots, arrange
from jobcommon.reconcile.status_change import if_changed, urgency


def plan_finished(framework: Framework, job: Job, observed: Observed, now: float) -> Plan:
    """Clean up, keep the counts equal to what the remaining pods show, and delete the job when its TTL has expired.

    A job that another operator finished may lack completionTime; then the condition's time is used. `now`: seconds since the
    epoch.
    """
    expiry = limits.expiry(job, now)
    if expiry is not None and expiry.passed:
        # Delete the job as it was read: its TTL may have been changed since (rule R1).
        version = job.resource_version
        owner = Delete(job.api_version, framework.plural, job.name, job.uid, "ttlSecondsAfterFinished", version)
        return Plan((*cleanup.release_all(observed.pods), owner), reason="time to live is over")
    slots = arrange(framework, job, observed.pods)
    late = late_ends(job, slots)
    pods, until = cleanup.clean_up_finished(framework, job, observed, slots, late, now)
    actions = with_companions_deleted(framework, job, observed, [*pods, *remove_pod_group(job, observed)])
    status = _with_counts(job, slots, late)
    if parse_time(status.completion_time) is None:
        end = next(
            c for c in reversed(status.conditions) if c.is_true and c.type in (ConditionType.SUCCEEDED, ConditionType.FAILED)
        )
        status = status.model_copy(update={"completion_time": readable_time(end.last_transition_time, now)})
    return Plan(
        actions=tuple(actions),
        status=if_changed(job, status),
        urgency=urgency(job.status, status),
        wake_at=min(filter(None, (expiry.at if expiry else None, until)), default=None),
        reason="job has finished",
    )


def _with_counts(job: Job, slots: Slots, late: LateEnds) -> JobStatus:
    """The status with the pods that are still active and the successes after the job's end."""
    active = Counter(slot.replica.type for slot in slots.wanted.values() if slot.active)
    # Most finished jobs need no change; a restart of the operator plans all of them.
    changed: dict[str, ReplicaStatus] = {}
    for kind, status in job.status.replica_statuses.items():
        changes: dict[str, Any] = {"active": active[kind] or None} if status.active != (active[kind] or None) else {}
        if (indexes := late.succeeded.get(kind)) is not None:
            changes |= {"succeeded": sum(i < job.count(kind) for i in indexes), "succeeded_indexes": format_indexes(indexes)}
        if changes:
            changed[kind] = status.model_copy(update=changes)
    if not changed:
        return job.status
    return job.status.model_copy(update={"replica_statuses": {**job.status.replica_statuses, **changed}})
