"""The results of a run, and the files that keep them."""

import os
import platform
import subprocess
from pathlib import Path

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


class Memory(msgspec.Struct):
    """Resident memory, in bytes, of an operator with `pods` pods in its caches."""

    pods: int
    resident: int


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


class Restart(msgspec.Struct):
    """From the first failed pod until all replicas ran again, in new pods, in seconds."""

    replicas: int
    seconds: float


class InPlace(msgspec.Struct):
    """From the failure of one replica until all run again in place: seconds by the plain client and by the operator, in turn.

    `cpu` are the operator's CPU seconds, `cpu_of_all` those of all processes: API server, kubelet, operator and user.
    """

    replicas: int
    baseline: list[float] = []
    seconds: list[float] = []
    cpu: list[float] = []
    cpu_of_all: list[float] = []
    patches: int = 0


class Small(msgspec.Struct):
    """Seconds until the pods of each small job were created, alone and while a big job was created."""

    replicas: int
    alone: list[float]
    beside: list[float]
    baseline_beside: list[float]


class Results(msgspec.Struct):
    """One run."""

    commit: str
    server: str
    machine: str
    date: str = ""
    workloads: list[WorkloadResult] = []
    memory: list[Memory] = []
    cold_start: ColdStart | None = None
    restart: Restart | None = None
    in_place: list[InPlace] = []
    small: Small | None = None

    @property
    def file_name(self) -> str:
        """The name of the file that keeps it."""
        return f"{self.commit}-{self.server.split()[0]}.json"


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


def read(path: Path) -> Results:
    """The results in a file. Raises msgspec.ValidationError."""
    return msgspec.json.decode(path.read_bytes(), type=Results)


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603, S607
    return done.stdout.strip() or ("" if done.returncode == 0 else "unknown")
