"""How long the steps of a job's life took, for histograms: from its creation to its pods and to Running, and its run."""

from dataclasses import dataclass

from jobcommon.api.status import ConditionType, JobStatus
from jobcommon.api.timestamp import parse_time
from jobcommon.controller.result import Result, Work

LAUNCH_DELAY = "training_operator_launch_delay_seconds"
JOB_DURATION = "training_operator_job_duration_seconds"

FIRST_POD = "first_pod"
ALL_PODS = "all_pods"
STAGE_RUNNING = "running"
RESULT_SUCCEEDED = "succeeded"
RESULT_FAILED = "failed"
LABELS = {LAUNCH_DELAY: (FIRST_POD, ALL_PODS, STAGE_RUNNING), JOB_DURATION: (RESULT_SUCCEEDED, RESULT_FAILED)}
"""The labels that the durations of a name have."""


@dataclass(frozen=True, slots=True)
class Duration:
    """One duration in seconds. `label` is the stage of a LAUNCH_DELAY, or the result after a JOB_DURATION."""

    name: str
    label: str
    seconds: float


def durations(work: Work, result: Result, created_pods: int, now: float) -> tuple[Duration, ...]:
    """What this reconcile completed; `created_pods` is how many pods it created. `now` is seconds since the epoch.

    A launch is observed once: while the job has neither run nor lost a pod. Recorded times have whole seconds.
    """
    job = work.job
    if job is None:
        return ()
    before, after = job.status, work.plan.status if result.status_version is not None else None
    # True of most reconciles.
    if not created_pods and (after is None or _current(before) == _current(after)):
        return ()
    found = []
    if job.creation_time is not None and not _was_launched(before):
        stages = [STAGE_RUNNING] if after is not None and after.has(ConditionType.RUNNING) else []
        if created_pods and not work.active_pods:
            stages.append(FIRST_POD)
        if work.active_pods < job.total_replicas <= work.active_pods + created_pods:
            stages.append(ALL_PODS)
        delay = max(now - job.creation_time, 0.0)
        found += [Duration(LAUNCH_DELAY, stage, delay) for stage in stages]
    if after is not None and after.finished and not before.finished:
        began, ended = parse_time(after.start_time), parse_time(after.completion_time)
        if began is not None and ended is not None:
            label = RESULT_SUCCEEDED if after.has(ConditionType.SUCCEEDED) else RESULT_FAILED
            found.append(Duration(JOB_DURATION, label, max(ended - began, 0.0)))
    return tuple(found)


def _current(status: JobStatus) -> str:
    return status.conditions[-1].type if status.conditions else ""


def _was_launched(status: JobStatus) -> bool:
    ran = status.condition(ConditionType.RUNNING) or status.condition(ConditionType.RESTARTING)
    return ran is not None or bool(status.restarts or status.disruptions)
