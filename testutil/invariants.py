"""What must hold after every reconcile of a job, whatever happened in the cluster. Each function raises AssertionError."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from jobcommon.api.kueue import KUEUE_WORKLOADS, QUEUE_LABEL
from jobcommon.api.observed import Observed
from jobcommon.api.replica import Replica
from jobcommon.api.status import ConditionType, JobStatus
from jobcommon.framework import Framework, Job
from jobcommon.reconcile import plan
from jobcommon.reconcile.ending import is_over
from jobcommon.reconcile.plan import Create, Delete, Plan, RemoveFinalizer, Update
from jobcommon.reconcile.slots import attempt_of, is_spare, recorded_success

ENDS = (ConditionType.SUCCEEDED, ConditionType.FAILED)


def deterministic(framework: Framework, job: Job, observed: Observed, now: float, decided: Plan) -> None:
    """The same input gives an equal plan, in whatever order the children are listed."""
    reversed_ = replace(observed, pods=observed.pods[::-1], services=observed.services[::-1])
    assert plan(framework, job, observed, now) == decided
    assert plan(framework, job, reversed_, now) == decided


def sound_status(before: JobStatus, after: JobStatus) -> None:
    """Terminal conditions are final, exclusive, timed; the current condition is the last one and True; counters only grow."""
    types = [condition.type for condition in after.conditions]
    assert len(types) == len(set(types)), types
    assert after.conditions[-1].is_true, types
    ends = [kind for kind in ENDS if after.has(kind)]
    assert len(ends) <= 1, ends
    if ends:
        assert after.completion_time, ends
        assert after.conditions[-1].type == ends[0]
        assert not after.has(ConditionType.RUNNING)
        assert not after.has(ConditionType.RESTARTING)
    if before.finished:
        assert after.conditions == before.conditions, "an end is never revised"
        assert before.completion_time in (None, after.completion_time)
    assert (after.restarts or 0) >= (before.restarts or 0)
    assert (after.disruptions or 0) >= (before.disruptions or 0)
    assert after.failures[: len(before.failures)] == before.failures


def recorded_before_destroyed(job: Job, observed: Observed, decided: Plan) -> None:
    """No pod whose end is not on record is released or deleted, unless its job has ended or no longer has that slot."""
    if job.status.finished or job.deleting:
        return
    done, counted = recorded_success(job), set(job.status.counted_pods)
    replicas = {job.pod_name(replica): replica for replica in job.replicas}
    slot_of = {pod.uid: replicas[pod.name] for pod in observed.pods if pod.name in replicas}
    present = (pod for pod in observed.pods if not job.attempt or attempt_of(pod) == job.attempt)
    over = {pod.uid for pod in present if is_over(pod) and not is_spare(pod)}
    for action in decided.actions:
        if (
            isinstance(action, RemoveFinalizer | Delete)
            and action.uid in over
            and (replica := slot_of.get(action.uid)) is not None
        ):
            recorded = replica.index in done[replica.type] or action.uid in counted
            assert recorded, f"{action} before its end was on record"


def no_slot_twice(job: Job, observed: Observed, decided: Plan) -> None:
    """No pod is created for a slot that has succeeded or still has a pod, and none for a job that is not to run."""
    done = recorded_success(job)
    taken = {pod.name for pod in observed.pods}
    # Beyond the size of the attempt, those that ask for a node for the next one.
    counts = {kind: max(job.count(kind), job.asked_of(kind)) for kind in job.replica_specs}
    slots = {job.pod_name(r): r for kind, count in counts.items() for r in (Replica(kind, i) for i in range(count))}
    for action in decided.actions:
        if isinstance(action, Create) and action.plural == "pods":
            replica: Replica = slots[action.name]
            assert replica.index not in done[replica.type], f"{action}: that replica has succeeded"
            assert action.name not in taken, f"{action}: its predecessor is still there"
            idle = job.suspended or job.deleting or replica.type in job.unread or job.status.finished
            assert not idle, action


def within_quota(job: Job, observed: Observed, decided: Plan) -> None:
    """Of a job that is labelled for a queue no pod is created without admission, and no quota given back while pods may run."""
    if not job.options.kueue or not job.labels.get(QUEUE_LABEL) or KUEUE_WORKLOADS in observed.missing or job.managed_elsewhere:
        return
    workloads = [view.raw for (kind, _), view in observed.companions.items() if kind == KUEUE_WORKLOADS]
    held = any(_condition(raw, "Admitted") and not _condition(raw, "Evicted") for raw in workloads)
    reserved = any("admission" in (raw.get("status") or {}) for raw in workloads)
    running = any(not is_over(pod) for pod in observed.pods)
    for action in decided.actions:
        if isinstance(action, Create) and action.plural == "pods":
            assert held, f"{action}: its Workload is not admitted"
        elif action.plural == KUEUE_WORKLOADS and isinstance(action, Update | Delete):
            kept = isinstance(action, Update) and "admission" in (action.manifest.get("status") or {})
            assert kept or not (reserved and running) or job.status.finished, f"{action}: pods may still run"


def _condition(workload: Mapping[str, Any], kind: str) -> bool:
    conditions = (workload.get("status") or {}).get("conditions") or ()
    return any(one["type"] == kind and one["status"] == "True" for one in conditions)


def wakes_later(decided: Plan, now: float) -> None:
    """A plan that does nothing is not made again at once: a time that has passed would make it in a loop."""
    if not decided.actions and decided.status is None and decided.wake_at is not None:
        assert decided.wake_at > now, f"wakes {now - decided.wake_at:.0f} s ago"


def check_plan(framework: Framework, job: Job, observed: Observed, now: float, decided: Plan) -> None:
    """All of them, for one decision."""
    deterministic(framework, job, observed, now, decided)
    check_deeds(job, observed, now, decided)


def check_deeds(job: Job, observed: Observed, now: float, decided: Plan) -> None:
    """Those that need no other plan to compare with."""
    recorded_before_destroyed(job, observed, decided)
    no_slot_twice(job, observed, decided)
    within_quota(job, observed, decided)
    wakes_later(decided, now)
    if decided.status is not None:
        sound_status(job.status, decided.status)
        assert decided.status.to_json() != job.raw_status, "nothing is written when nothing has changed"
