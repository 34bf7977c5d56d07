"""Kueue as tests play it: what it writes into the status of a Workload (apis/kueue/v1beta2, pkg/workload of Kueue 0.19)."""

from collections.abc import Mapping
from typing import Any

from jobcommon.api.timestamp import format_time
from jobcommon.testutil.builders import START, Manifest


def admitted(workload: Manifest, flavor: str = "default", at: float = START, **assignment: Any) -> Manifest:
    """The Workload whose job may run, with quota in `flavor` for all its podSets; `assignment` is added to each."""
    assigned = [
        {"name": one["name"], "count": one["count"], "flavors": {"cpu": flavor}, **assignment}
        for one in workload["spec"]["podSets"]
    ]
    found = with_condition(workload, "QuotaReserved", True, "QuotaReserved", "Quota reserved in ClusterQueue team", at)
    if any(one["type"] == "Evicted" for one in found["status"]["conditions"]):
        found = with_condition(found, "Evicted", False, "QuotaReserved", "Previously: preempted", at)
    found = _with_status(found, admission={"clusterQueue": "team", "podSetAssignments": assigned})
    return with_condition(found, "Admitted", True, "Admitted", "The workload is admitted", at)


def evicted(workload: Manifest, reason: str = "Preempted", at: float = START) -> Manifest:
    """The Workload that is to give its quota back."""
    return with_condition(workload, "Evicted", True, reason, "Preempted to accommodate a workload (UID: u)", at)


def with_condition(workload: Manifest, kind: str, holds: bool, reason: str, message: str, at: float) -> Manifest:
    """The Workload with one condition set."""
    status: Mapping[str, Any] = workload.get("status") or {}
    new = {"type": kind, "status": str(holds), "reason": reason, "message": message, "lastTransitionTime": format_time(at)}
    others = [one for one in status.get("conditions") or () if one["type"] != kind]
    return _with_status(workload, conditions=[*others, new])


def _with_status(workload: Manifest, **changes: Any) -> Manifest:
    return {**workload, "status": {**(workload.get("status") or {}), **changes}}


def plural_of(kind: str) -> str:
    """The plural of a kind."""
    return f"{kind.lower()}{'es' if kind.endswith('s') else 's'}"
