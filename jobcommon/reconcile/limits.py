"""When a job ends or waits: backoffLimit, deadlines, the time after its success, time to live, and the pace of restarts.

After a deadline a job fails or all its replicas begin a new attempt (features may have others). A job of which some
pods have no node holds the nodes of its others for nothing (pendingDeadlineSeconds): it fails, or frees them with a new
attempt, and other jobs may be placed before. The operator does not suspend the job for it, because that belongs to the user
and to the queue, which has a time-out of its own.

Deadlines are not enforced while a replica spec is unreadable: a finished pod may mean that the job has succeeded. The condition
says that activeDeadlineSeconds has passed. While no attempt may begin, the deadlines of the present one hold.
"""

from dataclasses import dataclass

from jobcommon.api import reasons
from jobcommon.api.job import CleanPodPolicy, PendingDeadlineAction
from jobcommon.api.status import ConditionType, JobStatus
from jobcommon.api.text import cut
from jobcommon.api.timestamp import format_time, parse_time, trusted
from jobcommon.framework import Job
from jobcommon.reconcile.accounting import Accounting
from jobcommon.reconcile.rendering import Note
from jobcommon.reconcile.slots import STARTING, Slots
from jobcommon.reconcile.waiting import MAX_CAUSE

# The first restart is immediate. Repeated quick failures are delayed exponentially, so that a program which cannot start does
# not load the API server. Same shape as the kubelet's CrashLoopBackOff, with a lower cap.
FIRST_RESTART_DELAY = 1.0
MAX_RESTART_DELAY = 60.0
GRACE_SECONDS = 60.0
"""How long replicas may go on by themselves after the success of a job whose cleanPodPolicy is not set."""


def backoff_exceeded(job: Job, accounting: Accounting) -> bool:
    """Whether more runs have failed than backoffLimit allows: limit + 1 runs in all, whatever restarted them."""
    limit = job.run_policy.backoff_limit
    return limit is not None and accounting.charged > limit


def expiry(job: Job) -> float | None:
    """When a finished job is to be deleted (seconds since the epoch), counted from completionTime."""
    seconds, end = job.run_policy.ttl_seconds_after_finished, parse_time(job.status.completion_time)
    if seconds is None or end is None:
        return None
    return end + seconds


def grace(job: Job, now: float) -> float | None:
    """Until when replicas of a finished job may end by themselves before they are deleted; None if they may not. In seconds
    since the epoch, as `now`.

    An end that is further ahead of our clock than the clocks of two operators differ was written by a wrong one, and does not
    count.
    """
    end = trusted(parse_time(job.status.completion_time), now, GRACE_SECONDS)
    unset = job.run_policy.clean_pod_policy in (None, CleanPodPolicy.DEFAULT)
    if end is None or not unset or not job.status.has(ConditionType.SUCCEEDED):
        return None
    return end + GRACE_SECONDS


def restarts_so_far(status: JobStatus) -> tuple[int, float | None]:
    """How often replicas have been restarted, and when the last restart was recorded (seconds since the epoch)."""
    earlier = max(status.restarts or 0, 0) + max(status.disruptions or 0, 0)
    return earlier, parse_time(status.last_restart_time)


def restart_due(started: float | None, earlier: int, now: float, recorded_at: float | None = None) -> float:
    """When what started at `started` (epoch seconds) and has ended may be restarted, after `earlier` restarts of this job.

    It is `now` if it may be at once. The first restart is immediate. Later ones keep starts apart: what ran for longer than the
    delay is restarted at once, too. A start that lies in the future was written by a clock ahead of ours: then the delay counts
    from `recorded_at`, when the end was recorded by our own, and is over if that lies in the future, too.
    """
    if earlier <= 1:
        return now
    delay = min(FIRST_RESTART_DELAY * 2.0 ** min(earlier - 2, 10), MAX_RESTART_DELAY)
    if started is not None and trusted(started, now) is None:
        started = trusted(recorded_at, now)
    return max(started + delay, now) if started is not None else now


def is_started(job: Job) -> bool:
    """Whether the job has been started, and since its last suspension if there was one."""
    return parse_time(job.status.start_time) is not None and not job.status.has(ConditionType.SUSPENDED)


@dataclass(frozen=True, slots=True)
class Deadline:
    """A time (`at`, seconds since the epoch) and what follows: the job fails with `reason` and `message`, `waiting` for that.

    With `new_attempt`, all its replicas begin one instead, because of `cause`, a part of a sentence.
    """

    at: float
    reason: str
    message: str
    cause: str = ""
    new_attempt: bool = False
    waiting: tuple[Note, ...] = ()


def active_deadline(job: Job, start_time: str | None, waiting: tuple[Note, ...] = ()) -> Deadline | None:
    """The end of activeDeadlineSeconds, counted from startTime, which a suspension resets. `waiting`: what pods wait for."""
    seconds, start = job.run_policy.active_deadline_seconds, parse_time(start_time)
    if seconds is None or start is None:
        return None
    text = f"Job {job.name} has failed because it was active longer than specified deadline ({seconds} s)"
    return Deadline(start + seconds, reasons.DEADLINE_EXCEEDED, text, waiting=waiting)


def pending_deadline(job: Job, slots: Slots, now: float) -> Deadline | None:
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
    new_attempt = job.run_policy.pending_deadline_action == PendingDeadlineAction.RESTART
    message = f"Job {job.name} has failed because {cause}"
    # To a clock ahead of the API server's new pods seem old. Attempts are a deadline apart all the same.
    _, restarted = restarts_so_far(job.status) if job.restarts_together else (0, None)
    restarted = trusted(restarted, now, seconds)
    return Deadline(max(since, restarted or since) + seconds, reasons.PENDING_TOO_LONG, message, cause, new_attempt)
