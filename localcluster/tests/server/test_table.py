"""Server-side printing: ages, the STATUS of pods, and one row per kind."""

from typing import Any

import pytest

from localcluster.apiserver.table import to_table
from localcluster.apiserver.table.printer import human_duration, unix_seconds

NOW = unix_seconds("2026-11-21T12:00:00Z")
META = {"name": "x", "creationTimestamp": "2026-11-21T11:56:34Z"}
DAY, HOUR, MINUTE = 86400, 3600, 60


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"), (-1.5, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (206, "3m26s"),
        (10 * MINUTE + 5, "10m"), (3 * HOUR - 1, "179m"), (3 * HOUR, "3h"), (3 * HOUR + 7 * MINUTE, "3h7m"),
        (8 * HOUR + 7 * MINUTE, "8h"), (47 * HOUR, "47h"), (51 * HOUR, "2d3h"), (5 * DAY, "5d"),
        (8 * DAY + 5 * HOUR, "8d"), (700 * DAY, "700d"), (2 * 365 * DAY, "2y"), (2 * 365 * DAY + 40 * DAY, "2y40d"),
        (9 * 365 * DAY + 40 * DAY, "9y"),
    ],
)  # fmt: skip
def test_human_duration(seconds: float, text: str) -> None:
    assert human_duration(seconds) == text


def status(name: str = "c", restarts: int = 0, ready: bool = False, last: str = "", **state: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"name": name, "restartCount": restarts, "ready": ready, "state": state}
    if last:
        found["lastState"] = {"terminated": {"finishedAt": last, "exitCode": 1}}
    return found


def pod(
    phase: str = "Running", *, containers: int = 1, inits: int = 0, meta: dict[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    spec = {
        "containers": [{"name": f"c{index}"} for index in range(containers)],
        "initContainers": [{"name": f"i{index}"} for index in range(inits)],
    }
    spec.update(more.pop("spec", {}))
    return {"metadata": {**META, **(meta or {})}, "spec": spec, "status": {"phase": phase, **more}}


RUNNING = {"running": {"startedAt": "2026-11-21T11:56:34Z"}}
DELETED = {"deletionTimestamp": "2026-11-21T11:59:00Z"}


def done(code: int, reason: str = "", **more: Any) -> dict[str, Any]:
    return {"terminated": {"exitCode": code, **({"reason": reason} if reason else {}), **more}}


def ready_condition(value: str) -> list[dict[str, str]]:
    return [{"type": "Ready", "status": value}]


PODS: dict[str, tuple[dict[str, Any], tuple[str, str, str]]] = {
    "pending": (pod("Pending"), ("0/1", "Pending", "0")),
    "gated": (pod("Pending", conditions=[{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]),
        ("0/1", "SchedulingGated", "0")),
    "running": (pod(containerStatuses=[status(ready=True, **RUNNING)]), ("1/1", "Running", "0")),
    "restarted": (pod(containerStatuses=[status(restarts=3, ready=True, last="2026-11-21T11:55:00Z", **RUNNING)]),
        ("1/1", "Running", "3 (5m ago)")),
    "completed": (pod("Succeeded", containerStatuses=[status(**done(0, "Completed"))]), ("0/1", "Completed", "0")),
    "error": (pod("Failed", containerStatuses=[status(**done(1, "Error"))]), ("0/1", "Error", "0")),
    "signal": (pod("Failed", containerStatuses=[status(**done(0, signal=9))]), ("0/1", "Signal:9", "0")),
    "evicted": (pod("Failed", reason="Evicted"), ("0/1", "Evicted", "0")),
    "one done, one running and ready": (
        pod(containers=2, conditions=ready_condition("True"),
            containerStatuses=[status(**done(0, "Completed")), status("b", ready=True, **RUNNING)]), ("1/2", "Running", "0")),
    "init running": (pod("Pending", inits=2, initContainerStatuses=[status("i0", **done(0)), status("i1", **RUNNING)]),
        ("0/1", "Init:1/2", "0")),
    "sidecar": (
        pod(spec={"initContainers": [{"name": "i0", "restartPolicy": "Always"}]},
            initContainerStatuses=[{**status("i0", restarts=1, ready=True, **RUNNING), "started": True}],
            containerStatuses=[status(ready=True, **RUNNING)]), ("2/2", "Running", "1")),
    "terminating": (pod(meta=DELETED, containerStatuses=[status(ready=True, **RUNNING)]), ("1/1", "Terminating", "0")),
}  # fmt: skip


@pytest.mark.parametrize("name", PODS)
def test_pod(name: str) -> None:
    item, expected = PODS[name]
    row = to_table("", "Pod", [item], now=NOW)["rows"][0]
    assert tuple(row["cells"][1:4]) == expected
    assert row["cells"][0] == "x"
    assert row["cells"][4] == "3m26s"


def item(spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"metadata": META, "spec": spec or {}, "status": status or {}, **more}


CORE, AGE = "", "3m26s"


JOB = {
    "metadata": {**META, "labels": {"a.b/c": "L"}},
    "spec": {"n": 3, "flag": False, "list": [1, 2]},
    "status": {"conditions": [{"type": "Created", "at": "2026-11-21T11:59:58Z"}, {"type": "Running"}]},
}


@pytest.mark.parametrize(
    ("kind", "path", "cell"),
    [
        ("string", ".status.conditions[-1:].type", "Running"),
        ("date", ".status.conditions[0].at", "2s"),
        ("integer", ".spec.n", 3),
        ("string", ".spec.n", "3"),
        ("integer", ".spec.list", None),
        ("boolean", ".spec.flag", False),
        ("string", ".spec.list", "[1,2]"),
        ("string", r".metadata.labels.a\.b/c", "L"),
        ("string", ".metadata.labels['a.b/c']", "L"),
        ("string", '.status.conditions[?(@.type=="Created")].at', "2026-11-21T11:59:58Z"),
        ("string", ".status.nothing.here", None),
        ("string", ".status.conditions[7].type", None),
    ],
)
def test_custom_column(kind: str, path: str, cell: Any) -> None:
    columns = [{"name": "C", "type": kind, "jsonPath": path}]
    assert to_table("kubeflow.org", "PyTorchJob", [JOB], now=NOW, columns=columns)["rows"][0]["cells"] == ["x", cell]
