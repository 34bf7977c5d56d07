"""What this process has seen of jobs while pages of them were read: a status holds the last report and the current phase alone.

Nothing is asked for it, so that it begins with the first page and knows nothing of the time in which no page was open.
"""

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from jobcommon.api.status import JobStatus, Metric
from jobcommon.api.timestamp import parse_time
from jobcommon.reconcile.reports import step_of

# Bounds of the memory: some 30 MB if all of it is used.
MAX_JOBS = 500
MAX_RUNS = 3
MAX_METRICS = 8
MAX_POINTS = 256
MAX_PHASES = 200
# A job that was not seen for so long gives its place to another.
FORGOTTEN_SECONDS = 60.0
# Differences of such values overflow.
_TOO_LARGE = 1e100
# Where the program is, which is no result of it.
POSITIONS = ("current_step", "total_steps", "current_epoch", "total_epochs", "epoch", "checkpoint")


@dataclass
class Run:
    """The reports of one life of the program: by metric, its points as steps and values in turns."""

    attempt: int | None
    begin: int
    restart: str | None
    points: dict[str, "array[float]"] = field(default_factory=dict)
    step: int = 0

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """One report. Of too many points, every second goes."""
        self.step = step
        for name, value in values.items():
            if name in self.points or len(self.points) < MAX_METRICS:
                known = self.points.setdefault(name, array("d"))
                if not known or known[-2] != step:
                    known.extend((float(step), value))
                if len(known) > 2 * MAX_POINTS:
                    self.points[name] = array("d", (known[at] for at in range(len(known)) if at % 4 < 2))


@dataclass
class Seen:
    """What was seen of one job: `since` when, `last` until when (seconds since the epoch); the begins of its phases."""

    since: float
    last: float
    phases: dict[float, str] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)
    reported: float = 0.0


class History:
    """What was seen, by the UID of the job."""

    def __init__(self) -> None:
        self._jobs: dict[str, Seen] = {}

    def see(self, uid: str, status: JobStatus, now: float) -> Seen | None:
        """Take notice of a status; returns what is known of the job, None if there is no room for it or nothing to be seen."""
        if status.time_spent is None and status.trainer_status is None:
            return None
        seen = self._jobs.pop(uid, None)
        if seen is None:
            if len(self._jobs) >= MAX_JOBS:
                oldest = next(iter(self._jobs))
                if now - self._jobs[oldest].last < FORGOTTEN_SECONDS:
                    return None
                del self._jobs[oldest]
            seen = Seen(now, now)
        seen.last = now
        self._jobs[uid] = seen
        spent = status.time_spent
        if spent is not None and spent.phase is not None and (began := parse_time(spent.since)) is not None:
            seen.phases[began] = spent.phase
            if len(seen.phases) > MAX_PHASES:
                del seen.phases[next(iter(seen.phases))]
        _see_report(seen, status)
        return seen


def _see_report(seen: Seen, status: JobStatus) -> None:
    report, known = status.trainer_status, status.progress
    step = step_of(report) if report is not None else None
    at = parse_time(known.last_report_time) if known is not None else None
    # A list may come from a cache and be older than what was seen before.
    if report is None or step is None or (at is not None and at <= seen.reported):
        return
    seen.reported = at or 0.0
    run = seen.runs[-1] if seen.runs else None
    attempt, restart = (known.attempt, known.restart_time) if known is not None else (None, None)
    if run is None or (run.attempt, run.restart) != (attempt, restart) or step < run.step:
        # A single report is one that came late, when the next run had begun.
        earlier = [one for one in seen.runs if one.step > one.begin]
        run = Run(attempt, step, restart)
        seen.runs = [*earlier, run][-MAX_RUNS:]
    run.add(step, values_of(report.metrics or ()))


def values_of(metrics: Iterable[Metric]) -> dict[str, float]:
    """The numbers among the metrics that can be drawn, the loss first."""
    found = {}
    for metric in metrics:
        try:
            value = float(metric.value)
        except ValueError:
            continue
        if abs(value) < _TOO_LARGE and metric.name not in POSITIONS:
            found[metric.name] = value
    return {name: found[name] for name in sorted(found, key=by_importance)}


def by_importance(name: str) -> tuple[bool, bool, str]:
    """Sorts metrics: the loss, then other losses, then the rest."""
    return name != "loss", "loss" not in name, name
