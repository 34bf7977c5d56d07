"""Which pods are retired: those whose end is recorded, and the remaining pods of a half-stopped job."""

from collections.abc import Collection

from jobcommon.api.status import ConditionType
from jobcommon.framework import Job
from jobcommon.reconcile import cleanup, limits
from jobcommon.reconcile.accounting import Accounting, is_counted
from jobcommon.reconcile.plan import Action
from jobcommon.reconcile.slots import Ended, Recorded, Slot, Slots, Succeeded


def retire_recorded(job: Job, slots: Slots, now: float, blocked: Collection[str] = ()) -> tuple[list[Action], list[float]]:
    """Retire the pods whose end is recorded: keep those that succeeded, delete the others for replacement when due.

    The second list has the times (seconds since the epoch) at which others are due. No pod of the replica types in `blocked` is
    replaced.
    """
    earlier, recorded_at = limits.restarts_so_far(job.status)
    actions: list[Action] = []
    kept: list[Slot] = []
    delays: list[float] = []
    for slot in slots.notable:
        match slot.state:
            case Succeeded():
                kept.append(slot)
            case Recorded() if slot.replica.type in blocked:
                pass
            case Recorded(given_up=True):
                kept.append(slot)
            case Recorded() if not slot.deleting and (
                not (due := limits.restart_due(slot.pod.started, earlier, now, recorded_at)).passed
            ):
                delays.append(due.at)
            case Recorded() if slot.over:
                actions += cleanup.stop_pods([slot], "to be replaced", awaited=True)
            case Recorded() if not slot.deleting:
                # Another container still runs, or the cache is stale: then the precondition prevents the deletion.
                actions.append(cleanup.delete_pod(slot.pod, "to be replaced", unchanged=True))
    # A kept pod's finalizer only matters when the pod is deleted. Removing all of them now would delay the job's final status
    # by one request per pod.
    return [*actions, *cleanup.remove_finalizers(slot for slot in kept if slot.deleting)], delays


def pods_scaled_down(slots: Slots) -> list[Slot]:
    """The surplus pods that may be deleted: those already recorded, so that their exit codes are ignored.

    One that has succeeded meanwhile is kept until that is recorded, too.
    """
    return [slot for slot in slots.surplus if slot.recorded and not isinstance(slot.state, Ended)]


def is_stopping(job: Job, slots: Slots, accounting: Accounting) -> bool:
    """Whether a job that is to be resumed has to be stopped first: a pod of it is not being deleted, or too many terminate.

    Also if the cache shows otherwise: another operator may have deleted them because of the recorded suspension, and the watch
    may lag. A resume that does not enter them would count their exit codes; and half of a job fails without its peers.
    """
    if not job.status.has(ConditionType.SUSPENDED):
        return False
    everywhere = (*slots.wanted.values(), *slots.surplus)
    if any(slot.stays for slot in (*everywhere, *slots.earlier)):
        return True
    return not all(is_counted(accounting, slot) for slot in everywhere if slot.deleting)
