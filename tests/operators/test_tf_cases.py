"""TFJob: the cases of the reference's tests, those that it leaves untested, and its end-to-end expectations.

Where the reference's result is a defect, the expectation is the sensible one; docs/deviations.md names those.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from jobcommon.api.replica import Replica
from jobcommon.framework import SERVICE_PER_REPLICA, Framework, Job, Options
from jobcommon.operators.tf import TF
from jobcommon.reconcile import Create, Plan, plan, read_job
from jobcommon.reconcile.children import owner_reference, pod_manifest
from jobcommon.testutil import plans
from jobcommon.testutil.builders import Manifest, job_manifest, observe, replica_spec
from jobcommon.testutil.cluster_model import ClusterModel
from jobcommon.testutil.plans import NOW, counts, creates, deletes, holding, next_pass, pods_of, status_of


def decide(manifest: Manifest, pods: Mapping[str, str], now: float = NOW) -> Plan:
    return plans.decide(TF, manifest, pods, now)


def specs(policy: Any = None, **replicas: int) -> dict[str, Any]:
    return {kind: replica_spec(TF, count, policy) for kind, count in replicas.items() if count}


# -- normal path ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("workers", "ps", "worker_pods", "ps_pods", "created", "worker", "ps_counts", "last"),
    [
        pytest.param(1, 0, (0, 0, 0), (0, 0, 0), 1, "0/0/0", None, "Created", id="local created"),
        pytest.param(4, 2, (0, 0, 0), (0, 0, 0), 6, "0/0/0", "0/0/0", "Created", id="distributed created"),
        pytest.param(4, 2, (4, 0, 0), (2, 0, 0), 0, "0/0/0", "0/0/0", "Created", id="all pending"),
        pytest.param(4, 2, (0, 4, 0), (0, 2, 0), 0, "4/0/0", "2/0/0", "Running", id="all running"),
        pytest.param(4, 2, (2, 0, 0), (1, 0, 0), 3, "0/0/0", "0/0/0", "Created", id="2 workers 1 ps pending"),
        pytest.param(4, 2, (2, 1, 0), (1, 0, 0), 2, "1/0/0", "0/0/0", "Running", id="and 1 worker running"),
        pytest.param(4, 2, (2, 0, 1), (1, 0, 0), 2, "0/1/0", "0/0/0", "Created", id="and 1 worker succeeded"),
        pytest.param(4, 2, (0, 0, 4), (0, 0, 2), 0, "0/4/0", "0/2/0", "Succeeded", id="succeeded"),
    ],
)
@pytest.mark.parametrize("per_replica", [False, True], ids=["one service", "service per replica"])
def test_normal_path(
    workers: int,
    ps: int,
    worker_pods: tuple[int, int, int],
    ps_pods: tuple[int, int, int],
    created: int,
    worker: str,
    ps_counts: str | None,
    last: str,
    per_replica: bool,
) -> None:
    annotations = {SERVICE_PER_REPLICA: "true"} if per_replica else {}
    manifest = job_manifest(TF, specs(Worker=workers, PS=ps), annotations=annotations)
    states = ("scheduled", "running", "succeeded")
    pods = {
        **pods_of("Worker", *zip(states, worker_pods, strict=True)),
        **pods_of("PS", *zip(states, ps_pods, strict=True)),
    }
    observed = observe(TF, manifest, pods)
    observed = replace(observed, services=tuple(s for s in observed.services if s.name == "demo" or _slot(s.name) in pods))
    job = read_job(TF, manifest)
    decision = plan(TF, job, observed, NOW)
    assert len(creates(decision)) == created
    assert len(creates(decision, "services")) == (created if per_replica else 0)
    assert not deletes(decision)
    assert counts(decision, "Worker") == worker
    assert ps_counts is None or counts(decision, "PS") == ps_counts
    assert holding(decision)[-1] == last
    assert status_of(decision).start_time is not None
    assert status_of(decision).conditions[-1].reason == f"TFJob{last}"
    for action in decision.actions:
        assert isinstance(action, Create)
        assert action.manifest["metadata"]["ownerReferences"] == [owner_reference(job)]


def _slot(service: str) -> str:
    kind, _, index = service.removeprefix("demo-").rpartition("-")
    return f"{ {'worker': 'Worker', 'ps': 'PS'}.get(kind, kind) }-{index}"


# -- status --------------------------------------------------------------------------------------------------------------

ALL_WORKERS = "AllWorkers"


@pytest.mark.parametrize(
    ("chiefs", "workers", "ps", "success_policy", "ps_fsa", "worker_fsa", "chief_fsa", "policy", "expected"),
    [
        pytest.param(1, 1, 0, None, "0/0/0", "0/1/0", "0/1/0", None, "Succeeded", id="chief succeeded"),
        pytest.param(1, 1, 0, None, "0/0/0", "0/0/0", "0/0/1", None, "Running", id="chief running"),
        pytest.param(1, 1, 0, None, "0/0/0", "0/0/0", "1/0/0", None, "Failed", id="chief failed"),
        pytest.param(0, 1, 0, None, "0/0/0", "1/0/0", "0/0/0", None, "Failed", id="worker failed"),
        pytest.param(0, 1, 0, None, "0/0/0", "0/1/0", "0/0/0", None, "Succeeded", id="worker succeeded"),
        pytest.param(0, 1, 0, None, "0/0/0", "0/0/1", "0/0/0", None, "Running", id="worker running"),
        # The table's worker 0 has no container status; in a cluster its phase says enough, and the job has succeeded.
        pytest.param(0, 4, 2, None, "0/0/2", "0/2/2", "0/0/0", None, "Succeeded", id="worker 0 and 1 succeeded"),
        pytest.param(0, 4, 2, None, "0/0/2", "2/0/2", "0/0/0", None, "Failed", id="2 running, 2 failed"),
        pytest.param(0, 4, 2, None, "0/0/2", "2/2/0", "0/0/0", None, "Succeeded", id="worker 0 succeeded, 2 failed"),
        pytest.param(0, 4, 2, None, "0/0/2", "0/1/3", "0/0/0", None, "Succeeded", id="worker 0 succeeded 3 active"),
        pytest.param(0, 4, 0, ALL_WORKERS, "0/0/0", "0/1/3", "0/0/0", None, "Running", id="all workers: 1 of 4"),
        pytest.param(0, 4, 0, ALL_WORKERS, "0/0/0", "0/4/0", "0/0/0", None, "Succeeded", id="all workers: 4 of 4"),
        pytest.param(0, 4, 0, ALL_WORKERS, "0/0/0", "1/1/2", "0/0/0", None, "Failed", id="all workers: 1 failed"),
        pytest.param(1, 4, 2, None, "0/0/2", "4/0/0", "0/0/1", None, "Failed", id="chief running, workers failed"),
        pytest.param(1, 4, 2, None, "0/0/2", "0/4/0", "0/0/1", None, "Running", id="chief running, workers succeeded"),
        pytest.param(1, 4, 2, None, "1/0/1", "0/4/0", "0/0/1", None, "Failed", id="chief running, a ps failed"),
        pytest.param(1, 4, 2, None, "0/0/2", "0/4/0", "1/0/0", None, "Failed", id="chief failed, workers succeeded"),
        pytest.param(1, 4, 2, None, "0/0/2", "4/0/0", "0/1/0", None, "Succeeded", id="chief succeeded, workers failed"),
        pytest.param(1, 4, 2, None, "0/0/2", "4/0/0", "1/0/0", "ExitCode", "Restarting", id="chief restarting"),
    ],
)
def test_the_chief_or_worker_0_decides(
    chiefs: int,
    workers: int,
    ps: int,
    success_policy: str | None,
    ps_fsa: str,
    worker_fsa: str,
    chief_fsa: str,
    policy: str | None,
    expected: str,
) -> None:
    spec: dict[str, Any] = {} if success_policy is None else {"successPolicy": success_policy}
    manifest = job_manifest(TF, specs(policy, Chief=chiefs, Worker=workers, PS=ps), **spec)
    pods: dict[str, str] = {}
    for kind, cell in (("PS", ps_fsa), ("Worker", worker_fsa), ("Chief", chief_fsa)):
        failed, succeeded, active = map(int, cell.split("/"))
        code = 130 if policy == "ExitCode" else 1
        pods |= pods_of(kind, ("succeeded", succeeded), (f"failed {code}", failed), ("running", active))
    decision = decide(manifest, pods)
    assert holding(decision) == ["Created", expected]


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        pytest.param([("running", 2), ("succeeded", 2)], "Running", id="as meant: others than worker 0 succeeded"),
        pytest.param([("failed 1", 2), ("succeeded", 2)], "Failed", id="as meant: worker 0 among the failed"),
    ],
)
def test_workers_other_than_0_do_not_decide(states: list[tuple[str, int]], expected: str) -> None:
    manifest = job_manifest(TF, specs(Worker=4, PS=2))
    assert holding(decide(manifest, pods_of("Worker", *states) | pods_of("PS", ("running", 2))))[-1] == expected


# -- TF_CONFIG -----------------------------------------------------------------------------------------------------------


def in_domain(domain: str) -> Framework:
    return replace(TF, options=Options(cluster_domain=domain))


def job_in(namespace: str, domain: str, replicas: Mapping[str, Any], per_replica: bool = False, **spec: Any) -> Job:
    annotations = {SERVICE_PER_REPLICA: "true"} if per_replica else {}
    manifest = job_manifest(TF, replicas, name="j", annotations=annotations, **spec)
    manifest["metadata"]["namespace"] = namespace
    return read_job(in_domain(domain), manifest)


def tf_config(job: Job, kind: str, index: int) -> str | None:
    pod = pod_manifest(TF, job, Replica(kind, index))
    env = pod["spec"]["containers"][0].get("env", [])
    return next((str(entry["value"]) for entry in env if entry["name"] == "TF_CONFIG"), None)


@pytest.mark.parametrize(
    ("ps", "evaluators", "namespace", "domain", "types"),
    [
        pytest.param(0, 0, "ns0", "", None, id="one worker"),
        pytest.param(0, 0, "ns1", "tf.training.com", None, id="one worker, domain"),
        pytest.param(1, 0, "ns2", "tf.training.org", ["ps", "worker"], id="worker and ps"),
        pytest.param(1, 1, "ns3", "tf.training.io", ["evaluator", "ps", "worker"], id="and evaluator"),
        pytest.param(1, 1, "ns3", "", ["evaluator", "ps", "worker"], id="and evaluator, no domain"),
    ],
)
@pytest.mark.parametrize(
    ("per_replica", "host"), [(False, "j-{}-0.j"), (True, "j-{}-0")], ids=["one service", "service per replica"]
)
def test_dense_tf_config(
    ps: int, evaluators: int, namespace: str, domain: str, types: list[str] | None, per_replica: bool, host: str
) -> None:
    job = job_in(namespace, domain, specs(Worker=1, PS=ps, Evaluator=evaluators), per_replica)
    found = tf_config(job, "Worker", 0)
    if types is None:
        assert found is None
        return
    end = f".{namespace}.svc{'.' + domain if domain else ''}:2222"
    cluster = ",".join(f'"{kind}":["{host.format(kind)}{end}"]' for kind in types)
    task = '"task":{"type":"worker","index":0}'
    assert found == f'{{"cluster":{{{cluster}}},{task},"environment":"cloud"}}'


@pytest.mark.parametrize(
    ("replicas", "distributed"),
    [
        ({"Worker": 1}, False),
        ({"Worker": 1, "PS": 1}, True),
        ({"PS": 1}, False),
        ({"Worker": 1, "Chief": 1}, True),
        ({"Chief": 1, "PS": 2, "Worker": 2, "Evaluator": 1}, True),
    ],
    ids=str,
)
def test_only_distributed_jobs_have_a_tf_config(replicas: dict[str, int], distributed: bool) -> None:
    job = job_in("default", "", specs(**replicas))
    assert all((tf_config(job, replica.type, replica.index) is not None) == distributed for replica in job.replicas)


P0, P1 = "j-ps-0.j.default.svc:2222", "j-ps-1.j.default.svc:2222"
W0, W1 = "j-worker-0.j.default.svc:2222", "j-worker-1.j.default.svc:2222"


@pytest.mark.parametrize(
    ("kind", "index", "cluster"),
    [
        pytest.param("Worker", 0, {"worker": {"0": W0}, "ps": [P0, P1]}, id="worker 0"),
        pytest.param("Worker", 1, {"worker": {"1": W1}, "ps": [P0, P1]}, id="worker 1"),
        pytest.param("PS", 0, {"worker": {}, "ps": [P0]}, id="ps 0"),
        pytest.param("PS", 1, {"worker": {}, "ps": {"1": P1}}, id="ps 1, whose index the reference put beyond its list"),
    ],
)
def test_sparse_tf_config(kind: str, index: int, cluster: dict[str, Any]) -> None:
    job = job_in("default", "", specs(Worker=2, PS=2), enableDynamicWorker=True)
    task = {"type": kind.lower(), "index": index}
    assert tf_config(job, kind, index) == json.dumps({"cluster": cluster, "task": task}, separators=(",", ":"))


def test_sparse_tf_config_of_a_chief_and_without_parameter_servers() -> None:
    job = job_in("default", "", specs(Worker=1, Chief=1), enableDynamicWorker=True)
    chief = "j-chief-0.j.default.svc:2222"
    assert json.loads(tf_config(job, "Worker", 0) or "")["cluster"] == {
        "worker": {"0": "j-worker-0.j.default.svc:2222"},
        "ps": [],
    }
    assert json.loads(tf_config(job, "Chief", 0) or "")["cluster"] == {"chief": [chief], "worker": {}, "ps": []}


def test_the_port_of_each_type_is_its_own() -> None:
    replicas = specs(Worker=1, PS=1)
    container = replicas["PS"]["template"]["spec"]["containers"][0]
    container["ports"] = [{"name": "tfjob-port", "containerPort": 3333}]
    cluster = json.loads(tf_config(job_in("default", "", replicas), "Worker", 0) or "")["cluster"]
    assert cluster == {"ps": ["j-ps-0.j.default.svc:3333"], "worker": ["j-worker-0.j.default.svc:2222"]}


def test_tf_config_goes_to_the_main_container_only_and_replaces_the_users() -> None:
    replicas = specs(Worker=2)
    containers = replicas["Worker"]["template"]["spec"]["containers"]
    containers[0]["env"] = [{"name": "TF_CONFIG", "value": "mine"}, {"name": "A", "value": "b"}]
    containers.append({"name": "sidecar", "image": "image"})
    main, sidecar = pod_manifest(TF, job_in("default", "", replicas), Replica("Worker", 0))["spec"]["containers"]
    assert [entry["name"] for entry in main["env"]] == ["TF_CONFIG", "A"]
    assert main["env"][1]["value"] != "mine"
    assert "env" not in sidecar


def test_estimator_cluster() -> None:
    job = job_in("default", "", specs(Chief=1, PS=2, Worker=2, Evaluator=1), per_replica=True)
    cluster = json.loads(tf_config(job, "Evaluator", 0) or "")["cluster"]
    assert cluster == {
        kind: [f"j-{kind}-{index}.default.svc:2222" for index in range(count)]
        for kind, count in (("chief", 1), ("evaluator", 1), ("ps", 2), ("worker", 2))
    }


# -- worker 0 ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("replicas", "pods", "succeeded"),
    [
        pytest.param({"Worker": 1, "PS": 1}, {"Worker-0": "running", "PS-0": "running"}, False, id="running"),
        pytest.param({"Worker": 1}, {"Worker-0": "succeeded"}, True, id="code 0"),
        pytest.param({"Master": 1}, {"Master-0": "succeeded"}, True, id="no worker, master"),
        pytest.param({"Chief": 1}, {"Chief-0": "succeeded"}, True, id="no worker, chief"),
        pytest.param({"Worker": 2}, {"Worker-0": "succeeded", "Worker-1": "failed 1"}, True, id="worker 0 of 2"),
        pytest.param({"Worker": 2}, {"Worker-0": "failed 1", "Worker-1": "running"}, False, id="worker 0 failed"),
    ],
)
def test_worker_0_completed(replicas: dict[str, int], pods: dict[str, str], succeeded: bool) -> None:
    assert ("Succeeded" in holding(decide(job_manifest(TF, specs(**replicas)), pods))) == succeeded


# -- scaling, roles ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dynamic", [True, False])
def test_a_surplus_worker_is_on_record_before_it_is_deleted(dynamic: bool) -> None:
    manifest = job_manifest(TF, specs(Worker=3), enableDynamicWorker=dynamic)
    observed = observe(TF, manifest, pods_of("Worker", ("running", 3)))
    smaller = job_manifest(TF, specs(Worker=2), enableDynamicWorker=dynamic)
    recorded = plan(TF, read_job(TF, smaller), observed, NOW)
    assert not deletes(recorded), "it is on record first"
    decision = plan(TF, read_job(TF, next_pass(smaller, recorded)), observed, NOW)
    assert deletes(decision) == ["demo-worker-2"]
    assert holding(recorded)[-1] == "Running"


def test_dynamic_workers_may_fail() -> None:
    manifest = job_manifest(TF, specs("Never", Worker=2, PS=1), enableDynamicWorker=True)
    assert holding(decide(manifest, {"Worker-0": "running", "Worker-1": "failed 1", "PS-0": "running"}))[-1] == "Running"
    assert holding(decide(manifest, {"Worker-0": "running", "Worker-1": "running", "PS-0": "failed 1"}))[-1] == "Failed"


@pytest.mark.parametrize("last", [0, 1], ids=["succeeds", "fails"])
def test_a_job_fails_when_no_dynamic_worker_is_left(last: int) -> None:
    world = ClusterModel.of(TF, specs("ExitCode", Worker=2, PS=1), enableDynamicWorker=True).start()
    world.exit("demo-worker-0", 1).settle()
    assert world.current == "Running"
    world.exit("demo-worker-1", last).settle()
    assert world.current == "Failed"
    text = "TFJob demo has failed because Worker-0 has failed, and no replica is left that could go on"
    assert world.job.status.conditions[-1].message == text


def test_a_worker_that_was_given_up_keeps_no_job_restarting() -> None:
    world = ClusterModel.of(TF, specs("ExitCode", Worker=3, PS=1), enableDynamicWorker=True).start()
    world.exit("demo-worker-1", 1)
    world.exit("demo-worker-2", 137).settle()
    assert world.current == "Restarting"
    world.run().settle()
    assert world.current == "Running"
    assert world.pods["demo-worker-1"].view.phase == "Failed"


@pytest.mark.parametrize(
    ("replicas", "masters"),
    [
        ({"Chief": 1, "Worker": 1}, ["Chief-0"]),
        ({"Master": 1, "Worker": 1}, ["Master-0"]),
        ({"Worker": 2, "PS": 1}, ["Worker-0"]),
        ({"PS": 1}, []),
    ],
    ids=str,
)
def test_the_replica_that_decides_has_the_master_label(replicas: dict[str, int], masters: list[str]) -> None:
    job = read_job(TF, job_manifest(TF, specs(**replicas)))
    role = "training.kubeflow.org/job-role"
    pods = {str(replica): pod_manifest(TF, job, replica) for replica in job.replicas}
    assert [name for name, pod in pods.items() if pod["metadata"]["labels"].get(role) == "master"] == masters


# -- validation ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("replicas", "error"),
    [
        pytest.param({"Chief": 1, "Master": 1}, "spec.tfReplicaSpecs", id="chief and master"),
        pytest.param({"Chief": 2}, "spec.tfReplicaSpecs[Chief].replicas", id="two chiefs"),
    ],
)
def test_there_is_one_chief_at_most(replicas: dict[str, int], error: str) -> None:
    assert [found.path for found in read_job(TF, job_manifest(TF, replicas)).errors] == [error]


def test_unknown_field_instead_of_replica_specs() -> None:
    manifest = job_manifest(TF, {})
    manifest["spec"] = {"replicaSpecs": {"Worker": replica_spec(TF)}}
    decision = decide(manifest, {})
    failed = status_of(decision).conditions[-1]
    assert (failed.type, failed.reason) == ("Failed", "InvalidSpec")
    assert failed.message.startswith("spec.tfReplicaSpecs: Required value: name at least one replica type of Chief")


# -- end to end ----------------------------------------------------------------------------------------------------------


def test_a_worker_ends_by_itself_and_a_server_does_not() -> None:
    world = ClusterModel.of(TF, specs(Worker=3, PS=1))
    world.settle()
    world.run()
    world.exit("demo-worker-0", 0).settle()
    assert world.current == "Succeeded"
    assert [name for name, pod in world.pods.items() if "deletionTimestamp" in pod.raw["metadata"]] == ["demo-ps-0"]
    world.exit("demo-worker-1", 0)
    world.exit("demo-worker-2", 1, message="a parameter server has gone")
    world.stop_terminating().settle()
    world.tick(60).settle()
    assert sorted(world.pods) == ["demo-worker-0", "demo-worker-1"], "without its server a worker's failure tells nothing"
    assert world.job.status.replica_statuses["Worker"].succeeded == 3
    assert world.runs["demo-worker-2"] == 1


# -- older versions -----------------------------------------------------------------------------------------------------


def test_v1beta1_with_the_flat_run_policy() -> None:
    manifest = job_manifest(TF, specs(Worker=1), cleanPodPolicy="All", backoffLimit=3)
    manifest["apiVersion"] = "kubeflow.org/v1beta1"
    del manifest["spec"]["runPolicy"]
    job = read_job(TF, manifest)
    assert not job.errors
    assert (job.run_policy.clean_pod_policy, job.run_policy.backoff_limit) == ("All", 3)
