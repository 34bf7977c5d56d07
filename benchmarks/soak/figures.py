"""The figures of a long run, and its goals."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median

from benchmarks.goals import MB, Goal, p99
from benchmarks.record import ColdStart
from benchmarks.soak.churn import Life


@dataclass(frozen=True)
class Sample:
    """At a moment: how many jobs were over, the operator's resident memory in bytes, and its CPU seconds."""

    at: float
    over: int
    resident: int
    cpu: float


@dataclass
class Run:
    """One long run. Jobs were submitted from `start` to `end`; the first and the last `window` seconds are compared."""

    server: str
    minutes: float
    rate: float
    cold_start: ColdStart
    start: float = 0.0
    window: float = 0.0
    quiet_from: float = 0.0
    end: float = 0.0
    restarts: list[str] = field(default_factory=list)
    lives: Sequence[Life] = ()
    ends: dict[str, int] = field(default_factory=dict)
    faults: Sequence[str] = ()
    samples: list[Sample] = field(default_factory=list)

    @property
    def first(self) -> list[Life]:
        """The jobs submitted in the first window."""
        return [life for life in self.lives if life.at < self.start + self.window]

    @property
    def last(self) -> list[Life]:
        """The jobs submitted in the last window."""
        return [life for life in self.lives if life.at >= self.end - self.window]

    @property
    def quiet(self) -> list[Sample]:
        """The samples since the last restart had been made up for."""
        return [sample for sample in self.samples if self.quiet_from <= sample.at <= self.end]

    @property
    def growth(self) -> float:
        """Bytes of resident memory for each job that was over in the quiet part: the slope of a straight line."""
        jobs, bytes_ = [sample.over for sample in self.quiet], [sample.resident for sample in self.quiet]
        middle = sum(jobs) / len(jobs)
        spread = sum((count - middle) ** 2 for count in jobs)
        return sum((count - middle) * size for count, size in zip(jobs, bytes_, strict=True)) / spread if spread else 0.0

    @property
    def resident_ratio(self) -> float:
        """Resident memory in the last tenth of the quiet part over that in its first tenth."""
        tenth = max(1, len(self.quiet) // 10)
        sizes = [sample.resident for sample in self.quiet]
        return median(sizes[-tenth:]) / median(sizes[:tenth])

    def cpu(self, since: float, until: float) -> float:
        """The operator's CPU seconds for a thousand jobs that were over between two moments."""
        found = [sample for sample in self.samples if since <= sample.at <= until]
        jobs = found[-1].over - found[0].over
        return (found[-1].cpu - found[0].cpu) / jobs * 1000 if jobs else 0.0


def goals(run: Run) -> Iterator[Goal]:
    """Every goal of the issue, by this run."""
    yield Goal("jobs that hung or ended otherwise than they should", len(run.faults), 0)
    yield Goal("resident memory, last tenth over first tenth after the restarts", run.resident_ratio, 1.05, "×")
    for name, what in (("created", "until the pods are created"), ("settle", "from the end to the final status")):
        first, last = (median(getattr(life, name) for life in lives) for lives in (run.first, run.last))
        yield Goal(f"latency {what}, last window over first: median", last / first, 1.1, "×")
    start = run.cold_start
    yield Goal(f"cold start beside {start.jobs:,} finished jobs", start.ready + start.after_lists, 15.0, "s")
    yield Goal("cold start: writes", start.writes, 0)


def lines(run: Run) -> Iterator[tuple[str, str]]:
    """What was measured, and the figure."""
    start = run.cold_start
    text = f"caches complete after {start.ready:.1f} s, all jobs reconciled {start.after_lists:.1f} s later"
    text += f", {start.writes} writes, {start.resident / MB:.0f} MB, {start.cpu:.1f} CPU-s"
    yield f"cold start beside {start.jobs:,} finished jobs", text
    total = sum(run.ends.values())
    yield f"jobs in {run.minutes:g} minutes, {run.rate:g} submitted a second", f"{total:,}"
    for fate, count in sorted(run.ends.items()):
        yield f"… of which each {fate}", f"{count:,}"
    yield "restarts, each with kill -9", ", ".join(f"{run.restarts.count(one)} × {one}" for one in sorted(set(run.restarts)))
    latencies = {"submitted": "of the submission alone", "created": "until the pods are created"}
    for name, what in (latencies | {"settle": "from the end to the final status"}).items():
        text = " → ".join(
            f"{median(times) * 1e3:.0f} / {p99(times) * 1e3:.0f} ms"
            for times in ([getattr(life, name) for life in lives] for lives in (run.first, run.last))
        )
        yield f"latency {what}, p50 / p99, first {run.window:.0f} s → last {run.window:.0f} s", text
    quiet = run.quiet
    jobs = quiet[-1].over - quiet[0].over
    most = max(sample.resident for sample in quiet)
    text = f"{quiet[0].resident / MB:.1f} → {quiet[-1].resident / MB:.1f} MB, most {most / MB:.1f} MB"
    text += f", {run.growth:+.0f} bytes a job"
    yield f"resident memory over the last {quiet[-1].at - quiet[0].at:.0f} s, {jobs:,} jobs", text
    first, last = run.cpu(run.start, run.start + run.window), run.cpu(run.end - run.window, run.end)
    yield f"CPU for 1,000 jobs, first {run.window:.0f} s → last {run.window:.0f} s", f"{first:.1f} → {last:.1f} s"
