"""What a scheduler says of a pod that it cannot place, and what the nodes say to it."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jobcommon.api.resources import Quantity, parse_quantity, pod_resources, total
from jobcommon.api.template import mapping_of, mappings_in
from jobcommon.causes.cause import Cause, in_short, listed
from jobcommon.causes.cause_reasons import Reason
from jobcommon.causes.clues import revealed

SCHEDULER_RETRY = "the scheduler retries when nodes or pods change"
# Preemption, and which nodes the plugins rule out, are consequences of the parts before.
_TRAILER = re.compile(r"\.?\s*(?:preemption|no new claims to deallocate|still not schedulable)\b.*", re.DOTALL)
_CORDONED = "node.kubernetes.io/unschedulable"
_CHANGE = "change the pod template, or add nodes"
_INSUFFICIENT = re.compile(r"Insufficient ([\w./-]+)")


def unschedulable(
    message: str, pod: Mapping[str, Any], nodes: Sequence[Mapping[str, Any]], pods: Iterable[Mapping[str, Any]] = ()
) -> Cause:
    """Why the scheduler finds no node for `pod`. `nodes` are those of the cluster, none if they could not be read; `pods`
    are those of the job that hold resources or ask for them.
    """
    said = _TRAILER.sub("", in_short(message, 4000))
    cause = revealed(said, "unschedulable") or Cause(Reason.UNSCHEDULABLE, said, _CHANGE)
    reason, text = cause.reason, f"cannot be scheduled: {cause.text}"
    if ", " in said and cause.text != in_short(said):
        text += f"; {said}"
    lacking = dict.fromkeys(_INSUFFICIENT.findall(said))
    advice = cause.advice.replace(f"({next(iter(lacking), '')})", f"({', '.join(lacking)})")
    if reason == Reason.INSUFFICIENT_RESOURCES and (short := _too_large(said, pod, nodes, pods)) is not None:
        return short
    if reason == Reason.UNTOLERATED_TAINT and "{" not in said and (taints := _taints(pod, nodes)):
        # Since Kubernetes 1.36 the scheduler does not name them.
        text += f"; the nodes have the taints {listed(taints)}"
    if reason == Reason.NODE_SELECTOR and (wanted := _unlabelled(pod, nodes)):
        text += f"; no node has the label {' or '.join(wanted)}"
    return Cause(reason, in_short(text), advice, then=SCHEDULER_RETRY)


def claims_of(spec: Mapping[str, Any]) -> list[str]:
    """The PersistentVolumeClaims that a pod mounts."""
    claims = (mapping_of(volume.get("persistentVolumeClaim")) for volume in mappings_in(spec.get("volumes")))
    return [str(claim["claimName"]) for claim in claims if claim.get("claimName")]


def _unlabelled(pod: Mapping[str, Any], nodes: Sequence[Mapping[str, Any]]) -> list[str]:
    """The labels that the pod asks for by its nodeSelector, and none of the nodes has."""
    labels = [mapping_of(mapping_of(node.get("metadata")).get("labels")) for node in nodes]
    selector = mapping_of(mapping_of(pod.get("spec")).get("nodeSelector")).items()
    return [f"{key}={value}" for key, value in selector if nodes and all(one.get(key) != value for one in labels)]


def _taints(pod: Mapping[str, Any], nodes: Sequence[Mapping[str, Any]]) -> list[str]:
    """Those whose keys the pod does not tolerate."""
    tolerated = {one.get("key") for one in mappings_in(mapping_of(pod.get("spec")).get("tolerations"))}
    found = (taint for node in nodes for taint in mappings_in(mapping_of(node.get("spec")).get("taints")))
    kept = (one for one in found if one.get("effect") != "PreferNoSchedule" and one.get("key") not in (_CORDONED, *tolerated))
    return list(dict.fromkeys(f"{taint.get('key')}={taint.get('value') or ''}".removesuffix("=") for taint in kept))


def _too_large(
    message: str, pod: Mapping[str, Any], nodes: Sequence[Mapping[str, Any]], pods: Iterable[Mapping[str, Any]]
) -> Cause | None:
    """The cause if not even empty nodes would have enough, for the pod or for all pods of its job."""
    wanted, together = pod_resources(pod), total(map(pod_resources, pods))
    for name in _INSUFFICIENT.findall(message):
        amount = wanted.get(name)
        if amount is None or not nodes:
            continue
        empty = [_allocatable(node, name) for node in nodes]
        largest, have_all = max(empty, key=lambda quantity: quantity.nanos), sum(empty, Quantity())
        if largest.nanos < amount.nanos:
            have = f"the largest has {largest}" if largest.nanos else "no node has any"
            return Cause(
                Reason.NODE_TOO_SMALL,
                f"no node is large enough: it requests {name}={amount}, {have}",
                f"request less {name}, or add nodes that have it",
                then="the job waits until there is such a node",
            )
        if name in together and have_all.nanos < together[name].nanos:
            return Cause(
                Reason.INSUFFICIENT_RESOURCES,
                f"cannot be scheduled: the job's pods request {name}={together[name]} together, all nodes have {have_all}",
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
