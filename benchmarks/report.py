"""The tables of a run, in Markdown, as printed and as in the documentation."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from statistics import median

from benchmarks.goals import Goal, cpu_per_thousand, created_ratio, goals, middle, p99, settle_ratio
from benchmarks.lifecycle_timings import LifecycleTimings
from benchmarks.record import PeerResult, Results, WorkloadResult
from benchmarks.workloads import PER_JOB, WHOLE


def tables(results: Results) -> str:
    """Everything measured."""
    parts = [f"Server: {results.server}. Commit: {results.commit}. Machine: {results.machine}."]
    if results.workloads:
        parts += [
            table(_WORKLOAD_HEAD, map(_workload, results.workloads)),
            table(_JOB_HEAD, map(_per_job, results.workloads)),
        ]
    for (peer, services), found in groupby(results.peers, lambda result: (result.peer, result.services)):
        head = ("work", f"plain client, Service/{PER_JOB}", "ours", f"plain client, Service/{services}", "peer", *_PEER_HEAD)
        compared = list(found)
        parts.append(f"Peer: {peer}, one Service per {services}.")
        parts.append(table(head, (line for result in compared for line in _compared(result))))
        parts.append(table(_COST_HEAD, map(_costs, compared)))
    others = list(_others(results))
    if others:
        parts.append(table(("what", "measured"), others))
    return "\n\n".join(parts)


def goal_table(results: Results) -> str:
    """Every goal, met or not; an empty text if none was measured."""
    found = list(goals(results))
    return "" if not found else table(GOAL_HEAD, map(goal_line, found))


GOAL_HEAD = ("goal", "at most", "measured", "")
_WORKLOAD_HEAD = ("jobs × replicas", "baseline", "created", "running", "succeeded", "settle", "CPU per 1,000 pods", "memory")
_JOB_HEAD = ("jobs × replicas", "created p50 / p99", "running p50 / p99", "succeeded p50 / p99", "settle p50 / p99",
             "baseline's settle p50 / p99", "API calls per job")  # fmt: skip
_PEER_HEAD = ("pods/s ours : peer", "CPU-s ours : peer", "memory ours : peer")
_COST_HEAD = ("work", "API server, CPU ms a job, ours : peer", "requests a job, ours : peer")


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
        f"{middle(workload.operator, 'resident') / 1e6:.0f} MB",
    )


def _per_job(workload: WorkloadResult) -> tuple[str, ...]:
    calls = workload.operator[-1].calls
    return (
        _name(workload),
        *(_spread(workload.operator, name) for name in ("created_each", "running_each", "succeeded_each", "settle")),
        _spread(workload.baseline, "settle"),
        ", ".join(f"{verb} {count:,.1f}".replace(".0", "") for verb, count in sorted(calls.items())),
    )


def _compared(result: PeerResult) -> Iterator[tuple[str, ...]]:
    """Until all pods are created, and the whole life."""
    ours, theirs = result.operator, result.peer_operator
    for what, seconds, cpu in (("created", "created", "created_cpu"), ("first POST to last Succeeded", "life", "cpu")):
        four = (result.baseline, ours, result.peer_baseline, theirs)
        rates = [result.pods / middle(rounds, seconds) for rounds in four]
        yield (
            f"{result.jobs:,} × {result.replicas:,}, {what}",
            *(f"{rate:,.0f} pods/s" for rate in rates),
            _ratio(rates[1] / rates[3]),
            _pair(middle(ours, cpu), middle(theirs, cpu), "{:.2f}"),
            _pair(middle(ours, "resident") / 1e6, middle(theirs, "resident") / 1e6, "{:.0f}"),
        )


def _costs(result: PeerResult) -> tuple[str, ...]:
    """What a job costs the server over its whole life, the writes of user and kubelet included, and the operator's requests."""
    ours, theirs = result.operator, result.peer_operator
    milliseconds = [middle(rounds, "server_cpu") / result.jobs * 1e3 for rounds in (ours, theirs)]
    requests = [middle(rounds, "requests") for rounds in (ours, theirs)]
    return _name(result), _pair(milliseconds[0], milliseconds[1], "{:.1f}"), _pair(requests[0], requests[1], "{:.1f}")


def _pair(ours: float, theirs: float, form: str) -> str:
    ratio = f" = {_ratio(ours / theirs)}" if theirs else ""
    return f"{form.format(ours)} : {form.format(theirs)}{ratio}"


def _others(results: Results) -> Iterator[tuple[str, str]]:
    for memory in results.memory:
        yield f"memory with {memory.pods:,} cached pods", f"{memory.resident / 1e6:.0f} MB"
    if (start := results.cold_start) is not None:
        lists = f"lists complete {start.ready:.1f} s after the process began"
        text = (
            f"{lists}, all jobs reconciled {start.after_lists:.2f} s later, {start.writes} writes, {start.cpu:.1f} CPU-s in all"
        )
        yield f"cold start beside {start.jobs:,} finished jobs", text
    if (restart := results.restart) is not None:
        text = f"{restart.operator:.1f} s, {restart.operator / restart.baseline:.2f} × baseline"
        yield f"{restart.replicas:,} replicas killed and running again", text
    for place in results.in_place:
        text = f"{place.seconds:.1f} s, of which the operator computed {place.cpu:.1f} s, {place.patches:,} PATCHes"
        yield f"{place.replicas:,} replicas restarted in place", text
    if (small := results.small) is not None:
        each = (("alone", small.alone), ("beside", small.beside), ("plain clients beside", small.baseline_beside))
        text = ", ".join(f"{name} {median(times) * 1e3:.0f} / {p99(times) * 1e3:.0f} ms" for name, times in each)
        yield f"small jobs created while one of {small.replicas:,} replicas is: p50 / p99", text


def goal_line(goal: Goal) -> tuple[str, ...]:
    """A goal, met or not."""
    digits = 0 if goal.limit >= 10 or not goal.limit else 2
    measured = f"{goal.measured:.{digits}f} {goal.unit}".strip()
    return goal.text, f"{goal.limit:g} {goal.unit}".strip(), measured, "met" if goal.met else "**not met**"


def _name(workload: WorkloadResult | PeerResult) -> str:
    whole = ", each told of all" if workload.name.endswith(WHOLE) else ""
    return f"{workload.jobs:,} × {workload.replicas:,}{whole}"


def _ratio(value: float) -> str:
    return f"{value:.2f} ×"


def _spread(rounds: list[LifecycleTimings], name: str) -> str:
    spreads = [getattr(timings, name) for timings in rounds]
    return f"{_seconds(median(s.p50 for s in spreads))} / {_seconds(median(s.p99 for s in spreads))}"


def _seconds(value: float) -> str:
    return f"{value * 1e3:.0f} ms" if value < 1 else f"{value:.1f} s"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table in Markdown."""
    head = tuple(head)
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
