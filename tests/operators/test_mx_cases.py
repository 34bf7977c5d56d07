"""MXJob: the cases of the reference's tests. Where the reference's result is a defect, the expectation is the sensible one."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from jobcommon.api.replica import Replica
from jobcommon.framework import SERVICE_PER_REPLICA, Options
from jobcommon.operators.mxnet import MXNET
from jobcommon.reconcile import Plan, read_job
from jobcommon.reconcile.children import pod_manifest
from jobcommon.testutil import plans
from jobcommon.testutil.builders import Manifest, job_manifest, replica_spec
from jobcommon.testutil.plans import NOW, holding

TRAIN = {"Scheduler": 1, "Server": 1, "Worker": 2}
TUNE = {"TunerTracker": 1, "TunerServer": 1, "Tuner": 1}


def job_of(replicas: Mapping[str, Any], policy: str | None = None, **more: Any) -> Manifest:
    return job_manifest(MXNET, replicas, policy=policy, name="mx", **more)


def decide(manifest: Manifest, pods: Mapping[str, str], now: float = NOW) -> Plan:
    return plans.decide(MXNET, manifest, pods, now)


def env_of(manifest: Manifest, kind: str, index: int, container: int = 0) -> dict[str, str]:
    pod = pod_manifest(MXNET, read_job(MXNET, manifest), Replica(kind, index))
    return {entry["name"]: entry["value"] for entry in pod["spec"]["containers"][container]["env"]}


def states(kind: str, failed_succeeded_active: str) -> dict[str, str]:
    """Succeeded first, then failed, then active, from index 0."""
    failed, succeeded, active = map(int, failed_succeeded_active.split("/"))
    row = ["succeeded"] * succeeded + ["failed 1"] * failed + ["running"] * active
    return {f"{kind}-{index}": state for index, state in enumerate(row)}


# -- environment ---------------------------------------------------------------------------------------------------------

ROOT = "mx-scheduler-0.mx.default.svc"


@pytest.mark.parametrize(
    ("replicas", "pod", "root", "port", "servers", "workers", "ids", "mode"),
    [
        pytest.param(TRAIN, ("Scheduler", 0), ROOT, "9091", "1", "2", {}, "MXTrain", id="scheduler-0"),
        pytest.param(TRAIN, ("Server", 0), ROOT, "9091", "1", "2", {"SERVER": "0"}, "MXTrain", id="server-0"),
        pytest.param(TRAIN, ("Worker", 1), ROOT, "9091", "1", "2", {"WORKER": "1", "SERVER": "0"}, "MXTrain", id="worker-1"),
        pytest.param(
            {"Worker": 1}, ("Worker", 0), "", "0", "0", "1", {"WORKER": "0", "SERVER": "0"}, "MXTrain", id="single worker"
        ),
        pytest.param(TUNE, ("TunerServer", 0), "", "0", "0", "0", {}, "MXTune", id="tunerserver-0"),
        pytest.param(TUNE, ("TunerTracker", 0), "", "0", "0", "0", {}, "MXTune", id="tunertracker-0"),
        pytest.param(TUNE, ("Tuner", 0), "", "0", "0", "0", {}, "MXTune", id="tuner-0"),
    ],
)
def test_environment(
    replicas: dict[str, int],
    pod: tuple[str, int],
    root: str,
    port: str,
    servers: str,
    workers: str,
    ids: dict[str, str],
    mode: str,
) -> None:
    env = env_of(job_of(replicas, jobMode=mode), *pod)
    task = json.loads(env.pop("MX_CONFIG"))["task"]
    assert task == {"type": pod[0].lower(), "index": pod[1]}
    assert env == {
        "DMLC_PS_ROOT_PORT": port,
        "DMLC_PS_ROOT_URI": root,
        "DMLC_NUM_SERVER": servers,
        "DMLC_NUM_WORKER": workers,
        "DMLC_ROLE": pod[0].lower(),
        "DMLC_USE_KUBERNETES": "1",
        **{f"DMLC_{role}_ID": index for role, index in ids.items()},
    }


def test_the_order_of_the_variables_is_the_references() -> None:
    assert list(env_of(job_of(TRAIN), "Worker", 0))[:8] == [
        "MX_CONFIG",
        "DMLC_PS_ROOT_PORT",
        "DMLC_PS_ROOT_URI",
        "DMLC_NUM_SERVER",
        "DMLC_NUM_WORKER",
        "DMLC_ROLE",
        "DMLC_USE_KUBERNETES",
        "DMLC_WORKER_ID",
    ]


@pytest.mark.parametrize(
    ("per_replica", "host"),
    [(False, "mx-{}-{}.mx.default.svc"), (True, "mx-{}-{}.default.svc")],
    ids=["one service", "service per replica"],
)
def test_mx_config(per_replica: bool, host: str) -> None:
    manifest = job_of(TRAIN, annotations={SERVICE_PER_REPLICA: "true"} if per_replica else {})

    def entry(kind: str, index: int) -> str:
        return f'{{"url":"{host.format(kind, index)}","port":9091}}'

    cluster = f'"scheduler":[{entry("scheduler", 0)}],"server":[{entry("server", 0)}]'
    cluster += f',"worker":[{entry("worker", 0)},{entry("worker", 1)}]'
    labels = '"scheduler":"","server":"","worker":""'
    expected = f'{{"cluster":{{{cluster}}},"labels":{{{labels}}},"task":{{"type":"worker","index":0}}}}'
    assert env_of(manifest, "Worker", 0)["MX_CONFIG"] == expected
    assert env_of(manifest, "Worker", 0)["DMLC_PS_ROOT_URI"] == host.format("scheduler", 0)


def test_cluster_domain() -> None:
    job = read_job(replace(MXNET, options=Options(cluster_domain="cluster.local")), job_of(TRAIN))
    env = {e["name"]: e["value"] for e in pod_manifest(MXNET, job, Replica("Server", 0))["spec"]["containers"][0]["env"]}
    assert env["DMLC_PS_ROOT_URI"] == f"{ROOT}.cluster.local"


@pytest.mark.parametrize("place", ["annotation", "label"])
def test_tuner_server_key(place: str) -> None:
    replicas = {kind: replica_spec(MXNET, 1) for kind in TUNE}
    if place == "annotation":
        replicas["TunerServer"]["template"]["metadata"] = {"annotations": {"tuner-server-key": "2080ti"}}
    else:
        replicas["TunerServer"]["label"] = "2080ti"
    labels = json.loads(env_of(job_of(replicas, jobMode="MXTune"), "Tuner", 0)["MX_CONFIG"])["labels"]
    assert labels == {"tuner": "", "tunerserver": "2080ti", "tunertracker": ""}


def test_every_container_has_the_environment() -> None:
    replicas: dict[str, Any] = {"Worker": replica_spec(MXNET, 1)}
    replicas["Worker"]["template"]["spec"]["containers"].append({"name": "sidecar", "image": "image"})
    assert env_of(job_of(replicas), "Worker", 0, container=1) == env_of(job_of(replicas), "Worker", 0)


def test_a_scheduler_with_a_port_of_its_own() -> None:
    replicas: dict[str, Any] = {"Scheduler": replica_spec(MXNET, 1), "Worker": 1, "Server": 1}
    container = replicas["Scheduler"]["template"]["spec"]["containers"][0]
    container["ports"] = [{"name": "mxjob-port", "containerPort": 9999}]
    env = env_of(job_of(replicas), "Worker", 0)
    assert env["DMLC_PS_ROOT_PORT"] == "9999"
    assert json.loads(env["MX_CONFIG"])["cluster"]["scheduler"][0]["port"] == 9999


# -- defaults ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["scheduler", "SERVER", "tunerTracker", "TUNERSERVER", "tuner"])
def test_spelling_of_the_types(key: str) -> None:
    job = read_job(MXNET, job_of({key: 1}))
    assert [name.lower() for name in job.replica_specs] == [key.lower()]
    assert key not in job.replica_specs


# -- validation ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("replicas", "mode", "paths"),
    [
        pytest.param({"Scheduler": 1, "Server": 1, "Worker": 1}, "MXTrain", [], id="valid"),
        pytest.param({"Worker": 1}, "MXTrain", [], id="worker alone"),
        pytest.param(TUNE, "MXTune", [], id="valid, tuning"),
        pytest.param({"Scheduler": 1}, "MXTrain", ["spec.mxReplicaSpecs[Worker]"], id="training without workers"),
        pytest.param({"Scheduler": 1, "Worker": 2}, "MXTrain", [], id="training without servers"),
        pytest.param({"TunerTracker": 1}, "MXTune", ["spec.mxReplicaSpecs[Tuner]"], id="tuning without a tuner"),
        pytest.param({"Worker": 1, "Tuner": 1}, "MXTune", ["spec.mxReplicaSpecs[Worker]"], id="a type of the other mode"),
        pytest.param({"Worker": 1}, "MXServe", ["spec.jobMode"], id="unknown mode"),
        pytest.param({"Scheduler": 2, "Worker": 1}, "MXTrain", ["spec.mxReplicaSpecs[Scheduler].replicas"], id="2 schedulers"),
    ],
)
def test_the_types_of_a_mode(replicas: dict[str, int], mode: str, paths: list[str]) -> None:
    assert [error.path for error in read_job(MXNET, job_of(replicas, jobMode=mode)).errors] == paths


# -- status --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "schedulers", "workers", "scheduler_fsa", "worker_fsa", "expected"),
    [
        (None, 0, 1, "0/0/0", "1/0/0", "Failed"),
        (None, 1, 1, "0/1/0", "0/1/0", "Succeeded"),
        (None, 1, 1, "0/0/1", "0/0/1", "Running"),
        (None, 1, 4, "0/0/1", "0/2/2", "Running"),
        (None, 1, 4, "0/0/1", "2/0/2", "Failed"),
        (None, 1, 4, "0/0/1", "2/2/0", "Failed"),
        ("AllWorkers", 1, 1, "0/0/1", "0/1/0", "Succeeded"),
        ("AllWorkers", 1, 1, "0/0/1", "0/0/1", "Running"),
        ("AllWorkers", 1, 1, "0/1/0", "0/0/1", "Running"),
        # Beyond the table: without a scheduler all workers decide.
        (None, 0, 2, "0/0/0", "0/1/1", "Running"),
        (None, 0, 2, "0/0/0", "0/2/0", "Succeeded"),
    ],
)
def test_the_scheduler_or_all_workers_decide(
    policy: str | None, schedulers: int, workers: int, scheduler_fsa: str, worker_fsa: str, expected: str
) -> None:
    replicas = {kind: count for kind, count in (("Scheduler", schedulers), ("Worker", workers)) if count}
    manifest = job_of(replicas, **({"successPolicy": policy} if policy else {}))
    decision = decide(manifest, states("Scheduler", scheduler_fsa) | states("Worker", worker_fsa))
    assert holding(decision) == ["Created", expected]


def test_servers_do_not_decide() -> None:
    decision = decide(job_of(TRAIN), {"Scheduler-0": "running", "Server-0": "succeeded", "Worker-0": "running"})
    assert holding(decision)[-1] == "Running"


@pytest.mark.parametrize(
    ("tuner", "others", "expected"),
    [("running", "running", "Running"), ("succeeded", "running", "Succeeded"), ("running", "succeeded", "Running")],
)
def test_the_tuner_decides(tuner: str, others: str, expected: str) -> None:
    pods = {"TunerTracker-0": others, "TunerServer-0": others, "Tuner-0": tuner}
    assert holding(decide(job_of(TUNE, jobMode="MXTune"), pods))[-1] == expected


@pytest.mark.parametrize(
    ("replicas", "mode", "master"),
    [(TRAIN, "MXTrain", "Scheduler-0"), ({"Worker": 2}, "MXTrain", "Worker-0"), (TUNE, "MXTune", "TunerTracker-0")],
)
def test_the_coordinator_is_the_master(replicas: dict[str, int], mode: str, master: str) -> None:
    job = read_job(MXNET, job_of(replicas, jobMode=mode))
    roles = {
        str(r): pod_manifest(MXNET, job, r)["metadata"]["labels"].get("training.kubeflow.org/job-role") for r in job.replicas
    }
    assert [slot for slot, role in roles.items() if role == "master"] == [master]


# -- the flat form -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_the_flat_run_policy_of_mxnet_operator(version: str) -> None:
    manifest = job_of({"Worker": 1}, cleanPodPolicy="All", ttlSecondsAfterFinished=5, activeDeadlineSeconds=6, backoffLimit=7)
    manifest["apiVersion"] = f"kubeflow.org/{version}"
    policy = read_job(MXNET, manifest).run_policy
    found = policy.clean_pod_policy, policy.ttl_seconds_after_finished, policy.active_deadline_seconds, policy.backoff_limit
    assert found == ("All", 5, 6, 7)
