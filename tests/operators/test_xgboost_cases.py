"""XGBoostJob: the cases of the reference's tests, and those it lacks."""

from collections.abc import Mapping
from typing import Any

import pytest

from jobcommon.api import labels
from jobcommon.api.job import RestartPolicy
from jobcommon.api.replica import Replica
from jobcommon.operators.xgboost import XGBOOST
from jobcommon.reconcile import read_job
from jobcommon.reconcile.children import pod_manifest
from jobcommon.testutil import plans
from jobcommon.testutil.builders import job_manifest, replica_spec, template
from jobcommon.testutil.plans import holding

MASTER_0 = "demo-master-0.demo.default.svc"


def with_port(port: int, replicas: int = 1) -> dict[str, Any]:
    """A replica spec whose container names the port."""
    ports = [{"name": "xgboostjob-port", "containerPort": port}]
    return {**replica_spec(XGBOOST, replicas), "template": template(XGBOOST, ports=ports)}


@pytest.mark.parametrize(
    ("replicas", "kind", "index", "expected"),
    [
        pytest.param({"Master": 1}, "Master", 0, {"WORLD_SIZE": "1", "RANK": "0", "MASTER_PORT": "9999"}, id="master alone"),
        pytest.param(
            {"Master": 1, "Worker": 0}, "Master", 0, {"WORLD_SIZE": "1", "RANK": "0", "MASTER_PORT": "9999"}, id="no worker"
        ),
        *(
            pytest.param(
                {"Master": 1, "Worker": 2}, kind, index,
                {
                    "WORLD_SIZE": "3", "RANK": rank, "MASTER_PORT": "9999", "WORKER_PORT": "9999",
                    "WORKER_ADDRS": "demo-worker-0.demo.default.svc,demo-worker-1.demo.default.svc",
                },
                id=f"rank {rank}",
            )
            for kind, index, rank in (("Master", 0, "0"), ("Worker", 0, "1"), ("Worker", 1, "2"))
        ),
        pytest.param(
            {"Master": with_port(7777), "Worker": with_port(8888)}, "Worker", 0,
            {
                "WORLD_SIZE": "2", "RANK": "1", "MASTER_PORT": "7777", "WORKER_PORT": "8888",
                "WORKER_ADDRS": "demo-worker-0.demo.default.svc",
            },
            id="the ports of the templates",
        ),
    ],
)  # fmt: skip
def test_environment(replicas: Mapping[str, Any], kind: str, index: int, expected: Mapping[str, str]) -> None:
    pod = pod_manifest(XGBOOST, read_job(XGBOOST, job_manifest(XGBOOST, replicas)), Replica(kind, index))
    environment = {entry["name"]: entry["value"] for entry in pod["spec"]["containers"][0]["env"]}
    assert environment == {"PYTHONUNBUFFERED": "1", "MASTER_ADDR": MASTER_0, **expected}


@pytest.mark.parametrize(
    ("replicas", "errors"),
    [
        ({"Master": 1, "Worker": 2}, []),
        ({"Worker": 1}, ["spec.xgbReplicaSpecs[Master]"]),
        ({"Master": 2}, ["spec.xgbReplicaSpecs[Master].replicas"]),
        ({"Master": 0}, ["spec.xgbReplicaSpecs[Master].replicas"]),
    ],
)
def test_an_xgboost_job_has_one_master(replicas: Mapping[str, int], errors: list[str]) -> None:
    assert [error.path for error in read_job(XGBOOST, job_manifest(XGBOOST, replicas)).errors] == errors


@pytest.mark.parametrize(
    ("master", "worker", "state"),
    [
        ("running", "scheduled", "Running"),
        ("running", "succeeded", "Running"),
        ("succeeded", "running", "Succeeded"),
        ("failed 1", "running", "Failed"),
        ("running", "failed 1", "Failed"),
    ],
)
def test_the_master_decides(master: str, worker: str, state: str) -> None:
    manifest = job_manifest(XGBOOST, {"Master": 1, "Worker": 1})
    assert holding(plans.decide(XGBOOST, manifest, {"Master-0": master, "Worker-0": worker}))[-1] == state


def test_defaults_and_labels() -> None:
    job = read_job(XGBOOST, job_manifest(XGBOOST, {"master": 1, "worker": replica_spec(XGBOOST, None)}))
    assert list(job.replica_specs) == ["Master", "Worker"]
    assert {spec.restart_policy for spec in job.replica_specs.values()} == {RestartPolicy.NEVER}
    assert job.count("Worker") == 1
    master, worker = (pod_manifest(XGBOOST, job, Replica(kind, 0)) for kind in ("Master", "Worker"))
    assert master["metadata"]["labels"][labels.OPERATOR_NAME] == "xgboostjob-controller"
    assert master["metadata"]["labels"][labels.JOB_ROLE] == "master"
    assert labels.JOB_ROLE not in worker["metadata"]["labels"]
    assert worker["spec"]["containers"][0]["ports"] == [{"name": "xgboostjob-port", "containerPort": 9999}]
