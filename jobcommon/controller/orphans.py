"""Pods of a job that is gone, under the name of one that may have come since."""

from collections.abc import Iterable, Sequence

from jobcommon.api import labels
from jobcommon.api.pod import PodView
from jobcommon.api.view import ObjectView
from jobcommon.controller.result import Work
from jobcommon.framework import FINALIZER
from jobcommon.reconcile import plan_for_orphans


def job_keys(child: PodView | ObjectView) -> tuple[tuple[str, str], ...]:
    """The namespace and name of the job that an object is looked up under: its owner's.

    A pod with our finalizer and without an owner has the name in its label. The garbage collector takes owners away when a
    job is deleted with ``--cascade=orphan``, and only we take the finalizer off.
    """
    if child.owner is not None:
        return ((child.namespace, child.owner.name),)
    if isinstance(child, PodView) and FINALIZER in child.finalizers:
        return ((child.namespace, child.labels.get(labels.JOB_NAME) or child.name),)
    return ()


def left_behind(kind: str, named: Iterable[PodView], uid: str) -> list[PodView]:
    """The pods of jobs of this kind, but of another UID, or of no job, among those with a certain name for their job."""
    return [pod for pod in named if pod.owner is None or (pod.owner.kind == kind and pod.owner.uid != uid)]


def work_on_orphans(key: tuple[str, str], left: Sequence[PodView]) -> Work | None:
    """Work on the pods of one predecessor that still carry our finalizer. The key comes back with their next event.

    Pods without an owner are released without a live read of a job: none can claim them.
    """
    held = [(pod.owner.uid if pod.owner is not None else "", pod) for pod in left if FINALIZER in pod.finalizers]
    if not held:
        return None
    uid = held[0][0]
    return Work(*key, uid, plan_for_orphans(pod for owner, pod in held if owner == uid), orphans_of=uid or None)
