"""Deployments, replica sets, stateful and daemon sets, jobs, cron jobs, autoscalers, disruption budgets."""

from localcluster.apiserver.table.duration import UNKNOWN, age, human_duration, unix_seconds
from localcluster.apiserver.table.printer import (
    AGE,
    NONE,
    UNSET,
    Json,
    Shown,
    column,
    dig,
    joined,
    named,
    of_template,
    reference,
    selector_text,
    timed,
)

_TEMPLATE = of_template("spec")


def _count(name: str, path: str, default: int = 0) -> Shown:
    return column(name, path, "integer", default=default)


def _ready(item: Json) -> str:
    return f"{dig(item, 'status', 'readyReplicas', default=0)}/{dig(item, 'spec', 'replicas', default=1)}"


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


def _completions(item: Json) -> str:
    done, wanted, parallel = (
        dig(item, "status", "succeeded", default=0), dig(item, "spec", "completions"), dig(item, "spec", "parallelism")
    )  # fmt: skip
    if wanted is not None:
        return f"{done}/{wanted}"
    return f"{done}/1 of {parallel}" if parallel and parallel > 1 else f"{done}/1"


def _last_schedule(item: Json, now: float) -> str:
    last = dig(item, "status", "lastScheduleTime")
    return age(last, now) if last else NONE


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


def _metrics(item: Json) -> str:
    metrics, current = dig(item, "spec", "metrics", default=[]), dig(item, "status", "currentMetrics", default=[])
    shown = [_metric(one, current[index] if index < len(current) else {}) for index, one in enumerate(metrics)]
    return joined(shown[:2], ", ") + (f" + {len(shown) - 2} more..." if len(shown) > 2 else "")


PRINTERS = {
    ("apps", "Deployment"): named(
        column("Ready", _ready), _count("Up-to-date", "status.updatedReplicas"),
        _count("Available", "status.availableReplicas"), AGE, *_TEMPLATE,
    ),
    ("apps", "ReplicaSet"): named(
        _count("Desired", "spec.replicas", 1), _count("Current", "status.replicas"), _count("Ready", "status.readyReplicas"),
        AGE, *_TEMPLATE,
    ),
    ("apps", "StatefulSet"): named(column("Ready", _ready), AGE, *_TEMPLATE[:2]),
    ("apps", "DaemonSet"): named(
        _count("Desired", "status.desiredNumberScheduled"), _count("Current", "status.currentNumberScheduled"),
        _count("Ready", "status.numberReady"), _count("Up-to-date", "status.updatedNumberScheduled"),
        _count("Available", "status.numberAvailable"),
        column("Node Selector", "spec.template.spec.nodeSelector", default=None, show=selector_text), AGE, *_TEMPLATE,
    ),
    ("batch", "Job"): named(
        column("Status", _job_status), column("Completions", _completions), timed("Duration", _job_duration), AGE, *_TEMPLATE,
    ),
    ("batch", "CronJob"): named(
        column("Schedule", "spec.schedule"), column("Timezone", "spec.timeZone", default=NONE),
        column("Suspend", "spec.suspend", default=False, show=str),
        column("Active", "status.active", "integer", default=[], show=len), timed("Last Schedule", _last_schedule), AGE,
        *of_template("spec.jobTemplate.spec"),
    ),
    ("autoscaling", "HorizontalPodAutoscaler"): named(
        column("Reference", "spec.scaleTargetRef", default={}, show=reference), column("Targets", _metrics),
        column("MinPods", "spec.minReplicas", default=UNSET, show=str), _count("MaxPods", "spec.maxReplicas"),
        _count("Replicas", "status.currentReplicas"), AGE,
    ),
    ("policy", "PodDisruptionBudget"): named(
        column("Min Available", "spec.minAvailable", default="N/A", show=str),
        column("Max Unavailable", "spec.maxUnavailable", default="N/A", show=str),
        _count("Allowed Disruptions", "status.disruptionsAllowed"), AGE,
    ),
}  # fmt: skip
