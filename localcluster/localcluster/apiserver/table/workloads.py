"""Deployments, replica sets, stateful and daemon sets, jobs, cron jobs, autoscalers, disruption budgets."""

from typing import Any

from localcluster.apiserver.table.duration import UNKNOWN, age, human_duration, unix_seconds
from localcluster.apiserver.table.printer import (
    NONE,
    UNSET,
    Json,
    Printer,
    columns,
    containers,
    created,
    dig,
    joined,
    name_of,
    selector_text,
)

_WIDE = ("Containers", "Images", "Selector")


def _count(item: Json, *path: str, default: int = 0) -> int:
    return int(dig(item, *path, default=default))


def _template(item: Json) -> list[str]:
    return containers(dig(item, "spec", "template", default={}))


def _selected(item: Json) -> list[str]:
    return [*_template(item), selector_text(dig(item, "spec", "selector"))]


def _deployment(item: Json, now: float) -> list[Any]:
    ready = f"{_count(item, 'status', 'readyReplicas')}/{_count(item, 'spec', 'replicas', default=1)}"
    updated, available = _count(item, "status", "updatedReplicas"), _count(item, "status", "availableReplicas")
    return [name_of(item), ready, updated, available, created(item, now), *_selected(item)]


def _replica_set(item: Json, now: float) -> list[Any]:
    desired = _count(item, "spec", "replicas", default=1)
    current, ready = _count(item, "status", "replicas"), _count(item, "status", "readyReplicas")
    return [name_of(item), desired, current, ready, created(item, now), *_selected(item)]


def _stateful_set(item: Json, now: float) -> list[Any]:
    ready = f"{_count(item, 'status', 'readyReplicas')}/{_count(item, 'spec', 'replicas', default=1)}"
    return [name_of(item), ready, created(item, now), *_template(item)]


def _daemon_set(item: Json, now: float) -> list[Any]:
    status = (
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    )
    counts = [_count(item, "status", key) for key in status]
    nodes = selector_text(dig(item, "spec", "template", "spec", "nodeSelector"))
    return [name_of(item), *counts, nodes, created(item, now), *_selected(item)]


def _job_status(item: Json) -> str:
    true = {one.get("type") for one in dig(item, "status", "conditions", default=[]) if one.get("status") == "True"}
    for kind in ("Complete", "Failed"):
        if kind in true:
            return kind
    if dig(item, "metadata", "deletionTimestamp"):
        return "Terminating"
    for kind in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if kind in true:
            return kind
    return "Running"


def _job_duration(item: Json, now: float) -> str:
    start, end = dig(item, "status", "startTime"), dig(item, "status", "completionTime")
    if not start:
        return ""
    try:
        return human_duration((unix_seconds(end) if end else now) - unix_seconds(start))
    except ValueError:
        return UNKNOWN


def _job(item: Json, now: float) -> list[Any]:
    done, wanted, parallel = (
        _count(item, "status", "succeeded"),
        dig(item, "spec", "completions"),
        dig(item, "spec", "parallelism"),
    )
    if wanted is not None:
        completions = f"{done}/{wanted}"
    else:
        completions = f"{done}/1 of {parallel}" if parallel and parallel > 1 else f"{done}/1"
    return [
        name_of(item),
        _job_status(item),
        completions,
        _job_duration(item, now),
        created(item, now),
        *_selected(item),
    ]


def _cron_job(item: Json, now: float) -> list[Any]:
    last = dig(item, "status", "lastScheduleTime")
    zone, suspend = dig(item, "spec", "timeZone", default=NONE), str(dig(item, "spec", "suspend", default=False))
    active = len(dig(item, "status", "active", default=[]))
    head = [
        name_of(item),
        dig(item, "spec", "schedule", default=""),
        zone,
        suspend,
        active,
        age(last, now) if last else NONE,
    ]
    template = dig(item, "spec", "jobTemplate", "spec", default={})
    return [*head, created(item, now), *_selected({"spec": template})]


def _metric(metric: Json, current: Json) -> str:
    kind = str(metric.get("type", ""))
    source, now = metric.get(kind[:1].lower() + kind[1:], {}), current.get(kind[:1].lower() + kind[1:], {})
    name = source.get("name") or dig(source, "metric", "name", default="")
    for key, suffix in (("averageUtilization", "%"), ("averageValue", ""), ("value", "")):
        target = dig(source, "target", key)
        if target is not None:
            value = dig(now, "current", key)
            shown = "<unknown>" if value is None else f"{value}{suffix}"
            average = " (avg)" if key == "averageValue" and kind != "Resource" else ""
            prefix = f"{name}: " if kind in ("Resource", "ContainerResource") else ""
            return f"{prefix}{shown}/{target}{suffix}{average}"
    return "<unknown>"


def _autoscaler(item: Json, now: float) -> list[Any]:
    target = dig(item, "spec", "scaleTargetRef", default={})
    reference = f"{target.get('kind', '')}/{target.get('name', '')}"
    metrics, current = dig(item, "spec", "metrics", default=[]), dig(item, "status", "currentMetrics", default=[])
    shown = [_metric(one, current[index] if index < len(current) else {}) for index, one in enumerate(metrics)]
    text = joined(shown[:2], ", ") + (f" + {len(shown) - 2} more..." if len(shown) > 2 else "")
    low, high = dig(item, "spec", "minReplicas", default=UNSET), _count(item, "spec", "maxReplicas")
    return [
        name_of(item),
        reference,
        text,
        str(low),
        high,
        _count(item, "status", "currentReplicas"),
        created(item, now),
    ]


def _budget(item: Json, now: float) -> list[Any]:
    limits = [str(dig(item, "spec", key, default="N/A")) for key in ("minAvailable", "maxUnavailable")]
    return [name_of(item), *limits, _count(item, "status", "disruptionsAllowed"), created(item, now)]


def _integers(*names: str) -> dict[str, str]:
    return dict.fromkeys(names, "integer")


PRINTERS = {
    ("apps", "Deployment"): Printer(
        columns("Ready", "Up-to-date", "Available", "Age", wide=_WIDE, types=_integers("Up-to-date", "Available")),
        _deployment,
    ),
    ("apps", "ReplicaSet"): Printer(
        columns("Desired", "Current", "Ready", "Age", wide=_WIDE, types=_integers("Desired", "Current", "Ready")),
        _replica_set,
    ),
    ("apps", "StatefulSet"): Printer(columns("Ready", "Age", wide=_WIDE[:2]), _stateful_set),
    ("apps", "DaemonSet"): Printer(
        columns(
            *("Desired", "Current", "Ready", "Up-to-date", "Available", "Node Selector", "Age"),
            wide=_WIDE,
            types=_integers("Desired", "Current", "Ready", "Up-to-date", "Available"),
        ),
        _daemon_set,
    ),
    ("batch", "Job"): Printer(columns("Status", "Completions", "Duration", "Age", wide=_WIDE), _job),
    ("batch", "CronJob"): Printer(
        columns("Schedule", "Timezone", "Suspend", "Active", "Last Schedule", "Age", wide=_WIDE, types=_integers("Active")),
        _cron_job,
    ),
    ("autoscaling", "HorizontalPodAutoscaler"): Printer(
        columns("Reference", "Targets", "MinPods", "MaxPods", "Replicas", "Age", types=_integers("MaxPods", "Replicas")),
        _autoscaler,
    ),
    ("policy", "PodDisruptionBudget"): Printer(
        columns("Min Available", "Max Unavailable", "Allowed Disruptions", "Age", types=_integers("Allowed Disruptions")),
        _budget,
    ),
}
