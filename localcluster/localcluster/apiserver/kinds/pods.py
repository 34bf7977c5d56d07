"""Pods: defaults, validation, QoS class and what may change."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from localcluster.apiserver.errors import Cause, forbidden
from localcluster.apiserver.kinds.pod_defaults import default_pod_spec
from localcluster.apiserver.kinds.pod_spec import validate_spec
from localcluster.apiserver.kinds.pod_update import validate_update
from localcluster.quantity import parse_quantity

__all__ = ["validate_spec", "validate_update"]
Obj = dict[str, Any]

_COMPUTE = ("cpu", "memory")


def default(obj: Obj) -> None:
    """A pod's defaults."""
    default_pod_spec(obj.setdefault("spec", {}))


def on_create(obj: Obj) -> None:
    """A new pod is Pending; its QoS class never changes."""
    obj["status"] = {"phase": "Pending", "qosClass": qos_class(obj["spec"])}
    if obj["spec"].get("schedulingGates"):
        told = "Scheduling is blocked due to non-empty scheduling gates"
        times = {"lastProbeTime": None, "lastTransitionTime": obj["metadata"]["creationTimestamp"]}
        condition = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": told, **times}
        obj["status"]["conditions"] = [condition]


def on_update(new: Obj, old: Obj) -> None:
    """What the server computed at creation is kept where a write leaves it out, as nothing else would restore it."""
    # An apply may have taken it all.
    new.setdefault("spec", {})
    if "schedulingGroup" not in old["spec"]:
        new["spec"].pop("schedulingGroup", None)
    for condition in new.get("status", {}).get("conditions") or ():
        # The only times that are sent when they are not set.
        condition.setdefault("lastProbeTime", None)
        condition.setdefault("lastTransitionTime", None)
    for container in new.get("status", {}).get("containerStatuses") or ():
        container.setdefault("state", {})
        container.setdefault("lastState", {})
    for name in ("priority", "preemptionPolicy"):
        if name in old["spec"]:
            new["spec"].setdefault(name, old["spec"][name])
    if "qosClass" in old.get("status", {}):
        new.setdefault("status", {}).setdefault("qosClass", old["status"]["qosClass"])


def qos_class(spec: Obj) -> str:
    """Guaranteed: every container has limits of cpu and memory, and requests as much. BestEffort: none has any of either."""
    parts = [
        container.get("resources") or {} for part in ("containers", "initContainers") for container in spec.get(part) or ()
    ]
    requests, limits = ([_positive(part.get(name) or {}) for part in parts] for name in ("requests", "limits"))
    if not any((*requests, *limits)):
        return "BestEffort"
    complete = all(len(one) == len(_COMPUTE) for one in limits)
    return "Guaranteed" if complete and requests == limits else "Burstable"


def _positive(amounts: Obj) -> dict[str, Decimal]:
    found = {name: parse_quantity(amounts[name]) for name in _COMPUTE if name in amounts}
    return {name: amount for name, amount in found.items() if amount > 0}


def validate(obj: Obj) -> Sequence[Cause]:
    """The rules of a pod's spec."""
    return validate_spec(obj["spec"])


def validate_new(obj: Obj) -> Sequence[Cause]:
    """What only a new pod may not have."""
    spec = obj["spec"]
    causes = []
    if spec.get("ephemeralContainers"):
        causes.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
    if spec.get("nodeName") and spec.get("schedulingGates"):
        causes.append(forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared"))
    return causes
