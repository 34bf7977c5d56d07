"""PyTorchJob: the cases of the reference's tests, suspension, and what follows from the rules."""

from typing import Any

import pytest

from jobcommon.api.observed import Observed, Rejection
from jobcommon.api.replica import Replica
from jobcommon.crd import custom_resource_definition
from jobcommon.operators.pytorch.framework import PYTORCH, elastic_bounds, elastic_policy
from jobcommon.reconcile import plan, read_job
from jobcommon.reconcile.children import pod_manifest
from jobcommon.reconcile.plan import Create, Delete, Update
from jobcommon.testutil.builders import (
    START,
    Manifest,
    condition,
    finished_status,
    job_manifest,
    observe,
    replica_spec,
    view_of,
)
from jobcommon.testutil.plans import status_of

ELASTIC = {
    "minReplicas": 1,
    "maxReplicas": 3,
    "rdzvBackend": "c10d",
    "rdzvPort": 1234,
    "rdzvHost": "localhost",
    "rdzvId": "rdzv-id",
    "rdzvConf": [
        {"key": "rdzv-conf-name", "value": "rdzv-conf-value"},
        {"key": "rdzv-conf-name-1", "value": "rdzv-conf-value-1"},
    ],
    "maxRestarts": 3,
}
BOTH = {"Master": 1, "Worker": 1}
CPU = [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}]
KEY = ("horizontalpodautoscalers", "demo")


def env(replicas: dict[str, Any], pod: str, *, container: int = 0, **spec: Any) -> dict[str, str]:
    kind, _, index = pod.rpartition("-")
    job = read_job(PYTORCH, job_manifest(PYTORCH, replicas, **spec))
    assert job.errors == ()
    entries = pod_manifest(PYTORCH, job, Replica(kind, int(index)))["spec"]["containers"][container].get("env", [])
    names = [entry["name"] for entry in entries]
    assert len(names) == len(set(names)), "each name stands once"
    return {entry["name"]: entry["value"] for entry in entries}


def errors(replicas: dict[str, Any], **job: Any) -> list[str]:
    return [str(error) for error in read_job(PYTORCH, job_manifest(PYTORCH, replicas, **job)).errors]


@pytest.mark.parametrize(
    ("fewest", "most"),
    [
        pytest.param(None, None, id="neither"),
        pytest.param(1, 1, id="both"),
        pytest.param(None, 1, id="max"),
        pytest.param(1, None, id="min"),
    ],
)
def test_elastic_bounds(fewest: int | None, most: int | None) -> None:
    bounds = {key: value for key, value in (("minReplicas", fewest), ("maxReplicas", most)) if value is not None}
    job = read_job(PYTORCH, job_manifest(PYTORCH, {"Worker": 1}, elasticPolicy=bounds))
    elastic = elastic_policy(job)
    assert elastic is not None
    assert elastic_bounds(job, elastic) == (1, 1)


@pytest.mark.parametrize("elastic", [None, {}], ids=["no elasticPolicy", "elasticPolicy"])
def test_processes_per_node_default_to_auto(elastic: Manifest | None) -> None:
    assert env({"Worker": 1}, "Worker-0", elasticPolicy=elastic)["PET_NPROC_PER_NODE"] == "auto"


def test_restart_policy_and_port_defaults() -> None:
    job = read_job(PYTORCH, job_manifest(PYTORCH, BOTH))
    assert [spec.restart_policy for spec in job.replica_specs.values()] == ["OnFailure", "OnFailure"]
    container = pod_manifest(PYTORCH, job, Replica("Worker", 0))["spec"]["containers"][0]
    assert container["ports"] == [{"name": "pytorchjob-port", "containerPort": 23456}]


def test_elastic_variables() -> None:
    found = env({"Worker": 1}, "Worker-0", elasticPolicy=ELASTIC)
    assert {name: value for name, value in found.items() if name != "PYTHONUNBUFFERED"} == {
        "PET_NPROC_PER_NODE": "auto",
        "PET_MAX_RESTARTS": "3",
        "PET_RDZV_BACKEND": "c10d",
        "PET_RDZV_ENDPOINT": "localhost:1234",
        "PET_RDZV_ID": "rdzv-id",
        "PET_RDZV_CONF": "rdzv-conf-name=rdzv-conf-value,rdzv-conf-name-1=rdzv-conf-value-1",
        "PET_NNODES": "1:3",
    }


@pytest.mark.parametrize(
    ("elastic", "expected"),
    [
        pytest.param(
            {"minReplicas": 1, "maxReplicas": 3, "maxRestarts": 3},
            {"PET_RDZV_ENDPOINT": "demo-worker-0.demo.default.svc:23456", "PET_NNODES": "1:3", "PET_MAX_RESTARTS": "3"},
            id="host and port default to those of worker 0",
        ),
        pytest.param({"rdzvConf": []}, {"PET_RDZV_CONF": None}, id="8.23 an empty rdzvConf is no panic"),
        pytest.param({"standalone": True}, {"PET_STANDALONE": "1"}, id="8.23 standalone"),
        pytest.param({"standalone": False}, {"PET_STANDALONE": None}, id="not standalone"),
        pytest.param({"nProcPerNode": 4}, {"PET_NPROC_PER_NODE": "4"}, id="the deprecated field"),
    ],
)
def test_elastic_variables_in_detail(elastic: Manifest, expected: dict[str, str | None]) -> None:
    found = env({"Worker": 2}, "Worker-1", elasticPolicy=elastic)
    assert {name: found.get(name) for name in expected} == expected


@pytest.mark.parametrize(
    ("master", "worker", "nproc", "pod", "rank", "world", "nodes", "per_node"),
    [
        (1, 3, None, "Master-0", "0", "4", "4", "auto"),
        (1, 3, "auto", "Worker-2", "3", "4", "4", "auto"),
        (1, 3, "2", "Worker-0", "1", "8", "4", "2"),
        (1, None, "gpu", "Master-0", "0", "1", "1", "gpu"),
        (None, 3, "auto", "Worker-1", None, None, "3", "auto"),
    ],
)
def test_derived_variables(
    master: int | None,
    worker: int | None,
    nproc: str | None,
    pod: str,
    rank: str | None,
    world: str | None,
    nodes: str,
    per_node: str,
) -> None:
    replicas = {kind: count for kind, count in (("Master", master), ("Worker", worker)) if count is not None}
    found = env(replicas, pod, nprocPerNode=nproc)
    address = "demo-master-0.demo.default.svc" if master else None
    port = "23456" if master else None
    expected = {
        "PYTHONUNBUFFERED": "1", "PET_NNODES": nodes, "PET_NPROC_PER_NODE": per_node, "WORLD_SIZE": world,
        "RANK": rank, "PET_NODE_RANK": rank, "MASTER_ADDR": address, "PET_MASTER_ADDR": address,
        "MASTER_PORT": port, "PET_MASTER_PORT": port,
    }  # fmt: skip
    assert found == {name: value for name, value in expected.items() if value is not None}


def test_the_master_s_own_port() -> None:
    master = replica_spec(PYTORCH)
    master["template"]["spec"]["containers"][0]["ports"] = [{"name": "pytorchjob-port", "containerPort": 999}]
    assert env({"Master": master, "Worker": 1}, "Worker-0")["MASTER_PORT"] == "999"


def test_cluster_variables_win_defaults_give_way() -> None:
    worker = replica_spec(PYTORCH)
    worker["template"]["spec"]["containers"][0]["env"] = [
        {"name": "RANK", "value": "7"}, {"name": "PYTHONUNBUFFERED", "value": "0"},
    ]  # fmt: skip
    found = env({"Master": 1, "Worker": worker}, "Worker-0")
    assert (found["RANK"], found["PYTHONUNBUFFERED"]) == ("1", "0")


@pytest.mark.parametrize(
    ("replicas", "masters"),
    [({"Master": 1, "Worker": 2}, ["demo-master-0"]), ({"Worker": 2}, ["demo-worker-0"])],
)
def test_the_master_label(replicas: dict[str, int], masters: list[str]) -> None:
    job = read_job(PYTORCH, job_manifest(PYTORCH, replicas))
    pods = [pod_manifest(PYTORCH, job, replica)["metadata"] for replica in job.replicas]
    assert [pod["name"] for pod in pods if "training.kubeflow.org/job-role" in pod["labels"]] == masters


@pytest.mark.parametrize(
    ("replicas", "elastic", "pods", "state"),
    [
        pytest.param({"Master": 1, "Worker": 2}, None, {"Master-0": "running"}, "Running", id="the master runs"),
        pytest.param(
            {"Master": 1, "Worker": 2}, None, {"Master-0": "succeeded", "Worker-0": "running"}, "Succeeded", id="master done"
        ),
        pytest.param({"Master": 1, "Worker": 1}, None, {"Worker-0": "running"}, "Created", id="only a worker runs"),
        pytest.param(
            {"Worker": 2}, None, {"Worker-0": "running,succeeded", "Worker-1": "running"}, "Running", id="one of two workers"
        ),
        pytest.param({"Worker": 2}, None, {"Worker-0": "succeeded", "Worker-1": "succeeded"}, "Succeeded", id="all workers"),
        pytest.param(
            {"Worker": 2}, {}, {"Worker-0": "running,succeeded", "Worker-1": "running"}, "Succeeded", id="elastic: the first"
        ),
        pytest.param({"Worker": 1}, {}, {"Worker-0": "succeeded"}, "Succeeded", id="elastic"),
    ],
)
def test_when_a_pytorchjob_succeeds(
    replicas: dict[str, int], elastic: Manifest | None, pods: dict[str, str], state: str
) -> None:
    manifest = job_manifest(PYTORCH, replicas, elasticPolicy=elastic)
    decided = plan(PYTORCH, read_job(PYTORCH, manifest), observe(PYTORCH, manifest, pods), START)
    assert status_of(decided).conditions[-1].type == state


@pytest.mark.parametrize("failure", ["failed 1", "failed 137"])
def test_the_master_s_success_beats_a_worker_s_failure(failure: str) -> None:
    manifest = job_manifest(PYTORCH, BOTH, policy="Never")
    pods = {"Master-0": "running,succeeded", "Worker-0": f"running,{failure}"}
    decided = plan(PYTORCH, read_job(PYTORCH, manifest), observe(PYTORCH, manifest, pods), START)
    assert [c.type for c in status_of(decided).conditions if c.is_true] == ["Created", "Succeeded"]


SPECS = "spec.pytorchReplicaSpecs"
AT = f"{SPECS}[Worker]"


NO_WORKER = f"{AT}.replicas: Forbidden: must be at least 1 without a Master"


@pytest.mark.parametrize(
    ("replicas", "job", "expected"),
    [
        pytest.param(
            BOTH,
            {"elasticPolicy": {"rdzvBackend": "c10d"}, "run_policy": {"managedBy": "kubeflow.org/training-operator"}},
            [],
            id="valid",
        ),
        pytest.param({"Master": 2, "Worker": 1}, {}, [f"{SPECS}[Master].replicas: Forbidden: must be 1"], id="Master 2"),
        pytest.param({"Master": replica_spec(PYTORCH, None)}, {}, [], id="Master unset is 1, unlike in the reference"),
        pytest.param({"Worker": 0}, {}, [NO_WORKER], id="Worker 0"),
        pytest.param({"Master": 1, "Worker": 0}, {}, [], id="Worker 0 beside a Master, as in the reference"),
        pytest.param(
            {"Master": 1, "Worker": 0},
            {"elasticPolicy": {}},
            [f"{AT}: Required value: elasticPolicy is about workers, so there must be some"],
            id="elastic, Worker 0 beside a Master",
        ),
        pytest.param(BOTH, {"elasticPolicy": {"nProcPerNode": 1}}, [], id="nProcPerNode alone"),
        pytest.param(
            BOTH,
            {"elasticPolicy": {"nProcPerNode": 1}, "nprocPerNode": "1"},
            ["spec.elasticPolicy.nProcPerNode: Forbidden: spec.nprocPerNode is set; remove this one"],
            id="both",
        ),
        pytest.param(
            {"Master": 1},
            {"elasticPolicy": {}},
            [f"{AT}: Required value: elasticPolicy is about workers, so there must be some"],
            id="elastic without Worker",
        ),
        pytest.param({"Worker": 0}, {"elasticPolicy": {}}, [NO_WORKER], id="elastic, Worker 0"),
        pytest.param(
            {"Worker": 1},
            {"elasticPolicy": {"minReplicas": 5, "maxReplicas": 2}},
            ["spec.elasticPolicy.minReplicas: Invalid value: 5: must not exceed maxReplicas, which is 2"],
            id="more at least than at most",
        ),
        pytest.param(
            {"Worker": 1},
            {"nprocPerNode": "two"},
            ['spec.nprocPerNode: Invalid value: "two": use "auto", "cpu", "gpu", "xpu", "npu" or a number in quotes, from "1"'],
            id="102",
        ),
        pytest.param({"Worker": 1}, {"nprocPerNode": 2}, ["spec.nprocPerNode: must be text, in quotes"], id="not quoted"),
        pytest.param(
            BOTH,
            {"run_policy": {"managedBy": "other-job-controller"}, "nprocPerNode": "two"},
            [],
            id="managedBy another: not ours to judge; the CRD refuses it",
        ),
    ],
)
def test_errors_of_a_pytorch_job_say_what_to_change(replicas: dict[str, Any], job: Manifest, expected: list[str]) -> None:
    assert errors(replicas, **job) == expected


def autoscaler(job: Manifest, **observed: Any) -> list[Any]:
    decided = plan(PYTORCH, read_job(PYTORCH, job), Observed(**observed), START)
    return [a for a in decided.actions if isinstance(a, Create | Update | Delete) and a.plural == "horizontalpodautoscalers"]


def elastic_job(**more: Any) -> Manifest:
    return job_manifest(PYTORCH, {"Worker": 2}, elasticPolicy={"minReplicas": 1, "maxReplicas": 3, "metrics": CPU}, **more)


def test_the_autoscaler() -> None:
    (create,) = autoscaler(elastic_job())
    assert isinstance(create, Create)
    assert create.manifest["spec"] == {
        "scaleTargetRef": {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "demo"},
        "minReplicas": 1,
        "maxReplicas": 3,
        "metrics": CPU,
    }
    assert create.manifest["metadata"]["ownerReferences"][0]["uid"] == "uid-demo"
    there = {KEY: view_of({**create.manifest, "spec": {**create.manifest["spec"], "behavior": {}}}, uid="uid-hpa")}
    assert autoscaler(elastic_job(), companions=there) == [], "what the API server adds is no difference"
    edited = {KEY: view_of({**create.manifest, "spec": {**create.manifest["spec"], "maxReplicas": 9}}, uid="uid-hpa")}
    (update,) = autoscaler(elastic_job(), companions=edited)
    assert isinstance(update, Update)
    assert update.manifest["spec"]["maxReplicas"] == 3
    on_record = {"conditions": [condition("Created"), condition("Suspended")]}
    for gone in (elastic_job(run_policy={"suspend": True}, status=on_record), elastic_job(status=finished_status())):
        (delete,) = autoscaler(gone, companions=there)
        assert isinstance(delete, Delete), "it goes with suspension and with the end"
        assert delete.uid == "uid-hpa"


def test_a_refused_autoscaler_does_not_hold_up_the_job() -> None:
    refused = {("horizontalpodautoscalers", "demo"): Rejection("no", required=False)}
    decided = plan(PYTORCH, read_job(PYTORCH, elastic_job()), Observed(rejections=refused), START)
    assert [str(action) for action in decided.actions] == [
        "create services/demo",
        "create pods/demo-worker-0",
        "create pods/demo-worker-1",
    ]


def test_an_invalid_spec_does_not_break_the_functions_of_the_framework() -> None:
    manifest = job_manifest(PYTORCH, {"Worker": 1}, elasticPolicy={"minReplicas": "x"}, status=finished_status("Failed"))
    job = read_job(PYTORCH, manifest)
    assert [error.path for error in job.errors] == ["spec.elasticPolicy.minReplicas"]
    assert plan(PYTORCH, job, Observed(), START).reason == "job has finished"


@pytest.mark.parametrize("run_policy", [{}, {"cleanPodPolicy": "None"}], ids=["alone", "runPolicy wins"])
def test_the_flat_run_policy_of_pytorch_operator(run_policy: Manifest) -> None:
    flat = {"cleanPodPolicy": "All", "backoffLimit": 3, "activeDeadlineSeconds": 60, "ttlSecondsAfterFinished": 5}
    job = read_job(PYTORCH, job_manifest(PYTORCH, {"Master": 1, "Worker": 1}, run_policy=run_policy, **flat))
    assert not job.errors
    policy = job.run_policy.model_dump(by_alias=True, exclude_none=True, mode="json")
    assert policy == {**flat, **run_policy}
    (version,) = custom_resource_definition(PYTORCH)["spec"]["versions"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert flat.keys() <= spec["properties"].keys(), "kubectl apply refuses a field that the definition does not know"
