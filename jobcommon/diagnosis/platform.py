"""Ends of pods that the platform caused, by the reasons that kubelet, scheduler and controllers give."""

from collections.abc import Mapping

from jobcommon.causes.cause import Cause, in_short
from jobcommon.causes.cause_reasons import Reason
from jobcommon.reconcile.ending import STOPPED_BY_IMAGE

_REFUSED = "the kubelet refused the pod: another pod took the resources first, or a device is broken"
_REPLACED = "under restartPolicy OnFailure or ExitCode the operator replaces such a replica"
_BY_REASON: Mapping[str, tuple[Reason, str, str]] = {
    "Evicted": (
        Reason.EVICTED,
        "evicted by its node",
        "request what it really uses, or raise the limit that the message names",
    ),
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

_OWN_FAULT = ("DeadlineExceeded", STOPPED_BY_IMAGE)
PLATFORM_ENDS = frozenset(_BY_REASON)
"""The reasons of ends that the platform or another user causes."""


def ended_by_platform(reason: str, message: str = "") -> Cause | None:
    """The cause of an end that the platform gives as `reason`; None for an end of the program's own."""
    known = _BY_REASON.get(reason)
    if known is None and reason.startswith("OutOf"):
        known = (Reason.NODE_REFUSED, f"refused by its node ({reason})", _REFUSED)
    if known is None:
        return None
    said = in_short(message)
    advice = known[2] if reason in _OWN_FAULT else "; ".join(filter(None, (known[2], _REPLACED)))
    return Cause(known[0], known[1] + (f": {said}" if said else ""), advice)
