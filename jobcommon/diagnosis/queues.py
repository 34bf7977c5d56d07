"""What a job waits for before its pods are created or placed: a queue, a gang, a user."""

from collections.abc import Mapping, Sequence
from typing import Any

from jobcommon.api.gang import OF_THE_GROUP, GroupWaits, size_of, waits_of
from jobcommon.api.kueue import QUEUE_LABEL
from jobcommon.api.pod import PodView
from jobcommon.api.status import ConditionType, JobStatus
from jobcommon.api.template import mappings_in
from jobcommon.api.workload import min_count
from jobcommon.causes.cause import Cause, in_short
from jobcommon.causes.cause_reasons import Reason
from jobcommon.diagnosis.found import Found, Object
from jobcommon.reconcile.gang import AWAITED
from jobcommon.reconcile.kueue import waits_in
from jobcommon.reconcile.rendering import said_after

_NOT_PLACED = ("", "Pending", "Inqueue", "PreScheduling", "Scheduling")


def is_queued(status: JobStatus, labels: Mapping[str, Any]) -> bool:
    """Whether the job waits in a queue whose Workloads the operator owns: its spec does not say so."""
    return status.has(ConditionType.SUSPENDED) and bool(labels.get(QUEUE_LABEL))


def suspended(found: Found) -> Cause:
    """Why a job is suspended: Kueue has it in a queue, or a user wants it so."""
    queue = str(found.read.labels.get(QUEUE_LABEL) or "")
    workload = next(iter(found.workloads), None)
    if workload is None and not queue:
        advice = f"kubectl train resume {found.read.name}"
        return Cause(Reason.SUSPENDED, "runPolicy.suspend is true: a user or another controller has suspended the job", advice)
    queue = queue or str(((workload or {}).get("spec") or {}).get("queueName") or "")
    message = found.status.conditions[-1].message if found.status.conditions else ""
    why = said_after(message, waits_in(queue))
    if workload is None and why:
        return Cause(Reason.QUEUED_BY_KUEUE, in_short(f"in Kueue's queue {queue}: {why}"), "change what the message names")
    if workload is None:
        text = f"in Kueue's queue {queue}, which has not accepted it: it has no Workload yet"
        return Cause(Reason.QUEUED_BY_KUEUE, text, "kubectl get localqueues; check that Kueue is running and supports the kind")
    said = _queue_says(workload)
    text = f"in Kueue's queue {queue}" + (f": {said}" if said else "")
    advice = f"kubectl describe workload {(workload.get('metadata') or {}).get('name', '')}"
    return Cause(Reason.QUEUED_BY_KUEUE, in_short(text), advice, then="Kueue resumes the job when its queue has room")


def _queue_says(workload: Object) -> str:
    """What keeps the workload from being admitted: the condition's reason, such as WaitingForQuota (KEP-10852), since when, and
    its message."""
    conditions = {str(c.get("type")): c for c in mappings_in((workload.get("status") or {}).get("conditions"))}
    for kind, status in (("Evicted", "True"), ("QuotaReserved", "False"), ("Admitted", "False")):
        condition = conditions.get(kind)
        if condition is not None and condition.get("status") == status and condition.get("message"):
            since = f" since {moment}" if (moment := condition.get("lastTransitionTime")) else ""
            # Before Kueue 0.18 the reason was the same for all causes.
            reason = str(condition.get("reason") or "Pending")
            return f"{condition['message']} ({reason}{since})" if reason != "Pending" else str(condition["message"])
    return ""


def gang(found: Found, message: str) -> Cause | None:
    """What the job's PodGroup waits for, if it does; `message` is the job's condition."""
    group = next(iter(found.pod_groups), None) or {}
    status = group.get("status") or {}
    awaited = bool(said_after(message, AWAITED))
    waiting = [member.pod for member in found.members if not member.pod.scheduled and member.pod.deletion_time is None]
    waits = waits_of(group)
    # Kubernetes' own has no phase, and its condition stays true while a replacement waits.
    placed = waits is None if min_count(group) else str(status.get("phase") or "") not in _NOT_PLACED
    if not awaited and (not group or not waiting or placed):
        return None
    queue = f" in queue {group['spec']['queue']}" if (group.get("spec") or {}).get("queue") else ""
    many = f" for {size_of(group)} pods at once" if size_of(group) else ""
    since = f" since {waits.since}" if waits is not None and waits.since else ""
    text = f"its PodGroup waits{queue}{since} until there is room{many}" + (f": {_said(waits, waiting)}" if waits else "")
    advice = f"kubectl describe podgroup {found.read.name}; is the gang scheduler running?"
    return Cause(
        Reason.GANG_PENDING, in_short(text), advice, then="the gang scheduler places all pods together when there is room"
    )


def _said(waits: GroupWaits, waiting: Sequence[PodView]) -> str:
    """The group's message, and where it tells nothing but that the group is not placed, what is said of a pod."""
    if not waits.message.startswith(OF_THE_GROUP):
        return waits.message
    return next((p.unschedulable for p in waiting if p.unschedulable and OF_THE_GROUP not in p.unschedulable), waits.message)
