"""The progress of a job: its last report."""

from dataclasses import dataclass

from jobcommon.api.status import JobStatus


@dataclass(frozen=True)
class Progress:
    """The last report: the share that is done in percent, and all of it in words, "" without one."""

    percent: int | None
    words: str


def progress_of(status: JobStatus, words: str) -> Progress:
    """The progress, with `words` for it as every list has them, but for their bar: a page draws its own."""
    report = status.trainer_status
    return Progress(report.progress_percentage if report is not None else None, words.lstrip("█░ "))
