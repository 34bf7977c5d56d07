"""Recognizes a finished job that needs nothing, without reading the whole of it.

Most jobs of a cluster are over. An operator that starts looks at each of them once, and to read and validate its spec takes
several times as long as everything else. Anything but a complete final status as we write it is left to the decision.
"""

from collections.abc import Callable
from types import NoneType
from typing import Annotated, Any, get_args

import msgspec
from msgspec import UNSET, UnsetType
from pydantic import BaseModel

from jobcommon.api.status import (
    ConditionType,
    EarlyFailures,
    Failure,
    JobCondition,
    JobProgress,
    JobStatus,
    Metric,
    NodeFailures,
    ReplicaFailures,
    ReplicaStatus,
    StallRecord,
    TrainerStatus,
)
from jobcommon.api.time_spent import TimeSpent
from jobcommon.api.timestamp import parse_time
from jobcommon.reconcile.plan import Plan

AT_REST = Plan(reason="job has finished")
"""What is decided for a job that has finished and needs nothing."""
# Wherever a version of the job has it.
_TIME_TO_LIVE = b'"ttlSecondsAfterFinished"'
_FINAL = (ConditionType.SUCCEEDED, ConditionType.FAILED)


def _part(model: type[BaseModel], *, without: tuple[str, ...] = (), always: tuple[str, ...] = ()) -> type[msgspec.Struct]:
    """The model as `JobStatus.to_json` writes it: a field is absent or has a value, never null and never an empty list.

    It does not have the fields in `without` and has all of those in `always`.
    """
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    for name, field in model.model_fields.items():
        types = [kind for kind in get_args(field.annotation) if kind is not NoneType]
        optional = NoneType in get_args(field.annotation)
        kind = types[0] if optional else field.annotation
        kind = _PARTS.get(kind, kind)
        if name in always or not (optional or field.default_factory):
            fields.append((name, kind))
        elif name not in without:
            some = Annotated[kind, msgspec.Meta(min_length=1)] if field.default_factory else kind
            fields.append((name, some | UnsetType, UNSET))
    names = {name: field.alias or name for name, field in model.model_fields.items()}
    return msgspec.defstruct(model.__name__, fields, rename=names, forbid_unknown_fields=True, kw_only=True, gc=False)


_PARTS: dict[Any, Any] = {}
_PARTS[list[Metric]] = list[_part(Metric)]  # type: ignore[misc]
_PARTS.update({model: _part(model) for model in (TrainerStatus, JobProgress, StallRecord, EarlyFailures, TimeSpent)})
_PARTS[list[JobCondition]] = list[_part(JobCondition)]  # type: ignore[misc]
_PARTS[list[ReplicaFailures]] = list[_part(ReplicaFailures)]  # type: ignore[misc]
_PARTS[list[NodeFailures]] = list[_part(NodeFailures)]  # type: ignore[misc]
_PARTS[list[Failure]] = list[_part(Failure)]  # type: ignore[misc]
# Without `active`, for no pod is left to be counted.
_PARTS[dict[str, ReplicaStatus]] = dict[str, _part(ReplicaStatus, without=("active",))]  # type: ignore[misc]
_FinalStatus = _part(JobStatus, always=("conditions", "completion_time", "replica_statuses"))


_decode: Callable[[bytes], Any] = msgspec.json.Decoder(msgspec.defstruct("Job", [("status", _FinalStatus)], gc=False)).decode


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
    return str(status.conditions[-1].type)
