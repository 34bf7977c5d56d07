"""What to do next with one pod: a pure function of its spec, the states of its containers, and the time.

`decide` neither starts nor stops anything. It says which containers to start and stop now, what the pod's status is, and when
to ask again if nothing happens before. The rules are the real kubelet's (Pod lifecycle, Kubernetes 1.29 and later).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from localcluster.timestamps import parse_time

#: See testutil/sim/assumptions.toml.
ASSUMES = ("phases", "deleted-phase", "deleted-not-restarted", "grace-expired", "in-place", "pod-deadline", "init-failure")
Pod = Mapping[str, Any]
Container = Mapping[str, Any]

TERMINAL = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Settings:
    """Restart back-off, in seconds: the first restart is immediate, then `base` doubling up to `cap`; a run that lasted
    `reset` ends the streak."""

    base: float = 10.0
    cap: float = 300.0
    reset: float = 600.0


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a container. `finished_at` is None while it lasts; `image` is the one it was started with, "" if unknown."""

    attempt: int
    started_at: float
    container_id: str = ""
    finished_at: float | None = None
    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""
    image: str = ""

    @property
    def running(self) -> bool:
        """Whether its process has not ended."""
        return self.finished_at is None

    @property
    def failed(self) -> bool:
        """Whether it ended with another code than 0."""
        return not self.running and self.exit_code != 0


@dataclass(frozen=True, slots=True)
class ContainerState:
    """One container: its latest `run`, the one before it, why it cannot start, the results of its probes.

    `redefined`: its run was stopped because its image was changed, and it has not been tried again.
    """

    run: Run | None = None
    last: Run | None = None
    starting: bool = False
    waiting: tuple[str, str] | None = None  # reason and message of what keeps it from starting
    retry_at: float | None = None
    streak: int = 0  # restarts in a row that ended soon
    redefined: bool = False
    started: bool = False
    ready: bool = False

    @property
    def running(self) -> bool:
        """Whether its latest run has not ended."""
        return self.run is not None and self.run.running

    @property
    def ended(self) -> bool:
        """Whether its latest run has ended."""
        return self.run is not None and not self.run.running


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop a container: SIGTERM, and SIGKILL after `grace` seconds."""

    container: str
    grace: float


@dataclass
class Decision:
    """The next step. `phase`/`reason`/`message` are the pod's; `backing_off` maps containers to the delay they wait out,
    `redefined` are those that are stopped because their image has changed."""

    start: list[str] = field(default_factory=list)
    stop: list[Stop] = field(default_factory=list)
    redefined: list[str] = field(default_factory=list)
    backing_off: dict[str, float] = field(default_factory=dict)
    initialized: bool = False
    finish: bool = False
    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    wake_at: float | None = None

    def wake(self, at: float) -> None:
        """Ask again at `at` at the latest."""
        self.wake_at = at if self.wake_at is None else min(at, self.wake_at)


def is_sidecar(container: Container) -> bool:
    """An init container that keeps running beside the others (KEP-753)."""
    return container.get("restartPolicy") == "Always"


def is_redefined(container: Container, state: ContainerState) -> bool:
    """Whether the container has another image than its latest run."""
    return state.run is not None and state.run.image not in ("", container.get("image") or "")


def backoff(streak: int, settings: Settings) -> float:
    """Seconds to wait after the end of a run before the next, after `streak` short runs in a row."""
    if streak <= 0:
        return 0.0
    # The exponent is bounded so that a very long streak does not overflow.
    return float(min(settings.base * 2 ** min(streak - 1, 32), settings.cap))


def decide(pod: Pod, seen: Mapping[str, ContainerState], now: float, settings: Settings) -> Decision:
    """The next step for `pod`."""
    decision = Decision()
    spec, metadata, status = pod["spec"], pod["metadata"], pod.get("status") or {}
    inits: list[Container] = spec.get("initContainers") or []
    mains: list[Container] = spec["containers"]
    decision.initialized = all(_init_done(c, seen[c["name"]]) for c in inits) or any(
        seen[c["name"]].run is not None for c in mains
    )
    if metadata.get("deletionTimestamp"):
        _wind_down(decision, pod, seen, float(metadata.get("deletionGracePeriodSeconds") or 0))
        decision.finish = not decision.stop and not _alive(seen)
        decision.reason, decision.message = status.get("reason") or "", status.get("message") or ""
        if decision.finish and decision.phase not in TERMINAL:
            decision.phase = _last_phase(mains, seen)
        return decision
    if status.get("phase") in TERMINAL:
        decision.reason, decision.message = status.get("reason") or "", status.get("message") or ""
        _wind_down(decision, pod, seen, _grace(spec))
        return decision
    deadline = _deadline(pod)
    if deadline is not None and now >= deadline:
        _wind_down(decision, pod, seen, _grace(spec))
        if not _alive(seen):
            decision.phase = "Failed"
        decision.reason = "DeadlineExceeded"
        decision.message = "Pod was active on the node longer than the specified deadline"
        return decision
    if deadline is not None:
        decision.wake(deadline)
    policy = spec.get("restartPolicy") or "Always"
    outcome = _advance_inits(decision, inits, seen, policy, now, settings)
    if decision.initialized and outcome != "failed":
        outcome = _advance_mains(decision, mains, seen, policy, _grace(spec), now, settings)
    if outcome in ("failed", "succeeded"):
        decision.start = []
        decision.stop = _stop_sidecars(inits, seen, _grace(spec))
        if not decision.stop and not _alive(seen):
            decision.phase = "Failed" if outcome == "failed" else "Succeeded"
            return decision
    decision.phase = "Running" if all(seen[c["name"]].run is not None for c in mains) else "Pending"
    return decision


def _init_done(container: Container, seen: ContainerState) -> bool:
    if is_sidecar(container):
        return seen.started
    return seen.run is not None and not seen.run.running and seen.run.exit_code == 0


def _advance_inits(
    decision: Decision, inits: list[Container], seen: Mapping[str, ContainerState], policy: str, now: float, settings: Settings
) -> str:
    for container in inits:
        state = seen[container["name"]]
        if is_sidecar(container):
            if not state.running:
                _start(decision, container["name"], state, now, settings)
            if not state.started and not decision.initialized:
                return "waiting"
        elif decision.initialized or _init_done(container, state):
            continue
        else:
            if state.run is not None and state.run.failed and policy == "Never":
                return "failed"
            if not state.running:
                _start(decision, container["name"], state, now, settings)
            return "waiting"
    return "done"


def _advance_mains(
    decision: Decision,
    mains: list[Container],
    seen: Mapping[str, ContainerState],
    policy: str,
    grace: float,
    now: float,
    settings: Settings,
) -> str:
    """A container whose image has changed is stopped and started once more, whatever the policy. The back-off is that of the
    container with this image, so it begins anew."""
    ended = failed = 0
    for container in mains:
        state = seen[container["name"]]
        run, redefined = state.run, is_redefined(container, state)
        if run is not None and run.running and redefined:
            decision.stop.append(Stop(container["name"], grace))
            decision.redefined.append(container["name"])
        restarts = policy == "Always" or (policy == "OnFailure" and run is not None and run.failed)
        if run is None or (not run.running and (restarts or (redefined and state.redefined))):
            _start(decision, container["name"], replace(state, streak=0) if redefined else state, now, settings)
        elif not run.running:
            ended += 1
            failed += run.failed
    if ended < len(mains):
        return "running"
    return "failed" if failed else "succeeded"


def _start(decision: Decision, name: str, state: ContainerState, now: float, settings: Settings) -> None:
    if state.starting:
        return
    due = state.retry_at or 0.0
    if state.run is not None and state.run.finished_at is not None:
        delay = backoff(state.streak, settings)
        if state.run.finished_at + delay > now:
            decision.backing_off[name] = delay
        due = max(due, state.run.finished_at + delay)
    if due > now:
        decision.wake(due)
    else:
        decision.start.append(name)


def _alive(seen: Mapping[str, ContainerState]) -> bool:
    return any(state.running or state.starting for state in seen.values())


def _grace(spec: Mapping[str, Any]) -> float:
    grace = spec.get("terminationGracePeriodSeconds")
    return 30.0 if grace is None else float(grace)


def _deadline(pod: Pod) -> float | None:
    seconds = pod["spec"].get("activeDeadlineSeconds")
    start = (pod.get("status") or {}).get("startTime")
    return None if seconds is None or start is None else parse_time(start) + float(seconds)


def _wind_down(decision: Decision, pod: Pod, seen: Mapping[str, ContainerState], grace: float) -> None:
    """Stop everything, the sidecars last; the phase stays what it was."""
    inits: list[Container] = pod["spec"].get("initContainers") or []
    sidecars = {c["name"] for c in inits if is_sidecar(c)}
    others = [name for name, state in seen.items() if state.running and name not in sidecars]
    decision.stop = [Stop(name, grace) for name in others] or _stop_sidecars(inits, seen, grace)
    decision.phase = (pod.get("status") or {}).get("phase") or "Pending"


def _stop_sidecars(inits: list[Container], seen: Mapping[str, ContainerState], grace: float) -> list[Stop]:
    """The last started sidecar that still runs, if any: they end in the reverse of their starting order."""
    for container in reversed(inits):
        if is_sidecar(container) and seen[container["name"]].running:
            return [Stop(container["name"], grace)]
    return []


def _last_phase(mains: list[Container], seen: Mapping[str, ContainerState]) -> str:
    """The phase a deleted pod ends with: nothing is restarted any more, so each container's last exit code stands."""
    runs = [seen[c["name"]].run for c in mains]
    return "Succeeded" if all(run is not None and run.exit_code == 0 for run in runs) else "Failed"
