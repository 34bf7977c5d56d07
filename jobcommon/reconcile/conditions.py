"""How conditions change. The current condition is the last one and is True, also after suspend and resume.

The rules are the reference's (Running and Restarting exclude each other; a terminal condition sets Running to False) with
three exceptions: a terminal condition removes Restarting, and sets Suspended to False and Running as well if it is absent; and
Created moves to the end while no other condition is True, so that the STATE column never shows a condition that is False.
Conditions of unknown types belong to other writers and are kept.
"""

from collections.abc import Iterable

from jobcommon.api.status import ConditionType, JobCondition
from jobcommon.api.timestamp import format_time

_EXCLUDES = {
    ConditionType.RUNNING: (ConditionType.RESTARTING,),
    ConditionType.RESTARTING: (ConditionType.RUNNING,),
    ConditionType.SUCCEEDED: (ConditionType.RESTARTING,),
    ConditionType.FAILED: (ConditionType.RESTARTING,),
    ConditionType.SUSPENDED: (ConditionType.RESTARTING,),
}
# The conditions that each type sets to False; they stay in the list.
_ENDS = {
    ConditionType.SUCCEEDED: (ConditionType.RUNNING, ConditionType.SUSPENDED, ConditionType.STALLED),
    ConditionType.FAILED: (ConditionType.RUNNING, ConditionType.SUSPENDED, ConditionType.STALLED),
    ConditionType.SUSPENDED: (ConditionType.RUNNING, ConditionType.STALLED),
    ConditionType.RESTARTING: (ConditionType.STALLED,),
}
_FINAL = (ConditionType.SUCCEEDED, ConditionType.FAILED)
_KNOWN = frozenset(ConditionType)
# Bounds the size of a status with a forged list.
MAX_FOREIGN = 16

Conditions = tuple[JobCondition, ...]


def set_condition(
    conditions: Iterable[JobCondition], kind: ConditionType, is_true: bool, reason: str, message: str, now: float
) -> Conditions:
    """The conditions after one of them was set. Nothing changes once the job has succeeded or failed (rule R11)."""
    conditions = normalized(conditions)
    if any(c.type in _FINAL and c.is_true for c in conditions):
        return conditions
    status = "True" if is_true else "False"
    old = next((c for c in conditions if c.type == kind), None)
    if old is not None and (old.status, old.reason, old.message) == (status, reason, message):
        return conditions
    moment = format_time(now)
    same_status = old is not None and old.status == status
    new = JobCondition(
        type=kind,
        status=status,
        reason=reason,
        message=message,
        last_update_time=moment,
        last_transition_time=old.last_transition_time if old is not None and same_status else moment,
    )
    kept = [c for c in conditions if c.type != kind]
    if is_true and kind in _FINAL and all(c.type != ConditionType.RUNNING for c in kept):
        kept.append(_not_running(kept, new))
    if is_true:
        kept = [c for c in kept if c.type not in _EXCLUDES.get(kind, ())]
        kept = [_ended(c, new) if c.is_true and c.type in _ENDS.get(kind, ()) else c for c in kept]
    return _current_last((*kept, new))


def normalized(conditions: Iterable[JobCondition]) -> Conditions:
    """The conditions with at most one of each type, the last one, and at most `MAX_FOREIGN` of unknown types."""
    by_type = {c.type: c for c in conditions}
    foreign = [kind for kind in by_type if kind not in _KNOWN][MAX_FOREIGN:]
    return _current_last(tuple(c for c in by_type.values() if c.type not in foreign))


def _ended(condition: JobCondition, by: JobCondition) -> JobCondition:
    """The condition set to False because of `by`. A suspension and a restart give their reason and times.

    A terminal condition changes nothing else, as in the reference: programs take the condition with the latest transition for
    the job's state, and of several the first.
    """
    changes: dict[str, str | None] = {"status": "False"}
    if by.type in (ConditionType.SUSPENDED, ConditionType.RESTARTING):
        moment = by.last_update_time
        changes |= {"reason": by.reason, "message": by.message, "last_update_time": moment, "last_transition_time": moment}
    return condition.model_copy(update=changes)


def _not_running(conditions: Iterable[JobCondition], end: JobCondition) -> JobCondition:
    """Running=False of a job that ends without the condition: it has not been True since the restart, or the creation."""
    times = {c.type: c.last_transition_time for c in conditions}
    since = times.get(ConditionType.RESTARTING) or times.get(ConditionType.CREATED) or end.last_transition_time
    return end.model_copy(update={"type": ConditionType.RUNNING, "status": "False", "last_transition_time": since})


def _current_last(conditions: Conditions) -> Conditions:
    """Foreign conditions first: the last condition is what `kubectl get` shows as the job's state."""
    foreign = tuple(c for c in conditions if c.type not in _KNOWN)
    created = tuple(c for c in conditions if c.type == ConditionType.CREATED)
    others = tuple(c for c in conditions if c.type in _KNOWN and c.type != ConditionType.CREATED)
    # A job that is stalled runs as well, and that is the lesser news.
    ordered = sorted(others, key=lambda c: (c.is_true, c.type == ConditionType.STALLED))
    if any(c.is_true for c in others):
        return (*foreign, *created, *ordered)
    return (*foreign, *ordered, *created)
