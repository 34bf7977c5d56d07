"""A run held against the fault-free one of the same scenario, whose end must be the same: oracles O1, O2, O4-O7."""

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

from jobcommon.api import labels
from jobcommon.client.transport import Timeouts
from jobcommon.framework import FINALIZER
from jobcommon.testutil.sim.canonical import difference, objects_in
from jobcommon.testutil.sim.faults import KINDS, Fault
from jobcommon.testutil.sim.scenario import Scenario
from jobcommon.testutil.sim.simulation import Run, is_slow
from localcluster.model import ADDED, DELETED, MODIFIED

LIVENESS_SECONDS = 150.0
"""Seconds from the end of the last fault to the final state, besides the duration of the lifecycle itself (oracle O4)."""
SPARE_UPDATES = 4
"""Updates of one object that each fault may cost beyond the reference's."""
_AS_IF_NEW = ("crash-before", "crash-after")
# A refused change of an image is a policy (docs/restarts.md): the pod is replaced instead of kept, in each of two restarts.
_REFUSING = ("forbidden", "admission-refused")
_REPLACED = ("pods/*/earlier-runs: *", "pods/*.restartCount: *", "pods/*.imagePullPolicy: *", "pods/*.image: *")


def compare(reference: Run, run: Run, scenario: Scenario) -> list[str]:
    """The differences from the reference run; empty if there are none."""
    found = [*_violations(run), *(f"error: {error}" for error in run.errors), *(f"leaked: {what}" for what in run.leaked)]
    found += _left_behind(run.end)
    if run.writes_at_rest:
        found.append(f"at-rest: {run.writes_at_rest} writes")
    found += _liveness(reference, run)
    replaced = _keeps_pods(scenario) and any(fault.kind in _REFUSING for fault in run.faults)
    loose = (*_never_made(scenario), *(_REPLACED if replaced else ()))
    found += [f"end-state: {x}" for x in difference(reference.end, run.end) if not any(fnmatchcase(x, p) for p in loose)]
    surplus = any(KINDS[fault.kind].surplus or _lands_late(fault) for fault in run.faults)
    found += _runs(reference.runs, run.runs, tuple(_ended_by_a_deadline(scenario)), surplus=surplus)
    if not surplus:
        # Between the live read of a job and the create that follows, the job may be deleted (no create has a precondition):
        # where requests take long, one object of a deleted job may be made, which is then collected. For a new job it is not
        # reconciled again; a process that has just started treats it as new.
        as_if_new = any(fault.kind in _AS_IF_NEW for fault in run.faults)
        spare = SPARE_UPDATES * (len(run.faults) + 1)
        slow, twice = is_slow(run.seed), 2 * replaced
        found += _updates(reference.summary, run.summary, spare, slow=slow, as_if_new=as_if_new, replaced=twice)
    return found


def _violations(run: Run) -> list[str]:
    """What the watchdog saw, but for what follows from the faults themselves.

    Two operators that both act: one ends a job, the other is making a pod of it; or each replaces the other's message, and
    plans again at once. Creates that are stored after the operator has given them up may find the job at its end.
    """
    spare = sum(fault.kind == "two-operators" for fault in run.faults)
    found = [one for one in run.violations if not (spare and one.startswith("hot-loop"))]
    late = [one for one in found if one.startswith("pod-for-finished-job")]
    if any(_lands_late(fault) for fault in run.faults):
        spare = len(late)
    return [*(one for one in found if one not in late), *late[spare:]]


def _liveness(reference: Run, run: Run) -> Iterator[str]:
    limit = run.recovered_at + reference.settled_at + LIVENESS_SECONDS
    if run.settled_at > limit:
        yield f"liveness: settled at {run.settled_at:.0f} s, to be at {limit:.0f} s at the latest"


def _ended_by_a_deadline(scenario: Scenario) -> Iterator[str]:
    """The pods of jobs with a deadline, as prefixes: a fault may take longer than the job has, and they never run."""
    return (f"{name}-" for name in _limited(scenario))


def _never_made(scenario: Scenario) -> Iterator[str]:
    """That what such jobs need besides pods is missing: it was not made before their time was over."""
    return (f"*/{name}-*: missing" for name in _limited(scenario))


def _keeps_pods(scenario: Scenario) -> bool:
    """Whether a restart keeps the pods of its jobs."""
    return any((job["spec"].get("runPolicy") or {}).get("restartMethod") == "Auto" for job in scenario.jobs)


def _limited(scenario: Scenario) -> Iterator[str]:
    """The names of the jobs with a deadline."""
    for job in scenario.jobs:
        if (job["spec"].get("runPolicy") or {}).get("activeDeadlineSeconds") is not None:
            yield job["metadata"]["name"]


def _runs(expected: Mapping[str, int], actual: Mapping[str, int], hurried: tuple[str, ...], *, surplus: bool) -> Iterator[str]:
    for pod in sorted({*expected, *actual}):
        wanted, found = expected.get(pod, 0), actual.get(pod, 0)
        if (found < wanted and not pod.startswith(hurried)) or (found > wanted and not surplus):
            yield f"run-count: {pod} ran {found} times, {wanted} in the reference"


def _updates(
    expected: Mapping[tuple[str, str, str], int],
    actual: Mapping[tuple[str, str, str], int],
    spare_updates: int,
    *,
    slow: bool,
    as_if_new: bool,
    replaced: int,
) -> Iterator[str]:
    """The summary of updates: exactly the reference's creates and deletes, and not many more updates.

    `replaced`: how often a pod may be made anew that is kept in the reference.
    """
    for key in sorted({*expected, *actual}):
        verb, table, name = key
        wanted, found = expected.get(key, 0), actual.get(key, 0)
        spare = int(slow or (as_if_new and table != "pods")) + (replaced if table == "pods" else 0)
        if verb in (ADDED, DELETED) and found > wanted + spare:
            yield f"summary: {verb} {table}/{name} {found} times, {wanted} in the reference"
        elif verb == MODIFIED and found > wanted + spare_updates:
            yield f"summary: {table}/{name} updated {found} times, {wanted} in the reference"


def _lands_late(fault: Fault) -> bool:
    """Whether creates are stored when the operator has given them up: by then the job may be over, or deleted."""
    return fault.kind == "slow-writes" and float(fault.value) > Timeouts().write


def _left_behind(end: bytes) -> Iterator[str]:
    """Pods that are to go and cannot, because of our finalizer. The operator cannot see one without our label."""
    for pod in objects_in(end, frozenset({"pods"})):
        metadata = pod["metadata"]
        if labels.OPERATOR_NAME not in (metadata.get("labels") or {}):
            continue
        if "deletionTimestamp" in metadata and FINALIZER in (metadata.get("finalizers") or ()):
            yield f"left-behind: pods/{metadata['name']} carries our finalizer"
