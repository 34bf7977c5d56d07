"""What may become of a pod next: each move is one request of the scheduler or of a kubelet, and what it costs of the budget.

What a kubelet decides and reports are `localcluster.kubelet.lifecycle.decide` and `pod_status`, as in the simulator and in the
embedded cluster. What its containers did is read back from the status that it wrote last.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import msgspec

from jobcommon.client.request import STRATEGIC_PATCH, Request
from jobcommon.localcluster.kubelet.lifecycle import TERMINAL, ContainerState, Decision, Run, Settings, decide
from jobcommon.localcluster.kubelet.status import pod_status
from jobcommon.localcluster.timestamps import format_time
from jobcommon.testutil.builders import START
from jobcommon.testutil.exhaust.objects import PODS, Content, Obj
from jobcommon.testutil.exhaust.server import collection

ASSUMES = ("binding", "phases", "deleted-phase", "deleted-not-restarted", "last-delete", "in-place", "kubelet-eviction")
RETRYABLE, PERMANENT, TERMINATED = 137, 1, 143


@dataclass(frozen=True)
class Move:
    """One thing that may happen to a pod. `failures` and `evictions` are what it takes of the budget."""

    name: str
    request: Request
    failures: int = 0
    evictions: int = 0


@cache
def moves(pod: Content, failing: tuple[int, ...]) -> tuple[Move, ...]:
    """All moves from the stored state of a pod. `failing` are the exit codes with which it may fail."""
    return tuple(_moves(pod, failing))


def _moves(pod: Content, failing: tuple[int, ...]) -> Iterator[Move]:
    obj, status = pod.obj, pod.obj.get("status") or {}
    deleting, phase = "deletionTimestamp" in obj["metadata"], status.get("phase") or "Pending"
    path = f"{collection(PODS)}/{pod.name}"
    if not obj["spec"].get("nodeName"):
        if not deleting and phase not in TERMINAL:
            body = {"metadata": {"name": pod.name}, "target": {"apiVersion": "v1", "kind": "Node", "name": "node-1"}}
            yield Move("is scheduled", Request("POST", f"{path}/binding", body=msgspec.json.encode(body)))
        return
    state = _container(status)
    if phase in TERMINAL:
        if deleting and obj["metadata"].get("deletionGracePeriodSeconds") != 0:
            options = {"gracePeriodSeconds": 0, "preconditions": {"uid": obj["metadata"]["uid"]}}
            yield Move("is gone from its node", Request("DELETE", path, body=msgspec.json.encode(options)))
    elif deleting and not state.running:
        yield Move("is stopped", _report(pod, state))
    elif deleting:
        for code in (TERMINATED, 0):
            yield Move(f"is stopped, exits with {code}", _report(pod, _ended(state, code)))
    elif not state.running:
        yield Move("runs" if state.run is None else "is restarted in place", _report(pod, _started(state)))
    else:
        # Under Always the exit code makes no difference: it runs again, and the restart is charged.
        if obj["spec"].get("restartPolicy") != "Always":
            yield Move("exits with 0", _report(pod, _ended(state, 0)))
        for code in failing:
            yield Move(f"exits with {code}", _report(pod, _ended(state, code)), failures=1)
        yield Move("is evicted", _report(pod, _ended(state, RETRYABLE), evicted=True), evictions=1)


def _container(status: Mapping[str, Any]) -> ContainerState:
    """The state of the main container as it was reported last."""
    reported = next(iter(status.get("containerStatuses") or ()), None)
    state = (reported or {}).get("state") or {}
    if reported is None or not ("running" in state or "terminated" in state):
        return ContainerState()
    attempt = reported["restartCount"]
    last = Run(attempt - 1, START, finished_at=START, exit_code=RETRYABLE, reason="Error") if attempt else None
    if "running" in state:
        return ContainerState(run=Run(attempt, START), last=last, started=True, ready=True)
    ended = state["terminated"]
    return ContainerState(run=Run(attempt, START, "", START, ended["exitCode"], reason=ended["reason"]), last=last)


def _started(state: ContainerState) -> ContainerState:
    attempt = 0 if state.run is None else state.run.attempt + 1
    return ContainerState(run=Run(attempt, START), last=state.run, started=True, ready=True)


def _ended(state: ContainerState, code: int) -> ContainerState:
    assert state.run is not None
    run = replace(state.run, finished_at=START, exit_code=code, reason="Error" if code else "Completed")
    return ContainerState(run=run, last=state.last)


def _report(pod: Content, state: ContainerState, *, evicted: bool = False) -> Request:
    """The kubelet's write of the status that follows."""
    seen = {one["name"]: state for one in pod.obj["spec"]["containers"]}
    message = "The node was low on resource: memory."
    decision = decide(pod.obj, seen, START, Settings())
    if evicted:
        decision = Decision(initialized=True, phase="Failed", reason="Evicted", message=message)
    status = pod_status(pod.obj, seen, decision, "10.244.0.1", "10.0.0.1", START)
    if evicted:
        why: Obj = {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet", "message": message}
        status["conditions"] = [*status["conditions"], {**why, "lastTransitionTime": format_time(START), "lastProbeTime": None}]
    body = {"metadata": {"uid": pod.obj["metadata"]["uid"]}, "status": status}
    path = f"{collection(PODS)}/{pod.name}/status"
    return Request("PATCH", path, body=msgspec.json.encode(body), content_type=STRATEGIC_PATCH)
