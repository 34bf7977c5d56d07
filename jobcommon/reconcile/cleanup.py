"""Clean-up: deletes the pods and Services of a suspended job, and those of a finished one according to cleanPodPolicy."""

from collections.abc import Iterable, Sequence

from jobcommon.api import reasons
from jobcommon.api.job import CleanPodPolicy
from jobcommon.api.observed import Observed
from jobcommon.api.pod import PodView
from jobcommon.api.status import ConditionType
from jobcommon.framework import FINALIZER, Job
from jobcommon.reconcile.children import CORE
from jobcommon.reconcile.ending import is_over
from jobcommon.reconcile.plan import Action, Delete, RemoveFinalizer

# With these reasons the job must stop; policy None then keeps the finished pods only.
_STOPPED = (reasons.BACKOFF_LIMIT_EXCEEDED, reasons.DEADLINE_EXCEEDED, reasons.INVALID_SPEC)


def effective_policy(job: Job) -> CleanPodPolicy:
    """The effective policy of a finished job, with the default filled in."""
    policy = job.run_policy.clean_pod_policy or CleanPodPolicy.RUNNING
    failed = job.status.condition(ConditionType.FAILED)
    stopped = failed is not None and failed.is_true and failed.reason in _STOPPED
    return CleanPodPolicy.RUNNING if policy == CleanPodPolicy.NONE and stopped else policy


def clean_up_finished(job: Job, observed: Observed, pods: Iterable[PodView]) -> list[Action]:
    """Remove the finalizer of every ended pod of a finished job; delete `pods` (ours) and Services according to the policy."""
    policy = effective_policy(job)
    actions: list[Action] = [*release(observed.pods)]
    for pod in pods:
        over = is_over(pod)
        if pod.deletion_time is not None:
            continue
        if policy == CleanPodPolicy.ALL:
            actions.append(delete_pod(pod, "cleanPodPolicy All"))
        elif policy == CleanPodPolicy.RUNNING and not over:
            # The pod may have just finished; then it must be kept (rule R1: the decision depends on its state).
            actions.append(delete_pod(pod, "cleanPodPolicy Running", unchanged=True))
    if policy != CleanPodPolicy.NONE:
        actions += delete_services(observed, "job finished")
    return actions


def stop_pods(pods: Iterable[PodView], why: str, *, unchanged: bool = False) -> list[Action]:
    """Delete the pods, and remove the finalizer of ended ones. With `unchanged`, delete a running pod only if unchanged."""
    pods = list(pods)
    deletions = (delete_pod(p, why, unchanged=unchanged and not is_over(p)) for p in pods if p.deletion_time is None)
    return [*release(pods), *deletions]


def delete_pod(pod: PodView, why: str, *, unchanged: bool = False) -> Delete:
    """Delete this incarnation of the pod; with `unchanged`, only if it has not changed since it was seen."""
    return Delete(CORE, "pods", pod.name, pod.uid, why, pod.resource_version if unchanged else None)


def release(pods: Iterable[PodView]) -> Sequence[RemoveFinalizer]:
    """Remove the finalizer of the pods that have ended."""
    return [RemoveFinalizer(pod.name, pod.uid, pod.finalizers) for pod in pods if FINALIZER in pod.finalizers and is_over(pod)]


def release_all(pods: Iterable[PodView]) -> Sequence[RemoveFinalizer]:
    """Remove the finalizer of all pods, ended or not: their job is being deleted, so they will not be counted."""
    return [RemoveFinalizer(pod.name, pod.uid, pod.finalizers) for pod in pods if FINALIZER in pod.finalizers]


def delete_services(observed: Observed, why: str) -> list[Action]:
    """Delete the job's Services, found by owner, not through pods (the reference leaked those without a pod)."""
    return [
        Delete(CORE, "services", service.name, service.uid, why)
        for service in observed.services
        if service.deletion_time is None
    ]
