"""Recognizes a finished job that needs nothing, without reading the whole of it.

Most jobs of a cluster are over. An operator that starts looks at each of them once, and to read and validate its spec takes
several times as long as everything else. Anything but a complete final status as we write it is left to the decision.
"""

from typing import Annotated

import msgspec
from msgspec import UNSET, UnsetType

from jobcommon.api.status import ConditionType
from jobcommon.api.timestamp import parse_time
from jobcommon.reconcile.plan import Plan

AT_REST = Plan(reason="job has finished")
"""What is decided for a job that has finished and needs nothing."""
# Wherever a version of the job has it.
_TIME_TO_LIVE = b'"ttlSecondsAfterFinished"'
_FINAL = (ConditionType.SUCCEEDED, ConditionType.FAILED)


class _Part(msgspec.Struct, rename="camel", forbid_unknown_fields=True, gc=False):
    """A part of a status as `JobStatus.to_json` writes it: a field is absent or has a value, never null."""


class FinalCondition(_Part):
    """See `JobCondition`."""

    type: str
    status: str
    reason: str
    message: str
    last_update_time: str | UnsetType = UNSET
    last_transition_time: str | UnsetType = UNSET


class FinalCounts(_Part):
    """See `ReplicaStatus`; without `active`, for no pod is left to be counted."""

    succeeded: int | UnsetType = UNSET
    failed: int | UnsetType = UNSET
    selector: str | UnsetType = UNSET
    succeeded_indexes: str | UnsetType = UNSET
    restarts: int | UnsetType = UNSET


class FinalFailure(_Part):
    """See `Failure`."""

    replica: str
    reason: str
    pod: str | UnsetType = UNSET
    node: str | UnsetType = UNSET
    exit_code: int | UnsetType = UNSET
    message: str | UnsetType = UNSET
    time: str | UnsetType = UNSET


class FinalStatus(_Part):
    """See `JobStatus`."""

    conditions: list[FinalCondition]
    completion_time: str
    replica_statuses: dict[str, FinalCounts]
    start_time: str | UnsetType = UNSET
    last_reconcile_time: str | UnsetType = UNSET
    restarts: int | UnsetType = UNSET
    disruptions: int | UnsetType = UNSET
    attempt: int | UnsetType = UNSET
    failures: Annotated[list[FinalFailure], msgspec.Meta(min_length=1)] | UnsetType = UNSET
    counted_pods: Annotated[list[str], msgspec.Meta(min_length=1)] | UnsetType = UNSET


class _Job(msgspec.Struct, gc=False):
    status: FinalStatus


_decode = msgspec.json.Decoder(_Job).decode


def condition_at_rest(data: bytes) -> str | None:
    """The type of the current condition, if the decision certainly finds nothing to do for the job in `data`, now or later.

    That holds while the job has no pods, Services and companions. None if it is not certain.
    """
    if _TIME_TO_LIVE in data:
        return None
    try:
        status = _decode(data).status
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    last = {condition.type: condition.status for condition in status.conditions}
    if all(last.get(kind) != "True" for kind in _FINAL) or parse_time(status.completion_time) is None:
        return None
    return status.conditions[-1].type
