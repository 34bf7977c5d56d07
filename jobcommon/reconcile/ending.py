"""How a pod ended and what follows from it: the table of exit codes and restart policies.

The platform's reason takes precedence over the program's: a disruption, or a deletion before the pod's end was recorded, is
the cause of its end, regardless of the exit code. No timestamp is compared for it: a kubelet's last DELETE sets
deletionTimestamp to the time of that DELETE (API servers since 1.33), and nodes have clocks of their own. Otherwise the main
container decides; the exit codes of other containers are ignored. Without any exit code no program failed (the reference used
the number 0xbeef for "no exit code" and so treated evictions as retryable by accident; reference: common/pod.go).
"""

from dataclasses import dataclass, replace
from enum import Enum, StrEnum

import msgspec

from jobcommon.api import reasons
from jobcommon.api.job import RestartPolicy
from jobcommon.api.pod import STOPPING_TAG, ContainerView, PodView, Running, Terminated, Waiting

FIRST_RETRYABLE_CODE = 128
# A shell and a container runtime give the number of the signal that ended a program on top of this.
_SIGNAL_BASE = 128
_IN_PLACE = (RestartPolicy.ALWAYS, RestartPolicy.ON_FAILURE)
# What the kubelet and the controllers write into pod.status.reason when the platform, not the program, ended the pod.
PLATFORM_REASONS = frozenset({
    "Evicted", "NodeLost", "NodeShutdown", "Shutdown", "Terminated", "Preempting", "Preempted", "NodeAffinity",
    "UnexpectedAdmissionError", "OutOfcpu", "OutOfmemory", "OutOfpods", "TopologyAffinityError",
})  # fmt: skip
# The kubelet's reason when a pod has exceeded the activeDeadlineSeconds of its own spec.
_POD_DEADLINE = "DeadlineExceeded"
PATIENCE_SECONDS = 3600.0
"""A program may wait so long for a peer, or for another container of its pod, that has ended."""
RESTARTED = "Restarted"
"""The reason of a program that ended with code 0 and that the kubelet has started again."""
_BY_KUBELET = "the kubelet has ended it and started it again, as it does after a failed livenessProbe"
STOPPED_BY_IMAGE = "StoppedByImage"
"""The reason of a pod that another client has stopped as the operator does for a restart in place."""
STOPPED = "Stopped"
"""The reason of a replica that still ran when its job failed, and that we have stopped then."""
_ENDED = ("Succeeded", "Failed")
_SIDECAR = "Always"
_NEVER = "Never"

# With these exit codes a program ends that was asked to stop.
_OF_STOP = (0, _SIGNAL_BASE + 9, _SIGNAL_BASE + 15)

# By number, on Linux, where pods run; the operator's own system may count differently.
SIGNALS = (
    "SIGHUP", "SIGINT", "SIGQUIT", "SIGILL", "SIGTRAP", "SIGABRT", "SIGBUS", "SIGFPE", "SIGKILL", "SIGUSR1", "SIGSEGV",
    "SIGUSR2", "SIGPIPE", "SIGALRM", "SIGTERM", "SIGSTKFLT", "SIGCHLD", "SIGCONT", "SIGSTOP", "SIGTSTP", "SIGTTIN",
    "SIGTTOU", "SIGURG", "SIGXCPU", "SIGXFSZ", "SIGVTALRM", "SIGPROF", "SIGWINCH", "SIGIO", "SIGPWR", "SIGSYS",
)  # fmt: skip


class EndType(StrEnum):
    """What an end means for the job. STOPPED: the job was suspended; the end is not counted."""

    SUCCEEDED = "succeeded"
    RETRYABLE = "retryable"
    PERMANENT = "permanent"
    DISRUPTED = "disrupted"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of one pod. `init_container`: the one whose end it is, "" for the main container; `deleted`: the pod was deleted
    before its end was recorded. `before`: another container of the pod that had failed before, and its run.
    """

    type: EndType
    reason: str
    exit_code: int | None = None
    message: str = ""
    finished_at: float | None = None
    init_container: str = ""
    deleted: bool = False
    before: tuple[str, Terminated] | None = None

    @property
    def where(self) -> str:
        """In which container, if not in the main one."""
        return f" (init container {self.init_container})" if self.init_container else ""


class Life(Enum):
    """Whether the processes of a pod run: all that matters of its phase and of its deletionTimestamp."""

    PENDING = "pending"
    """They do not run yet."""
    RUNNING = "running"
    LEAVING = "leaving"
    """It is being deleted, and they may still run."""
    OVER = "over"
    """None can run any more."""
    REMOVED = "removed"
    """It is being deleted, and none can run any more."""


def life_of(pod: PodView) -> Life:
    """What is left of the pod's life."""
    if pod.deletion_time is not None:
        return Life.REMOVED if is_over(pod) else Life.LEAVING
    if pod.phase in _ENDED:
        return Life.OVER
    return Life.RUNNING if pod.phase == "Running" else Life.PENDING


def is_over(pod: PodView) -> bool:
    """Whether none of the pod's processes can run any more.

    A terminating pod has ended only when the kubelet has reported it (a terminal phase), when it was never bound to a
    node, or when its grace period was set to zero: by the kubelet's last DELETE, by the pod garbage collector for a lost
    node, or by a user with --force.
    """
    if pod.phase in _ENDED:
        return True
    return pod.deletion_time is not None and (not pod.scheduled or pod.deletion_grace_seconds == 0)


def runs_undisturbed(pod: PodView, earlier_runs: int = 0) -> bool:
    """Whether the pod runs and none of its containers has ended or restarted, so that there is nothing to count.

    `earlier_runs` of its containers were restarted with their job. Called for every pod in every pass, and true for most.
    """
    if pod.phase != "Running" or pod.deletion_time is not None:
        return False
    restarts = 0
    for container in pod.containers:
        if not isinstance(container.state, Running):
            return False
        restarts += container.restart_count
    return restarts + sum([container.restart_count for container in pod.init_containers]) == earlier_runs


def ending_of(pod: PodView, main_container: str, policy: RestartPolicy) -> Ending | None:
    """How `pod` ended, or None while it has not. It has when its main container has failed for good."""
    if not is_over(pod) and not main_failed(pod, main_container):
        return None
    init, run = _decisive_run(pod, main_container)
    if pod.reason == _POD_DEADLINE:
        return _out_of_time(pod, policy, run)
    if (by_others := ending_by_others(pod, policy, run)) is not None:
        return by_others
    if pod.phase == "Succeeded" or (run is not None and run.exit_code == 0):
        return Ending(EndType.SUCCEEDED, "Completed", exit_code=0, finished_at=run.finished_at if run else None)
    if run is None or _code_is_unknown(run) or run.exit_code is None:
        return _without_fault(pod, policy, run)
    return Ending(
        type=_type_of(run.exit_code, policy),
        reason=decode(run),
        exit_code=run.exit_code,
        message=run.message or pod.message,
        finished_at=run.finished_at,
        init_container=init,
        before=_failed_before(pod, main_container, run.finished_at) if not init else None,
    )


def last_run(pod: PodView, main_container: str) -> Ending | None:
    """How the main container ended of a pod that we have stopped with its job: by the platform, or not with exit code 0; or the
    init container that still ran.
    """
    main = _container(pod, main_container)
    run = main.state if main is not None else None
    if not isinstance(run, Terminated) or _code_is_unknown(run):
        # The kubelet fills in an end for a container that it has not started.
        stopped = (
            Ending(EndType.STOPPED, STOPPED, c.state.exit_code, c.state.message, c.state.finished_at, c.name)
            for c in pod.init_containers
            if c.restart_policy != _SIDECAR and isinstance(c.state, Terminated) and c.state.exit_code
            if not _code_is_unknown(c.state)
        )
        return next(stopped, None)
    if pod.disruption is not None or pod.reason in PLATFORM_REASONS:
        # A node that shuts down stops the program, whose peers fail, before the kubelet reports why.
        return replace(_without_fault(pod, RestartPolicy.NEVER), finished_at=run.finished_at)
    return Ending(EndType.STOPPED, STOPPED, run.exit_code, run.message, run.finished_at) if run.exit_code else None


def stopped_by_image(pod: PodView, main_container: str, policy: RestartPolicy) -> Ending | None:
    """How a pod ends whose main container does not run because its image is such as the operator sets to stop it."""
    main = _container(pod, main_container)
    if main is None or STOPPING_TAG not in main.image or isinstance(main.state, Running) or pod.deletion_time is not None:
        return None
    return replace(_without_fault(pod, policy), reason=STOPPED_BY_IMAGE, message=f"its image is {main.image}")


def ending_by_others(pod: PodView, policy: RestartPolicy, run: Terminated | None = None) -> Ending | None:
    """How a pod ends that the platform ends or that is being deleted, whatever its programs say; None for another."""
    if pod.disruption is not None or pod.reason in PLATFORM_REASONS:
        return _without_fault(pod, policy, run)
    if pod.deletion_time is None:
        return None
    # A program with another code may have failed before it was asked to stop.
    at = (run.finished_at if run is not None and run.exit_code in _OF_STOP else None) or pod.deletion_time
    return Ending(EndType.DISRUPTED, "Deleted", message=pod.message, finished_at=at, deleted=True)


def main_failed(pod: PodView, main_container: str) -> bool:
    """Whether the main container has failed for good while another container keeps the pod running.

    The kubelet does not restart it, so the pod would wait for the other one for ever. Native sidecars end with the pod.
    """
    if pod.restart_policy != _NEVER or pod.deletion_time is not None or is_over(pod):
        return False
    main = _container(pod, main_container)
    # A container with a restart policy of its own may be started again.
    if main is None or main.restart_policy or not isinstance(main.state, Terminated) or not main.state.exit_code:
        return False
    return bool(left_running(pod))


def failed_in_place(pod: PodView, main_container: str, earlier_runs: int, policy: RestartPolicy) -> Ending | None:
    """How the latest run in a pod that still lives has failed, if more runs of it have failed than `earlier_runs`.

    A main container that ended with code 0 and runs again has not ended by itself: its peers have lost it all the same.
    """
    main = _container(pod, main_container)
    if main is not None and main.restart_count > earlier_runs and main.last is not None and main.last.exit_code == 0:
        return Ending(EndType.RETRYABLE, RESTARTED, 0, _BY_KUBELET, main.last.finished_at)
    if failures_in_place(pod, RestartPolicy.ON_FAILURE) <= earlier_runs or (run := last_failure_in_place(pod)) is None:
        return None
    if run.exit_code is None or _code_is_unknown(run):
        return _without_fault(pod, policy, run)
    kind, init = _type_of(run.exit_code, policy), init_of(pod, run)
    return Ending(kind, decode(run), run.exit_code, run.message, run.finished_at, init)


def init_of(pod: PodView, run: Terminated) -> str:
    """The init container whose run this is, "" for one of another container."""
    inits = (container for container in pod.init_containers if container.restart_policy != _SIDECAR)
    return next((container.name for container in inits if run is container.state or run is container.last), "")


class FailedRuns(msgspec.Struct, frozen=True, gc=False):
    """The failed runs in a pod whose end is not on record: `charged` to backoffLimit, without that which ended the pod;
    `restarted`, those after which the kubelet has started the container again; and the `last` of all.
    """

    charged: int = 0
    restarted: int = 0
    last: Terminated | None = None


NO_FAILED_RUNS = FailedRuns()


def failed_runs(pod: PodView, policy: RestartPolicy, *, ended: bool) -> FailedRuns:
    """The failed runs in the pod, which has `ended` or still lives."""
    if not any(c.restart_count or c.last or isinstance(c.state, Terminated) for c in pod.containers + pod.init_containers):
        return NO_FAILED_RUNS
    last = last_failure_in_place(pod)
    earlier = restarts_in_place(pod, policy)
    backing_off = sum(_backs_off(container) for container in charged_containers(pod))
    charged = earlier if ended else failures_in_place(pod, policy)
    return FailedRuns(charged, earlier - backing_off, last)


def last_failure_in_place(pod: PodView) -> Terminated | None:
    """The latest failed run of a container in a pod that still lives."""
    for container in charged_containers(pod):
        run = container.state if isinstance(container.state, Terminated) else container.last
        if run is not None and run.exit_code != 0:
            return run
    return None


def left_running(pod: PodView) -> tuple[str, ...]:
    """The names of the containers that have not ended, without native sidecars, which end with the pod."""
    return tuple(c.name for c in pod.containers if not isinstance(c.state, Terminated))


def awaited(pod: PodView, main_container: str) -> tuple[str, ...]:
    """The names of the containers for which a pod waits whose main container has succeeded."""
    main = _container(pod, main_container)
    if pod.restart_policy == "Always" or pod.deletion_time is not None or is_over(pod) or main is None:
        return ()
    return left_running(pod) if isinstance(main.state, Terminated) and main.state.exit_code == 0 else ()


def decode(run: Terminated) -> str:
    """The cause of a container's end in a word: the kubelet's (OOMKilled), or the signal's name, or Error."""
    if run.reason not in ("", "Error", "Completed"):
        return run.reason
    number = run.signal or (run.exit_code - _SIGNAL_BASE if run.exit_code and run.exit_code > _SIGNAL_BASE else 0)
    return SIGNALS[number - 1] if 0 < number <= len(SIGNALS) else run.reason or "Error"


def charged_containers(pod: PodView) -> tuple[ContainerView, ...]:
    """The containers whose failed runs count: all but native sidecars."""
    return (*pod.containers, *(c for c in pod.init_containers if c.restart_policy != _SIDECAR))


def restarts_in_place(pod: PodView, policy: RestartPolicy) -> int:
    """The number of failed runs in this pod that the kubelet has restarted, or is about to.

    Native sidecars are ignored. A restart after a successful run is a failure only under Always; otherwise an init container
    ran again in a new sandbox, or a container was resized. Only the result of the last run is known.
    """
    always = policy == RestartPolicy.ALWAYS
    restarts = 0
    for container in pod.init_containers:
        if container.restart_policy != _SIDECAR:
            restarts += container.restart_count + _backs_off(container) - _followed_success(container)
    for container in pod.containers:
        restarts += container.restart_count + _backs_off(container) - (not always and _followed_success(container))
    return restarts


def failures_in_place(pod: PodView, policy: RestartPolicy) -> int:
    """The failed runs in a pod that still lives: its restarts, and each container whose run has just ended in failure."""
    restarts = restarts_in_place(pod, policy)
    # Called for every living pod in every pass. In a terminating pod nothing is restarted.
    if policy not in _IN_PLACE or pod.deletion_time is not None:
        return restarts
    restarts += sum(_awaits_restart(c, RestartPolicy.ON_FAILURE) for c in pod.init_containers if c.restart_policy != _SIDECAR)
    return restarts + sum(_awaits_restart(container, policy) for container in pod.containers)


def _type_of(exit_code: int, policy: RestartPolicy) -> EndType:
    if policy in _IN_PLACE:
        return EndType.RETRYABLE
    if policy == RestartPolicy.EXIT_CODE and exit_code >= FIRST_RETRYABLE_CODE:
        return EndType.RETRYABLE
    return EndType.PERMANENT


def _code_is_unknown(run: Terminated) -> bool:
    """Whether the kubelet knows no exit code: after a crash of the node it fills in 137 for a container it cannot find."""
    return run.exit_code is None or run.reason == "ContainerStatusUnknown"


def _without_fault(pod: PodView, policy: RestartPolicy, run: Terminated | None = None) -> Ending:
    kind = EndType.PERMANENT if policy == RestartPolicy.NEVER else EndType.DISRUPTED
    lost = run if run is not None and _code_is_unknown(run) else Terminated()
    reason = pod.reason or pod.disruption or lost.reason or "Lost"
    return Ending(kind, reason, message=pod.message or lost.message, finished_at=pod.deletion_time or lost.finished_at)


def _out_of_time(pod: PodView, policy: RestartPolicy, run: Terminated | None) -> Ending:
    """A run that was killed at its own deadline has failed, also when it answers with exit 0: charged as any killed run."""
    kind = EndType.PERMANENT if policy == RestartPolicy.NEVER else EndType.RETRYABLE
    code = None if run is None or _code_is_unknown(run) else run.exit_code or None
    return Ending(kind, _POD_DEADLINE, code, message=pod.message, finished_at=run.finished_at if run else None)


def _container(pod: PodView, name: str) -> ContainerView | None:
    for container in pod.containers:
        if container.name == name:
            return container
    return None


def _decisive_run(pod: PodView, main_container: str) -> tuple[str, Terminated | None]:
    """The run whose exit code counts: the main container's, or that of the named init container which never let it start."""
    main = _container(pod, main_container)
    if main is not None and isinstance(main.state, Terminated):
        return "", main.state
    inits = (c for c in pod.init_containers if c.restart_policy != _SIDECAR)
    return next(((c.name, c.state) for c in inits if isinstance(c.state, Terminated) and c.state.exit_code != 0), ("", None))


def _failed_before(pod: PodView, main_container: str, at: float | None) -> tuple[str, Terminated] | None:
    """The other container of the pod that had failed well before `at`, when its main container failed, and its run.

    What ended within a second of it may have ended because of it: the kubelet gives whole seconds.
    """
    sidecars = (one for one in pod.init_containers if one.restart_policy == _SIDECAR)
    for container in (one for one in (*sidecars, *pod.containers) if one.name != main_container):
        run = container.last if _backs_off(container) else container.state
        if not isinstance(run, Terminated) or not run.exit_code:
            continue
        if at is not None and run.finished_at is not None and 1 <= at - run.finished_at <= PATIENCE_SECONDS:
            return container.name, run
    return None


def _followed_success(container: ContainerView) -> bool:
    return container.restart_count > 0 and container.last is not None and container.last.exit_code == 0


def _backs_off(container: ContainerView) -> bool:
    return isinstance(container.state, Waiting) and container.state.reason == reasons.CRASH_LOOP_BACK_OFF


def _awaits_restart(container: ContainerView, policy: RestartPolicy) -> bool:
    if not isinstance(container.state, Terminated):
        return False
    return policy == RestartPolicy.ALWAYS or container.state.exit_code != 0
