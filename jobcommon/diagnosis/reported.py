"""What a job's program has reported of its progress."""

from jobcommon.api.status import JobStatus
from jobcommon.api.timestamp import parse_time
from jobcommon.causes.cause import span

# A report is on record 15 s after it was made.
_OLD = 60.0


def reported(status: JobStatus, now: float) -> str:
    """``████░░░░░░ 47% (940/2000), 12m left``, and how old the report is if the job goes on without another."""
    words = status.reported_progress
    at = parse_time(status.progress.last_report_time) if status.progress is not None else None
    old = words and at is not None and now - at >= _OLD and not status.finished
    return f"{words}; reported {span(now - at)} ago" if old and at is not None else words
