"""What the models assume of Kubernetes, each with the cases that ran against a real one.

The models are the simulator's kubelet and scheduler, the builders of pods, and the embedded cluster's API server, garbage
collector and kubelet. Where one of them rests on an assumption it says so: ``ASSUMES = ("deleted-phase", ...)`` in the module
or the class. `tests/architecture` holds that every name there is one of these, that each of these is relied on somewhere, and
that every case exists; docs/assumptions.md is written from it by ``make golden``.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Assumption:
    """One sentence that must hold. `cases` are of the conformance suite, `rows` of ``make real``; there is one at least."""

    says: str
    cases: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()


ASSUMPTIONS: Mapping[str, Assumption] = {
    # -- the API server
    "grace": Assumption(
        "The deletion of a pod on a node sets deletionTimestamp to now and its grace period; a second one can only shorten it.",
        cases=("delete of a scheduled pod", "a second deletion shortens the grace only when it says so"),
    ),
    "moved-deletion": Assumption(
        "A second deletion never moves deletionTimestamp into the past: the kubelet's last DELETE of a pod with a finalizer "
        "sets it to now, with a grace period of 0.",
        cases=(
            "the kubelet's last DELETE of a pod that a finalizer keeps comes some time later",
            "a period that is shortened to less than what has passed becomes one second",
            "a period that is shortened counts from the first deletion",
        ),
    ),
    "grace-of-ended": Assumption(
        "A pod without a node, or one that has ended, is deleted with a grace period of 0.",
        cases=("delete of an unscheduled pod", "delete of a scheduled pod that is Succeeded"),
        rows=("pod: deleted after its end", "pod: deleted before it is scheduled"),
    ),
    "finalizers": Assumption(
        "An object with a finalizer stays, marked as being deleted, until its last finalizer is removed.",
        cases=("a finalizer holds the object: pods", "the version after the last finalizer is not the one of the deletion"),
    ),
    "preconditions": Assumption(
        "A deletion that names another UID or version is refused with 409.",
        cases=("delete with a wrong precondition: pods", "delete with a wrong precondition: widgets"),
    ),
    "eviction-api": Assumption(
        "The eviction API writes DisruptionTarget (EvictionByEvictionAPI) first, then deletes with the pod's own grace period.",
        cases=("eviction of a running pod", "eviction of a pod that has ended", "a second eviction changes nothing"),
        rows=("pod: evicted while it runs",),
    ),
    "binding": Assumption(
        "A pod is bound once, not while it is gated or being deleted.", cases=("binding", "a gated pod is not bound")
    ),
    "quota": Assumption(
        "A create beyond a ResourceQuota is refused with 403.", cases=("over quota",), rows=("a quota, at a replacement",)
    ),
    "terminating-namespace": Assumption(
        "In a terminating namespace creates are refused, and all objects are deleted.",
        cases=("a namespace that is terminating",),
        rows=("the namespace is deleted",),
    ),
    # -- the garbage collector
    "owners": Assumption(
        "Dependents of a deleted owner are deleted; with propagation Foreground the owner stays until they are gone.",
        cases=("propagation Background", "propagation Foreground"),
        rows=("the job is deleted, Background", "the job is deleted, Foreground"),
    ),
    "orphans": Assumption(
        "With propagation Orphan the dependents lose their owner reference and stay.",
        cases=("propagation Orphan",),
        rows=("the job is deleted, Orphan, operator down",),
    ),
    # -- the scheduler
    "gates": Assumption(
        "A pod with a scheduling gate is not bound; it is gone as soon as it is deleted.",
        cases=("pod with a scheduling gate",),
        rows=("pod: deleted before it is scheduled",),
    ),
    "preemption": Assumption(
        "A preempted pod gets DisruptionTarget (PreemptionByScheduler) and is deleted.", rows=("preempted by the scheduler",)
    ),
    # -- the kubelet
    "phases": Assumption(
        "A pod is Pending, Running, and at its end Succeeded when all containers exited with 0, else Failed.",
        rows=("pod: succeeds", "pod: fails"),
    ),
    "last-delete": Assumption(
        "For a deleted pod the kubelet first writes the final phase and exit codes, then deletes it with a grace period of 0.",
        rows=("pod: deleted while it runs",),
    ),
    "deleted-phase": Assumption(
        "A deleted pod ends Succeeded when its containers answer SIGTERM with exit code 0, else Failed.",
        rows=("pod: deleted while it runs, exits with 0", "pod: deleted while it runs"),
    ),
    "deleted-not-restarted": Assumption(
        "Containers of a pod that is being deleted are not started again, whatever its restartPolicy.",
        rows=("pod: deleted while it runs, is not restarted",),
    ),
    "grace-expired": Assumption(
        "A container that runs beyond the grace period is killed and shows exit code 137.",
        rows=("pod: deleted while it runs, SIGTERM ignored",),
    ),
    "in-place": Assumption(
        "Under OnFailure a failed container starts again in the same pod, at once the first time; restartCount grows by one.",
        rows=("pod: restarted in place",),
    ),
    "other-image": Assumption(
        "A pod whose image cannot be parsed gets a node and waits; with another image its container starts, in the same pod.",
        rows=("pod: an image that cannot be parsed, until another one is given",),
    ),
    "variables": Assumption(
        "A variable from an annotation, in env and in args, has the value that each start of the container finds.",
        rows=("pod: a variable from an annotation, as each start finds it",),
    ),
    "pod-deadline": Assumption(
        "After activeDeadlineSeconds the containers are stopped; the pod is Failed, reason DeadlineExceeded, with their codes.",
        rows=("pod: activeDeadlineSeconds passes",),
    ),
    "init-failure": Assumption(
        "Under Never a failed init container fails the pod, whose other containers never start.",
        rows=("pod: an init container fails",),
    ),
    "missing-volume": Assumption(
        "A pod whose Secret is missing stays Pending and starts once it is there.", rows=("pod: waits for its Secret",)
    ),
    "oom": Assumption(
        "A container killed for lack of memory shows reason OOMKilled and exit code 137; the pod has no DisruptionTarget.",
        rows=("pod: a container out of memory",),
    ),
    "kubelet-eviction": Assumption(
        "A pod that a kubelet under pressure evicts is Failed, reason Evicted, with DisruptionTarget (TerminationByKubelet).",
        rows=("pod: evicted by its kubelet, its node low on memory",),
    ),
    # -- nodes
    "node-taint": Assumption(
        "Pods of a silent node get DisruptionTarget (DeletionByTaintManager) and are deleted; they end when it is back.",
        rows=("the kubelet dies and comes back after the pods' eviction",),
    ),
}
