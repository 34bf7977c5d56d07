"""The limits of a run: backoffLimit, deadlines, the time after its success, time to live, and the pace of restarts."""

from dataclasses import dataclass

from jobcommon.api.job import CleanPodPolicy
from jobcommon.api.status import ConditionType, JobStatus
from jobcommon.api.timestamp import parse_time
from jobcommon.framework import Framework, Job
from jobcommon.reconcile.accounting import Accounting
from jobcommon.reconcile.ending import Verdict
from jobcommon.reconcile.slots import Ended, Slot, Slots, Succeeded

# The first restart is immediate. Repeated quick failures are delayed exponentially, so that a program which cannot start does
# not load the API server. Same shape as the kubelet's CrashLoopBackOff, with a lower cap.
FIRST_RESTART_DELAY = 1.0
MAX_RESTART_DELAY = 60.0
GRACE_SECONDS = 60.0
"""How long replicas may go on by themselves after the success of a job whose cleanPodPolicy is not set."""


@dataclass(frozen=True, slots=True)
class Due:
    """A deadline in seconds since the epoch, passed or not."""

    at: float
    now: float

    @property
    def passed(self) -> bool:
        """Whether the deadline has passed."""
        return self.now >= self.at


def backoff_exceeded(job: Job, accounting: Accounting) -> bool:
    """Whether more runs have failed than backoffLimit allows: limit + 1 runs in all, whatever restarted them."""
    limit = job.run_policy.backoff_limit
    return limit is not None and accounting.charged > limit


def expiry(job: Job, now: float) -> Due | None:
    """When a finished job is to be deleted. Counted from completionTime, so it survives a restart of the operator."""
    seconds, end = job.run_policy.ttl_seconds_after_finished, parse_time(job.status.completion_time)
    if seconds is None or end is None:
        return None
    return Due(end + seconds, now)


def grace(job: Job, now: float) -> Due | None:
    """Until when replicas of a finished job may end by themselves before they are deleted; None if they may not.

    An end that is further ahead of our clock than the clocks of two operators differ was written by a wrong one, and does not
    count.
    """
    end = parse_time(job.status.completion_time)
    unset = job.run_policy.clean_pod_policy in (None, CleanPodPolicy.DEFAULT)
    if end is None or not unset or not job.status.has(ConditionType.SUCCEEDED) or end > now + GRACE_SECONDS:
        return None
    return Due(end + GRACE_SECONDS, now)


def restarts_so_far(status: JobStatus) -> tuple[int, float | None]:
    """How often replicas have been restarted, and when the last restart was recorded (seconds since the epoch)."""
    earlier = max(status.restarts or 0, 0) + max(status.disruptions or 0, 0)
    return earlier, parse_time(status.last_restart_time)


def restart_due(started: float | None, earlier: int, now: float, recorded_at: float | None = None) -> Due:
    """When what started at `started` (epoch seconds) and has ended may be restarted, after `earlier` restarts of this job.

    The first restart is immediate. Later ones keep starts apart: what ran for longer than the delay is restarted at
    once, too. A start that lies in the future was written by a clock ahead of ours: then the delay counts from
    `recorded_at`, when the end was recorded by our own, and is over if that lies in the future, too.
    """
    if earlier <= 1:
        return Due(now, now)
    delay = min(FIRST_RESTART_DELAY * 2.0 ** min(earlier - 2, 10), MAX_RESTART_DELAY)
    if started is not None and started > now:
        started = recorded_at
    return Due(started + delay if started is not None and started <= now else now, now)


def none_left(framework: Framework, job: Job, slots: Slots) -> str | None:
    """Why no replica can make the job succeed any more: all have ended for good, and the job was to go on without one; or None.

    A failure that is tolerated does not end the job, so without this it would run for ever.
    """
    working = [slot for slot in slots.wanted.values() if not framework.serves(slot.replica.type)]
    vacant = any(not framework.serves(replica.type) for replica in slots.vacant)
    if vacant or not all(slot.over and (slot.given_up or _has_succeeded(slot)) for slot in working):
        return None
    first = next((slot for slot in working if slot.given_up), None)
    if first is None:
        return None
    return f"{job.kind} {job.name} has failed because {first.replica} has failed, and no replica is left that could go on"


def _has_succeeded(slot: Slot) -> bool:
    return isinstance(slot.state, Succeeded) or (isinstance(slot.state, Ended) and slot.ending.verdict == Verdict.SUCCEEDED)
