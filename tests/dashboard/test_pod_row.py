"""A pod in a line: its place among the replicas, its steps, and its runs."""

from typing import Any

import pytest

from jobcommon.api import labels
from jobcommon.cli.dashboard.pod_row import Run, pod_rows
from jobcommon.framework import Framework
from jobcommon.operators.mpi import MPI
from jobcommon.operators.pytorch import PYTORCH

AT = "2025-10-09T08:53:{:02}Z".format
T = 1_759_999_980.0  # at 0


def pod(name: str, replica_type: str, index: str = "0", **status: Any) -> dict[str, Any]:
    kept = {labels.REPLICA_TYPE: replica_type, labels.REPLICA_INDEX: index}
    containers = [{"name": "pytorch", "env": [{"name": "RANK", "value": "3"}]}, {"name": "log"}]
    metadata = {"name": name, "namespace": "default", "uid": name, "labels": kept, "creationTimestamp": AT(0)}
    return {
        "metadata": metadata,
        "spec": {"containers": containers, "initContainers": [{"name": "first"}], "nodeName": "n1"},
        "status": {"phase": "Running", **status},
    }


@pytest.mark.parametrize(
    ("framework", "pods", "replicas"),
    [
        (PYTORCH, ["a-worker-10", "a-worker-2", "a-master-0", "odd"], ["Master-0", "Worker-2", "Worker-10", "odd"]),
        # With runLauncherAsWorker the workers' labels count from 1, but the failures in the status name the replicas.
        (MPI, ["a-launcher", "a-worker-0", "a-worker-1"], ["Launcher-0", "Worker-0", "Worker-1"]),
        *((PYTORCH, [f"a-worker-{index}"], [f"a-worker-{index}"]) for index in ("-1", "", "9" * 400, "²", "x")),
    ],
)
def test_by_rank_of_the_name_and_not_of_the_label(framework: Framework, pods: list[str], replicas: list[str]) -> None:
    made = [pod(name, f"{name}-".split("-")[1], str(index)) for index, name in enumerate(pods)]
    assert [row.replica for row in pod_rows(framework, made)] == replicas


def test_steps_and_runs() -> None:
    container = {
        "name": "pytorch",
        "restartCount": 1,
        "lastState": {"terminated": {"startedAt": AT(3), "finishedAt": AT(8), "exitCode": 137, "reason": "OOMKilled"}},
        "state": {"running": {"startedAt": AT(9)}},
    }
    side = {"name": "log", "restartCount": 5, "state": {"running": {"startedAt": AT(1)}}}
    conditions = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": AT(2)}]
    (row,) = pod_rows(PYTORCH, [pod("a-worker-0", "worker", containerStatuses=[side, container], conditions=conditions)])
    assert (row.created, row.scheduled, row.node, row.rank, row.restarts) == (T, T + 2, "n1", "3", 6)
    assert row.runs == (Run(T + 3, T + 8, 137, "OOMKilled"), Run(T + 9, None)), "those of the main container"
    assert row.containers == ("pytorch", "log", "first")
    assert not row.over
    assert not row.ran_before
    container["restartCount"] = 2
    (row,) = pod_rows(PYTORCH, [pod("a-worker-0", "worker", containerStatuses=[side, container], conditions=conditions)])
    assert row.ran_before, "a run before the last one but one"


def test_a_rank_may_come_from_an_annotation() -> None:
    sized = pod("a-worker-0", "worker")
    sized["metadata"]["annotations"] = {f"{labels.VARIABLE}RANK": "7"}
    sized["spec"]["containers"][0]["env"] = [{"name": "RANK", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations"}}}]
    assert [row.rank for row in pod_rows(PYTORCH, [sized])] == ["7"]
