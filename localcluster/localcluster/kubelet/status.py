"""The pod's status, from a decision and the states of the containers. Pure."""

from collections.abc import Mapping
from typing import Any

from localcluster.kubelet.images import image_id
from localcluster.kubelet.lifecycle import TERMINAL, Container, ContainerState, Decision, Pod, Run, is_sidecar
from localcluster.timestamps import format_time


def pod_status(
    pod: Pod, seen: Mapping[str, ContainerState], decision: Decision, address: str, host_address: str, now: float
) -> dict[str, Any]:
    """The fields of ``status`` the kubelet owns; None means the field is to be absent."""
    spec, before = pod["spec"], pod.get("status") or {}
    inits: list[Container] = spec.get("initContainers") or []
    mains: list[Container] = spec["containers"]
    return {
        "phase": decision.phase,
        "reason": decision.reason or None,
        "message": decision.message or None,
        "hostIP": host_address,
        "hostIPs": [{"ip": host_address}],
        "podIP": address,
        "podIPs": [{"ip": address}],
        "qosClass": before.get("qosClass"),
        "startTime": before.get("startTime") or format_time(now),
        "conditions": _conditions(pod, seen, decision, now),
        "containerStatuses": [_container_status(pod, c, seen, decision, bool(inits)) for c in mains],
        "initContainerStatuses": [_container_status(pod, c, seen, decision, False) for c in inits] or None,
        "observedGeneration": pod["metadata"].get("generation"),
    }


def _conditions(pod: Pod, seen: Mapping[str, ContainerState], decision: Decision, now: float) -> list[dict[str, Any]]:
    spec = pod["spec"]
    finished = decision.phase in TERMINAL
    why = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(decision.phase, "ContainersNotReady")
    watched = [c for c in spec["containers"] + (spec.get("initContainers") or []) if c in spec["containers"] or is_sidecar(c)]
    unready = [c["name"] for c in watched if not (seen[c["name"]].running and seen[c["name"]].ready)]
    message = "" if finished else f"containers with unready status: [{' '.join(unready)}]"
    containers_ready = not unready and not finished
    unwell = ("", "") if containers_ready else (why, message)
    known = {c["type"]: c for c in (pod.get("status") or {}).get("conditions") or []}
    incomplete = [c["name"] for c in spec.get("initContainers") or [] if not _completed(c, seen[c["name"]])]
    wanted: list[tuple[str, bool, str, str]] = [
        ("PodScheduled", True, "", ""),
        ("PodReadyToStartContainers", not finished, "", ""),
        (
            "Initialized",
            decision.initialized,
            "PodCompleted" if decision.phase == "Succeeded" else "" if decision.initialized else "ContainersNotInitialized",
            "" if decision.initialized else f"containers with incomplete status: [{' '.join(incomplete)}]",
        ),
        ("ContainersReady", containers_ready, *unwell),
        ("Ready", containers_ready, *unwell),
    ]
    return [_condition(known.get(kind), kind, value, reason, text, now) for kind, value, reason, text in wanted]


def _completed(container: Container, state: ContainerState) -> bool:
    return state.started if is_sidecar(container) else state.run is not None and state.ended and state.run.exit_code == 0


def _condition(
    before: Mapping[str, Any] | None, kind: str, value: bool, reason: str, message: str, now: float
) -> dict[str, Any]:
    status = "True" if value else "False"
    same = before is not None and before.get("status") == status
    # The status is patched: a field that is left out stays as it is.
    return {
        "type": kind,
        "status": status,
        "lastProbeTime": None,
        "lastTransitionTime": before["lastTransitionTime"] if same and before else format_time(now),
        "reason": reason or None,
        "message": message or None,
    }


def _container_status(
    pod: Pod, container: Container, seen: Mapping[str, ContainerState], decision: Decision, after_init: bool
) -> dict[str, Any]:
    name, image = container["name"], container.get("image") or ""
    state = seen[name]
    run = state.run
    ready = state.ready and state.running
    if run is not None and run.finished_at is not None and container in (pod["spec"].get("initContainers") or []):
        ready = not is_sidecar(container) and run.exit_code == 0
    shown, last = _states(pod, name, state, decision, after_init)
    return {
        "name": name,
        "image": image,
        "imageID": image_id(run.image or image) if run is not None else "",
        "containerID": run.container_id if run is not None else "",
        "restartCount": run.attempt if run is not None else 0,
        "ready": ready,
        "started": state.started and state.running,
        "state": shown,
        "lastState": {"terminated": _terminated(last)} if last is not None else {},
    }


def _states(
    pod: Pod, name: str, state: ContainerState, decision: Decision, after_init: bool
) -> tuple[dict[str, Any], Run | None]:
    """The current state, and the run that is the last state."""
    run = state.run
    if run is not None and run.running:
        return {"running": {"startedAt": format_time(run.started_at)}}, state.last
    if state.waiting is not None and decision.phase not in TERMINAL:
        return {"waiting": _waiting(*state.waiting)}, run or state.last
    if name in decision.backing_off and run is not None:
        metadata = pod["metadata"]
        delay = decision.backing_off[name]
        text = f"back-off {delay:g}s restarting failed container={name} "
        text += f"pod={metadata['name']}_{metadata['namespace']}({metadata['uid']})"
        return {"waiting": _waiting("CrashLoopBackOff", text)}, run
    if run is not None:
        return {"terminated": _terminated(run)}, state.last
    reason = "PodInitializing" if after_init else "ContainerCreating"
    return {"waiting": _waiting(reason, "")}, state.last


def _waiting(reason: str, message: str) -> dict[str, Any]:
    return {"reason": reason, "message": message} if message else {"reason": reason}


def _terminated(run: Run) -> dict[str, Any]:
    terminated: dict[str, Any] = {
        "exitCode": run.exit_code,
        "reason": run.reason,
        "startedAt": format_time(run.started_at),
        "finishedAt": format_time(run.finished_at or run.started_at),
        "containerID": run.container_id,
    }
    if run.signal:
        terminated["signal"] = run.signal
    if run.message:
        terminated["message"] = run.message
    return terminated
