"""The tables of a run, in Markdown, as they are printed."""

from collections.abc import Iterable, Iterator
from statistics import median

from benchmarks.goals import MB, Goal, cpu_per_thousand, created_ratio, goals, middle, settle_ratio
from benchmarks.lifecycle_timings import LifecycleTimings, p99
from benchmarks.record import Results, Soak, WorkloadResult


def tables(results: Results) -> str:
    """Everything measured."""
    date = f" Date: {results.date}." if results.date else ""
    parts = [f"Server: {results.server}. Commit: {results.commit}.{date} Machine: {results.machine}."]
    if results.workloads:
        parts += [
            _table(_WORKLOAD_HEAD, map(_workload, results.workloads)),
            _table(_JOB_HEAD, map(_per_job, results.workloads)),
        ]
    others = list(_others(results))
    if others:
        parts.append(_table(("what", "measured"), others))
    if results.soak is not None and results.soak.faults:
        parts.append("\n".join(f"FAULT {fault}" for fault in results.soak.faults[:20]))
    return "\n\n".join(parts)


def goal_table(results: Results) -> str:
    """Every goal, met or not; an empty text if none was measured."""
    found = list(goals(results))
    return "" if not found else _table(("goal", "at most", "measured", ""), map(_goal, found))


_WORKLOAD_HEAD = ("jobs × replicas", "baseline", "created", "running", "succeeded", "settle", "CPU per 1,000 pods", "memory")
_JOB_HEAD = ("jobs × replicas", "created p50 / p99", "running p50 / p99", "succeeded p50 / p99", "settle p50 / p99",
             "baseline's settle p50 / p99", "API calls per job")  # fmt: skip


def _workload(workload: WorkloadResult) -> tuple[str, ...]:
    baseline = middle(workload.baseline, "created")
    return (
        _name(workload),
        f"{workload.pods / baseline:,.0f} pods/s",
        _ratio(created_ratio(workload)),
        _ratio(middle(workload.operator, "running") / middle(workload.baseline, "running")),
        _ratio(middle(workload.operator, "succeeded") / middle(workload.baseline, "succeeded")),
        _ratio(settle_ratio(workload)),
        f"{cpu_per_thousand(workload):.2f} s",
        f"{middle(workload.operator, 'resident') / MB:.0f} MB",
    )


def _per_job(workload: WorkloadResult) -> tuple[str, ...]:
    calls = workload.operator[-1].calls
    return (
        _name(workload),
        *(_spread(workload.operator, name) for name in ("created_each", "running_each", "succeeded_each", "settle")),
        _spread(workload.baseline, "settle"),
        ", ".join(f"{verb} {count:,.1f}".replace(".0", "") for verb, count in sorted(calls.items())),
    )


def _others(results: Results) -> Iterator[tuple[str, str]]:
    if (small := results.small) is not None:
        each = (("alone", small.alone), ("beside", small.beside), ("plain clients beside", small.baseline_beside))
        text = ", ".join(f"{name} {median(times) * 1e3:.0f} / {p99(times) * 1e3:.0f} ms" for name, times in each)
        yield f"small jobs created while one of {small.replicas:,} replicas is: p50 / p99", text
    if results.soak is not None:
        yield from _soak(results.soak)


def _soak(soak: Soak) -> Iterator[tuple[str, str]]:
    start = soak.cold_start
    text = f"caches complete after {start.ready:.1f} s, all jobs reconciled {start.after_lists:.1f} s later"
    text += f", {start.writes} writes, {start.resident / MB:.0f} MB, {start.cpu:.1f} CPU-s"
    yield f"cold start beside {start.jobs:,} finished jobs", text
    yield f"jobs in {soak.minutes:g} minutes, {soak.rate:g} submitted a second", f"{sum(soak.ends.values()):,}"
    for fate, count in sorted(soak.ends.items()):
        yield f"… of which each {fate}", f"{count:,}"
    kills = sorted(set(soak.restarts))
    yield "restarts, each with kill -9", ", ".join(f"{soak.restarts.count(one)} × {one}" for one in kills)
    windows = f"first {soak.window:.0f} s → last {soak.window:.0f} s"
    latencies = {"submitted": "of the submission alone", "created": "until the pods are created"}
    for name, what in (latencies | {"settle": "from the end to the final status"}).items():
        each = ([getattr(life, name) for life in lives] for lives in soak.windows)
        text = " → ".join(f"{median(times) * 1e3:.0f} / {p99(times) * 1e3:.0f} ms" for times in each)
        yield f"latency {what}, p50 / p99, {windows}", text
    quiet = soak.quiet
    most = max(sample.resident for sample in quiet)
    text = f"{quiet[0].resident / MB:.1f} → {quiet[-1].resident / MB:.1f} MB, most {most / MB:.1f} MB"
    text += f", {soak.growth:+.0f} bytes a job"
    jobs = quiet[-1].over - quiet[0].over
    yield f"resident memory over the last {quiet[-1].at - quiet[0].at:.0f} s, {jobs:,} jobs", text
    first, last = soak.cpu(soak.start, soak.start + soak.window), soak.cpu(soak.end - soak.window, soak.end)
    yield f"CPU for 1,000 jobs, {windows}", f"{first:.1f} → {last:.1f} s"


def _goal(goal: Goal) -> tuple[str, ...]:
    digits = 0 if goal.limit >= 10 or not goal.limit else 2
    measured = f"{goal.measured:.{digits}f} {goal.unit}".strip()
    return goal.text, f"{goal.limit:g} {goal.unit}".strip(), measured, "met" if goal.met else "**not met**"


def _name(workload: WorkloadResult) -> str:
    return f"{workload.jobs:,} × {workload.replicas:,}"


def _ratio(value: float) -> str:
    return f"{value:.2f} ×"


def _spread(rounds: list[LifecycleTimings], name: str) -> str:
    spreads = [getattr(timings, name) for timings in rounds]
    return f"{_seconds(median(s.p50 for s in spreads))} / {_seconds(median(s.p99 for s in spreads))}"


def _seconds(value: float) -> str:
    return f"{value * 1e3:.0f} ms" if value < 1 else f"{value:.1f} s"


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = tuple(head)
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
