"""A finished job: its clean-up and its time to live."""

from jobcommon.api.observed import Observed
from jobcommon.api.status import ConditionType
from jobcommon.api.timestamp import parse_time, readable_time
from jobcommon.framework import Framework, Job
from jobcommon.reconcile import cleanup, limits
from jobcommon.reconcile.companions import with_companions_deleted
from jobcommon.reconcile.gang import remove_pod_group
from jobcommon.reconcile.plan import Delete, Plan
from jobcommon.reconcile.slots import arrange
from jobcommon.reconcile.status_change import if_changed, urgency


def plan_finished(framework: Framework, job: Job, observed: Observed, now: float) -> Plan:
    """Clean up, keep `active` equal to the number of remaining pods, and delete the job when its TTL has expired.

    A job that another operator finished may lack completionTime; then the condition's time is used. `now`: seconds since the
    epoch.
    """
    slots = arrange(job, observed.pods)
    clean_up = [*cleanup.clean_up_finished(job, observed, slots.ours), *remove_pod_group(job, observed)]
    actions = with_companions_deleted(framework, job, observed, clean_up)
    expiry = limits.expiry(job, now)
    if expiry is not None and expiry.passed:
        # Delete the job as it was read: its TTL may have been changed since (rule R1).
        version = job.resource_version
        owner = Delete(job.api_version, framework.plural, job.name, job.uid, "ttlSecondsAfterFinished", version)
        return Plan((*cleanup.release_all(observed.pods), owner), reason="time to live is over")
    running: dict[str, int] = {}
    for replica, pod in slots.pods.items():
        if pod.phase == "Running" and pod.deletion_time is None:
            running[replica.type] = running.get(replica.type, 0) + 1
    statuses = {
        kind: status.model_copy(update={"active": running.get(kind) or None})
        for kind, status in job.status.replica_statuses.items()
    }
    status = job.status.model_copy(update={"replica_statuses": statuses})
    if parse_time(status.completion_time) is None:
        end = next(
            c for c in reversed(status.conditions) if c.is_true and c.type in (ConditionType.SUCCEEDED, ConditionType.FAILED)
        )
        status = status.model_copy(update={"completion_time": readable_time(end.last_transition_time, now)})
    return Plan(
        actions=tuple(actions),
        status=if_changed(job, status),
        urgency=urgency(job.status, status),
        wake_at=expiry.at if expiry else None,
        reason="job has finished",
    )
