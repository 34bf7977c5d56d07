"""The status of a job's Workload: what Kueue has to know of the job, as the controllers of batch Jobs write it."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from jobcommon.api.kueue import Workload
from jobcommon.api.replica import Replica
from jobcommon.api.status import ConditionType
from jobcommon.api.template import mapping_of, mappings_in
from jobcommon.api.timestamp import format_time, parse_time
from jobcommon.framework import Job
from jobcommon.reconcile.pod_sets import PodSets
from jobcommon.reconcile.rendering import end_of
from jobcommon.reconcile.slots import recorded_success

_REQUEUED_AT_ONCE = ("Preempted", "NodeFailures")


def workload_status(job: Job, found: Workload, pod_sets: PodSets, now: float, *, active: bool) -> Mapping[str, Any]:
    """The status that the Workload is to have. `active`: pods of the job may run, so an evicted job keeps its quota."""
    status = dict(found.status)
    conditions = _Conditions(found, now)
    evicted = found.conditions.get("Evicted", {})
    if job.status.finished and not found.has("Finished"):
        failed = job.status.has(ConditionType.FAILED)
        conditions.set("Finished", True, "Failed" if failed else "Succeeded", end_of(job.status))
    elif found.has("Evicted") and found.has("QuotaReserved"):
        if active:
            return found.status
        reason, message = str(evicted.get("reason")), str(evicted.get("message"))
        if found.has("Admitted") and (since := parse_time(found.conditions["Admitted"].get("lastTransitionTime"))):
            before = status.get("accumulatedPastExecutionTimeSeconds") or 0
            status["accumulatedPastExecutionTimeSeconds"] = before + max(int(now - since), 0)
        conditions.set("Requeued", reason in _REQUEUED_AT_ONCE, reason, message)
        conditions.set("QuotaReserved", False, "PendingEvaluation", message)
        conditions.set("Admitted", False, "NoReservation", "The workload has no reservation")
        if found.has("PodsReady"):
            conditions.set("PodsReady", False, "WaitForStart", "Not all pods are ready or succeeded")
        status.pop("admission", None)
    elif found.admitted:
        _set_readiness(job, found, conditions)
        status |= _reclaimable(job, found, pod_sets)
    new = {**status, "conditions": conditions.listed}
    return found.status if new == {"conditions": [], **found.status} else new


def _set_readiness(job: Job, found: Workload, conditions: "_Conditions") -> None:
    ready, before = job.status.has(ConditionType.RUNNING), found.conditions.get("PodsReady", {})
    if ready and not found.has("PodsReady"):
        again = before.get("reason") == "WaitForRecovery"
        text = "All pods reached readiness and the workload is running"
        conditions.set("PodsReady", True, "Recovered" if again else "Started", text)
    elif not ready and found.has("PodsReady"):
        text = "At least one pod has failed, waiting for recovery"
        conditions.set("PodsReady", False, "WaitForRecovery", text)


def _reclaimable(job: Job, found: Workload, pod_sets: PodSets) -> dict[str, Any]:
    """How many pods of each podSet have succeeded and are not run again. The numbers only grow."""
    if job.restarts_together:
        return {}
    before = {str(one.get("name")): one.get("count") or 0 for one in mappings_in(found.status.get("reclaimablePods"))}
    counts = dict(before)
    for kind, indexes in recorded_success(job).items():
        done = Counter(pod_sets.name_of(Replica(kind, index)) for index in indexes if index < job.count(kind))
        counts |= {name: max(number, counts.get(name, 0)) for name, number in done.items() if name in found.assignments}
    return {"reclaimablePods": [{"name": k, "count": v} for k, v in counts.items()]} if counts != before else {}


class _Conditions:
    """The conditions of a Workload, to be changed."""

    def __init__(self, found: Workload, now: float) -> None:
        self._found, self._now = dict(found.conditions), format_time(now)
        self._generation = mapping_of(found.raw.get("metadata")).get("generation") or 0

    def set(self, kind: str, is_true: bool, reason: str, message: str) -> None:
        """Set one condition. The time of its transition changes with its status alone."""
        status, old = "True" if is_true else "False", self._found.get(kind, {})
        since = old.get("lastTransitionTime") if old.get("status") == status else self._now
        new = {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": since}
        self._found[kind] = {**new, "observedGeneration": self._generation}

    @property
    def listed(self) -> list[Mapping[str, Any]]:
        """All of them."""
        return list(self._found.values())
