"""What happens next by itself: to a job that is over, and to failed pods."""

from dataclasses import replace

from jobcommon.api.job import CleanPodPolicy
from jobcommon.api.pod import PodView
from jobcommon.diagnosis.found import Found
from jobcommon.diagnosis.resizes import stops_awaited
from jobcommon.reconcile import limits
from jobcommon.reconcile.ending import EndType, ending_of
from jobcommon.reconcile.slots import restart_policy


def after_the_end(found: Found) -> tuple[str, float | None]:
    """What happens to a finished job."""
    job = replace(found.read, status=found.status)
    due = limits.expiry(job)
    if due is not None:
        return "the job is deleted (ttlSecondsAfterFinished)", due
    if job.run_policy.clean_pod_policy == CleanPodPolicy.ALL:
        return "nothing: the job has finished, and its pods are deleted (cleanPodPolicy All)", None
    return "nothing: the job has finished", None


def replacement(found: Found, now: float, what: str = "") -> tuple[str, float | None]:
    """What becomes of failed pods, `what` if it is known, and when at the earliest by the pace of restarts; None: at once."""
    status, limit = found.status, found.read.run_policy.backoff_limit
    used = sum(of_type.charged for of_type in status.replica_statuses.values())
    left = f"; {used} failed runs so far, {limit + 1} end the job (backoffLimit {limit})" if limit is not None else ""
    if (stops := stops_awaited(found, now)) is not None:
        return f"{stops[0]}{left}", stops[1]
    pods = [member.pod for member in found.members if member.pod.phase == "Failed"]
    restarted = any(container.restart_count for member in found.members for container in member.pod.containers)
    if restarted and not pods and not what:
        return "the kubelet restarts the container", None
    if any(_ends_job(found, pod) for pod in pods):
        return "the job fails: the replica's restartPolicy does not restart it", None
    later = [at for pod in pods if (at := limits.restart_due(pod.started, status.restarts or 0, now)) > now]
    return f"{what or 'the operator replaces the pod'}{left}", min(later, default=None)


def _ends_job(found: Found, pod: PodView) -> bool:
    """Whether the job fails because of the end of that pod."""
    job, framework = found.read, found.framework
    replica = next((one for one in job.replicas if job.pod_name(one) == pod.name), None)
    if replica is None or framework.retries(job, replica) or framework.tolerates_failure(job, replica):
        return False
    end = ending_of(pod, framework.container, restart_policy(job, replica))
    return end is not None and end.type == EndType.PERMANENT
