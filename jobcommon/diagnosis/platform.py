"""Ends of pods that the platform caused, by the reasons that kubelet, scheduler and controllers give."""

import re
from collections.abc import Mapping

from jobcommon.causes.cause import Cause, in_short
from jobcommon.causes.cause_reasons import Reason
from jobcommon.reconcile.ending import STOPPED_BY_IMAGE

_REFUSED = "the kubelet refused the pod: another pod took the resources first, or a device is broken"
_TOGETHER = "if replicas cannot continue without each other, set runPolicy.restartScope: Job"
# The kubelet's words for a pod that has exceeded a limit of its own; elsewhere its node was low on a resource.
_OF_VOLUME = re.compile(r"EmptyDir volume .*exceeds the limit")
_OF_LIMIT = re.compile(r"exceeds the total limit of containers|exceeded its local ephemeral storage limit")
_OTHER_VOLUME = "or write caches and checkpoints to a PersistentVolumeClaim"
_BY_REASON: Mapping[str, tuple[Reason, str, str]] = {
    "Evicted": (Reason.EVICTED, "evicted by its node", "request what it really uses, ephemeral-storage included"),
    "EvictionByEvictionAPI": (Reason.EVICTED, "evicted through the API, as kubectl drain does", ""),
    "DeletionByTaintManager": (Reason.EVICTED, "evicted because its node was tainted", "tolerate the taint, or see the node"),
    "TerminationByKubelet": (
        Reason.NODE_SHUTDOWN,
        "ended by its kubelet: the node shut down or ran short of resources",
        "",
    ),
    "NodeShutdown": (Reason.NODE_SHUTDOWN, "ended because its node shut down", ""),
    "Shutdown": (Reason.NODE_SHUTDOWN, "ended because its node shut down", ""),
    "Terminated": (Reason.NODE_SHUTDOWN, "ended because its node shut down", ""),
    "PreemptionByScheduler": (Reason.PREEMPTED, "preempted by a pod of higher priority", "give the job a priorityClassName"),
    "Preempting": (Reason.PREEMPTED, "preempted by a pod of higher priority", "give the job a priorityClassName"),
    "Preempted": (Reason.PREEMPTED, "preempted by a pod of higher priority", "give the job a priorityClassName"),
    "NodeLost": (Reason.NODE_LOST, "lost with its node", ""),
    "DeletionByPodGC": (Reason.NODE_LOST, "lost with its node", ""),
    "ContainerStatusUnknown": (Reason.NODE_LOST, "lost: its node no longer knows the container", ""),
    "Lost": (Reason.NODE_LOST, "lost: no node reported how it ended", ""),
    "NodeAffinity": (Reason.NODE_REFUSED, "refused by its node, whose labels have changed", ""),
    "UnexpectedAdmissionError": (Reason.NODE_REFUSED, "refused by its node", _REFUSED),
    "TopologyAffinityError": (Reason.NODE_REFUSED, "refused by its node's topology manager", _REFUSED),
    "Deleted": (
        Reason.DELETED,
        "deleted, by a user or another controller",
        "find out who deletes pods",
    ),
    STOPPED_BY_IMAGE: (
        Reason.DELETED,
        "stopped by an image that a user or another controller has set in its pod",
        "find out who changes pods",
    ),
    "DeadlineExceeded": (
        Reason.POD_DEADLINE_EXCEEDED,
        "ran longer than activeDeadlineSeconds of its pod template",
        "raise activeDeadlineSeconds in the pod template",
    ),
}

PLATFORM_ENDS = frozenset(_BY_REASON)
"""The reasons of ends that the platform or another user causes."""


def ended_by_platform(reason: str, message: str = "", *, together: bool = True) -> Cause | None:
    """The cause of an end that the platform gives as `reason`; None for an end of the program's own.

    `together`: whether all replicas of the job restart when a replica is lost.
    """
    known = _BY_REASON.get(reason)
    if known is None and reason.startswith("OutOf"):
        known = (Reason.NODE_REFUSED, f"refused by its node ({reason})", _REFUSED)
    if known is None:
        return None
    said = in_short(message)
    advice = f"{known[2]}; {_TOGETHER}" if reason == "Deleted" and not together else known[2]
    if _OF_VOLUME.search(said):
        advice = f"raise the sizeLimit of this emptyDir, {_OTHER_VOLUME}"
    elif _OF_LIMIT.search(said):
        advice = f"raise resources.limits.ephemeral-storage, {_OTHER_VOLUME}"
    return Cause(known[0], known[1] + (f": {said}" if said else ""), advice)
