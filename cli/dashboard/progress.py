"""The progress of a job: its last report, and the size of an elastic job."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jobcommon.api.status import JobStatus
from jobcommon.api.timestamp import parse_time


@dataclass(frozen=True)
class Progress:
    """The last report: the share that is done in percent, and all of it in words, "" without one."""

    percent: int | None
    words: str


def progress_of(status: JobStatus, words: str) -> Progress:
    """The progress, with `words` for it as every list has them, but for their bar: a page draws its own."""
    report = status.trainer_status
    return Progress(report.progress_percentage if report is not None else None, words.lstrip("█░ "))


def size_in_force(raw: Mapping[str, Any]) -> Mapping[str, int]:
    """The replicas by type that an elastic job has at present, in its status; empty for other jobs."""
    status = raw.get("status")
    found = status.get("attemptReplicas") if isinstance(status, Mapping) else None
    sizes = found.items() if isinstance(found, Mapping) else ()
    return {str(kind): size for kind, size in sizes if isinstance(size, int) and size >= 0}


def resized_at(raw: Mapping[str, Any]) -> float | None:
    """When an elastic job got that size, in seconds since the epoch."""
    status = raw.get("status")
    return parse_time(status.get("lastResizeTime")) if isinstance(status, Mapping) else None
