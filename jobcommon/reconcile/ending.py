"""How a pod ended and what follows from it: the table of exit codes and restart policies.

A pod's end is judged by its main container; a sidecar's exit code decides nothing. Without any exit code (evicted, node
lost, preempted) or when the pod was deleted while it ran, the end is a disruption: nobody's program failed. The reference
used the number 0xbeef for "no exit code" and so took evictions for retryable by accident
(reference: common/pod.go; our decision 11).
"""

import signal
from dataclasses import dataclass
from enum import StrEnum

from jobcommon.api.job import RestartPolicy
from jobcommon.api.pod import ContainerView, PodView, Terminated, Waiting
from jobcommon.api.replica import Replica

FIRST_RETRYABLE_CODE = 128
_IN_PLACE = (RestartPolicy.ALWAYS, RestartPolicy.ON_FAILURE)
# What the kubelet and the controllers write into pod.status.reason when the platform, not the program, ended the pod.
_PLATFORM_REASONS = frozenset({
    "Evicted", "NodeLost", "NodeShutdown", "Shutdown", "Terminated", "Preempting", "Preempted", "NodeAffinity",
    "UnexpectedAdmissionError", "OutOfcpu", "OutOfmemory", "OutOfpods", "TopologyAffinityError",
})  # fmt: skip


class Verdict(StrEnum):
    """What an end means for the job. STOPPED: the job was suspended, so its pods were taken away."""

    SUCCEEDED = "succeeded"
    RETRYABLE = "retryable"
    PERMANENT = "permanent"
    DISRUPTED = "disrupted"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of one pod. `deleted`: somebody asked for it while the pod ran."""

    verdict: Verdict
    reason: str
    exit_code: int | None = None
    message: str = ""
    finished_at: float | None = None
    deleted: bool = False

    def describe(self, replica: Replica, node: str) -> str:
        """One line: who, how, where, why."""
        how = f"exited with code {self.exit_code} ({self.reason})" if self.exit_code is not None else self.reason
        where = f" on node {node}" if node else ""
        tail = " ".join(self.message.split())
        return f"{replica}: {how}{where}" + (f": {tail}" if tail else "")


def is_over(pod: PodView) -> bool:
    """Whether none of the pod's processes can run any more.

    A pod that is being deleted is over only when the kubelet has said so (a terminal phase), when it never reached a
    node, or when its grace period was set to zero: by the kubelet's last word, by the pod garbage collector for a lost
    node, or by a user with --force.
    """
    if pod.phase in ("Succeeded", "Failed"):
        return True
    return pod.deletion_time is not None and (not pod.scheduled or pod.deletion_grace_seconds == 0)


def ending_of(pod: PodView, main_container: str, policy: RestartPolicy) -> Ending | None:
    """How `pod` ended, or None while it has not."""
    if not is_over(pod):
        return None
    run = _decisive_run(pod, main_container)
    if pod.deletion_time is not None and not _ended_before_deletion(pod, run):
        if pod.disruption is not None:
            return _without_fault(pod, policy)
        return Ending(Verdict.DISRUPTED, "Deleted", message=pod.message, finished_at=pod.deletion_time, deleted=True)
    if pod.phase == "Succeeded" or (run is not None and run.exit_code == 0):
        return Ending(Verdict.SUCCEEDED, "Completed", exit_code=0, finished_at=run.finished_at if run else None)
    code = None if run is None or _code_is_unknown(run) else run.exit_code
    if pod.disruption is not None or pod.reason in _PLATFORM_REASONS or run is None or code is None:
        return _without_fault(pod, policy, run)
    return Ending(
        verdict=_verdict(code, policy),
        reason=decode(run),
        exit_code=code,
        message=run.message or pod.message,
        finished_at=run.finished_at,
    )


def deletion_asked_at(pod: PodView) -> float:
    """When the deletion of the pod was asked for: the deletion timestamp lies the grace period later. Never: infinity."""
    return float("inf") if pod.deletion_time is None else pod.deletion_time - (pod.deletion_grace_seconds or 0)


def decode(run: Terminated) -> str:
    """The cause of a container's end in a word: the kubelet's (OOMKilled), or the signal's name, or Error."""
    if run.reason not in ("", "Error", "Completed"):
        return run.reason
    number = run.signal or (run.exit_code - FIRST_RETRYABLE_CODE if run.exit_code and run.exit_code > 128 else 0)
    try:
        return signal.Signals(number).name
    except ValueError:
        return run.reason or "Error"


def restarts_in_place(pod: PodView) -> int:
    """How often the kubelet has restarted containers of this pod, or was about to; init containers included."""
    restarts = 0
    for container in pod.init_containers + pod.containers:
        restarts += container.restart_count + _backs_off(container)
    return restarts


def failures_in_place(pod: PodView, policy: RestartPolicy) -> int:
    """The failed runs in a pod that still lives: its restarts, and each container whose run has just ended in failure."""
    restarts = restarts_in_place(pod)
    # Asked of every living pod at every look.
    if policy not in _IN_PLACE:
        return restarts
    return restarts + sum(_awaits_restart(container, policy) for container in pod.init_containers + pod.containers)


def _verdict(exit_code: int, policy: RestartPolicy) -> Verdict:
    if policy in _IN_PLACE:
        return Verdict.RETRYABLE
    if policy == RestartPolicy.EXIT_CODE and exit_code >= FIRST_RETRYABLE_CODE:
        return Verdict.RETRYABLE
    return Verdict.PERMANENT


def _code_is_unknown(run: Terminated) -> bool:
    """Whether the kubelet knows no exit code: after a crash of the node it fills in 137 for a container it cannot find."""
    return run.exit_code is None or run.reason == "ContainerStatusUnknown"


def _without_fault(pod: PodView, policy: RestartPolicy, run: Terminated | None = None) -> Ending:
    verdict = Verdict.PERMANENT if policy == RestartPolicy.NEVER else Verdict.DISRUPTED
    lost = run if run is not None and _code_is_unknown(run) else Terminated()
    reason = pod.reason or pod.disruption or lost.reason or "Lost"
    return Ending(verdict, reason, message=pod.message or lost.message, finished_at=pod.deletion_time or lost.finished_at)


def _decisive_run(pod: PodView, main_container: str) -> Terminated | None:
    """The run whose exit code counts: the main container's, or that of an init container which never let it start."""
    main = next((c for c in pod.containers if c.name == main_container), None)
    if main is not None and isinstance(main.state, Terminated):
        return main.state
    failed = (c.state for c in pod.init_containers if isinstance(c.state, Terminated) and c.state.exit_code != 0)
    return next(failed, None)


def _ended_before_deletion(pod: PodView, run: Terminated | None) -> bool:
    """Whether the main container had already ended when the deletion was asked for.

    With whole seconds on both sides, the same second counts as "deleted while it ran": a replica run once more costs
    less than a success that was none.
    """
    if pod.deletion_time is None or run is None or run.finished_at is None:
        return pod.deletion_time is None
    return run.finished_at < deletion_asked_at(pod)


def _backs_off(container: ContainerView) -> bool:
    return isinstance(container.state, Waiting) and container.state.reason == "CrashLoopBackOff"


def _awaits_restart(container: ContainerView, policy: RestartPolicy) -> bool:
    if not isinstance(container.state, Terminated):
        return False
    return policy == RestartPolicy.ALWAYS or container.state.exit_code != 0
