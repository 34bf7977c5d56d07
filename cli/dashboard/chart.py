"""The reported metrics over the steps, as lines in a square of 100 by 100: the page stretches it to its width."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from jobcommon.api.status import Metric
from jobcommon.cli.dashboard.history import Run, by_importance

MAX_CHARTS = 6


@dataclass(frozen=True)
class Line:
    """The points of one run, as an SVG path; the end of the current one has a dot."""

    path: str
    end: str


@dataclass(frozen=True)
class Chart:
    """One metric: its last value as it was reported; the values at the top and the bottom, the steps at the left and the right.

    `lines` has one for each run, the current one last, None for a run without the metric; `words` says the same.
    """

    name: str
    value: str
    top: str
    bottom: str
    left: str
    right: str
    lines: Sequence[Line | None]
    words: str


def charts(runs: Sequence[Run], reported: Sequence[Metric]) -> Sequence[Chart]:
    """The metrics that have two points in a run, the loss first."""
    latest = {metric.name: metric.value for metric in reported}
    names = sorted({name for run in runs for name, points in run.points.items() if len(points) >= 4}, key=by_importance)
    return [
        _chart(name, latest.get(name, ""), [run.points.get(name) or array("d") for run in runs]) for name in names[:MAX_CHARTS]
    ]


def _chart(name: str, value: str, runs: Sequence["array[float]"]) -> Chart:
    steps, values = [step for run in runs for step in run[::2]], [value for run in runs for value in run[1::2]]
    left, right, low, high = min(steps), max(steps), min(values), max(values)

    def at(step: float, value: float) -> str:
        x, y = (step - left) / ((right - left) or 1.0), (value - low) / ((high - low) or 1.0)
        return f"{100 * x:.2f},{100 - 100 * y:.2f}"

    def line(run: "array[float]") -> Line | None:
        points = [at(step, value) for step, value in zip(run[::2], run[1::2], strict=True)]
        return Line(f"M{'L'.join(points)}", f"M{points[-1]}h0") if points else None

    last = next(run for run in reversed(runs) if run)
    ends = f"{last[0]:,.0f} to {last[-2]:,.0f}: {last[1]:.4g} at first, {last[-1]:.4g} at last"
    words = f"{name} over steps {ends}" if len(last) > 2 else f"{name} {last[1]:.4g} at step {last[0]:,.0f}"
    return Chart(
        name,
        value or f"{last[-1]:.4g}",
        f"{high:.4g}",
        f"{low:.4g}",
        f"{left:,.0f}",
        f"{right:,.0f}",
        [*map(line, runs)],
        words,
    )


def run_name(run: Run) -> str:
    """``attempt 2, from step 800``."""
    of = f"attempt {run.attempt}, " if run.attempt is not None else ""
    return f"{of}from step {run.begin:,}"
