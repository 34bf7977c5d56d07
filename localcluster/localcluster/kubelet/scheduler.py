"""The scheduler of a cluster with one node. The decision is pure; binding it is one POST."""

from collections.abc import Container, Iterable, Mapping
from decimal import Decimal
from typing import Any

from localcluster.kubelet.lifecycle import TERMINAL, Pod
from localcluster.quantity import parse_quantity

#: See testutil/sim/assumptions.toml.
ASSUMES = ("gates",)
DEFAULT_SCHEDULER = "default-scheduler"
#: The taint that a cordoned node implies; a pod that tolerates it is scheduled nevertheless.
_CORDONED = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def is_ours(pod: Pod) -> bool:
    """Whether this scheduler is to bind the pod: not one for another scheduler, or with scheduling gates."""
    spec = pod["spec"]
    return (
        not spec.get("nodeName")
        and (spec.get("schedulerName") or DEFAULT_SCHEDULER) == DEFAULT_SCHEDULER
        and not spec.get("schedulingGates")
        and not pod["metadata"].get("deletionTimestamp")
        and (pod.get("status") or {}).get("phase") not in TERMINAL
    )


def claims(pod: Pod) -> list[str]:
    """The names of the PersistentVolumeClaims that the pod mounts."""
    sources = (volume.get("persistentVolumeClaim") for volume in pod["spec"].get("volumes") or ())
    return list(dict.fromkeys(source["claimName"] for source in sources if source))


def requests(pod: Pod) -> dict[str, Decimal]:
    """The pod's requests: the sum over its containers, or the largest init container where that is more."""
    total: dict[str, Decimal] = {}
    for container in pod["spec"]["containers"]:
        for name, amount in _requests(container).items():
            total[name] = total.get(name, Decimal(0)) + amount
    for container in pod["spec"].get("initContainers") or []:
        for name, amount in _requests(container).items():
            total[name] = max(total.get(name, Decimal(0)), amount)
    return total


def _requests(container: Mapping[str, Any]) -> dict[str, Decimal]:
    resources = container.get("resources") or {}
    amounts = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {name: parse_quantity(text) for name, text in amounts.items()}


def unschedulable(
    pod: Pod,
    running: Iterable[Pod],
    node: Mapping[str, Any],
    capacity: Mapping[str, str] | None,
    there: Container[tuple[str, str]] = (),
) -> str:
    """Why the pod does not fit the node, "" if it does. `capacity` None: resources are not enforced.

    `there` are the PersistentVolumeClaims by namespace and name.
    """
    for claim in claims(pod):
        if (pod["metadata"]["namespace"], claim) not in there:
            return f'0/1 nodes are available: persistentvolumeclaim "{claim}" not found.'
    spec = node.get("spec") or {}
    if spec.get("unschedulable") and untolerated(pod, [_CORDONED], "NoSchedule"):
        return "0/1 nodes are available: 1 node(s) were unschedulable."
    if untolerated(pod, spec.get("taints") or (), "NoSchedule", "NoExecute"):
        return "0/1 nodes are available: 1 node(s) had untolerated taint(s)."
    labels = node["metadata"].get("labels") or {}
    selector = pod["spec"].get("nodeSelector") or {}
    if any(labels.get(key) != value for key, value in selector.items()):
        return "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
    if capacity is None:
        return ""
    free = {name: parse_quantity(amount) for name, amount in capacity.items()}
    for other in running:
        for name, amount in requests(other).items():
            if name in free:
                free[name] -= amount
    short = [name for name, amount in requests(pod).items() if amount > free.get(name, Decimal(0))]
    return f"0/1 nodes are available: 1 Insufficient {', '.join(sorted(short))}." if short else ""


def tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    """Whether the toleration matches the taint: an empty key or effect matches every one."""
    if (toleration.get("effect") or taint["effect"]) != taint["effect"]:
        return False
    if (toleration.get("key") or taint["key"]) != taint["key"]:
        return False
    if toleration.get("operator") == "Exists":
        return True
    return bool(toleration.get("key")) and (toleration.get("value") or "") == (taint.get("value") or "")


def untolerated(pod: Mapping[str, Any], taints: Iterable[Mapping[str, Any]], *effects: str) -> bool:
    """Whether the node has a taint with one of the effects that the pod does not tolerate."""
    tolerations = pod["spec"].get("tolerations") or ()
    return any(taint["effect"] in effects and not any(tolerates(one, taint) for one in tolerations) for taint in taints)
