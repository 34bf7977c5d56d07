"""How long a replica may wait for a node (pendingDeadlineSeconds).

A job of which some pods have no node holds the nodes of its others for nothing. After the deadline it fails, or lets go of
them: all replicas begin a new attempt, and other jobs may be placed before. The operator does not suspend the job for it,
because that belongs to the user and to the queue, which has a time-out of its own.
"""

from dataclasses import dataclass

from jobcommon.api.job import PendingDeadlineAction
from jobcommon.api.text import cut
from jobcommon.api.timestamp import format_time
from jobcommon.framework import Job
from jobcommon.reconcile.limits import Due
from jobcommon.reconcile.slots import STARTING, Slots
from jobcommon.reconcile.waiting import MAX_TEXT


@dataclass(frozen=True, slots=True)
class Pending:
    """The replica that has waited longest: when that is too long, what then follows, and why, as a sentence."""

    due: Due
    action: PendingDeadlineAction
    text: str


def pending(job: Job, slots: Slots, now: float) -> Pending | None:
    """The replica that has been without a node for longest; None without a deadline, or if all pods have one."""
    seconds = job.run_policy.pending_deadline_seconds
    if seconds is None:
        return None
    waiting = [
        (slot.pod.creation_time, slot)
        for slot in slots.notable
        if slot.state is STARTING and not slot.pod.scheduled and slot.pod.creation_time is not None
    ]
    if not waiting:
        return None
    since, first = min(waiting, key=lambda entry: (entry[0], entry[1].pod.name))
    more = f" and {len(waiting) - 1} more" if len(waiting) > 1 else ""
    said = " ".join(first.pod.unschedulable.split()).removesuffix(".") or "no scheduler has processed the pod"
    text = f"{first.replica}{more} has had no node since {format_time(since)}: {cut(said, MAX_TEXT)}"
    action = job.run_policy.pending_deadline_action or PendingDeadlineAction.FAIL
    return Pending(Due(since + seconds, now), action, f"{text}; pendingDeadlineSeconds is {seconds}")
