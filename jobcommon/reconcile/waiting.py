"""Why a job does not go on: what its pods wait for, for its condition and for events, and the replica types that are blocked.

The operator reads pods, not their events. The kubelet reports a missing image, or a missing Secret for an environment
variable, in the pod's status; a missing volume only in an event, which expires after an hour. And the status of a pod that no
scheduler handles contains no reason at all. Both cases are detected by the time that has passed.

A job that has begun is never failed for an error: an edit, an older CRD or another operator may have accepted a spec that is
refused today. Running pods continue and are counted; nothing is created or deleted for the replica types that an error
concerns, and the condition reports it until the spec is corrected. If a type cannot be read, no end of a pod is recorded
either: what it means for the job is unknown. The operator's own configuration is no error of the spec:
a job waits to be started until it is changed, and a job that has started continues.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from jobcommon.api import reasons
from jobcommon.api.pod import PodView, Running, Terminated, Waiting
from jobcommon.api.replica import Replica
from jobcommon.api.text import cut, kind_of
from jobcommon.api.timestamp import format_time, trusted
from jobcommon.framework import FieldError, Framework, Job
from jobcommon.reconcile.ending import Life, awaited, left_running
from jobcommon.reconcile.plan import NORMAL, WARNING, Event
from jobcommon.reconcile.rendering import SAYS_BLOCKED, SAYS_INVALID, Note, Wait, Why, described_run
from jobcommon.reconcile.slots import STARTING, Slot, Slots, starts_again

# Normally a scheduler and a kubelet need seconds, and pulling a large image a few minutes, which is worth reporting, too.
REPORT_AFTER = 90.0
# Upper bound of the events of one pass: hundreds of pods may fail at once.
MAX_EVENTS = 10
# Limits of what a condition says: causes, and characters of each.
MAX_CAUSES = 3
MAX_CAUSE = 300
# The kubelet alternates between the error and this; newer ones repeat the error in it. One text for both spares writes.
_PULL_BACK_OFF = re.compile(r'^Back-off pulling image "[^"]*": (\w+): (.+)$', re.DOTALL)


# By the event's reason: what a pod waits for that has no reason in its status.
_UNREPORTED = {
    reasons.NO_SCHEDULER: "no scheduler has processed the pod since {time}; is the scheduler{scheduler} running?",
    reasons.VOLUMES_NOT_READY: (
        "volumes or network are not ready since {time}; a Secret, ConfigMap or PersistentVolumeClaim may be missing; "
        "see kubectl describe pod {pod.name}"
    ),
    reasons.CONTAINERS_NOT_CREATED: (
        "containers are not created since {time}; images may still be pulled; see kubectl describe pod {pod.name}"
    ),
    reasons.NODE_DOES_NOT_ANSWER: (
        "deleted, but still there after its grace period, since {time}; if node {pod.node_name} is shut down for good, "
        "taint it with node.kubernetes.io/out-of-service=nodeshutdown:NoExecute or delete the pod with "
        "kubectl delete pod {pod.name} --force"
    ),
}


@dataclass(frozen=True, slots=True)
class WaitingCause:
    """Why a pod, or one container of it, does not run."""

    reason: str
    message: str
    container: str = ""


@dataclass(frozen=True, slots=True)
class WaitingReasons:
    """What a job's pods wait for: notes for the condition, events, and when to check again."""

    notes: tuple[Note, ...] = ()
    events: tuple[Event, ...] = ()
    wake_at: float | None = None


def waits(slots: Iterable[Slot], now: float, scheduler_of: Callable[[Replica], str]) -> WaitingReasons:
    """What the living pods wait for at `now` (seconds since the epoch)."""
    notes: dict[str, Note] = {}
    kinds: dict[str, str] = {}
    causes: dict[str, list[Replica]] = {}
    events: list[Event] = []
    unreported: dict[str, list[tuple[float, Replica, PodView]]] = {}
    for slot in slots:
        if _is_well(slot):
            continue
        replica, pod = slot.replica, slot.pod
        if (cause := reported_cause(pod)) is not None:
            where = f", container {cause.container}" if cause.container else ""
            events.append(Event(WARNING, cause.reason, f"Pod {pod.name}{where}: {cause.message}", lasting=True))
            if cause.reason != reasons.CRASH_LOOP_BACK_OFF:
                # Most pods of a job wait for the same.
                if (text := f"{cause.reason}: {cause.message}") not in kinds:
                    said = cut(text, MAX_CAUSE)
                    kinds[text] = kind_of(said)
                    notes.setdefault(kinds[text], Note(quoted=said))
                causes.setdefault(kinds[text], []).append(replica)
        elif (found := _unreported(slot, now)) is not None:
            reason, since = found
            unreported.setdefault(reason, []).append((since, replica, pod))
    wakes: list[float] = []
    for reason, template in _UNREPORTED.items():
        if not (group := unreported.get(reason)):
            continue
        since, replica, pod = min(group, key=lambda member: member[0])
        if now < since + REPORT_AFTER:
            wakes.append(since + REPORT_AFTER)
            continue
        name = scheduler_of(replica) if reason == reasons.NO_SCHEDULER else ""
        text = template.format(time=format_time(since), pod=pod, scheduler=f' "{name}"' if name else "")
        notes[text] = Note(text)
        causes[text] = [member[1] for member in group]
        events.append(Event(WARNING, reason, f"Pod {pod.name}: {text}", lasting=True))
    listed = [replace(note, replicas=causes[kind]) for kind, note in notes.items()]
    more = [Note(f"{len(listed) - MAX_CAUSES} more causes")] if len(listed) > MAX_CAUSES else []
    return WaitingReasons((*listed[:MAX_CAUSES], *more), tuple(events), min(wakes, default=None))


def reported_cause(pod: PodView) -> WaitingCause | None:
    """The reason that the kubelet or the scheduler reports for a pod that cannot be scheduled or started."""
    for container in pod.containers + pod.init_containers:
        state = container.state
        if not isinstance(state, Waiting) or container.stopped_by_image:
            continue
        if state.reason == reasons.CRASH_LOOP_BACK_OFF and starts_again(pod):
            # The run that has ended is one that we have stopped.
            continue
        if state.reason == reasons.CRASH_LOOP_BACK_OFF:
            why = f": {described_run(container.last, read=False)}" if container.last is not None else ""
            return WaitingCause(reasons.CRASH_LOOP_BACK_OFF, f"restarted with increasing back-off{why}", container.name)
        if state.message:
            pull = _PULL_BACK_OFF.match(state.message)
            reason, message = pull.groups() if pull else (state.reason or reasons.WAITING, state.message)
            return WaitingCause(reason, _line(message), container.name)
    if pod.unschedulable and not pod.scheduled:
        return WaitingCause(reasons.UNSCHEDULABLE, _line(pod.unschedulable))
    return None


def container_events(framework: Framework, job: Job, slots: Slots) -> list[Event]:
    """One event for each pod whose main container has succeeded while another one runs on."""
    events: list[Event] = []
    for slot in slots.notable:
        replica, pod = slot.replica, slot.pod
        if len(pod.containers) > 1 and len(events) < MAX_EVENTS:
            main = framework.main_container(job.replica_specs[replica.type], replica.index)
            if names := awaited(pod, main):
                text = f"Pod {pod.name}: container {main} has succeeded; waiting for container {', '.join(names)} to end"
                events.append(Event(NORMAL, reasons.WAITING, text, lasting=True))
    return events


def cut_short(entries: Iterable[Slot]) -> list[Event]:
    """One event for each pod that is deleted because its main container has failed, though another one runs."""
    cut = [slot.pod for slot in entries if slot.stays and slot.pod.restart_policy == "Never"]
    return [
        Event(
            WARNING,
            reasons.MAIN_CONTAINER_FAILED,
            f"Pod {pod.name}: its main container has failed; the pod is deleted although container "
            f"{', '.join(left_running(pod))} has not ended",
        )
        for pod in cut[:MAX_EVENTS]
    ]


def _is_well(slot: Slot) -> bool:
    """Whether there is certainly nothing to report."""
    return slot.over or (
        slot.life is Life.RUNNING and all(isinstance(container.state, Running) for container in slot.pod.containers)
    )


def _unreported(slot: Slot, now: float) -> tuple[str, float] | None:
    """What a pod without a reason in its status waits for, and since when (seconds since the epoch)."""
    pod = slot.pod
    if slot.removal_due is not None:
        return reasons.NODE_DOES_NOT_ANSWER, slot.removal_due
    if slot.state is not STARTING:
        return None
    if not pod.scheduled:
        return (reasons.NO_SCHEDULER, pod.creation_time) if pod.creation_time is not None else None
    since = trusted(pod.started, now, REPORT_AFTER) or pod.creation_time
    begun = any(
        isinstance(c.state, Running | Terminated) or c.last or c.stopped_by_image
        for c in (*pod.init_containers, *pod.containers)
    )
    if since is None or begun:
        return None
    return (reasons.CONTAINERS_NOT_CREATED if pod.ready_to_start else reasons.VOLUMES_NOT_READY), since


def without_node(slot: Slot, now: float) -> Wait | None:
    """Why a pod has no node, or one that is silent; None for one whose node answers."""
    pod, since = slot.pod, trusted(slot.pod.creation_time, now)
    if slot.removal_due is not None and slot.removal_due <= now:
        return Wait(Why.NO_ROOM, Note(f"node {pod.node_name} does not answer"), slot.removal_due)
    if slot.state is not STARTING or pod.scheduled:
        return None
    words = Note(quoted=_line(pod.unschedulable) or "no scheduler has processed the pod")
    return Wait(Why.NO_ROOM if pod.no_room else Why.NOT_YET, words, since)


def _line(text: str) -> str:
    """The text in one line, without the full stop, to be part of a sentence."""
    return " ".join(text.split()).removesuffix(".")


_TYPE = re.compile(r"\[([^\]]*)\]")
# Errors there concern the job as a whole and no pod: the field counts as not set.
_ELSEWHERE = ("metadata", "spec.runPolicy")
_SCHEDULING = "spec.runPolicy.schedulingPolicy"


@dataclass(frozen=True, slots=True)
class Blocked:
    """`types`: the replica types for which nothing is created or deleted; `unread`: some could not be read at all, so the job's
    progress is unknown; `not_to_start`: the job must not be started.
    """

    types: frozenset[str] = frozenset()
    unread: bool = False
    not_to_start: bool = False
    hold: Wait | None = None

    @property
    def events(self) -> list[Event]:
        """The same as an event, emitted once."""
        reason = reasons.WAITING if self.not_to_start else reasons.INVALID_SPEC
        return [Event(WARNING, reason, str(self.hold.words), lasting=True)] if self.hold is not None else []


_NONE = Blocked()


def blocked_types(framework: Framework, job: Job, *, started: bool, granted: bool = False) -> Blocked:
    """What the errors of the job's spec block, or the operator's options if the job has not `started` yet.

    Of a job that has what it was `granted` for its former spec they block everything: the present one cannot be compared.
    """
    if not job.errors:
        if started or not (why := framework.blocked(job)):
            return _NONE
        return Blocked(frozenset(job.replica_specs), not_to_start=True, hold=Wait(Why.NOT_ALLOWED, Note(SAYS_BLOCKED + why)))
    known = {kind.name.lower(): kind.name for kind in framework.replica_types}
    # The other types' environment describes the whole job, and would be wrong without the types that could not be read.
    types = (
        known.values() if job.unread or granted else {n for error in job.errors for n in _concerned(framework, error, known)}
    )
    says = SAYS_BLOCKED if job.missing else SAYS_INVALID
    hold = Wait(Why.NOT_ALLOWED, Note(says + "; ".join(map(str, job.errors))))
    return Blocked(frozenset(types), unread=bool(job.unread), not_to_start=job.missing and not started, hold=hold)


def _concerned(framework: Framework, error: FieldError, known: Mapping[str, str]) -> Iterable[str]:
    specs = f"spec.{framework.replica_specs}"
    if error.path.startswith(f"{specs}["):
        found = _TYPE.match(error.path, len(specs))
        name = known.get(found[1].lower()) if found is not None else None
        return () if name is None else (name,)
    if error.path.startswith(_ELSEWHERE) and not error.path.startswith(_SCHEDULING):
        return ()
    return known.values()
