"""Clean-up: deletes the pods and Services of a suspended job, and those of a finished one according to cleanPodPolicy."""

from collections.abc import Iterable, Sequence

from jobcommon.api import reasons
from jobcommon.api.job import CleanPodPolicy
from jobcommon.api.observed import Observed
from jobcommon.api.pod import PodView
from jobcommon.api.status import ConditionType
from jobcommon.framework import FINALIZER, Framework, Job
from jobcommon.reconcile import limits
from jobcommon.reconcile.accounting import LateEnds
from jobcommon.reconcile.children import CORE
from jobcommon.reconcile.plan import Action, Delete, RemoveFinalizer
from jobcommon.reconcile.slots import Slot, Slots

# With these reasons the job must stop; policy None then keeps the finished pods only.
_STOPPED = (reasons.BACKOFF_LIMIT_EXCEEDED, reasons.DEADLINE_EXCEEDED, reasons.INVALID_SPEC)


def effective_policy(job: Job) -> CleanPodPolicy:
    """The effective policy of a finished job, with the default filled in."""
    policy = job.run_policy.clean_pod_policy or CleanPodPolicy.RUNNING
    failed = job.status.condition(ConditionType.FAILED)
    stopped = failed is not None and failed.is_true and failed.reason in _STOPPED
    return CleanPodPolicy.RUNNING if policy == CleanPodPolicy.NONE and stopped else policy


def clean_up_finished(
    framework: Framework, job: Job, observed: Observed, slots: Slots, late: LateEnds, now: float
) -> tuple[list[Action], float | None]:
    """Remove the finalizer of every ended pod of a finished job; delete its pods and Services according to the policy.

    Nothing happens to the pods of `late` successes until these are on record. The time is the end of the grace of replicas that
    may end by themselves, and that keep the Services; None if there are none.
    """
    policy, grace = effective_policy(job), limits.grace(job, now)
    ending = _ending_by_themselves(framework, slots) if grace is not None and not grace.passed else frozenset()
    lost = _without_servers(framework, job, slots, late) if grace is not None else frozenset()
    there = sorted((*slots.ours, *slots.unowned), key=lambda slot: slot.pod.name)
    # The pods of `lost` are deleted first: once without the finalizer, it is not known any more when they ended.
    actions: list[Action] = [*release(s for s in there if s.pod.uid not in late.pods and (s.deleting or s.pod.uid not in lost))]
    for slot in slots.ours:
        pod = slot.pod
        if slot.deleting or pod.uid in ending or pod.uid in late.pods:
            continue
        if policy == CleanPodPolicy.ALL or pod.uid in lost:
            actions.append(delete_pod(pod, f"cleanPodPolicy {policy}"))
        elif policy == CleanPodPolicy.RUNNING and not slot.over:
            # The pod may have just finished; then it must be kept (rule R1: the decision depends on its state).
            actions.append(delete_pod(pod, "cleanPodPolicy Running", unchanged=True))
    if policy != CleanPodPolicy.NONE and not ending:
        actions += delete_services(observed, "job finished")
    return actions, grace.at if grace is not None and ending else None


def _ending_by_themselves(framework: Framework, slots: Slots) -> frozenset[str]:
    """The UIDs of the pods that may end by themselves after the success: those with work of their own that are on a node.

    One that has failed for good and which another container keeps alive is on record.
    """
    working = (slot for slot in slots.wanted.values() if slot.pod.scheduled and not framework.serves(slot.replica.type))
    return frozenset(slot.pod.uid for slot in working if slot.stays and not slot.recorded)


def _without_servers(framework: Framework, job: Job, slots: Slots, late: LateEnds) -> frozenset[str]:
    """The UIDs of the pods that failed after the success of a job with servers: these were deleted, so that end tells nothing.

    A pod without our finalizer may have ended before.
    """
    if not any(framework.serves(kind) and job.count(kind) for kind in job.replica_specs):
        return frozenset()
    pods = (slot.pod for slot in slots.wanted.values())
    return frozenset(pod.uid for pod in pods if pod.uid in late.failed and FINALIZER in pod.finalizers)


def stop_pods(slots: Iterable[Slot], why: str, *, unchanged: bool = False, awaited: bool = False) -> list[Action]:
    """Delete the pods, and remove the finalizer of ended ones, for which something may wait (`awaited`).

    With `unchanged`, delete a running pod only if unchanged.
    """
    slots = list(slots)
    deletions = (delete_pod(slot.pod, why, unchanged=unchanged and not slot.over) for slot in slots if not slot.deleting)
    return [*release(slots, awaited=awaited), *deletions]


def delete_pod(pod: PodView, why: str, *, unchanged: bool = False) -> Delete:
    """Delete this incarnation of the pod; with `unchanged`, only if it has not changed since it was seen."""
    return Delete(CORE, "pods", pod.name, pod.uid, why, pod.resource_version if unchanged else None)


def release(slots: Iterable[Slot], *, awaited: bool = False) -> Sequence[RemoveFinalizer]:
    """Remove the finalizer of the pods that have ended."""
    held = (slot.pod for slot in slots if FINALIZER in slot.pod.finalizers and slot.over)
    return [RemoveFinalizer(pod.name, pod.uid, pod.finalizers, awaited) for pod in held]


def release_all(pods: Iterable[PodView]) -> Sequence[RemoveFinalizer]:
    """Remove the finalizer of all pods, ended or not: their job is being deleted, so they will not be counted."""
    return [RemoveFinalizer(pod.name, pod.uid, pod.finalizers) for pod in pods if FINALIZER in pod.finalizers]


def delete_services(observed: Observed, why: str) -> list[Action]:
    """Delete the job's Services, found by owner, not through pods (the reference leaked those without a pod)."""
    return [Delete(CORE, "services", service.name, service.uid, why) for service in observed.services if not service.deleting]
