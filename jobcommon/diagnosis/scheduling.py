"""What a scheduler says of a pod that it cannot place, and what the nodes say to it."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from jobcommon.api.resources import Quantity, parse_quantity, pod_resources
from jobcommon.api.template import mapping_of, mappings_in
from jobcommon.causes.cause import Cause, in_short, listed
from jobcommon.causes.cause_reasons import Reason
from jobcommon.causes.clues import revealed, table

SCHEDULER_RETRY = "the scheduler retries when nodes or pods change"
# Preemption, and which nodes the plugins rule out, are consequences of the parts before.
_TRAILER = re.compile(r"\.?\s*(?:preemption|no new claims to deallocate)\b.*", re.DOTALL)
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_CORDONED, _OF_CONTROL_PLANE = "node.kubernetes.io/unschedulable", "node-role.kubernetes.io/"
# What keeps a pod from a node for as long as neither is changed; of several the first is easiest to change.
_STATIC, _TOO_SMALL = (Reason.UNTOLERATED_TAINT, Reason.NODES_CORDONED, Reason.NODE_SELECTOR), Reason.NODE_TOO_SMALL
_OF_NODE = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
_CHANGE = "change the pod template, or add nodes"
_FEW = 3
_INSUFFICIENT = re.compile(r"Insufficient ([\w./-]+)")


def unschedulable(
    message: str, pod: Mapping[str, Any], nodes: Sequence[Mapping[str, Any]], requested: Mapping[str, Quantity]
) -> Cause:
    """Why the scheduler finds no node for `pod`. `nodes` are those of the cluster, none if they could not be read;
    `requested` is what the job's pods request together.
    """
    said = _TRAILER.sub("", in_short(message, 4000))
    cause = revealed(said, "unschedulable") or Cause(Reason.UNSCHEDULABLE, said, _CHANGE)
    reason, advice, text = cause.reason, cause.advice, f"cannot be scheduled: {cause.text}"
    suited = _suited(pod, nodes) if reason in (Reason.INSUFFICIENT_RESOURCES, *_STATIC) else None
    some, static = nodes, suited if suited is not None and suited[0] in _STATIC else None
    if static is not None:
        reason, some = static[0] or reason, static[1]
        advice = next(clue.advice for clue in table("unschedulable").clues if clue.reason == reason)
    elif suited is not None and suited[0] is None and reason in _STATIC and (parts := _not_static(said)):
        # Of the nodes that are suitable the scheduler says something else.
        reason, text, advice = Reason.UNSCHEDULABLE, f"cannot be scheduled: {', '.join(parts)}", _CHANGE
    if reason == Reason.INSUFFICIENT_RESOURCES and (short := _too_large(said, pod, nodes)) is not None:
        return short
    if reason == Reason.INSUFFICIENT_RESOURCES and (much := _too_much(said, requested, nodes)) is not None:
        return much
    taints = _taints(pod, some) if reason == Reason.UNTOLERATED_TAINT and ("{" not in said or static is not None) else []
    if taints:
        # Since Kubernetes 1.36 the scheduler does not name them.
        text += f"; the nodes {'that are otherwise suitable ' if static is not None else ''}have the taints {listed(taints)}"
        if all(taint.startswith(_OF_NODE) for taint in taints):
            advice = "the state of the node is the reason: kubectl describe node, or use other nodes"
    if reason == Reason.NODES_CORDONED and static is not None:
        advice = advice.replace("NODE", " ".join(_name(node) for node in some[:_FEW]))
    if wanted := _unlabelled(reason, pod, nodes):
        text += f"; no node has the label {' or '.join(wanted)}"
    return Cause(reason, in_short(text), advice, then=SCHEDULER_RETRY)


def claims_of(spec: Mapping[str, Any]) -> list[str]:
    """The PersistentVolumeClaims that a pod mounts."""
    claims = (mapping_of(volume.get("persistentVolumeClaim")) for volume in mappings_in(spec.get("volumes")))
    return [str(claim["claimName"]) for claim in claims if claim.get("claimName")]


def _suited(
    pod: Mapping[str, Any], nodes: Sequence[Mapping[str, Any]]
) -> tuple[Reason | None, Sequence[Mapping[str, Any]]] | None:
    """What keeps the pod from all nodes, however empty they are: the obstacle that is the only one of some, and these nodes.

    Without an obstacle if some are suitable. None if that is not known: nodes are not read, or an affinity chooses them.
    """
    spec = mapping_of(pod.get("spec"))
    if not nodes or mapping_of(mapping_of(spec.get("affinity")).get("nodeAffinity")).get(_REQUIRED):
        return None
    wanted = pod_resources(pod)
    found = [(node, _obstacles(spec, wanted, node)) for node in nodes]
    alone = ((reason, [node for node, obstacles in found if obstacles == {reason}]) for reason in (*_STATIC, _TOO_SMALL))
    if suitable := [node for node, obstacles in found if not obstacles]:
        return None, suitable
    return next(((reason, some) for reason, some in alone if some), None)


def _not_static(said: str) -> list[str]:
    """The parts of a scheduler's message that are about neither taints nor cordons nor labels."""
    parts = said.partition(": ")[2].split(", ")
    return [part for part in parts if (its := revealed(part, "unschedulable")) is None or its.reason not in _STATIC]


def _obstacles(spec: Mapping[str, Any], wanted: Mapping[str, Quantity], node: Mapping[str, Any]) -> set[Reason]:
    about, labels = mapping_of(node.get("spec")), mapping_of(mapping_of(node.get("metadata")).get("labels"))
    untolerated = [taint for taint in _hard_taints(node) if not any(_tolerates(one, taint) for one in _tolerations(spec))]
    large = all(_allocatable(node, name).nanos >= amount.nanos for name, amount in wanted.items())
    selected = all(labels.get(key) == value for key, value in mapping_of(spec.get("nodeSelector")).items())
    found = {
        Reason.NODES_CORDONED: bool(about.get("unschedulable")),
        Reason.UNTOLERATED_TAINT: bool(untolerated),
        Reason.NODE_SELECTOR: not selected,
        # Nodes of the control plane are not meant for jobs.
        Reason.NODE_TOO_SMALL: not large or any(str(taint.get("key")).startswith(_OF_CONTROL_PLANE) for taint in untolerated),
    }
    return {reason for reason, holds in found.items() if holds}


def _tolerations(spec: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return tuple(mappings_in(spec.get("tolerations")))


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key") in (None, "", taint.get("key"))
    return toleration.get("key") == taint.get("key") and (toleration.get("value") or "") == (taint.get("value") or "")


def _hard_taints(node: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    taints = mappings_in(mapping_of(node.get("spec")).get("taints"))
    return [one for one in taints if one.get("effect") != "PreferNoSchedule" and one.get("key") != _CORDONED]


def _name(node: Mapping[str, Any]) -> str:
    return str(mapping_of(node.get("metadata")).get("name"))


def _unlabelled(reason: str, pod: Mapping[str, Any], nodes: Sequence[Mapping[str, Any]]) -> list[str]:
    """The labels that the pod asks for by its nodeSelector, or by a topology, and none of the nodes has."""
    spec = mapping_of(pod.get("spec"))
    labels = [mapping_of(mapping_of(node.get("metadata")).get("labels")) for node in nodes]
    if reason == Reason.NODE_SELECTOR:
        selector = mapping_of(spec.get("nodeSelector")).items()
        return [f"{key}={value}" for key, value in selector if nodes and all(one.get(key) != value for one in labels)]
    keys = []
    if reason == Reason.TOPOLOGY_SPREAD:
        keys = [str(one.get("topologyKey")) for one in mappings_in(spec.get("topologySpreadConstraints"))]
    if reason == Reason.POD_AFFINITY:
        terms = mapping_of(mapping_of(spec.get("affinity")).get("podAffinity")).get(_REQUIRED)
        keys = [str(one.get("topologyKey")) for one in mappings_in(terms)]
    return [key for key in dict.fromkeys(keys) if nodes and not any(key in one for one in labels)]


def _taints(pod: Mapping[str, Any], nodes: Sequence[Mapping[str, Any]]) -> list[str]:
    """Those that the pod does not tolerate."""
    tolerations = _tolerations(mapping_of(pod.get("spec")))
    found = (taint for node in nodes for taint in _hard_taints(node))
    kept = (taint for taint in found if not any(_tolerates(one, taint) for one in tolerations))
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
                f"cannot be scheduled: the job's pods request {name}={wanted[name]} together, all nodes have {have}",
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
