"""Times after which a job fails or all its replicas begin a new attempt (the third of them, a stall, is in `progress`).

A job of which some pods have no node holds the nodes of its others for nothing (pendingDeadlineSeconds): it fails, or frees
them with a new attempt, and other jobs may be placed before. The operator does not suspend the job for it, because that belongs
to the user and to the queue, which has a time-out of its own.

Deadlines are not enforced while a replica spec is unreadable: a finished pod may mean that the job has succeeded. The condition
says that activeDeadlineSeconds has passed. While no attempt may begin, the deadlines of the present one hold.
"""

from dataclasses import dataclass

from jobcommon.api import reasons
from jobcommon.api.job import PendingDeadlineAction
from jobcommon.api.text import cut
from jobcommon.api.timestamp import format_time, parse_time
from jobcommon.framework import Job
from jobcommon.reconcile import limits
from jobcommon.reconcile.rendering import Note
from jobcommon.reconcile.slots import STARTING, Slots
from jobcommon.reconcile.waiting import MAX_CAUSE


@dataclass(frozen=True, slots=True)
class Deadline:
    """A time (`at`, seconds since the epoch) and what follows: the job fails with `reason` and `message`, `waiting` for that.

    With `restarts`, all its replicas begin a new attempt instead, because of `cause`, a part of a sentence. It is not `in_vain`
    if the program could not run.
    """

    at: float
    reason: str
    message: str
    cause: str = ""
    restarts: bool = False
    in_vain: bool = True
    waiting: tuple[Note, ...] = ()


def of_job(job: Job, start_time: str | None, waiting: tuple[Note, ...] = ()) -> Deadline | None:
    """The end of activeDeadlineSeconds, counted from startTime, which a suspension resets. `waiting`: what pods wait for."""
    seconds, start = job.run_policy.active_deadline_seconds, parse_time(start_time)
    if seconds is None or start is None:
        return None
    text = f"Job {job.name} has failed because it was active longer than specified deadline ({seconds} s)"
    return Deadline(start + seconds, reasons.DEADLINE_EXCEEDED, text, waiting=waiting)


def of_placement(job: Job, slots: Slots) -> Deadline | None:
    """The end of pendingDeadlineSeconds for the replica that has been without a node for longest; None if all have one."""
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
    who = f"{first.replica} and {len(waiting) - 1} more have" if len(waiting) > 1 else f"{first.replica} has"
    why = " ".join(first.pod.unschedulable.split()).removesuffix(".") or "no scheduler has processed the pod"
    cause = f"{who} had no node since {format_time(since)}: {cut(why, MAX_CAUSE)}"
    cause = f"{cause}; pendingDeadlineSeconds is {seconds}"
    restarts = job.run_policy.pending_deadline_action == PendingDeadlineAction.RESTART
    message = f"Job {job.name} has failed because {cause}"
    # To a clock ahead of the API server's new pods seem old. Attempts are a deadline apart all the same.
    _, restarted = limits.restarts_so_far(job.status) if job.restarts_together else (0, None)
    return Deadline(max(since, restarted or since) + seconds, reasons.PENDING_TOO_LONG, message, cause, restarts, in_vain=False)
