"""Pods: defaults, validation, QoS class and what may change."""

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

from localcluster.apiserver.errors import Cause, forbidden, invalid
from localcluster.apiserver.json_values import json_copy
from localcluster.apiserver.kinds.field_rules import POD_DEFAULTS
from localcluster.apiserver.kinds.pod_spec import validate_spec
from localcluster.apiserver.schema import walk
from localcluster.quantity import parse_quantity

Obj = dict[str, Any]

_COMPUTE = ("cpu", "memory")
_FORBIDDEN = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_IMAGE = re.compile(
    rf"(?:[a-zA-Z0-9.-]+(?::\d+)?/)?{_COMPONENT}(?:/{_COMPONENT})*(?::(?P<tag>[\w][\w.-]{{0,127}}))?(?P<digest>@\S+)?"
)
#: What has rules of its own.
_MUTABLE = ("activeDeadlineSeconds", "tolerations", "schedulingGates")


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


def validate_update(new: Obj, old: Obj) -> Sequence[Cause]:
    """Images, the deadline and a few more may change; binding (an empty nodeName) is the binding subresource's."""
    after, before = new["spec"], old["spec"]
    if after == before:
        return []
    for part in ("containers", "initContainers"):
        if len(after.get(part) or ()) != len(before.get(part) or ()):
            return [forbidden(f"spec.{part}", "pod updates may not add or remove containers")]
    causes: list[Cause] = []
    deadline, limit = after.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")
    if limit is not None and deadline is None:
        causes.append(invalid("spec.activeDeadlineSeconds", None, "must not update from a positive integer to nil value"))
    elif limit is not None and deadline > limit:
        return [invalid("spec.activeDeadlineSeconds", deadline, "must be less than or equal to previous value")]
    causes += [*_gates(after, before), *_tolerations(after, before)]
    after, before = _comparable(after), _comparable(before)
    if old["spec"].get("schedulingGates"):
        # Where a pod may run may still change.
        for spec in (after, before):
            spec.pop("nodeSelector", None)
            spec["affinity"] = {key: one for key, one in (spec.get("affinity") or {}).items() if key != "nodeAffinity"}
    if after != before:
        causes.append(forbidden("spec", _FORBIDDEN))
    return causes


def _gates(after: Obj, before: Obj) -> Iterator[Cause]:
    known = [gate["name"] for gate in before.get("schedulingGates") or ()]
    for index, gate in enumerate(after.get("schedulingGates") or ()):
        if gate["name"] not in known:
            text = f"only deletion is allowed, but found new scheduling gate '{gate['name']}'"
            yield forbidden(f"spec.schedulingGates[{index}].name", text)


def _tolerations(after: Obj, before: Obj) -> Iterator[Cause]:
    kept = [_without_seconds(one) for one in after.get("tolerations") or ()]
    if not all(_without_seconds(one) in kept for one in before.get("tolerations") or ()):
        yield forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")


def _without_seconds(toleration: Obj) -> Obj:
    return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}


def _comparable(spec: Obj) -> Obj:
    kept = {key: value for key, value in spec.items() if key not in _MUTABLE}
    for part in ("containers", "initContainers"):
        if part in kept:
            kept[part] = [{**container, "image": ""} for container in kept[part]]
    return kept


def _pull_policy(image: str) -> str:
    """Always for the newest image; a text that names no image is not the newest one."""
    found = _IMAGE.fullmatch(image)
    newest = found is not None and (found["tag"] == "latest" or not (found["tag"] or found["digest"]))
    return "Always" if newest else "IfNotPresent"


def default_pod_spec(spec: Obj) -> None:
    """The defaults of a pod's spec. Its account and its priority are admission's."""
    for container in _containers(spec):
        # Requests are as high as limits.
        resources = container.get("resources") or {}
        for name, limit in (resources.get("limits") or {}).items():
            resources.setdefault("requests", {}).setdefault(name, limit)
        container.setdefault("imagePullPolicy", _pull_policy(container.get("image") or ""))
        for port in (container.get("ports") or ()) if spec.get("hostNetwork") else ():
            if port.get("containerPort"):
                port.setdefault("hostPort", port["containerPort"])
    for volume in spec.get("volumes") or ():
        if len(volume) < 2:
            volume["emptyDir"] = {}
        if "image" in volume:
            volume["image"].setdefault("pullPolicy", _pull_policy(volume["image"].get("reference") or ""))
    walk.default(POD_DEFAULTS, spec)
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    # A negative period means the shortest one.
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    spec.setdefault("enableServiceLinks", True)


def _containers(spec: Obj) -> tuple[Obj, ...]:
    return *(spec.get("containers") or ()), *(spec.get("initContainers") or ())


def defaulted(spec: Obj) -> Obj:
    """A copy of a spec with the defaults of a pod."""
    copy: Obj = json_copy(spec)
    default_pod_spec(copy)
    return copy
