"""A run in a few lines: how often each pod ran, and the objects at the end."""

from collections.abc import Iterator
from typing import Any

import msgspec

from jobcommon.framework import Framework
from jobcommon.testutil.sim.scenario import Scenario
from jobcommon.testutil.sim.simulation import Run

Obj = dict[str, Any]


def run_summary(scenario: Scenario, run: Run) -> str:
    """The text of one run: its name, the runs of each pod, and an entry for each object that is left."""
    lines = [scenario.name, "  runs: " + (", ".join(f"{pod} {count}" for pod, count in sorted(run.runs.items())) or "none")]
    tables = {f"{f.plural}.{f.group}": f for f in scenario.frameworks}
    for line in run.end.splitlines():
        obj = msgspec.json.decode(line, type=Obj)
        framework = tables.get(obj["table"])
        entries = _job(framework, obj) if framework is not None else _pod(obj) if obj["table"] == "pods" else _other(obj)
        lines += [f"  {entry}" for entry in entries]
    lines += [f"  {problem}" for problem in (*run.violations, *run.errors, *run.leaked)]
    return "\n".join(lines) + "\n"


def _job(framework: Framework, job: Obj) -> Iterator[str]:
    status = job.get("status") or {}
    times = " and ".join(word for key, word in (("startTime", "started"), ("completionTime", "completed")) if key in status)
    yield f"{framework.kind} {job['metadata']['name']}" + (f", {times}" if times else "")
    for one in status.get("conditions") or ():
        yield f"  {one['type']}: {one['reason']}: {one['message']}"
    for kind, counts in sorted((status.get("replicaStatuses") or {}).items()):
        told = ", ".join(f"{key} {value}" for key, value in counts.items() if key != "selector")
        yield f"  {kind}: {told or 'nothing'}"
    totals = ", ".join(f"{key} {status[key]}" for key in ("restarts", "disruptions") if key in status)
    if totals:
        yield f"  {totals}"
    for failure in status.get("failures") or ():
        yield f"  failure: {failure['replica']} {failure['reason']} {failure.get('exitCode', 'without an exit code')}"


def _pod(pod: Obj) -> Iterator[str]:
    status, meta = pod.get("status") or {}, pod["metadata"]
    ends = [s["state"]["terminated"] for s in status.get("containerStatuses") or () if "terminated" in s.get("state", {})]
    told = "".join(f", {end['reason']} {end['exitCode']}" for end in ends)
    held = ", held by a finalizer" if meta.get("finalizers") else ""
    going = ", terminating" if "deletionTimestamp" in meta else ""
    yield f"pod {meta['name']} {status.get('phase')}{told}{held}{going}"


def _other(obj: Obj) -> Iterator[str]:
    yield f"{obj['table'].partition('.')[0]} {obj['metadata']['name']}"
