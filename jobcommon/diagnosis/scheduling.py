"""What a scheduler says of a pod that it cannot place, and what the nodes say to it."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from jobcommon.api.quantity import Quantity, parse_quantity
from jobcommon.api.resources import pod_resources
from jobcommon.api.template import mappings_in
from jobcommon.causes.cause import Cause, Clue, in_short, listed, revealed
from jobcommon.causes.cause_reasons import Reason

SCHEDULER_RETRY = "the scheduler retries when nodes or pods change"
# Preemption, and which nodes the plugins rule out, are consequences of the parts before.
_TRAILER = re.compile(r"\.?\s*(?:preemption|no new claims to deallocate)\b.*", re.DOTALL)
_INSUFFICIENT = re.compile(r"Insufficient ([\w./-]+)")

# In the order of what is told: nodes with a taint or another label are mostly meant for other pods.
_CLUES = (
    Clue(
        r'persistentvolumeclaims? "([^"]+)" not found',
        Reason.VOLUME_CLAIM_NOT_FOUND,
        'the PersistentVolumeClaim "{0}" does not exist',
        "create it, or correct claimName; kubectl get pvc lists them",
    ),
    Clue(
        r"unbound immediate PersistentVolumeClaims|didn't find available persistent volumes|unbound PersistentVolumeClaim",
        Reason.VOLUME_CLAIM_UNBOUND,
        "a PersistentVolumeClaim is not bound to a volume",
        "see why: kubectl describe pvc; often its storageClassName does not exist or cannot provision",
    ),
    Clue(
        r"node\(s\) had volume node affinity conflict",
        Reason.VOLUME_CLAIM_UNBOUND,
        "its volume is not reachable from the free nodes (another zone or node)",
        "remove the nodeSelector that excludes the volume's zone, or use a volume of another zone",
    ),
    Clue(r"no nodes available to schedule pods", Reason.NO_NODES, "the cluster has no nodes", "add a node"),
    Clue(
        r"Insufficient ([\w./-]+)",
        Reason.INSUFFICIENT_RESOURCES,
        "",
        "wait until other pods end, request less {0}, or add nodes",
    ),
    Clue(
        r"Too many pods",
        Reason.INSUFFICIENT_RESOURCES,
        "the nodes have reached their limit of pods",
        "wait until other pods end, or add nodes",
    ),
    Clue(
        r"anti-affinity rules|pod affinity rules|affinity rules for existing|didn't match pod (?:anti-)?affinity",
        Reason.POD_AFFINITY,
        "",
        "change podAffinity or podAntiAffinity in the pod template, or add nodes",
    ),
    Clue(r"topology spread constraints", Reason.TOPOLOGY_SPREAD, "", "change topologySpreadConstraints in the pod template"),
    Clue(
        r"free ports for the requested pod ports",
        Reason.HOST_PORT_IN_USE,
        "its hostPort is in use on every node that it may run on",
        "remove hostPort or hostNetwork, or choose another port",
    ),
    Clue(
        r"untolerated taint",
        Reason.UNTOLERATED_TAINT,
        "",
        "add a toleration to the pod template if the job may run there, or see why the node has the taint",
    ),
    Clue(
        r"node\(s\) were unschedulable",
        Reason.NODES_CORDONED,
        "",
        "the nodes are cordoned: kubectl uncordon NODE when their maintenance is over",
    ),
    Clue(
        r"node affinity/selector|didn't match node selector|node\(s\) didn't match Pod's node affinity",
        Reason.NODE_SELECTOR,
        "",
        "correct nodeSelector or nodeAffinity; kubectl get nodes --show-labels lists the labels",
    ),
)


def unschedulable(
    message: str, pod: Mapping[str, Any], nodes: Sequence[Mapping[str, Any]], requested: Mapping[str, Quantity]
) -> Cause:
    """Why the scheduler finds no node for `pod`. `nodes` are those of the cluster, none if they could not be read;
    `requested` is what the job's pods request together.
    """
    told = _TRAILER.sub("", in_short(message, 4000))
    cause = revealed(told, _CLUES) or Cause(Reason.UNSCHEDULABLE, told, "change the pod template, or add nodes")
    if cause.reason == Reason.INSUFFICIENT_RESOURCES and (short := _too_large(told, pod, nodes)) is not None:
        return short
    if cause.reason == Reason.INSUFFICIENT_RESOURCES and (much := _too_much(told, requested, nodes)) is not None:
        return much
    text = f"no node for it: {cause.text}"
    if cause.reason == Reason.UNTOLERATED_TAINT and "{" not in told and (taints := _taints(nodes)):
        # Since Kubernetes 1.36 the scheduler does not name them.
        text += f"; the nodes have the taints {listed(taints)}"
    if cause.reason == Reason.NODE_SELECTOR and (wanted := _unlabelled(pod, nodes)):
        text += f"; no node has the label {' or '.join(wanted)}"
    return Cause(cause.reason, in_short(text), cause.advice, then=SCHEDULER_RETRY)


def _unlabelled(pod: Mapping[str, Any], nodes: Sequence[Mapping[str, Any]]) -> list[str]:
    """The labels of the pod's nodeSelector that none of the nodes has; none if the nodes could not be read."""
    selector = (pod.get("spec") or {}).get("nodeSelector") or {}
    labels = [(node.get("metadata") or {}).get("labels") or {} for node in nodes]
    return [f"{key}={value}" for key, value in selector.items() if nodes and all(one.get(key) != value for one in labels)]


def _taints(nodes: Sequence[Mapping[str, Any]]) -> list[str]:
    taints = (taint for node in nodes for taint in mappings_in((node.get("spec") or {}).get("taints")))
    kept = (taint for taint in taints if taint.get("effect") != "PreferNoSchedule")
    return list(dict.fromkeys(f"{taint.get('key')}={taint.get('value') or ''}".removesuffix("=") for taint in kept))


def _too_large(message: str, pod: Mapping[str, Any], nodes: Sequence[Mapping[str, Any]]) -> Cause | None:
    """The cause if not even an empty node would have enough."""
    wanted = pod_resources(pod)
    for name in _INSUFFICIENT.findall(message):
        amount = wanted.get(name)
        if amount is None or not nodes:
            continue
        largest = max((_allocatable(node, name) for node in nodes), key=lambda quantity: quantity.nanos)
        if largest.nanos < amount.nanos:
            have = f"the largest has {largest}" if largest.nanos else "no node has any"
            return Cause(
                Reason.NODE_TOO_SMALL,
                f"no node is large enough: it requests {name}={amount}, {have}",
                f"request less {name}, or add nodes that have it",
                then="the job waits until there is such a node",
            )
    return None


def _too_much(message: str, wanted: Mapping[str, Quantity], nodes: Sequence[Mapping[str, Any]]) -> Cause | None:
    """The cause if the job's pods would not fit together, were all nodes empty."""
    for name in _INSUFFICIENT.findall(message):
        have = sum((_allocatable(node, name) for node in nodes), Quantity())
        if nodes and name in wanted and have.nanos < wanted[name].nanos:
            return Cause(
                Reason.INSUFFICIENT_RESOURCES,
                f"no node for it: the job's pods request {name}={wanted[name]} together, all nodes have {have}",
                f"request less {name}, start fewer replicas, or add nodes",
                then="the job's pods do not all run until there are such nodes",
            )
    return None


def _allocatable(node: Mapping[str, Any], name: str) -> Quantity:
    amounts = (node.get("status") or {}).get("allocatable") or {}
    try:
        return parse_quantity(amounts.get(name, "0"))
    except ValueError:
        return Quantity()
