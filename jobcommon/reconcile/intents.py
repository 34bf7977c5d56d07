"""What becomes of each pod of a job: one table, course of the job by standing of the pod, for every phase, and one that decides
where features propose something else.

A pod is touched only when what that destroys is on record: how it ended, or that it was stopped by us. So each course stands
for a stored status, and a pass that records something first (a suspension, a resume, a new attempt, the end of the job) touches
no pod at all.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from jobcommon.api import labels
from jobcommon.api.pod import PodView
from jobcommon.framework import FINALIZER
from jobcommon.manifests.children import CORE
from jobcommon.reconcile.plan import Action, Delete, RemoveFinalizer, Update
from jobcommon.reconcile.slots import Ended, Recorded, Slot, Slots, Succeeded, is_spare


class Course(StrEnum):
    """What is on record of the job as a whole."""

    GO_ON = "continues"
    SUSPENDED = "is suspended"
    FINISHED_ALL = "has finished, cleanPodPolicy All"
    FINISHED_RUNNING = "has finished, cleanPodPolicy Running"
    FINISHED_NONE = "has finished, cleanPodPolicy None"
    STOPPED_NONE = "has been stopped, cleanPodPolicy None"


class Standing(StrEnum):
    """What is on record of a pod, and what the job wants with it."""

    LIVING = "wanted, no end on record"
    UNRECORDED = "its end is still to be recorded"
    REPLACED = "on record, to be replaced"
    DELAYED = "to be replaced, when its back-off has passed"
    SUCCEEDED = "on record as succeeded"
    GIVEN_UP = "on record as failed for good; the job continues without it"
    SURPLUS = "no longer wanted, on record as stopped"
    SURPLUS_NEW = "no longer wanted"
    EARLIER = "of an earlier attempt"
    SPARE = "its program has not begun, and waits for an attempt with its members"
    UNKNOWN = "errors of the spec hide whether it is wanted"
    UNOWNED = "names the job as its owner, but is not one of its replicas"
    MAY_END = "the job has succeeded; it may end by itself"
    LOST = "failed since the success of the job, because its servers are gone"


class Intent(StrEnum):
    """What becomes of a pod. *Released*: our finalizer is removed, once no process of it can run any more."""

    LEAVE = "leave"
    KEEP = "keep"
    """Leave it; release it if it is deleted by others."""
    RELEASE = "release"
    END = "end"
    """Delete it if it runs and has not changed since it was seen; release it if it has ended."""
    EXPIRE = "expire"
    """Let the kubelet end it if it runs, by a deadline of its own: it stays, with its logs; release it if it has ended."""
    STOP = "stop"
    """Delete and release it."""
    DISCARD = "discard"
    """Delete it, and release it only then: without the finalizer it would not be known when it ended."""
    START_AGAIN = "start again"
    """Restart it in place."""
    FORCE = "force"
    """Release it, and delete it by force: its node does not remove it."""
    FORCE_ONLY = "force only"
    """Delete it by force. What is not on record keeps the finalizer."""


_GO_ON = {
    Standing.LIVING: Intent.LEAVE,
    Standing.UNRECORDED: Intent.LEAVE,
    Standing.REPLACED: Intent.STOP,
    Standing.DELAYED: Intent.LEAVE,
    Standing.SUCCEEDED: Intent.KEEP,
    Standing.GIVEN_UP: Intent.KEEP,
    Standing.SURPLUS: Intent.STOP,
    Standing.SURPLUS_NEW: Intent.LEAVE,
    Standing.EARLIER: Intent.STOP,
    Standing.SPARE: Intent.STOP,
    Standing.UNKNOWN: Intent.LEAVE,
    Standing.UNOWNED: Intent.RELEASE,
    Standing.MAY_END: Intent.LEAVE,
    Standing.LOST: Intent.LEAVE,
}
_ALWAYS = {Standing.UNRECORDED: Intent.LEAVE, Standing.UNOWNED: Intent.RELEASE}
_AFTER_END = {**_ALWAYS, Standing.SPARE: Intent.STOP, Standing.MAY_END: Intent.RELEASE, Standing.LOST: Intent.DISCARD}
INTENTS: Mapping[Course, Mapping[Standing, Intent]] = {
    Course.GO_ON: _GO_ON,
    Course.SUSPENDED: dict.fromkeys(_GO_ON, Intent.STOP) | _ALWAYS,
    Course.FINISHED_ALL: dict.fromkeys(_GO_ON, Intent.STOP) | _AFTER_END,
    Course.FINISHED_RUNNING: dict.fromkeys(_GO_ON, Intent.END) | _AFTER_END,
    Course.FINISHED_NONE: dict.fromkeys(_GO_ON, Intent.RELEASE) | _AFTER_END,
    Course.STOPPED_NONE: dict.fromkeys(_GO_ON, Intent.EXPIRE) | _AFTER_END,
}
"""The table. `make golden` prints it into ARCHITECTURE.md."""


@dataclass(frozen=True, slots=True)
class ForcePod:
    """The pod of that UID is deleted by force: its node does not remove it."""

    uid: str


@dataclass(frozen=True, slots=True)
class RestartPod:
    """It is restarted in place, by these actions."""

    uid: str
    actions: Sequence[Action]


PodProposal = ForcePod | RestartPod
ARBITRATION: Mapping[type[PodProposal], Mapping[Intent, Intent]] = {
    ForcePod: {**dict.fromkeys(Intent, Intent.FORCE), Intent.LEAVE: Intent.FORCE_ONLY},
    RestartPod: {Intent.LEAVE: Intent.START_AGAIN, Intent.STOP: Intent.START_AGAIN},
}
"""By what a feature proposes, and by the intent of the other table, what becomes of a pod; that intent if there is no entry. Of
several proposals for one pod the first of these counts."""

_WHY = {
    **dict.fromkeys(Standing, "it is not needed"),
    Standing.REPLACED: "to be replaced",
    Standing.SURPLUS: "scaled down",
    Standing.EARLIER: "all replicas are restarted",
    Standing.SPARE: "the job is not to grow",
}
_WHY_OF_ALL = {
    Course.SUSPENDED: "job is suspended",
    Course.FINISHED_ALL: "cleanPodPolicy All",
    Course.FINISHED_RUNNING: "cleanPodPolicy Running",
    Course.FINISHED_NONE: "cleanPodPolicy None",
    Course.STOPPED_NONE: "it has not begun",
}


def pod_actions(
    slots: Slots,
    course: Course,
    known: Mapping[str, Standing],
    proposed: Iterable[object] = (),
) -> Iterator[Action]:
    """What is done to each pod of a job on that course; `known`: the standing of some, by UID. `proposed`: by the features."""
    proposals: dict[str, list[PodProposal]] = {}
    for one in proposed:
        if isinstance(one, PodProposal):
            proposals.setdefault(one.uid, []).append(one)
    for slot, standing in _standings(slots, course, known):
        intent, proposal = INTENTS[course][standing], None
        if standing is not Standing.UNOWNED and slot.pod.uid in proposals:
            intent, proposal = arbitrated(intent, proposals[slot.pod.uid])
        if isinstance(proposal, RestartPod):
            yield from proposal.actions
        elif intent is Intent.RELEASE or (intent in (Intent.END, Intent.EXPIRE) and slot.over):
            yield from _released(slot)
        elif intent is not Intent.LEAVE:
            yield from _actions(course, slot, standing, intent)


def arbitrated(intent: Intent, proposals: Sequence[PodProposal]) -> tuple[Intent, PodProposal | None]:
    """What becomes of a pod of which `intent` would become otherwise, and the proposal that decides; None if none does."""
    for kind, changes in ARBITRATION.items():
        for proposal in proposals:
            if isinstance(proposal, kind) and intent in changes:
                return changes[intent], proposal
    return intent, None


def remove_all_finalizers(pods: Iterable[PodView]) -> list[RemoveFinalizer]:
    """Remove the finalizer of all pods, ended or not: their job is being deleted, so they will not be counted."""
    return [RemoveFinalizer(pod.name, pod.uid, pod.finalizers) for pod in pods if FINALIZER in pod.finalizers]


def _standings(slots: Slots, course: Course, known: Mapping[str, Standing]) -> Iterator[tuple[Slot, Standing]]:
    """The standing of each pod, but of a job that goes on not of those that just run."""
    for slot in slots.notable if course is Course.GO_ON else slots.wanted.values():
        yield slot, known.get(slot.pod.uid) or _of_wanted(slot)
    for slot in slots.surplus:
        # One that has succeeded meanwhile is kept until that is recorded, too.
        stopped = slot.recorded and not isinstance(slot.state, Ended)
        yield slot, known.get(slot.pod.uid, Standing.SURPLUS if stopped else Standing.SURPLUS_NEW)
    for standing, group in (
        (Standing.UNKNOWN, slots.unknown),
        (Standing.EARLIER, slots.earlier),
        (Standing.SPARE, slots.spare),
    ):
        yield from ((slot, known.get(slot.pod.uid, standing)) for slot in group)
    yield from ((slot, Standing.UNOWNED) for slot in slots.unowned)


def _of_wanted(slot: Slot) -> Standing:
    if is_spare(slot.pod):
        return Standing.SPARE
    match slot.state:
        case Succeeded():
            return Standing.SUCCEEDED
        case Recorded(given_up=True):
            return Standing.GIVEN_UP
        case Recorded():
            return Standing.REPLACED
    return Standing.LIVING


def _actions(course: Course, slot: Slot, standing: Standing, intent: Intent) -> Iterator[Action]:
    pod, over, deleting = slot.pod, slot.over, slot.deleting
    if intent is Intent.EXPIRE and pod.scheduled and not deleting:
        if pod.annotations.get(labels.EXPIRED) != "true":
            changes = {"metadata": {"annotations": {labels.EXPIRED: "true"}}, "spec": {"activeDeadlineSeconds": 1}}
            yield Update(CORE, "pods", pod.name, {"metadata": {"uid": pod.uid}}, changes)
        return
    match intent:
        case Intent.FORCE:
            yield from _released(slot)
        case Intent.KEEP | Intent.DISCARD if deleting:
            yield from _released(slot)
        case Intent.STOP:
            # The replacement of a pod that is being deleted waits for the finalizer.
            replaced = course is Course.GO_ON and standing is Standing.REPLACED
            yield from _released(slot, awaited=replaced or not deleting)
    if intent in (Intent.FORCE, Intent.FORCE_ONLY):
        why = f"its node {pod.node_name} does not remove it"
        yield Delete(CORE, "pods", pod.name, pod.uid, why, pod.resource_version, force=True)
    elif not deleting and intent in (Intent.STOP, Intent.DISCARD, Intent.END, Intent.EXPIRE):
        # What runs may have ended since it was seen, or be wanted again.
        depends = _depends(standing, pod) if course is Course.GO_ON else intent in (Intent.END, Intent.EXPIRE)
        why = _WHY_OF_ALL.get(course) or _WHY[standing]
        version, replaced = pod.resource_version if depends and not over else None, over and standing is Standing.REPLACED
        yield Delete(CORE, "pods", pod.name, pod.uid, why, version, replaced=replaced)


def _depends(standing: Standing, pod: PodView) -> bool:
    """Whether its deletion depends on the pod as it was seen: one that is not restarted in place may have started or stopped
    since.
    """
    in_place = standing is Standing.EARLIER and labels.TEMPLATE in pod.annotations
    return in_place or standing in (Standing.REPLACED, Standing.SURPLUS)


def _released(slot: Slot, *, awaited: bool = False) -> Sequence[RemoveFinalizer]:
    """Remove the finalizer of a pod that has ended."""
    if FINALIZER not in slot.pod.finalizers or not slot.over:
        return ()
    return (RemoveFinalizer(slot.pod.name, slot.pod.uid, slot.pod.finalizers, awaited),)
