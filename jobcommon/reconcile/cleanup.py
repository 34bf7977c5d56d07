"""The deletion of pods and Services, and the removal of our finalizer."""

from collections.abc import Iterable, Sequence

from jobcommon.api.observed import Observed
from jobcommon.api.pod import PodView
from jobcommon.framework import FINALIZER
from jobcommon.reconcile.children import CORE
from jobcommon.reconcile.plan import Action, Delete, RemoveFinalizer
from jobcommon.reconcile.slots import Slot


def stop_pods(slots: Iterable[Slot], why: str, *, unchanged: bool = False, awaited: bool = False) -> list[Action]:
    """Remove the finalizer of pods that have ended, for which something may wait (`awaited`), and delete all of them.

    With `unchanged`, delete a running pod only if unchanged.
    """
    actions: list[Action] = []
    deletions: list[Action] = []
    for slot in slots:
        actions += remove_finalizers([slot], awaited=awaited or not slot.deleting)
        if not slot.deleting:
            deletions.append(delete_pod(slot.pod, why, unchanged=unchanged and not slot.over))
    return [*actions, *deletions]


def delete_pod(pod: PodView, why: str, *, unchanged: bool = False) -> Delete:
    """Delete this incarnation of the pod; with `unchanged`, only if it has not changed since it was seen."""
    return Delete(CORE, "pods", pod.name, pod.uid, why, pod.resource_version if unchanged else None)


def remove_finalizers(slots: Iterable[Slot], *, awaited: bool = False) -> Sequence[RemoveFinalizer]:
    """Remove the finalizer of the pods that have ended."""
    held = (slot.pod for slot in slots if FINALIZER in slot.pod.finalizers and slot.over)
    return [RemoveFinalizer(pod.name, pod.uid, pod.finalizers, awaited) for pod in held]


def remove_all_finalizers(pods: Iterable[PodView]) -> Sequence[RemoveFinalizer]:
    """Remove the finalizer of all pods, ended or not: their job is being deleted, so they will not be counted."""
    return [RemoveFinalizer(pod.name, pod.uid, pod.finalizers) for pod in pods if FINALIZER in pod.finalizers]


def delete_services(observed: Observed, why: str) -> list[Action]:
    """Delete the job's Services, found by owner, not through pods (the reference leaked those without a pod)."""
    return [Delete(CORE, "services", service.name, service.uid, why) for service in observed.services if not service.deleting]
