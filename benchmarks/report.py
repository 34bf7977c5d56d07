"""How results are printed: Markdown tables."""

import os
import platform
import subprocess
from collections.abc import Iterable, Sequence

from benchmarks.processes import ROOT

MB = 1e6


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table."""
    head = tuple(head)
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def seconds(value: float) -> str:
    """A duration."""
    return f"{value * 1e3:.0f} ms" if value < 1 else f"{value:.1f} s"


def p99(values: Sequence[float]) -> float:
    """The 99th percentile."""
    return sorted(values)[min(len(values) - 1, int(len(values) * 0.99))]


def commit() -> str:
    """The commit that is measured, marked if the tree has uncommitted changes."""
    command = ["git", "describe", "--always", "--dirty=-changed", "--exclude=*"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603
    return done.stdout.strip() or "unknown"


def machine() -> str:
    """The machine it was measured on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    system = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    return f"{os.cpu_count()} cores, {memory:.0f} GB, {system}"
