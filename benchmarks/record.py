"""The results of a run, and the files that keep them."""

import os
import platform
import subprocess
from pathlib import Path
from statistics import linear_regression, median

import msgspec

from benchmarks.lifecycle_timings import LifecycleTimings
from benchmarks.processes import ROOT

DIRECTORY = ROOT / "build" / "benchmarks"


class WorkloadResult(msgspec.Struct):
    """The timings of one workload, in the order in which they were measured: baseline and operator in turn."""

    name: str
    jobs: int
    replicas: int
    baseline: list[LifecycleTimings]
    operator: list[LifecycleTimings]

    @property
    def pods(self) -> int:
        """The number of its pods."""
        return self.jobs * self.replicas


class ColdStart(msgspec.Struct):
    """A start beside finished jobs: seconds until the caches were complete, then until all jobs were reconciled.

    Writes, CPU seconds and resident bytes count until the operator is idle.
    """

    jobs: int
    ready: float
    after_lists: float
    writes: int
    cpu: float
    resident: int = 0


class Small(msgspec.Struct):
    """Seconds until the pods of each small job were created, alone and while a big job was created."""

    replicas: int
    alone: list[float]
    beside: list[float]
    baseline_beside: list[float]


class Life(msgspec.Struct):
    """A job of a long run that succeeded: when it was submitted; seconds until the server had it (its time alone), until its
    pods were there, and from its end to its status."""

    at: float
    submitted: float
    created: float
    settle: float


class Sample(msgspec.Struct):
    """At a moment: how many jobs were over, the operator's resident memory in bytes, and its CPU seconds."""

    at: float
    over: int
    resident: int
    cpu: float


class Soak(msgspec.Struct):
    """One long run. Jobs were submitted from `start` to `end`; the first and the last `window` seconds are compared."""

    minutes: float
    rate: float
    cold_start: ColdStart
    start: float = 0.0
    window: float = 0.0
    quiet_from: float = 0.0
    end: float = 0.0
    restarts: list[str] = []
    lives: list[Life] = []
    ends: dict[str, int] = {}
    faults: list[str] = []
    samples: list[Sample] = []

    @property
    def windows(self) -> tuple[list[Life], list[Life]]:
        """The jobs submitted in the first window, and those in the last."""
        first = [life for life in self.lives if life.at < self.start + self.window]
        return first, [life for life in self.lives if life.at >= self.end - self.window]

    @property
    def quiet(self) -> list[Sample]:
        """The samples since the last restart had been made up for."""
        return [sample for sample in self.samples if self.quiet_from <= sample.at <= self.end]

    @property
    def growth(self) -> float:
        """Bytes of resident memory for each job that was over in the quiet part: the slope of a straight line."""
        jobs, sizes = [sample.over for sample in self.quiet], [sample.resident for sample in self.quiet]
        return linear_regression(jobs, sizes).slope if len(set(jobs)) > 1 else 0.0

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


class Results(msgspec.Struct):
    """One run."""

    commit: str
    server: str
    machine: str
    date: str = ""
    workloads: list[WorkloadResult] = []
    small: Small | None = None
    soak: Soak | None = None

    @property
    def file_name(self) -> str:
        """The name of the file that keeps it."""
        return f"{self.commit}-{self.server.split()[0]}{'-soak' if self.soak else ''}.json"


def commit() -> str:
    """The commit that is measured, marked if the tree has uncommitted changes."""
    short = _git("rev-parse", "--short", "HEAD")
    changed = _git("status", "--porcelain", "--", "jobcommon", "operators", "localcluster")
    return f"{short}-changed" if changed else short


def machine() -> str:
    """The machine it was measured on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{os.cpu_count()} cores, {memory:.0f} GB, {platform.system()} {platform.machine()}, Python {platform.python_version()}"
    )


def keep(results: Results) -> Path:
    """Write the results of a run to their file."""
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    path = DIRECTORY / results.file_name
    path.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")
    return path


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603, S607
    return done.stdout.strip() or ("" if done.returncode == 0 else "unknown")
