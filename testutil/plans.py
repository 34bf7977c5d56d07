"""Making and reading plans in tests, without a cluster: one pass after the other by hand."""

from collections.abc import Mapping
from typing import Any

from jobcommon.api.status import JobStatus
from jobcommon.framework import Framework
from jobcommon.reconcile import Create, Delete, Plan, plan
from jobcommon.spec import read_job
from jobcommon.testutil.builders import START, Manifest, observe

NOW = START + 60


def decide(framework: Framework, manifest: Manifest, pods: Mapping[str, str], now: float = NOW) -> Plan:
    """The plan for a job whose Services exist, with the pods that `observe` makes of `pods`."""
    return plan(framework, read_job(framework, manifest), observe(framework, manifest, pods), now)


def next_pass(manifest: Manifest, decision: Plan) -> Manifest:
    """The job once the status of `decision` is written."""
    return {**manifest, "status": decision.status.to_json()} if decision.status else manifest


def pods_of(kind: str, *groups: tuple[str, int]) -> dict[str, str]:
    """Pods from index 0 in the order of the groups: ``pods_of("Worker", ("running", 2), ("failed 1", 1))``."""
    states = [state for state, count in groups for _ in range(count)]
    return {f"{kind}-{index}": state for index, state in enumerate(states)}


def creates(decision: Plan, plural: str = "pods") -> list[str]:
    """The names of what the plan creates."""
    return [action.name for action in decision.actions if isinstance(action, Create) and action.plural == plural]


def deletes(decision: Plan, plural: str = "pods") -> list[str]:
    """The names of what the plan deletes."""
    return [action.name for action in decision.actions if isinstance(action, Delete) and action.plural == plural]


def status_of(decision: Plan) -> JobStatus:
    """The status that the plan writes."""
    assert decision.status is not None
    return decision.status


def holding(decision: Plan) -> list[str]:
    """The types of the conditions that are True in the plan's status."""
    return [str(c.type) for c in status_of(decision).conditions if c.is_true]


def conditions(decision: Plan) -> list[str]:
    """The conditions of the plan's status, in words."""
    return [f"{c.type}={c.status[0]} {c.reason}: {c.message}" for c in status_of(decision).conditions]


def counts(decision: Plan, kind: str) -> str:
    """active/succeeded/failed of one replica type in the plan's status."""
    status: Any = status_of(decision).replica_statuses[kind]
    return f"{status.active or 0}/{status.succeeded or 0}/{status.failed or 0}"
