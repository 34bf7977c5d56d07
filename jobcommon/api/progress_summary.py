"""The last report of a program in words, as people read it in lists."""

from jobcommon.api.duration import human_duration
from jobcommon.api.status import TrainerStatus
from jobcommon.api.terminal import clean

CELLS = 10


def summary(report: TrainerStatus, *, goes_on: bool) -> str:
    """``████░░░░░░ 47% (940/2000), 12m left``, as far as it is reported; how long it takes only while it `goes_on`."""
    percentage, step, total = report.progress_percentage, report.metric("current_step"), report.metric("total_steps")
    full = (percentage or 0) * CELLS // 100
    bar = f"{'█' * full}{'░' * (CELLS - full)} {percentage}%" if percentage is not None else ""
    parts = [
        f"{bar} ({step}/{total})" if bar and step and total else bar,
        f"step {step}" if step and not (bar and total) else "",
    ]
    if any(parts) and goes_on and report.estimated_remaining_seconds is not None and percentage != 100:
        parts.append(f"{human_duration(report.estimated_remaining_seconds)} left")
    return clean(", ".join(filter(None, parts)))
