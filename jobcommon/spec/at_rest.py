"""Recognizes a finished job that needs nothing, without reading the whole of it.

Most jobs of a cluster are over. An operator that starts looks at each of them once, and to read and validate its spec takes
a hundred times as long. Its status stays as it is, whichever operator has written it.
"""

import msgspec

from jobcommon.api.status import ConditionType
from jobcommon.api.timestamp import parse_time
from jobcommon.api.view import decoder
from jobcommon.reconcile.plan import Plan

AT_REST = Plan(reason="job has finished")
"""What is decided for a job that has finished and needs nothing."""
# Wherever a version of the job has it.
_TIME_TO_LIVE = b'"ttlSecondsAfterFinished"'
_FINAL = (ConditionType.SUCCEEDED, ConditionType.FAILED)


class _Condition(msgspec.Struct, rename="camel"):
    """As the decision reads it: one that it cannot read does not end a job."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_update_time: str | None = None
    last_transition_time: str | None = None


class _Counts(msgspec.Struct):
    active: int | None = None


class _Status(msgspec.Struct, rename="camel"):
    conditions: list[_Condition]
    completion_time: str
    replica_statuses: dict[str, _Counts]


class _Job(msgspec.Struct):
    status: _Status


_decode = decoder(_Job)


def condition_at_rest(data: bytes) -> str | None:
    """The type of the current condition, if the decision certainly finds nothing to do for the job in `data`, now or later.

    That holds while the job has no pods, Services and companions. None if it is not certain.
    """
    if _TIME_TO_LIVE in data:
        return None
    try:
        status = _decode(data).status
    except msgspec.DecodeError:
        return None
    last = {condition.type: condition.status for condition in status.conditions}
    # No pod is left to be counted.
    counted = any(counts.active for counts in status.replica_statuses.values())
    if counted or all(last.get(kind) != "True" for kind in _FINAL) or parse_time(status.completion_time) is None:
        return None
    return status.conditions[-1].type
