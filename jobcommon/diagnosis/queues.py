"""What a job waits for before its pods are created or placed: a queue, a gang, a user."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.json import encode

from jobcommon.api.gang import OF_THE_GROUP, GroupWaits, min_count, size_of, waits_of
from jobcommon.api.kueue import INTEGRATED, QUEUE_LABEL, Workload, integration_of
from jobcommon.api.pod import PodView
from jobcommon.api.status import ConditionType, JobStatus
from jobcommon.api.view import object_view
from jobcommon.causes.cause import Cause, in_short
from jobcommon.causes.cause_reasons import Reason
from jobcommon.diagnosis.found import Found
from jobcommon.reconcile.gang import AWAITED
from jobcommon.reconcile.kueue import OWN_IT, waits_in
from jobcommon.reconcile.rendering import said_after

_NOT_PLACED = ("", "Pending", "Inqueue", "PreScheduling", "Scheduling")


def is_queued(status: JobStatus, labels: Mapping[str, Any]) -> bool:
    """Whether the job waits in a queue whose Workloads the operator owns: its spec does not say so."""
    return status.has(ConditionType.SUSPENDED) and bool(labels.get(QUEUE_LABEL))


def suspended(found: Found) -> Cause:
    """Why a job is suspended: Kueue has it in a queue, or a user wants it so."""
    queue, resume = str(found.read.labels.get(QUEUE_LABEL) or ""), f"kubectl train resume {found.read.name}"
    raw = next(iter(found.workloads), None)
    if raw is None and not queue:
        field = ".".join(found.framework.suspend_at)
        return Cause(Reason.SUSPENDED, f"{field} is true: a user or another controller has suspended the job", resume)
    if raw is not None:
        return _in_queue(Workload(object_view(encode(raw))))
    message = found.status.conditions[-1].message if found.status.conditions else ""
    if why := said_after(message, waits_in(queue)):
        return Cause(Reason.QUEUED_BY_KUEUE, in_short(f"in Kueue's queue {queue}: {why}"), "change what the message names")
    text = f"in Kueue's queue {queue}, which has not accepted it: it has no Workload yet"
    if integration_of(found.read.api_version, found.read.kind) not in INTEGRATED:
        text = f"its label names queue {queue}, but Kueue has no integration of {found.read.kind}"
        return Cause(Reason.QUEUED_BY_KUEUE, text, f"{OWN_IT}, or {resume}, which runs it without a queue")
    advice = f"jobcommon doctor reports whether Kueue is there and queues the kind; if a user has suspended the job: {resume}"
    return Cause(Reason.QUEUED_BY_KUEUE, text, advice)


_FULL = (
    "kubectl describe workload {workload}, and kubectl get localqueues: request less, raise the quota of the ClusterQueue, or "
    f"set the job's label {QUEUE_LABEL} to another queue"
)
_ACTIVATE = 'kubectl patch workload {workload} --type merge -p \'{{"spec":{{"active":true}}}}\''


def _in_queue(workload: Workload) -> Cause:
    """What keeps the job's Workload from being admitted: Kueue's message, its reason (such as WaitingForQuota), since when."""
    queue, blocked = str(workload.spec.get("queueName") or ""), workload.blocked
    reason, said = str(blocked.get("reason") or "Pending"), str(blocked.get("message") or "")
    since = f" since {moment}" if (moment := blocked.get("lastTransitionTime")) else ""
    said += f" ({reason}{since})" if said and reason != "Pending" else ""
    advice, then = _FULL, "Kueue resumes the job when its queue has room for it"
    if workload.spec.get("active") is False:
        advice, then = _ACTIVATE, "nothing, until spec.active of its Workload is true"
    elif reason == "Inadmissible":
        advice = "correct what the message names: kubectl get localqueues,clusterqueues"
        then = "Kueue considers the job again when that has changed"
    elif "state" in blocked:
        advice = "see what answers the check: kubectl get admissionchecks"
        then = "Kueue resumes the job when all its checks are Ready"
    elif workload.conditions.get("Evicted", {}).get("reason") == "PodsReadyTimeout":
        advice = "see in the events of its pods why they were not ready in time (waitForPodsReady in Kueue's configuration)"
    text = f"in Kueue's queue {queue}" + (f": {said}" if said else "")
    return Cause(Reason.QUEUED_BY_KUEUE, in_short(text), advice.format(workload=workload.view.name), then=then)


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
    if (size := size_of(group)) > found.read.total_replicas > 0:
        text = f"its PodGroup waits for {size} pods, but the job has {found.read.total_replicas}"
        return Cause(
            Reason.GANG_PENDING, text, "lower spec.runPolicy.schedulingPolicy.minAvailable", then="nothing, until then"
        )
    queue = f" in queue {group['spec']['queue']}" if (group.get("spec") or {}).get("queue") else ""
    many = f" for {size} pods at once" if size else ""
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
