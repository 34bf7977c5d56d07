"""PaddleJob: the cases of the reference's tests, and those it lacks."""

from collections.abc import Mapping
from typing import Any

import pytest

from jobcommon.api import labels
from jobcommon.api.job import RestartPolicy
from jobcommon.api.replica import Replica
from jobcommon.crd import field_errors
from jobcommon.operators.paddle import PADDLE
from jobcommon.reconcile import read_job
from jobcommon.reconcile.children import pod_manifest
from jobcommon.testutil import plans
from jobcommon.testutil.builders import job_manifest, replica_spec, template
from jobcommon.testutil.plans import holding

BOTH = {"Master": 1, "Worker": 2}
PORT = {**replica_spec(PADDLE), "template": template(PADDLE, ports=[{"name": "master", "containerPort": 37777}])}
OWN_IP = {"name": "POD_IP_DUMMY", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}


def env_of(manifest: Mapping[str, Any], kind: str, index: int, container: int = 0) -> list[dict[str, Any]]:
    pod = pod_manifest(PADDLE, read_job(PADDLE, manifest), Replica(kind, index))
    found: list[dict[str, Any]] = pod["spec"]["containers"][container]["env"]
    return found


@pytest.mark.parametrize(
    ("replicas", "kind", "index", "master", "expected"),
    [
        pytest.param({"Worker": 2}, "Worker", 0, "$(POD_IP_DUMMY):36543", {"PADDLE_NNODES": "2"}, id="worker 0"),
        pytest.param({"Worker": 2}, "Worker", 1, "demo-worker-0.demo.default.svc:36543", {"PADDLE_NNODES": "2"}, id="worker 1"),
        pytest.param(
            BOTH, "Master", 0, "$(POD_IP_DUMMY):36543", {"PADDLE_NNODES": "3", "PADDLE_SERVER_NUM": "1"}, id="a server"
        ),
        pytest.param(
            BOTH, "Worker", 0, "demo-master-0.demo.default.svc:36543", {"PADDLE_NNODES": "3", "PADDLE_TRAINER_NUM": "1"},
            id="a trainer",
        ),
        pytest.param(
            {"Master": 2, "Worker": 1}, "Master", 1, "demo-master-0.demo.default.svc:36543",
            {"PADDLE_NNODES": "3", "PADDLE_SERVER_NUM": "1"}, id="the second server",
        ),
        pytest.param(
            {"Worker": PORT}, "Worker", 0, "$(POD_IP_DUMMY):37777", {"PADDLE_NNODES": "1"}, id="the port of the template",
        ),
    ],
)  # fmt: skip
def test_environment(replicas: Mapping[str, Any], kind: str, index: int, master: str, expected: Mapping[str, str]) -> None:
    first, *rest = env_of(job_manifest(PADDLE, replicas), kind, index)
    if "POD_IP" in master:
        assert first == OWN_IP, "a reference works for what stands before it only"
    else:
        rest.insert(0, first)
    found = {entry["name"]: entry["value"] for entry in rest}
    assert found == {"PYTHONUNBUFFERED": "1", "PADDLE_JOB_ID": "demo", "PADDLE_MASTER": master, **expected}


def test_every_container_has_the_address_once() -> None:
    spec = replica_spec(PADDLE, 1)
    taken = {"name": "POD_IP_DUMMY", "value": "10.0.0.1"}
    spec["template"]["spec"]["containers"].append({"name": "sidecar", "image": "image", "env": [taken]})
    for container in (0, 1):
        found = env_of(job_manifest(PADDLE, {"Worker": spec}), "Worker", 0, container)
        assert [entry for entry in found if entry["name"] == "POD_IP_DUMMY"] == [OWN_IP]


@pytest.mark.parametrize(
    ("replicas", "errors"),
    [
        (BOTH, []),
        ({"Worker": 1}, []),
        ({"Worker": 0}, ["spec.paddleReplicaSpecs[Worker].replicas"]),
    ],
)
def test_a_worker_type_of_no_replicas_is_an_error(replicas: Mapping[str, int], errors: list[str]) -> None:
    assert [error.path for error in read_job(PADDLE, job_manifest(PADDLE, replicas)).errors] == errors


@pytest.mark.parametrize(
    ("pods", "state"),
    [
        pytest.param({"Master-0": "running", "Worker-0": "succeeded"}, "Running", id="the master runs"),
        pytest.param({"Master-0": "succeeded", "Worker-0": "running"}, "Succeeded", id="the master has succeeded"),
        pytest.param({"Worker-0": "running", "Worker-1": "scheduled"}, "Running", id="a worker runs"),
        pytest.param({"Worker-0": "succeeded", "Worker-1": "running"}, "Running", id="one worker is not enough"),
        pytest.param({"Worker-0": "succeeded", "Worker-1": "succeeded"}, "Succeeded", id="all workers"),
    ],
)
def test_the_master_decides_or_all_workers(pods: Mapping[str, str], state: str) -> None:
    replicas = {kind: sum(name.startswith(kind) for name in pods) for kind in ("Master", "Worker")}
    manifest = job_manifest(PADDLE, {kind: count for kind, count in replicas.items() if count})
    assert holding(plans.decide(PADDLE, manifest, pods))[-1] == state


def test_defaults_and_labels() -> None:
    job = read_job(PADDLE, job_manifest(PADDLE, {"worker": replica_spec(PADDLE, 2, None)}))
    assert job.replica_specs["Worker"].restart_policy is RestartPolicy.ON_FAILURE
    first, second = (pod_manifest(PADDLE, job, Replica("Worker", index)) for index in (0, 1))
    assert first["metadata"]["labels"][labels.OPERATOR_NAME] == "paddlejob-controller"
    assert first["metadata"]["labels"][labels.JOB_ROLE] == "master"
    assert labels.JOB_ROLE not in second["metadata"]["labels"]
    assert first["spec"]["containers"][0]["ports"] == [{"name": "master", "containerPort": 36543}]


def test_the_elastic_policy_is_stored() -> None:
    policy = {"minReplicas": 1, "maxReplicas": 4, "maxRestarts": 0, "metrics": [{"type": "Resource"}]}
    manifest = job_manifest(PADDLE, {"Worker": 2}, elasticPolicy=policy)
    assert read_job(PADDLE, manifest).errors == ()
    assert list(field_errors(PADDLE, manifest)) == []
    wrong = job_manifest(PADDLE, {"Worker": 2}, elasticPolicy={"minReplicas": 0})
    assert [error.path for error in read_job(PADDLE, wrong).errors] == ["spec.elasticPolicy.minReplicas"]
