"""The actions for the pods of a job: its intents, carried out."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from jobcommon.api.pod import PodView
from jobcommon.framework import FINALIZER
from jobcommon.reconcile.children import CORE
from jobcommon.reconcile.extension import Extension
from jobcommon.reconcile.intents import INTENTS, Course, Intent, Standing
from jobcommon.reconcile.plan import Action, Delete, RemoveFinalizer
from jobcommon.reconcile.slots import Ended, Recorded, Slot, Slots, Succeeded

TO_BE_REPLACED = "to be replaced"
_WHY = {
    Standing.REPLACED: TO_BE_REPLACED,
    Standing.SURPLUS: "scaled down",
    Standing.EARLIER: "all replicas are restarted",
}
_WHY_OF_ALL = {
    Course.SUSPENDED: "job is suspended",
    Course.FINISHED_ALL: "cleanPodPolicy All",
    Course.FINISHED_RUNNING: "cleanPodPolicy Running",
    Course.FINISHED_NONE: "cleanPodPolicy None",
}


def pod_actions(
    slots: Slots, course: Course, known: Mapping[str, Standing], extensions: Sequence[Extension]
) -> Iterator[Action]:
    """What is done to each pod of a job on that course; `known`: the standing of some, by UID."""
    for slot, standing in _standings(slots, course, known):
        intent = INTENTS[course][standing]
        for extension in extensions if standing is not Standing.UNOWNED else ():
            intent = extension.intent(course, slot, intent)
        if intent is Intent.START_AGAIN:
            for extension in extensions:
                yield from extension.start_again(slot)
        elif intent is not Intent.LEAVE:
            yield from _actions(course, slot, standing, intent)


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
    for standing, group in ((Standing.UNKNOWN, slots.unknown), (Standing.EARLIER, slots.earlier)):
        yield from ((slot, known.get(slot.pod.uid, standing)) for slot in group)
    yield from ((slot, Standing.UNOWNED) for slot in slots.unowned)


def _of_wanted(slot: Slot) -> Standing:
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
    match intent:
        case Intent.RELEASE | Intent.FORCE:
            yield from _released(slot)
        case Intent.KEEP | Intent.DISCARD if deleting:
            yield from _released(slot)
        case Intent.END if over:
            yield from _released(slot)
        case Intent.STOP:
            # The replacement of a pod that is being deleted waits for the finalizer.
            replaced = course is Course.GO_ON and standing is Standing.REPLACED
            yield from _released(slot, awaited=replaced or not deleting)
    if intent in (Intent.FORCE, Intent.FORCE_ONLY):
        why = f"its node {pod.node_name} does not remove it"
        yield Delete(CORE, "pods", pod.name, pod.uid, why, pod.resource_version, force=True)
    elif not deleting and (intent in (Intent.STOP, Intent.DISCARD) or (intent is Intent.END and not over)):
        # What runs may have ended since it was seen, or be wanted again.
        depends = standing in (Standing.REPLACED, Standing.SURPLUS) if course is Course.GO_ON else intent is Intent.END
        why = _WHY_OF_ALL.get(course) or _WHY[standing]
        yield Delete(CORE, "pods", pod.name, pod.uid, why, pod.resource_version if depends and not over else None)


def _released(slot: Slot, *, awaited: bool = False) -> Iterator[RemoveFinalizer]:
    """Remove the finalizer of a pod that has ended."""
    if FINALIZER in slot.pod.finalizers and slot.over:
        yield RemoveFinalizer(slot.pod.name, slot.pod.uid, slot.pod.finalizers, awaited)
