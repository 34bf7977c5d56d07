"""The status of a TrainJob as the SDK and Kueue read it, made of the job's record: three conditions, and counts of jobs."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from jobcommon import ConditionType, Job, JobCondition, JobStatus, PodView, labels, reported_missing_at

SUSPENDED, COMPLETE, FAILED = "Suspended", "Complete", "Failed"
NOT_SUPPORTED, DEADLINE, JOBS_FAILED = "TrainingRuntimeNotSupported", "DeadlineExceeded", "FailedJobs"
_REASONS = {"InvalidSpec": NOT_SUPPORTED, DEADLINE: DEADLINE}
_OVER = ("Succeeded", "Failed")
Json = dict[str, Any]


def conditions(job: Job, status: JobStatus, now: float) -> list[Json]:
    """The conditions of the kind.

    The SDK takes a job with any condition that is neither Complete nor Failed for one that has not started, also if it is
    False: so a resumed job has none.
    """
    found: list[Json] = []
    if (record := status.condition(ConditionType.SUSPENDED)) is not None and record.is_true:
        found.append(_condition(SUSPENDED, record, "Suspended"))
    if (record := status.condition(ConditionType.SUCCEEDED)) is not None and record.is_true:
        found.append(_condition(COMPLETE, record, "AllJobsCompleted"))
    if (record := status.condition(ConditionType.FAILED)) is not None and record.is_true:
        found.append(_condition(FAILED, record, _REASONS.get(record.reason, JOBS_FAILED)))
    elif now >= reported_missing_at(job) and status.start_time is None and (created := status.conditions[-1:]):
        found.append(_condition(FAILED, created[0], NOT_SUPPORTED))
    return found


def _condition(kind: str, record: JobCondition, reason: str) -> Json:
    return {
        "type": kind,
        "status": "True",
        "reason": reason,
        "message": record.message,
        "lastTransitionTime": record.last_transition_time,
    }


def jobs_status(
    job: Job, status: JobStatus, roles: Mapping[str, Sequence[str]], pods: Sequence[PodView], created: Collection[str]
) -> list[Json]:
    """By role the counts of its jobs, each of which is a replica type. Meaning: JobSet's.

    A job is active while it has a pod that has not ended, also one that is being deleted: Kueue takes the quota back when none
    is.
    """
    living: dict[str, list[PodView]] = {}
    for pod in pods:
        if pod.phase not in _OVER:
            living.setdefault(pod.labels.get(labels.REPLICA_TYPE, ""), []).append(pod)
    found = []
    for role, kinds in roles.items():
        counts = dict.fromkeys(("ready", "succeeded", "failed", "active", "suspended"), 0)
        for kind in kinds:
            record = status.replica_statuses.get(kind)
            succeeded, failed = (record.succeeded or 0, record.failed or 0) if record is not None else (0, 0)
            there, wanted = living.get(kind.lower(), []), job.count(kind)
            if 0 < wanted <= succeeded:
                counts["succeeded"] += 1
            elif status.has(ConditionType.FAILED) and failed:
                counts["failed"] += 1
            else:
                ready = sum(pod.ready and pod.deletion_time is None for pod in there)
                counts["ready"] += 0 < wanted <= ready + succeeded
                counts["suspended"] += status.has(ConditionType.SUSPENDED)
            counts["active"] += bool(there) or (kind in created and not status.finished)
        found.append({"name": role, **counts})
    return found
