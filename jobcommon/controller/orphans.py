"""Orphans: pods of a deleted job, whose name a new job may have by now."""

from collections.abc import Iterable, Sequence

from jobcommon.api import labels
from jobcommon.api.pod import PodView
from jobcommon.api.view import ObjectView
from jobcommon.controller.result import Work
from jobcommon.framework import FINALIZER
from jobcommon.reconcile import plan_for_orphans


def job_keys(child: PodView | ObjectView) -> tuple[tuple[str, str], ...]:
    """The keys (namespace, name) of the jobs to reconcile for an object: that of its owner.

    A pod with our finalizer and without an owner has the name in its label. The garbage collector removes the owner reference
    when a job is deleted with ``--cascade=orphan``, and only this controller removes the finalizer. A Workload that others made
    for a job has the name in its label, too.
    """
    if child.owner is not None:
        return ((child.namespace, child.owner.name),)
    if isinstance(child, PodView) and FINALIZER in child.finalizers:
        return ((child.namespace, child.labels.get(labels.JOB_NAME) or child.name),)
    if isinstance(child, ObjectView) and labels.JOB_NAME in child.labels:
        return ((child.namespace, child.labels[labels.JOB_NAME]),)
    return ()


def owner_uids(child: PodView | ObjectView) -> tuple[str, ...]:
    """The UID of its controller owner, if it has one."""
    return (child.owner.uid,) if child.owner is not None else ()


def left_behind(kind: str, named: Iterable[PodView], uid: str) -> list[PodView]:
    """Of the pods whose job has a certain name, those of a job of this kind with a UID other than `uid`, or of no job."""
    return [pod for pod in named if pod.owner is None or (pod.owner.kind == kind and pod.owner.uid != uid)]


def work_on_orphans(key: tuple[str, str], left: Sequence[PodView]) -> Work | None:
    """Work on the pods of one deleted job that still carry our finalizer. Their next event queues the key again.

    The finalizer of pods without an owner is removed without a live read of a job: none can claim them.
    """
    held = [(pod.owner.uid if pod.owner is not None else "", pod) for pod in left if FINALIZER in pod.finalizers]
    if not held:
        return None
    uid = held[0][0]
    return Work(*key, uid, plan_for_orphans(pod for owner, pod in held if owner == uid), orphans_of=uid or None)
