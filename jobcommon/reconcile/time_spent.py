"""Where the time of a job went: a fold over its statuses. It changes only where a condition does, so it causes no write.

The times are the operator's own: when it saw what had happened, not those of a node's clock.
"""

from collections.abc import Iterable

from jobcommon.api.status import ConditionType, JobStatus
from jobcommon.api.time_spent import FIELD_OF, Phase, TimeSpent
from jobcommon.api.timestamp import format_moment, parse_time
from jobcommon.framework import Job
from jobcommon.reconcile.slots import Slot

# The conditions that are phases, under the same names, the first that holds.
_PHASES = (ConditionType.SUSPENDED, ConditionType.STALLED, ConditionType.RESTARTING, ConditionType.RUNNING)


def phase_of(status: JobStatus) -> Phase | None:
    """The phase of a job with that status; None once it has finished."""
    if status.finished:
        return None
    if status.resizing:
        return Phase.RESIZING
    return next((Phase(kind) for kind in _PHASES if status.has(kind)), Phase.PENDING)


def time_spent(job: Job, after: JobStatus, pods: Iterable[Slot], now: float) -> TimeSpent | None:
    """The time spent up to the phase that begins with the status `after` at `now` (seconds since the epoch).

    `pods` are those of the wanted slots: when the last of them got its node, a pending job stopped being queued.
    """
    known, phase = job.status.time_spent, phase_of(after)
    before = known or _unrecorded(job, now)
    if before.phase == phase:
        # One that has begun without a record gets it with the next phase: a new operator writes nothing for it.
        return known if known is not None or job.status.since() else before
    began = parse_time(before.since)
    elapsed = max(now - began, 0.0) if began is not None else 0.0
    starting = min(max(now - _placed_at(pods, now), 0.0), elapsed) if before.phase == Phase.PENDING else 0.0
    spent = {"starting": starting} if starting else {}
    if before.phase in FIELD_OF:
        spent[FIELD_OF[before.phase]] = elapsed - starting
    added = {name: round((getattr(before, name) or 0.0) + seconds, 3) for name, seconds in spent.items()}
    return before.model_copy(update={**added, "phase": phase, "since": format_moment(now) if phase is not None else None})


def _unrecorded(job: Job, now: float) -> TimeSpent:
    """The record of a job without one: its present phase, from its last condition or, of a new job, from its creation."""
    began = parse_time(job.status.since())
    began = began if began is not None else job.creation_time
    return TimeSpent(phase=phase_of(job.status), since=format_moment(began if began is not None else now))


def _placed_at(pods: Iterable[Slot], now: float) -> float:
    """When the last of the pods got its node; `now` if one has no node yet."""
    # Of a time in whole seconds the middle is the best guess.
    times = [slot.pod.scheduled_time for slot in pods]
    return max((time + 0.5 if time is not None else now for time in times), default=now)
