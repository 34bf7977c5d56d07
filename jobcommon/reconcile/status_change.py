"""Which changes of a status must be written, and how soon."""

from jobcommon.api.status import JobStatus
from jobcommon.framework import Job
from jobcommon.reconcile.plan import Urgency


def if_changed(job: Job, status: JobStatus) -> JobStatus | None:
    """The status if it must be written. Dropping the UIDs of deleted pods alone does not cause a write (rule R19)."""
    changed = status.to_json()
    remembered = {"countedPods": list(job.status.counted_pods), "stoppedPods": list(job.status.stopped_pods)}
    same_memory = {key: value for key, value in {**changed, **remembered}.items() if value or key not in remembered}
    forgets_only = set(status.counted_pods) <= set(job.status.counted_pods)
    return None if (same_memory if forgets_only else changed) == dict(job.raw_status) else status


# The fields that users and other programs wait for, or on which the next decision depends. A change of any other field, such as
# a count, is not urgent.
_URGENT = (
    "conditions",
    "start_time",
    "completion_time",
    "restarts",
    "disruptions",
    "attempt",
    "failures",
    "counted_pods",
)


def urgency(before: JobStatus, after: JobStatus) -> Urgency:
    """The urgency of a status that is not final."""
    urgent = any(getattr(before, name) != getattr(after, name) for name in _URGENT)
    return Urgency.NORMAL if urgent else Urgency.COUNTS
