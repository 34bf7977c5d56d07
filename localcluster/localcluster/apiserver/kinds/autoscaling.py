"""HorizontalPodAutoscalers: stored as autoscaling/v2, and shown as autoscaling/v1 too."""

import json
from collections.abc import Sequence
from typing import Any

from localcluster.apiserver.errors import Cause, forbidden, invalid, not_supported, required
from localcluster.apiserver.kinds.tables import (
    at_least,
    between,
    defaults,
    each_at,
    filled,
    needed,
    needed_name,
    one_of,
    positive,
    rules,
    status_of,
)
from localcluster.apiserver.names import path_segment
from localcluster.apiserver.resource import Conversion, Strategy

Obj = dict[str, Any]

_ANNOTATIONS = {"metrics": "autoscaling.alpha.kubernetes.io/metrics", "behavior": "autoscaling.alpha.kubernetes.io/behavior"}
#: What a metric of each type is described by.
_SOURCES = {
    "ContainerResource": "containerResource", "External": "external", "Object": "object", "Pods": "pods",
    "Resource": "resource",
}  # fmt: skip
_OF_RESOURCES = ("resource", "containerResource")
_TARGETS = ("averageUtilization", "averageValue", "value")
_MOST_STABLE = 3600
_LONGEST_PERIOD = 1800


def _policy(kind: str, value: int) -> Obj:
    return {"type": kind, "value": value, "periodSeconds": 15}


def _cpu(percent: int) -> Obj:
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


_default = defaults(
    *filled("spec", minReplicas=1, maxReplicas=0, scaleTargetRef={}, metrics=[_cpu(80)]),
    *filled("spec.behavior.scaleUp", stabilizationWindowSeconds=0,
            policies=[_policy("Pods", 4), _policy("Percent", 100)], selectPolicy="Max"),
    *filled("spec.behavior.scaleDown", policies=[_policy("Percent", 100)], selectPolicy="Max"),
)  # fmt: skip


def _replicas(obj: Obj) -> Sequence[Cause]:
    spec = obj["spec"]
    least, most = spec["minReplicas"], spec["maxReplicas"]
    causes = []
    if least < 1:
        causes.append(invalid("spec.minReplicas", least, "must be greater than or equal to 1"))
    if least == 0 and not any(metric.get("type") in ("External", "Object") for metric in spec["metrics"]):
        detail = "must specify at least one Object or External metric to support scaling to zero replicas"
        causes.append(forbidden("spec.metrics", detail))
    if most == 0:
        causes.append(required("spec.maxReplicas", "must be set and greater than 0"))
    elif most < 0:
        causes.append(invalid("spec.maxReplicas", most, "must be greater than or equal to 1"))
    if most < least:
        causes.append(invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`"))
    return causes


def _has_group(path: str, version: Any, _parent: Obj) -> Sequence[Cause]:
    return [] if version and "/" in version else [invalid(path, version or "", "apiVersion must specify API group")]


def _metric(path: str, metric: Obj, _parent: Obj) -> Sequence[Cause]:
    kind = metric.get("type", "")
    if kind not in _SOURCES:
        unknown = not_supported(f"{path}.type", kind, sorted(_SOURCES))
        return [unknown] if kind else [required(f"{path}.type", "must specify a metric source type"), unknown]
    causes = []
    wanted = _SOURCES[kind]
    if wanted not in metric:
        causes.append(required(f"{path}.{wanted}", "must populate information for the given metric source"))
    causes += [
        forbidden(f"{path}.{name}", "must populate the given metric source only")
        for name in _SOURCES.values()
        if name in metric and name != wanted
    ]
    if wanted in metric and not causes:
        causes += _target(metric[wanted].get("target") or {}, f"{path}.{wanted}.target", wanted)
    return causes


def _target(target: Obj, path: str, source: str) -> list[Cause]:
    causes = []
    kind = target.get("type", "")
    if not kind:
        causes.append(required(f"{path}.type", "must specify a metric target type"))
    if kind not in ("Utilization", "Value", "AverageValue"):
        causes.append(invalid(f"{path}.type", kind, "must be either Utilization, Value, or AverageValue"))
    allowed = {"pods": ("averageValue",), "object": ("averageValue", "value"), "external": ("averageValue", "value")}.get(
        source, ("averageUtilization", "averageValue")
    )
    present = [name for name in allowed if name in target]
    if not present:
        causes.append(required(f"{path}.{allowed[0]}", "must set a target"))
    if len(present) == 2 and source != "object":
        causes.append(forbidden(f"{path}.{allowed[1]}", "may not set both targets"))
    for name in _TARGETS:
        if name in target:
            causes += positive(f"{path}.{name}", target[name], target)
    return causes


_RULES = ("scaleUp", "scaleDown")
HORIZONTAL_POD_AUTOSCALER = Strategy(
    default=_default,
    **status_of(*filled("status", desiredReplicas=0, currentMetrics=None)),
    validate=rules(
        _replicas,
        *each_at(needed_name(path_segment), "spec.scaleTargetRef.kind", "spec.scaleTargetRef.name"),
        ("spec.scaleTargetRef.apiVersion", _has_group),
        ("spec.metrics[]", _metric),
        *each_at(needed("must specify a resource name"), *(f"spec.metrics[].{one}.name" for one in _OF_RESOURCES)),
        ("spec.metrics[].containerResource.container", needed("must specify a container")),
        *((f"spec.metrics[].{source}.metric.name", needed_name(path_segment)) for source in ("pods", "object", "external")),
        *((f"spec.behavior.{name}.stabilizationWindowSeconds", between(0, _MOST_STABLE)) for name in _RULES),
        *((f"spec.behavior.{name}.selectPolicy", one_of("Disabled", "Max", "Min")) for name in _RULES),
        *((f"spec.behavior.{name}.policies[].type", one_of("Percent", "Pods")) for name in _RULES),
        *((f"spec.behavior.{name}.policies[].value", at_least(1)) for name in _RULES),
        *((f"spec.behavior.{name}.policies[].periodSeconds", between(1, _LONGEST_PERIOD)) for name in _RULES),
    ),
)


def _is_cpu_utilization(metric: Obj) -> bool:
    resource = metric.get("resource") or {}
    return resource.get("name") == "cpu" and "averageUtilization" in (resource.get("target") or {})


def _outward(obj: Obj) -> Obj:
    """As v1: the target of the CPU is a field of its own; what v1 cannot say is in annotations."""
    spec, status = dict(obj.get("spec") or {}), dict(obj.get("status") or {})
    metrics = spec.pop("metrics", None) or []
    cpu = next((metric for metric in metrics if _is_cpu_utilization(metric)), None)
    if cpu is not None:
        spec["targetCPUUtilizationPercentage"] = cpu["resource"]["target"]["averageUtilization"]
    kept = {"metrics": [metric for metric in metrics if metric is not cpu], "behavior": spec.pop("behavior", None)}
    noted = {_ANNOTATIONS[name]: json.dumps(value) for name, value in kept.items() if value}
    status.pop("currentMetrics", None)
    status.setdefault("currentReplicas", 0)
    shown = {**obj, "spec": spec, **({"status": status} if "status" in obj else {})}
    if noted:
        shown["metadata"] = {**obj["metadata"], "annotations": {**(obj["metadata"].get("annotations") or {}), **noted}}
    return shown


def _inward(obj: Obj) -> Obj:
    spec, meta = dict(obj.get("spec") or {}), dict(obj.get("metadata") or {})
    annotations = dict(meta.get("annotations") or {})
    percent = spec.pop("targetCPUUtilizationPercentage", None)
    for name, annotation in _ANNOTATIONS.items():
        text = annotations.pop(annotation, None)
        if text is not None:
            spec[name] = json.loads(text)
    if percent is not None:
        spec["metrics"] = [_cpu(percent), *(spec.get("metrics") or ())]
    if annotations or meta.get("annotations"):
        meta["annotations"] = annotations
    return {**obj, "metadata": meta, "spec": spec}


CONVERSION = Conversion(_outward, _inward)
