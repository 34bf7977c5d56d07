"""The goals of the project's performance issue, each met or not."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from statistics import median

from benchmarks.lifecycle_timings import LifecycleTimings, p99
from benchmarks.record import Results, Soak, WorkloadResult
from benchmarks.workloads import Workload

FROM_PODS = 100
MB = 1e6


@dataclass(frozen=True)
class Goal:
    """What is measured, the figure, and its upper limit."""

    text: str
    measured: float
    limit: float
    unit: str = ""

    @property
    def met(self) -> bool:
        """Whether it was reached."""
        return self.measured <= self.limit


def middle(rounds: Iterable[LifecycleTimings], name: str) -> float:
    """The median of the rounds."""
    return float(median(getattr(timings, name) for timings in rounds))


def created_ratio(workload: WorkloadResult) -> float:
    """Time to the last pod over the baseline's, each the median of its rounds."""
    return middle(workload.operator, "created") / middle(workload.baseline, "created")


def settle_ratio(workload: WorkloadResult) -> float:
    """From a job's last exit to its final status over the baseline's: medians over jobs, then over rounds."""
    return median(timings.settle.p50 for timings in workload.operator) / median(
        timings.settle.p50 for timings in workload.baseline
    )


def cpu_per_thousand(workload: WorkloadResult) -> float:
    """The operator's CPU seconds for the whole life of a thousand pods."""
    return middle(workload.operator, "cpu") / workload.pods * 1000


def goals(results: Results) -> Iterator[Goal]:
    """Every goal that this run measures."""
    large = [workload for workload in results.workloads if workload.pods >= FROM_PODS]
    for workload in large:
        yield Goal(f"{workload.name}: creation over baseline", created_ratio(workload), 1.15, "×")
    for workload in large:
        yield Goal(f"{workload.name}: settle over baseline", settle_ratio(workload), 1.2, "×")
    for workload in large:
        yield Goal(f"{workload.name}: CPU per 1,000 pods, whole life", cpu_per_thousand(workload), 3.0, "s")
    singles = {
        workload.replicas: workload for workload in results.workloads if workload.name == str(Workload(1, workload.replicas))
    }
    if 100 in singles and 5000 in singles:
        ratio = cpu_per_thousand(singles[5000]) / cpu_per_thousand(singles[100])
        yield Goal("CPU per pod at 5,000 replicas over that at 100", ratio, 1.5, "×")
    if results.small is not None:
        ratio = p99(results.small.beside) / p99(results.small.alone)
        yield Goal(f"small jobs' p99 beside one of {results.small.replicas:,} replicas, over alone", ratio, 2.0, "×")
    if results.soak is not None:
        yield from _soak(results.soak)


def _soak(soak: Soak) -> Iterator[Goal]:
    yield Goal("jobs that hung or ended otherwise than they should", len(soak.faults), 0)
    yield Goal("resident memory, last tenth over first tenth after the restarts", soak.resident_ratio, 1.05, "×")
    for name, what in (("created", "until the pods are created"), ("settle", "from the end to the final status")):
        first, last = (median(getattr(life, name) for life in lives) for lives in soak.windows)
        yield Goal(f"latency {what}, last window over first: median", last / first, 1.1, "×")
    start = soak.cold_start
    yield Goal(f"cold start beside {start.jobs:,} finished jobs", start.ready + start.after_lists, 15.0, "s")
    yield Goal("cold start: writes", start.writes, 0)
