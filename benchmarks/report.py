"""The tables of a run, in Markdown, as they are printed and as they stand in the documentation."""

from collections.abc import Iterable, Iterator
from statistics import median

from benchmarks.goals import Goal, cpu_per_thousand, created_ratio, goals, p99, settle_ratio
from benchmarks.lives import Life
from benchmarks.record import Results, ShapeResult
from benchmarks.shapes import WHOLE


def tables(results: Results) -> str:
    """Everything measured."""
    parts = [f"Server: {results.server}. Commit: {results.commit}. Machine: {results.machine}."]
    if results.shapes:
        parts += [_table(_SHAPE_HEAD, map(_shape, results.shapes)), _table(_JOB_HEAD, map(_per_job, results.shapes))]
    others = list(_others(results))
    if others:
        parts.append(_table(("what", "measured"), others))
    return "\n\n".join(parts)


def goal_table(results: Results) -> str:
    """Every goal, met or not."""
    return _table(("goal", "at most", "measured", ""), map(_goal, goals(results)))


_SHAPE_HEAD = ("jobs × replicas", "floor", "created", "running", "succeeded", "settle", "CPU per 1,000 pods", "memory")
_JOB_HEAD = ("jobs × replicas", "created p50 / p99", "running p50 / p99", "succeeded p50 / p99", "settle p50 / p99",
             "floor's settle p50 / p99", "API calls per job")  # fmt: skip


def _shape(shape: ShapeResult) -> tuple[str, ...]:
    floor = _median(shape.floor, "created")
    return (
        _name(shape),
        f"{shape.pods / floor:,.0f} pods/s",
        _ratio(created_ratio(shape)),
        _ratio(_median(shape.operator, "running") / _median(shape.floor, "running")),
        _ratio(_median(shape.operator, "succeeded") / _median(shape.floor, "succeeded")),
        _ratio(settle_ratio(shape)),
        f"{cpu_per_thousand(shape):.2f} s",
        f"{_median(shape.operator, 'resident') / 1e6:.0f} MB",
    )


def _per_job(shape: ShapeResult) -> tuple[str, ...]:
    calls = shape.operator[-1].calls
    return (
        _name(shape),
        *(_spread(shape.operator, name) for name in ("created_each", "running_each", "succeeded_each", "settle")),
        _spread(shape.floor, "settle"),
        ", ".join(f"{verb} {count:,.1f}".replace(".0", "") for verb, count in sorted(calls.items())),
    )


def _others(results: Results) -> Iterator[tuple[str, str]]:
    for memory in results.memory:
        yield f"memory with {memory.pods:,} cached pods", f"{memory.resident / 1e6:.0f} MB"
    if (start := results.cold_start) is not None:
        lists = f"lists complete {start.ready:.1f} s after the process began"
        text = (
            f"{lists}, all jobs looked at {start.after_lists:.2f} s later, {start.writes} writes, {start.cpu:.1f} CPU-s in all"
        )
        yield f"cold start beside {start.jobs:,} finished jobs", text
    if (restart := results.restart) is not None:
        text = f"{restart.operator:.1f} s, {restart.operator / restart.floor:.2f} × floor"
        yield f"{restart.replicas:,} replicas killed and running again", text
    if (small := results.small) is not None:
        each = (("alone", small.alone), ("beside", small.beside), ("plain clients beside", small.floor_beside))
        text = ", ".join(f"{name} {median(times) * 1e3:.0f} / {p99(times) * 1e3:.0f} ms" for name, times in each)
        yield f"small jobs created while one of {small.replicas:,} replicas is: p50 / p99", text


def _goal(goal: Goal) -> tuple[str, ...]:
    digits = 0 if goal.limit >= 10 or not goal.limit else 2
    measured = f"{goal.measured:.{digits}f} {goal.unit}".strip()
    return goal.text, f"{goal.limit:g} {goal.unit}".strip(), measured, "met" if goal.met else "**not met**"


def _name(shape: ShapeResult) -> str:
    whole = ", each told of all" if shape.name.endswith(WHOLE) else ""
    return f"{shape.jobs:,} × {shape.replicas:,}{whole}"


def _median(lives: Iterable[Life], name: str) -> float:
    return float(median(getattr(life, name) for life in lives))


def _ratio(value: float) -> str:
    return f"{value:.2f} ×"


def _spread(lives: list[Life], name: str) -> str:
    spreads = [getattr(life, name) for life in lives]
    return f"{_seconds(median(s.p50 for s in spreads))} / {_seconds(median(s.p99 for s in spreads))}"


def _seconds(value: float) -> str:
    return f"{value * 1e3:.0f} ms" if value < 1 else f"{value:.1f} s"


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = tuple(head)
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
