"""The state of a pod after a restart of the kubelet: from the status it wrote, and the logs of runs it could not report."""

from pathlib import Path
from typing import Any

from localcluster.kubelet.lifecycle import ContainerState, Pod, Run
from localcluster.timestamps import parse_time

LOST_CODE = 137
LOST_REASON = "ContainerStatusUnknown"
LOST_MESSAGE = "The container ended together with the cluster that ran it"


def recover(pod: Pod, logs: Path, now: float) -> dict[str, ContainerState]:
    """The containers' last known state. No process outlives its kubelet, so what was running has ended with exit code 137.

    A run that began after the last status was written left its log file: it is counted too, so no run goes unnoticed.
    """
    status = pod.get("status") or {}
    known = {s["name"]: s for key in ("initContainerStatuses", "containerStatuses") for s in status.get(key) or []}
    specs = [*(pod["spec"].get("initContainers") or []), *pod["spec"]["containers"]]
    return {spec["name"]: _seen(known.get(spec["name"]), _last_logged(logs / spec["name"]), now) for spec in specs}


def _last_logged(directory: Path) -> int | None:
    attempts = [int(path.stem) for path in directory.glob("*.log") if path.stem.isdigit()] if directory.exists() else []
    return max(attempts, default=None)


def _seen(status: dict[str, Any] | None, logged: int | None, now: float) -> ContainerState:
    run, last = _runs(status, now) if status else (None, None)
    if logged is not None and (run is None or logged > run.attempt):
        run, last = _lost(logged, now, "", now), run
    return ContainerState(
        run=run, last=last, streak=0 if run is None else run.attempt, started=run is not None and run.exit_code == 0
    )


def _runs(status: dict[str, Any], now: float) -> tuple[Run | None, Run | None]:
    state, last, count = status.get("state") or {}, status.get("lastState") or {}, status.get("restartCount", 0)
    before = _terminated(last["terminated"], count) if "terminated" in last else None
    if "terminated" in state:
        return _terminated(state["terminated"], count), before
    if "running" in state:
        return _lost(count, parse_time(state["running"]["startedAt"]), status.get("containerID", ""), now), before
    # Waiting out a back-off: the run that ended is shown as the last state already.
    return before, None


def _terminated(state: dict[str, Any], attempt: int) -> Run:
    return Run(
        attempt, parse_time(state["startedAt"]), state.get("containerID") or "", parse_time(state["finishedAt"]),
        state["exitCode"], state.get("signal") or 0, state.get("reason") or "", state.get("message") or "",
    )  # fmt: skip


def _lost(attempt: int, started: float, identity: str, now: float) -> Run:
    return Run(attempt, started, identity, now, LOST_CODE, 9, LOST_REASON, LOST_MESSAGE)
