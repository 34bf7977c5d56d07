"""Nodes, and what is told of the cluster as a whole: priority and runtime classes, limits, endpoints."""

import base64
from collections.abc import Sequence
from typing import Any

from localcluster.apiserver.errors import Cause, duplicate, forbidden, invalid, not_chosen, required
from localcluster.apiserver.kinds.tables import (
    at_least,
    defaults,
    each_at,
    filled,
    given,
    immutable,
    in_turn,
    keep_filled,
    needed,
    one_of,
    rules,
    status_of,
    under,
)
from localcluster.apiserver.names import check, label_value, qualified_name
from localcluster.apiserver.resource import Strategy
from localcluster.quantity import parse_quantity

Obj = dict[str, Any]

#: The priority classes that every cluster has.
SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_HIGHEST_PRIORITY = 1_000_000_000
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")

# Nodes

_INFO = (
    "architecture", "bootID", "containerRuntimeVersion", "kernelVersion", "kubeProxyVersion", "kubeletVersion", "machineID",
    "operatingSystem", "osImage", "systemUUID",
)  # fmt: skip
_node_status = defaults(
    *filled("status", daemonEndpoints={}),
    *filled("status.daemonEndpoints.kubeletEndpoint", Port=0),
    *filled("status.nodeInfo", **dict.fromkeys(_INFO, "")),
    *under("status.conditions[]", lastHeartbeatTime=None, lastTransitionTime=None),
)


def _allocatable(obj: Obj) -> None:
    status = obj.get("status") or {}
    if "capacity" in status:
        status.setdefault("allocatable", dict(status["capacity"]))


def _taints(path: str, taints: Sequence[Obj]) -> Sequence[Cause]:
    causes = []
    seen = set()
    for index, taint in enumerate(taints):
        where, effect = f"{path}[{index}]", taint.get("effect", "")
        causes += check(qualified_name, f"{where}.key", taint.get("key", ""))
        causes += check(label_value, f"{where}.value", taint.get("value", ""))
        causes += not_chosen(f"{where}.effect", effect, _EFFECTS)
        if (taint.get("key"), effect) in seen:
            causes.append(duplicate(where, taint))
        seen.add((taint.get("key"), effect))
    return causes


def _kept(new: Obj, old: Obj) -> Sequence[Cause]:
    return [
        forbidden(f"spec.{name}", f'node updates may not change {told} except from "" to valid')
        for name, told in (("podCIDRs", "podCIDR"), ("providerID", "providerID"))
        if old["spec"].get(name) and old["spec"][name] != new["spec"].get(name)
    ]


NODE = Strategy(
    default=in_turn(defaults(("spec", {})), _allocatable),
    on_create=_node_status,
    on_update=keep_filled(in_turn(_node_status, _allocatable)),
    validate=rules(
        ("spec.taints", lambda _path, taints, _spec: _taints("metadata.taints", taints or ())),
        *each_at(given(lambda path, amounts: _not_negative(path, amounts)), "status.capacity", "status.allocatable"),
    ),
    validate_update=_kept,
)


def _not_negative(path: str, amounts: Obj) -> Sequence[Cause]:
    return [
        invalid(f"{path}.{name}", amount, "must be greater than or equal to 0")
        for name, amount in amounts.items()
        if parse_quantity(amount) < 0
    ]


# Priority and runtime classes


def _priority(obj: Obj) -> Sequence[Cause]:
    name, value = obj["metadata"].get("name") or "", obj.get("value", 0)
    if name.startswith("system-"):
        if SYSTEM_CLASSES.get(name) == value and not obj.get("globalDefault"):
            return []
        return [forbidden("metadata.name", "priority class names with 'system-' prefix are reserved for system use only")]
    if value > _HIGHEST_PRIORITY:
        detail = f"maximum allowed value of a user defined priority is {_HIGHEST_PRIORITY}"
        return [forbidden("value", detail)]
    return []


def _same_priority(new: Obj, old: Obj) -> Sequence[Cause]:
    causes = list(immutable("preemptionPolicy")(new, old))
    if new.get("value", 0) != old.get("value", 0):
        causes.append(forbidden("value", "may not be changed in an update."))
    return causes


def _default_priority(obj: Obj) -> None:
    _priority_defaults(obj)
    if not obj.get("globalDefault"):
        obj.pop("globalDefault", None)


_priority_defaults = defaults(("value", 0), ("preemptionPolicy", "PreemptLowerPriority"))


def _first_generation(obj: Obj) -> None:
    # An update does not count.
    obj["metadata"]["generation"] = 1


PRIORITY_CLASS = Strategy(
    default=_default_priority,
    on_create=_first_generation,
    validate=rules(_priority, ("preemptionPolicy", one_of("PreemptLowerPriority", "Never"))),
    validate_update=_same_priority,
)
RUNTIME_CLASS = Strategy(validate=rules(("handler", needed())), validate_update=immutable("handler"))

# Limits and quotas


def _default_limits(obj: Obj) -> None:
    for limit in obj.setdefault("spec", {}).setdefault("limits", []) or ():
        if limit.get("type") == "Container":
            standard = {**(limit.get("max") or {}), **(limit.get("default") or {})}
            asked = {**(limit.get("min") or {}), **standard, **(limit.get("defaultRequest") or {})}
            limit.update({key: value for key, value in (("default", standard), ("defaultRequest", asked)) if value})


def _limit(path: str, limit: Obj, _parent: Obj) -> Sequence[Cause]:
    causes = [] if limit.get("type") else [required(f"{path}.type")]
    if limit.get("type") == "Pod":
        told = "may not be specified when `type` is 'Pod'"
        causes += [forbidden(f"{path}.{name}", told) for name in ("default", "defaultRequest") if limit.get(name)]
    steps = ("min", "defaultRequest", "default", "max")
    bounds = [(name, limit.get(name) or {}) for name in steps]
    for index, (lower, smaller) in enumerate(bounds):
        for upper, larger in bounds[index + 1 :]:
            # The error is at the default that is out of bounds, or at the lower bound.
            at = upper if lower == "min" and upper != "max" else lower
            causes += [
                invalid(f"{path}.{at}[{name}]", value, f"{lower} value {value} is greater than {upper} value {larger[name]}")
                for name, value in smaller.items()
                if name in larger and parse_quantity(value) > parse_quantity(larger[name])
            ]
    return causes


def _limit_types(obj: Obj) -> Sequence[Cause]:
    kinds = [limit.get("type") for limit in obj["spec"].get("limits") or ()]
    return [duplicate(f"spec.limits[{index}].type", kind) for index, kind in enumerate(kinds) if kind in kinds[:index]]


LIMIT_RANGE = Strategy(default=_default_limits, validate=rules(("spec.limits[]", _limit), _limit_types))
RESOURCE_QUOTA = Strategy(
    default=defaults(("spec", {})),
    **status_of(("status", {})),
    validate=rules(("spec.hard", given(lambda path, hard: _quota(path, hard)))),
)


def _quota(path: str, hard: Obj) -> Sequence[Cause]:
    causes = []
    for name, amount in hard.items():
        where = f"{path}[{name}]"
        causes += check(qualified_name, where, name)
        if parse_quantity(amount) < 0:
            causes.append(invalid(where, amount, "must be greater than or equal to 0"))
    return causes


ENDPOINTS = Strategy(
    default=defaults(("subsets[].ports[].protocol", "TCP")),
    validate=rules(
        ("subsets[].ports[].protocol", one_of("TCP", "UDP", "SCTP")),
        ("subsets[].ports[].port", at_least(1)),
        ("subsets[].addresses[].ip", needed()),
    ),
)


def _certificate_request(path: str, value: Any, _parent: Obj) -> Sequence[Cause]:
    if b"-----BEGIN CERTIFICATE REQUEST-----" in base64.b64decode(value or ""):
        return []
    return [invalid(path, value, "PEM block type must be CERTIFICATE REQUEST")]


SIGNING_REQUEST = Strategy(
    default=defaults(("spec", {})),
    **status_of(("status", {})),
    validate=rules(("spec.request", _certificate_request), *each_at(needed(), "spec.usages", "spec.signerName")),
    validate_update=immutable("spec"),
)
