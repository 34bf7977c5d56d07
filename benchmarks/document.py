"""The measured part of docs/performance.md, and its picture."""

import re
from collections.abc import Sequence

from benchmarks import report
from benchmarks.processes import ROOT
from benchmarks.record import Results
from benchmarks.workloads import Workload

DOCUMENT = ROOT / "docs" / "performance.md"
PICTURE = ROOT / "docs" / "performance.svg"
_BEGIN, _END = "<!-- measured: begin -->", "<!-- measured: end -->"


def write(runs: Sequence[Results]) -> None:
    """Put the runs' tables between the marks of the document, and draw the picture. Raises ValueError without the marks."""
    text = DOCUMENT.read_text(encoding="utf-8")
    if _BEGIN not in text or _END not in text:
        raise ValueError(f"{DOCUMENT} has no lines {_BEGIN} and {_END}")
    parts = (
        part
        for run in runs
        for part in (
            f"### {run.server}{', beside another operator' if run.peers else ''}",
            report.tables(run),
            report.goal_table(run),
        )
    )
    body = "\n\n".join((_BEGIN, *filter(None, parts), _END))
    DOCUMENT.write_text(re.sub(f"{_BEGIN}.*{_END}", lambda _: body, text, flags=re.DOTALL), encoding="utf-8")
    draw([run for run in runs if run.workloads])


def draw(runs: Sequence[Results]) -> None:
    """The scaling of one job's creation, operator and baseline, on logarithmic scales. Needs matplotlib."""
    from statistics import median

    import matplotlib as mpl

    mpl.use("svg")
    # The same results give the same file.
    mpl.rcParams["svg.hashsalt"] = "performance"
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.5))
    for color, run in zip(("tab:blue", "tab:orange", "tab:green"), runs, strict=False):
        singles = sorted(
            (workload for workload in run.workloads if workload.name == str(Workload(1, workload.replicas))),
            key=lambda workload: workload.replicas,
        )
        sizes = [workload.replicas for workload in singles]
        for label, style, rounds in (("operator", "o-", "operator"), ("baseline", "x--", "baseline")):
            times = [median(timings.created for timings in getattr(workload, rounds)) for workload in singles]
            axes.loglog(sizes, times, style, color=color, label=f"{run.server}: {label}")
    axes.set(xlabel="replicas of one job", ylabel="seconds until the last pod is created")
    axes.grid(visible=True, which="both", alpha=0.3)
    axes.legend()
    figure.tight_layout()
    figure.savefig(PICTURE, metadata={"Date": None})
