"""What a run has measured, as it is kept."""

import os
import platform
import subprocess
from pathlib import Path

import msgspec

from benchmarks.lives import Life
from benchmarks.processes import ROOT

DIRECTORY = ROOT / "benchmarks" / "results"


class ShapeResult(msgspec.Struct):
    """The lives of one shape, in the order in which they were measured: floor and operator in turn."""

    name: str
    jobs: int
    replicas: int
    floor: list[Life]
    operator: list[Life]

    @property
    def pods(self) -> int:
        """How many pods that is."""
        return self.jobs * self.replicas


class Memory(msgspec.Struct):
    """Resident memory of an operator with so many pods in its caches, in bytes."""

    pods: int
    resident: int


class ColdStart(msgspec.Struct):
    """A start beside finished jobs: seconds until the caches were complete, then until all jobs were looked at; writes."""

    jobs: int
    ready: float
    after_lists: float
    writes: int
    cpu: float


class Restart(msgspec.Struct):
    """From the first failed pod until all replicas ran again, in seconds."""

    replicas: int
    floor: float
    operator: float


class Small(msgspec.Struct):
    """Seconds until the pods of each small job were created, alone and while a big job was created."""

    replicas: int
    alone: list[float]
    beside: list[float]
    floor_beside: list[float]


class Results(msgspec.Struct):
    """One run."""

    commit: str
    server: str
    machine: str
    shapes: list[ShapeResult] = []
    memory: list[Memory] = []
    cold_start: ColdStart | None = None
    restart: Restart | None = None
    small: Small | None = None

    @property
    def file_name(self) -> str:
        """Where it is kept."""
        return f"{self.commit}-{self.server.split()[0]}.json"


def commit() -> str:
    """The commit that is measured; it says so when the tree has changes."""
    short = _git("rev-parse", "--short", "HEAD")
    changed = _git("status", "--porcelain", "--", "jobcommon", "operators", "localcluster")
    return f"{short}-changed" if changed else short


def machine() -> str:
    """What it was measured on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{os.cpu_count()} cores, {memory:.0f} GB, {platform.system()} {platform.machine()}, Python {platform.python_version()}"
    )


def keep(results: Results) -> Path:
    """Write a run to its place."""
    DIRECTORY.mkdir(exist_ok=True)
    path = DIRECTORY / results.file_name
    path.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")
    return path


def read(path: Path) -> Results:
    """A run that was kept. Raises msgspec.ValidationError."""
    return msgspec.json.decode(path.read_bytes(), type=Results)


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603, S607
    return done.stdout.strip() or ("" if done.returncode == 0 else "unknown")
