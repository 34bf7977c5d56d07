"""Nodes that are lost, and nodes on which pods of the job fail again and again.

No right on nodes is needed. The control plane taints a node that is silent, and evicts its pods when their tolerations end
(nodeLossSeconds). Such a pod stays, being deleted, because its programs may still run. It ends when the node is back; the pod
garbage collector ends it when the node is gone or tainted as out of service. Here it is deleted by force, and only if it has
ended or its annotation says that its programs may run twice.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from jobcommon.api import labels, reasons
from jobcommon.api.replica import Replica
from jobcommon.api.status import JobStatus, NodeFailures
from jobcommon.api.template import mapping_of, mappings_in
from jobcommon.framework import Job
from jobcommon.reconcile.ending import PLATFORM_REASONS, Ending, EndType
from jobcommon.reconcile.intents import Course, ForcePod
from jobcommon.reconcile.slots import Slot
from jobcommon.reconcile.view import Lifecycle, PodShape, Wake

FORCE_AFTER_SECONDS = 10.0
"""A kubelet that answers reports the end of a pod at most so long after the grace period."""
MAX_NODES = 10
AVOIDED_FROM = 2
_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_EVICTED = "DeletionByTaintManager"
_CHOSEN_BY_OTHERS = ("Preempting", "Preempted")
# Ends for which the node may be the cause. A preemption, a drain or a deletion by hand does not.
_BY_THE_NODE = PLATFORM_REASONS.difference(_CHOSEN_BY_OTHERS) | {
    _EVICTED, "DeletionByPodGC", "TerminationByKubelet", "ContainerStatusUnknown", reasons.LOST,
}  # fmt: skip
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_MAX_WEIGHT = 100


class NodeLoss(PodShape, Lifecycle):
    """What is done about nodes, in one pass."""

    fields = ("node_failures",)

    @classmethod
    def concerns(cls, job: Job) -> bool:
        """See `Feature`."""
        return job.run_policy.node_loss_seconds is not None or _avoids(job)

    def shape(self, replica: Replica, pod: dict[str, Any]) -> dict[str, Any]:
        """The pod with the tolerations, and with the preference for other nodes."""
        spec, seconds = pod["spec"], self.job.run_policy.node_loss_seconds
        if seconds is not None:
            given = list(mappings_in(spec.get("tolerations")))
            added = [
                {"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}
                for taint in _TAINTS
                if not _tolerated(given, taint)
            ]
            spec = {**spec, "tolerations": [*given, *added]}
        if nodes := [entry.node for entry in avoided(self.job)]:
            # A name in matchFields is the node's own, and a requirement there has one value.
            fields = [{"key": "metadata.name", "operator": "NotIn", "values": [node]} for node in nodes]
            affinity = mapping_of(spec.get("affinity"))
            to_nodes = mapping_of(affinity.get("nodeAffinity"))
            term = {"weight": _MAX_WEIGHT, "preference": {"matchFields": fields}}
            to_nodes = {**to_nodes, _PREFERRED: [*(to_nodes.get(_PREFERRED) or []), term]}
            spec = {**spec, "affinity": {**affinity, "nodeAffinity": to_nodes}}
        return {**pod, "spec": spec}

    def act(self, course: Course | None) -> Iterable[ForcePod | Wake]:
        """Delete by force a pod that has ended or may run twice and that its node does not remove.

        In every phase of the job: a pod that stays keeps its quota and its name. A kubelet that dies between a pod's final
        status and its last DELETE leaves such a pod for ever.
        """
        for slot in self.view.slots.ours if self.job.run_policy.node_loss_seconds is not None else ():
            if (due := _force_due(self.job, slot)) is not None:
                yield Wake(due) if self.now < due else ForcePod(slot.pod.uid)

    def record(self, status: JobStatus) -> Mapping[str, Any]:
        """The failures by node, with those of this pass."""
        return {"node_failures": counted(self.job, self.view.accounting.entries)}


def _tolerated(tolerations: Iterable[Mapping[str, Any]], taint: str) -> bool:
    """Whether the API server would add no toleration of the taint either (admission plugin DefaultTolerationSeconds)."""
    return any((t.get("key") or taint) == taint and t.get("effect") in (None, "", "NoExecute") for t in tolerations)


# -- pods of a node that is silent -------------------------------------------------------------------------------------------


def _force_due(job: Job, slot: Slot) -> float | None:
    """When the pod is to be deleted by force (seconds since the epoch); None for one that is not."""
    seconds, pod = job.run_policy.node_loss_seconds, slot.pod
    if seconds is None or slot.removal_due is None:
        return None
    if not slot.over and pod.annotations.get(labels.SAFE_TO_DELETE) != "true":
        return None
    # An evicted pod's node has been silent for long already. Otherwise the kubelet may just be restarting.
    return slot.removal_due + (FORCE_AFTER_SECONDS if pod.disruption == _EVICTED else max(float(seconds), FORCE_AFTER_SECONDS))


# -- nodes that are avoided --------------------------------------------------------------------------------------------------


def avoided(job: Job) -> list[NodeFailures]:
    """The nodes that new pods of the job avoid, if others will do."""
    return [entry for entry in job.status.node_failures if entry.count >= AVOIDED_FROM] if _avoids(job) else []


def counted(job: Job, entries: Iterable[Slot]) -> list[NodeFailures]:
    """The failures by node after those of this pass, the latest last.

    Of the nodes that are avoided the latest are kept, and of the others, which so push none of them out. Nodes come and go: by
    their number of failures, nodes that are gone would stay for ever.
    """
    known = list(job.status.node_failures)
    for slot in entries if _avoids(job) else ():
        node = slot.pod.node_name
        if node and _blames(slot.ending):
            before = next((entry for entry in known if entry.node == node), NodeFailures(node=node, count=0))
            known = [entry for entry in known if entry.node != node]
            known.append(before.model_copy(update={"count": before.count + 1}))
    bad = [entry.node for entry in known if entry.count >= AVOIDED_FROM][-MAX_NODES:]
    others = [entry.node for entry in known if entry.count < AVOIDED_FROM][-MAX_NODES:]
    return [entry for entry in known if entry.node in (*bad, *others)]


def _avoids(job: Job) -> bool:
    policy = job.run_policy
    return policy.node_loss_seconds is not None if policy.avoid_failed_nodes is None else policy.avoid_failed_nodes


def _blames(ending: Ending) -> bool:
    lost = ending.type == EndType.DISRUPTED and ending.reason in _BY_THE_NODE
    return lost or (ending.type == EndType.RETRYABLE and ending.exit_code != 0)
