"""A job's conditions and failures in words. What more there is to say about a job belongs here, beside its conditions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jobcommon.api.status import ConditionType, Failure, JobStatus
from jobcommon.api.timestamp import parse_time
from jobcommon.causes.error_lines import error_in


@dataclass(frozen=True)
class Sentence:
    """One condition in words: since when (seconds since the epoch) it holds, or no longer does."""

    type: str
    holds: bool
    since: float | None
    text: str


_WITHOUT_MESSAGE: Mapping[str, str] = {
    ConditionType.CREATED: "The job is created.",
    ConditionType.RUNNING: "The job runs.",
    ConditionType.RESTARTING: "Pods of the job are restarted.",
    ConditionType.SUSPENDED: "The job is suspended.",
    ConditionType.STALLED: "The job makes no progress.",
    ConditionType.SUCCEEDED: "The job has succeeded.",
    ConditionType.FAILED: "The job has failed.",
}


def sentences(status: JobStatus) -> Sequence[Sentence]:
    """The conditions, the current one first."""
    return [
        Sentence(c.type, c.is_true, parse_time(c.last_transition_time), c.message or _WITHOUT_MESSAGE.get(c.type, c.reason))
        for c in reversed(status.conditions)
    ]


def failure_in_words(failure: Failure) -> str:
    """Why and how a replica failed, in a sentence, as the conditions have it."""
    error = error_in(failure.reason, failure.exit_code, failure.message or "")
    how = f"exited with code {failure.exit_code} ({failure.reason})" if failure.exit_code is not None else failure.reason
    where = f" on node {failure.node}" if failure.node else ""
    return f"{failure.replica}: {error}{'; ' if error else ''}{how}{where}"
