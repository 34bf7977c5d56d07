"""Which pods are retired: those whose end is recorded, and the remaining pods of a half-stopped job."""

from collections.abc import Collection

from jobcommon.api.pod import PodView
from jobcommon.api.replica import Replica
from jobcommon.api.status import ConditionType
from jobcommon.api.timestamp import parse_time
from jobcommon.framework import Framework, Job
from jobcommon.reconcile import cleanup, limits
from jobcommon.reconcile.accounting import Accounting, ending_in_slot, is_counted, recorded_success
from jobcommon.reconcile.ending import Verdict, is_over
from jobcommon.reconcile.plan import Action
from jobcommon.reconcile.slots import Slots


def retire_recorded(
    framework: Framework, job: Job, slots: Slots, now: float, blocked: Collection[str] = ()
) -> tuple[list[Action], list[float]]:
    """Retire the pods whose end is recorded: keep those that succeeded, delete the others for replacement when due.

    The second list has the times (seconds since the epoch) at which others are due. No pod of the replica types in `blocked` is
    replaced.
    """
    status = job.status
    counted = set(status.counted_pods)
    on_record = recorded_success(job)
    earlier = max(status.restarts or 0, 0) + max(status.disruptions or 0, 0)
    restarting = status.condition(ConditionType.RESTARTING)
    recorded_at = parse_time(restarting.last_update_time) if restarting else None
    actions: list[Action] = []
    kept: list[PodView] = []
    delays: list[float] = []
    for replica, pod in slots.pods.items():
        over = is_over(pod)
        if not over and pod.uid not in counted:
            continue
        if replica.index in on_record[replica.type]:
            kept.append(pod)
        elif pod.uid not in counted or replica.type in blocked:
            continue
        elif given_up(framework, job, replica, pod):
            kept.append(pod)
        elif not (due := limits.restart_due(pod, earlier, now, recorded_at)).passed:
            delays.append(due.at)
        elif over:
            actions += cleanup.stop_pods([pod], "to be replaced", awaited=True)
        elif pod.deletion_time is None:
            # Another container still runs, or the cache is stale: then the precondition prevents the deletion.
            actions.append(cleanup.delete_pod(pod, "to be replaced", unchanged=True))
    # A kept pod's finalizer only matters when the pod is deleted. Removing all of them now would delay the job's final status
    # by one request per pod.
    return [*actions, *cleanup.release(pod for pod in kept if pod.deletion_time is not None)], delays


def pods_scaled_down(job: Job, slots: Slots, accounting: Accounting) -> list[PodView]:
    """The surplus pods that may be deleted: those already recorded, so that their exit codes are ignored.

    One that has succeeded meanwhile is kept until that is recorded, too.
    """
    counted = set(job.status.counted_pods) - {entry.pod.uid for entry in accounting.entries}
    return [pod for pod in slots.surplus.values() if pod.uid in counted]


def given_up(framework: Framework, job: Job, replica: Replica, pod: PodView) -> bool:
    """Whether the replica has failed for good and the job continues without it."""
    if not framework.tolerates_failure(job, replica):
        return False
    ending = ending_in_slot(framework, job, replica, pod)
    return ending is not None and ending.verdict == Verdict.PERMANENT


def is_stopping(job: Job, slots: Slots, accounting: Accounting) -> bool:
    """Whether a job that is to be resumed has to be stopped first: a pod of it is not being deleted, or too many terminate.

    Also if the cache shows otherwise: another operator may have deleted them because of the recorded suspension, and the watch
    may lag. A resume that does not enter them would count their exit codes; and half of a job fails without its peers.
    """
    if not job.status.has(ConditionType.SUSPENDED):
        return False
    everywhere = (*slots.pods.items(), *slots.surplus.items())
    left = (*(pod for _, pod in everywhere), *slots.earlier.values())
    if any(pod.deletion_time is None and not is_over(pod) for pod in left):
        return True
    return not all(is_counted(accounting, replica, pod) for replica, pod in everywhere if pod.deletion_time is not None)
