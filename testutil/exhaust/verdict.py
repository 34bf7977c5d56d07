"""What must hold where nothing is left to happen: no operator, watch or pod has anything to do."""

from jobcommon.framework import FINALIZER
from jobcommon.testutil.exhaust.model import Model, State
from jobcommon.testutil.exhaust.objects import JOB, PODS

REPLICAS = 2
ENDS = ("Succeeded", "Failed")


def at_the_end(model: Model, state: State) -> str:
    """What is wrong with a state at rest, "" if nothing is."""
    views, memory, flight, past = model.open(state)
    if memory is None or flight is not None or memory.expected:
        return "at-rest: the operator waits for " + str(memory.expected if memory is not None else "its start")
    if plan := model.resynced(state):
        return f"at-rest: there is something left to do: {plan}"
    status = views[JOB].stored[0][0].obj.get("status") or {}
    pods = [content for content, _ in views[PODS].stored]
    ended = next((c for c in status.get("conditions") or () if c["type"] in ENDS and c["status"] == "True"), None)
    phases = {pod.name: pod.obj["status"]["phase"] for pod in pods}
    runs, limit = past.ends.failed_runs, model.bounds.backoff_limit
    replaced = sum(count - 1 for name, count in past.created if name.startswith("pods/"))
    if replaced > limit + model.bounds.evictions:
        return f"backoff-limit: {replaced} pods were replaced after {runs} failed runs"
    if ended is None:
        if len(phases) != REPLICAS or set(phases.values()) != {"Running"}:
            return f"hangs: no end, pods {phases}"
        if (status.get("restarts") or 0) != runs:
            return f"counted-once: {status.get('restarts')} restarts after {runs} failed runs"
        return f"backoff-limit: goes on after {runs} failed runs" if runs > limit else ""
    if held := [pod.name for pod in pods if FINALIZER in (pod.obj["metadata"].get("finalizers") or ())]:
        return f"finalizers: {', '.join(held)} of a finished job"
    if left := [name for name, phase in phases.items() if phase in ("Running", "Pending")]:
        return f"left-running: {', '.join(left)} of a finished job"
    if ended["reason"].endswith("BackoffLimitExceeded") and runs <= limit:
        return f"backoff-limit: exceeded after {runs} failed runs"
    return ""
