"""Pods of a job that is gone, under the name of one that may have come since."""

from collections.abc import Iterable, Sequence

from jobcommon.api.pod import PodView
from jobcommon.framework import FINALIZER
from jobcommon.reconcile import plan_for_orphans
from jobcommon.result import Work


def left_behind(kind: str, named: Iterable[PodView], uid: str) -> list[PodView]:
    """The pods of jobs of this kind, but of another UID, among those whose owner has a certain name."""
    return [pod for pod in named if pod.owner and pod.owner.kind == kind and pod.owner.uid != uid]


def work_on_orphans(key: tuple[str, str], left: Sequence[PodView]) -> Work | None:
    """Work on the pods of one predecessor that still carry our finalizer. The key comes back with their next event."""
    held = [(pod.owner.uid, pod) for pod in left if pod.owner is not None and FINALIZER in pod.finalizers]
    if not held:
        return None
    uid = held[0][0]
    return Work(*key, uid, plan_for_orphans(pod for owner, pod in held if owner == uid), orphans_of=uid)
