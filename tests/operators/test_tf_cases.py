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
from jobcommon.reconcile.children import owner_reference, pod_manifest, service_manifests
from jobcommon.testutil import plans
from jobcommon.testutil.builders import START, Manifest, condition, finished_status, job_manifest, observe, replica_spec
from jobcommon.testutil.cluster_model import ClusterModel
from jobcommon.testutil.plans import NOW, conditions, counts, creates, deletes, holding, next_pass, pods_of


def decide(manifest: Manifest, pods: Mapping[str, str], now: float = NOW) -> Plan:
    return plans.decide(TF, manifest, pods, now)


def specs(policy: Any = None, **replicas: int) -> dict[str, Any]:
    return {kind: replica_spec(TF, count, policy) for kind, count in replicas.items() if count}


# -- O. normal path ------------------------------------------------------------------------------------------------------


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
    assert decision.status is not None
    assert decision.status.start_time is not None
    assert decision.status.conditions[-1].reason == f"TFJob{last}"
    for action in decision.actions:
        assert isinstance(action, Create)
        assert action.manifest["metadata"]["ownerReferences"] == [owner_reference(job)]


def _slot(service: str) -> str:
    kind, _, index = service.removeprefix("demo-").rpartition("-")
    return f"{ {'worker': 'Worker', 'ps': 'PS'}.get(kind, kind) }-{index}"


def test_the_first_pass_creates_the_one_service() -> None:
    manifest = job_manifest(TF, specs(Worker=4, PS=2))
    decision = plan(TF, read_job(TF, manifest), replace(observe(TF, manifest), services=()), NOW)
    assert creates(decision, "services") == ["demo"]


def test_owner_reference() -> None:
    assert owner_reference(read_job(TF, job_manifest(TF, specs(Worker=1), name="mnist", uid="u-1"))) == {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "name": "mnist",
        "uid": "u-1",
        "controller": True,
        "blockOwnerDeletion": True,
    }


# -- P. status -----------------------------------------------------------------------------------------------------------

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
def test_status(
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


def test_a_failed_worker_under_never_fails_the_job() -> None:
    decision = decide(job_manifest(TF, specs("Never", Worker=1)), {"Worker-0": "failed 1"})
    assert holding(decision) == ["Created", "Failed"]


# -- Q. clean-up, deadline, back-off -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "policy", "remaining"),
    [
        pytest.param("running", "All", 0, id="running, All"),
        pytest.param("running", "Running", 0, id="running, Running"),
        pytest.param("succeeded", "Running", 6, id="succeeded, Running"),
        pytest.param("succeeded", "None", 6, id="succeeded, None"),
    ],
)
def test_clean_pod_policy(state: str, policy: str, remaining: int) -> None:
    run_policy = {"cleanPodPolicy": policy}
    manifest = job_manifest(TF, specs(Worker=4, PS=2), run_policy=run_policy, status=finished_status())
    decision = decide(manifest, pods_of("Worker", (state, 4)) | pods_of("PS", (state, 2)))
    assert 6 - len(deletes(decision)) == remaining


@pytest.mark.parametrize(("seconds", "remaining"), [(None, 6), (2, 0)])
def test_active_deadline(seconds: int | None, remaining: int) -> None:
    limits = {"cleanPodPolicy": "All", **({"activeDeadlineSeconds": seconds} if seconds else {})}
    status = {"conditions": [condition("Created"), condition("Running")], "startTime": "2023-11-14T22:13:20Z"}
    manifest = job_manifest(TF, specs(Worker=4, PS=2), run_policy=limits, status=status)
    pods = pods_of("Worker", ("running", 4)) | pods_of("PS", ("running", 2))
    decision = decide(manifest, pods, START + 2)
    assert holding(decision)[-1] == ("Failed" if seconds else "Running")
    assert 6 - len(deletes(decide(next_pass(manifest, decision), pods, START + 2))) == remaining


@pytest.mark.parametrize(
    ("limit", "expected", "remaining"),
    # backoffLimit failures are allowed; the reference ended the job with the last one that was.
    [pytest.param(4, "Running", 6, id="4 restarts of 4"), pytest.param(3, "Failed", 0, id="4 restarts of 3")],
)
def test_backoff_limit_counts_restarts_in_place(limit: int, expected: str, remaining: int) -> None:
    replicas = {"Worker": replica_spec(TF, 4, "OnFailure"), "PS": replica_spec(TF, 2)}
    manifest = job_manifest(TF, replicas, run_policy={"cleanPodPolicy": "All", "backoffLimit": limit})
    pods = pods_of("Worker", ("between_runs 1", 4)) | pods_of("PS", ("running", 2))
    decision = decide(manifest, pods)
    assert holding(decision)[-1] == expected
    cleaned = decide(next_pass(manifest, decision), pods)
    assert 6 - len(deletes(cleaned)) == remaining


# -- R. TF_CONFIG --------------------------------------------------------------------------------------------------------


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


def test_sparse_tf_config_in_full() -> None:
    job = job_in("default", "", specs(Worker=2, PS=2), enableDynamicWorker=True)
    expected = f'{{"cluster":{{"worker":{{"0":"{W0}"}},"ps":["{P0}","{P1}"]}},"task":{{"type":"worker","index":0}}}}'
    assert tf_config(job, "Worker", 0) == expected


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
    assert [entry["name"] for entry in main["env"]] == ["A", "TF_CONFIG"]
    assert main["env"][1]["value"] != "mine"
    assert "env" not in sidecar


def test_estimator_cluster() -> None:
    job = job_in("default", "", specs(Chief=1, PS=2, Worker=2, Evaluator=1), per_replica=True)
    cluster = json.loads(tf_config(job, "Evaluator", 0) or "")["cluster"]
    assert cluster == {
        kind: [f"j-{kind}-{index}.default.svc:2222" for index in range(count)]
        for kind, count in (("chief", 1), ("evaluator", 1), ("ps", 2), ("worker", 2))
    }


# -- S. worker 0 ---------------------------------------------------------------------------------------------------------


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


# -- T. others -----------------------------------------------------------------------------------------------------------


def test_retryable_exit_code_replaces_the_pod() -> None:
    manifest = job_manifest(TF, specs("ExitCode", Worker=1))
    recorded = decide(manifest, {"Worker-0": "failed 130"})
    assert deletes(decide(next_pass(manifest, recorded), {"Worker-0": "failed 130"})) == ["demo-worker-0"]


def test_permanent_exit_code_fails_the_job() -> None:
    decision = decide(job_manifest(TF, specs("ExitCode", Worker=1)), {"Worker-0": "failed 1"})
    assert decision.status is not None
    failed = decision.status.conditions[-1]
    assert (failed.type, failed.reason) == ("Failed", "TFJobFailed")
    assert failed.message == "TFJob demo has failed because Worker-0: exited with code 1 (Error) on node node-1"


@pytest.mark.parametrize("dynamic", [True, False])
def test_scale_down(dynamic: bool) -> None:
    manifest = job_manifest(TF, specs(Worker=3), enableDynamicWorker=dynamic)
    observed = observe(TF, manifest, pods_of("Worker", ("running", 3)))
    smaller = job_manifest(TF, specs(Worker=2), enableDynamicWorker=dynamic)
    recorded = plan(TF, read_job(TF, smaller), observed, NOW)
    assert not deletes(recorded), "it is on record first"
    decision = plan(TF, read_job(TF, next_pass(smaller, recorded)), observed, NOW)
    assert deletes(decision) == ["demo-worker-2"]
    assert holding(recorded)[-1] == "Running"


def test_scale_up() -> None:
    manifest = job_manifest(TF, specs(Worker=3), enableDynamicWorker=True)
    assert creates(decide(manifest, {"Worker-0": "running"})) == ["demo-worker-1", "demo-worker-2"]


def test_dynamic_workers_may_fail() -> None:
    manifest = job_manifest(TF, specs("Never", Worker=2, PS=1), enableDynamicWorker=True)
    assert holding(decide(manifest, {"Worker-0": "running", "Worker-1": "failed 1", "PS-0": "running"}))[-1] == "Running"
    assert holding(decide(manifest, {"Worker-0": "running", "Worker-1": "running", "PS-0": "failed 1"}))[-1] == "Failed"


def test_a_worker_that_was_given_up_keeps_no_job_restarting() -> None:
    world = ClusterModel.of(TF, specs("ExitCode", Worker=3, PS=1), enableDynamicWorker=True)
    world.settle()
    world.run()
    world.settle()
    world.exit("demo-worker-1", 1)
    world.exit("demo-worker-2", 137)
    world.settle()
    assert world.current == "Restarting"
    world.run()
    world.settle()
    assert world.current == "Running"
    assert world.pods["demo-worker-1"].view.phase == "Failed"


def test_labels_and_annotations_of_the_template() -> None:
    replicas = specs(Worker=1)
    replicas["Worker"]["template"]["metadata"] = {"labels": {"label1": "1"}, "annotations": {"annotation1": "1"}}
    pod = pod_manifest(TF, read_job(TF, job_manifest(TF, replicas)), Replica("Worker", 0))
    assert pod["metadata"]["name"] == "demo-worker-0"
    assert pod["metadata"]["labels"]["label1"] == "1"
    assert pod["metadata"]["annotations"] == {"annotation1": "1"}


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
def test_master_role(replicas: dict[str, int], masters: list[str]) -> None:
    job = read_job(TF, job_manifest(TF, specs(**replicas)))
    role = "training.kubeflow.org/job-role"
    pods = {str(replica): pod_manifest(TF, job, replica) for replica in job.replicas}
    assert [name for name, pod in pods.items() if pod["metadata"]["labels"].get(role) == "master"] == masters


def test_service_per_replica() -> None:
    manifest = job_manifest(TF, specs(Worker=1), annotations={SERVICE_PER_REPLICA: "true"})
    _, service = service_manifests(TF, read_job(TF, manifest))
    prefix = "training.kubeflow.org/"
    labels = {"operator-name": "tfjob-controller", "job-name": "demo", "replica-type": "worker", "replica-index": "0"}
    wanted = {f"{prefix}{key}": value for key, value in labels.items()}
    assert service["metadata"]["labels"] == service["spec"]["selector"] == wanted
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["ports"] == [{"name": "tfjob-port", "port": 2222}]


# -- U. suspend, resume, managedBy ---------------------------------------------------------------------------------------

PAIR = {"Chief": 1, "Worker": 1}
BOTH_RUN = {"Chief-0": "running", "Worker-0": "running"}


CREATED = "Created=T TFJobCreated: TFJob demo is created."


def test_suspend_and_resume() -> None:
    suspended = {"suspend": True}
    new = decide(job_manifest(TF, specs(**PAIR), run_policy=suspended), {})
    assert conditions(new) == [CREATED, "Suspended=T TFJobSuspended: TFJob demo is suspended."]
    assert new.status is not None
    assert new.status.start_time is None
    assert not creates(new)
    assert not creates(new, "services")

    manifest = job_manifest(TF, specs(**PAIR))
    running = decide(manifest, BOTH_RUN)
    assert conditions(running) == [CREATED, "Running=T TFJobRunning: TFJob default/demo is running."]

    stopped_spec = next_pass(job_manifest(TF, specs(**PAIR), run_policy=suspended), running)
    stopped = decide(stopped_spec, BOTH_RUN, NOW + 10)
    assert not deletes(stopped), "it is on record first"
    emptied = decide(next_pass(stopped_spec, stopped), BOTH_RUN, NOW + 10)
    assert deletes(emptied) == ["demo-chief-0", "demo-worker-0"]
    assert deletes(emptied, "services") == ["demo"]
    assert conditions(stopped) == [
        CREATED,
        "Running=F TFJobSuspended: TFJob demo is suspended.",
        "Suspended=T TFJobSuspended: TFJob demo is suspended.",
    ]
    assert stopped.status is not None
    assert running.status is not None
    assert stopped.status.start_time == running.status.start_time
    assert counts(stopped, "Chief") == counts(stopped, "Worker") == "0/0/0"
    assert not creates(decide(next_pass(stopped_spec, stopped), {}, NOW + 20))

    resumed = decide(next_pass(manifest, stopped), {}, NOW + 30)
    assert creates(decide(next_pass(manifest, resumed), {}, NOW + 30)) == ["demo-chief-0", "demo-worker-0"]
    assert resumed.status is not None
    assert resumed.status.start_time != running.status.start_time
    again = decide(next_pass(manifest, resumed), BOTH_RUN, NOW + 40)
    assert conditions(again) == [
        CREATED,
        "Suspended=F TFJobResumed: TFJob demo is resumed.",
        "Running=T TFJobRunning: TFJob default/demo is running.",
    ]


@pytest.mark.parametrize("suspend", [True, False])
# The second is no manager: the CRD refuses it. Where that check is missing, the job is left to the manager that it names.
@pytest.mark.parametrize("manager", ["kueue.x-k8s.io/multikueue", "other-job-controller"])
def test_managed_elsewhere(suspend: bool, manager: str) -> None:
    run_policy = {"suspend": suspend, "managedBy": manager}
    decision = decide(job_manifest(TF, specs(**PAIR), run_policy=run_policy), {})
    assert decision.actions == ()
    assert decision.status is None


# -- V. defaults ---------------------------------------------------------------------------------------------------------

TFJOB_PORT = {"name": "tfjob-port", "containerPort": 2222}
CUSTOM_PORT = {"name": "customPort", "containerPort": 1234}


@pytest.mark.parametrize(
    ("key", "policy", "ports", "clean", "policy_after", "ports_after", "clean_after"),
    [
        pytest.param("Worker", "Always", [TFJOB_PORT], None, "Always", [TFJOB_PORT], None, id="replicas"),
        pytest.param("Worker", None, [TFJOB_PORT], None, "Never", [TFJOB_PORT], None, id="restart policy"),
        pytest.param("Worker", "Always", None, None, "Always", [TFJOB_PORT], None, id="port"),
        pytest.param("Worker", "Always", [CUSTOM_PORT], None, "Always", [CUSTOM_PORT, TFJOB_PORT], None, id="second port"),
        pytest.param("Worker", "Always", [CUSTOM_PORT], "All", "Always", [CUSTOM_PORT, TFJOB_PORT], "All", id="All"),
        pytest.param("WORKER", "Always", [TFJOB_PORT], None, "Always", [TFJOB_PORT], None, id="spelling"),
    ],
)
def test_defaults(
    key: str,
    policy: str | None,
    ports: list[Manifest] | None,
    clean: str | None,
    policy_after: str,
    ports_after: list[Manifest],
    clean_after: str | None,
) -> None:
    spec = replica_spec(TF, None, policy)
    if ports is not None:
        spec["template"]["spec"]["containers"][0]["ports"] = ports
    manifest = job_manifest(TF, {key: spec}, run_policy={"cleanPodPolicy": clean} if clean else {})
    job = read_job(TF, manifest)
    assert not job.errors
    assert list(job.replica_specs) == ["Worker"]
    assert job.replica_specs["Worker"].replicas == 1
    assert job.replica_specs["Worker"].restart_policy == policy_after
    assert job.run_policy.clean_pod_policy == clean_after
    assert pod_manifest(TF, job, Replica("Worker", 0))["spec"]["containers"][0]["ports"] == ports_after


# -- W. validation -------------------------------------------------------------------------------------------------------


def with_containers(*containers: Manifest) -> dict[str, Any]:
    return {"Worker": {"template": {"spec": {"containers": list(containers)}}}}


IN_WORKER = "spec.tfReplicaSpecs[Worker].template.spec.containers"


@pytest.mark.parametrize(
    ("replicas", "name", "managed_by", "errors"),
    [
        pytest.param({"Worker": 2}, "demo", "kubeflow.org/training-operator", [], id="valid"),
        pytest.param({"Worker": 2}, "00test", None, ["metadata.name"], id="name"),
        pytest.param({"Worker": 2}, "x" * 60, None, ["metadata.name"], id="name too long for its pods"),
        pytest.param(with_containers(), "demo", None, [IN_WORKER], id="no containers"),
        pytest.param(with_containers({"name": "tensorflow", "image": ""}), "demo", None, [f"{IN_WORKER}[0].image"], id="image"),
        pytest.param(with_containers({"name": "", "image": "image"}), "demo", None, [IN_WORKER], id="container name"),
        pytest.param({"Chief": 1, "Master": 1}, "demo", None, ["spec.tfReplicaSpecs"], id="chief and master"),
        pytest.param({}, "demo", None, ["spec.tfReplicaSpecs"], id="no replica specs"),
        pytest.param({"Workers": 1}, "demo", None, ["spec.tfReplicaSpecs[Workers]"], id="unknown type"),
        pytest.param({"Chief": 2}, "demo", None, ["spec.tfReplicaSpecs[Chief].replicas"], id="two chiefs"),
    ],
)
def test_validation(replicas: dict[str, Any], name: str, managed_by: str | None, errors: list[str]) -> None:
    run_policy = {"managedBy": managed_by} if managed_by else {}
    job = read_job(TF, job_manifest(TF, replicas, name=name, run_policy=run_policy))
    assert [error.path for error in job.errors] == errors


def test_unknown_field_instead_of_replica_specs() -> None:
    manifest = job_manifest(TF, {})
    manifest["spec"] = {"replicaSpecs": {"Worker": replica_spec(TF)}}
    decision = decide(manifest, {})
    assert decision.status is not None
    failed = decision.status.conditions[-1]
    assert (failed.type, failed.reason) == ("Failed", "InvalidSpec")
    assert failed.message.startswith("spec.tfReplicaSpecs: Required value: name at least one replica type of Chief")


# -- end to end ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "code", "state", "outcome"),
    [
        ("Always", 0, "between_runs 0", "kubelet restarts"),
        ("Always", 1, "between_runs 1", "kubelet restarts"),
        ("OnFailure", 1, "between_runs 1", "kubelet restarts"),
        ("OnFailure", 0, "succeeded", "succeeded"),
        ("Never", 1, "failed 1", "job failed"),
        ("Never", 0, "succeeded", "succeeded"),
        ("ExitCode", 1, "failed 1", "job failed"),
        ("ExitCode", 130, "failed 130", "replaced"),
    ],
)
def test_policy_and_exit_code_of_a_parameter_server(policy: str, code: int, state: str, outcome: str) -> None:
    manifest = job_manifest(TF, {"Chief": replica_spec(TF, 1), "PS": replica_spec(TF, 1, policy)})
    job = read_job(TF, manifest)
    pods = {"Chief-0": "running", "PS-0": state}
    first = decide(manifest, pods)
    second = decide(next_pass(manifest, first), pods)
    gone = decide(next_pass(manifest, first), {"Chief-0": "running"})
    in_pod = pod_manifest(TF, job, Replica("PS", 0))["spec"]["restartPolicy"]
    if outcome == "kubelet restarts":
        assert in_pod == policy
        assert not deletes(second)
        assert holding(first)[-1] == "Running"
    elif outcome == "succeeded":
        assert counts(first, "PS") == "0/1/0"
        assert deletes(second) == creates(gone) == []
    elif outcome == "replaced":
        assert in_pod == "Never"
        assert deletes(second) == ["demo-ps-0"]
        assert creates(gone) == ["demo-ps-0"]
    else:
        assert holding(first)[-1] == "Failed"


@pytest.mark.parametrize(
    ("policy", "deleted"),
    [
        ("All", ["demo-chief-0", *(f"demo-ps-{i}" for i in range(2)), *(f"demo-worker-{i}" for i in range(4))]),
        ("Running", ["demo-ps-0", "demo-ps-1"]),
        ("None", []),
    ],
)
def test_clean_up_end_to_end(policy: str, deleted: list[str]) -> None:
    manifest = job_manifest(TF, specs(Chief=1, Worker=4, PS=2), run_policy={"cleanPodPolicy": policy})
    pods = {"Chief-0": "succeeded", **pods_of("Worker", ("succeeded", 4)), **pods_of("PS", ("running", 2))}
    done = decide(manifest, pods)
    assert holding(done)[-1] == "Succeeded"
    assert sorted(deletes(decide(next_pass(manifest, done), pods))) == deleted


def test_a_worker_ends_by_itself_and_a_server_does_not() -> None:
    world = ClusterModel.of(TF, specs(Worker=3, PS=1))
    world.settle()
    world.run()
    world.exit("demo-worker-0", 0)
    world.settle()
    assert world.current == "Succeeded"
    assert [name for name, pod in world.pods.items() if "deletionTimestamp" in pod.raw["metadata"]] == ["demo-ps-0"]
    world.exit("demo-worker-1", 0)
    world.exit("demo-worker-2", 1, message="a parameter server has gone")
    world.stop_terminating()
    world.settle()
    world.tick(60)
    world.settle()
    assert sorted(world.pods) == ["demo-worker-0", "demo-worker-1"], "without its server a worker's failure tells nothing"
    assert world.job.status.replica_statuses["Worker"].succeeded == 2
    assert world.runs["demo-worker-2"] == 1


@pytest.mark.parametrize(
    ("replicas", "done"),
    [({"Chief": 1, "Worker": 4, "Ps": 2}, "Chief-0"), ({"Worker": 4, "Ps": 2}, "Worker-0")],
    ids=["chief", "worker 0"],
)
def test_shutdown_with_the_leader(replicas: dict[str, int], done: str) -> None:
    manifest = job_manifest(TF, specs(**replicas))
    pods = {str(replica): "running" for replica in read_job(TF, manifest).replicas} | {done: "succeeded"}
    assert holding(decide(manifest, pods)) == ["Created", "Succeeded"]


def test_pod_names() -> None:
    job = read_job(TF, job_manifest(TF, specs(Chief=1, Ps=1, Worker=2, EVALUATOR=1)))
    assert [job.pod_name(replica) for replica in job.replicas] == [
        "demo-chief-0",
        "demo-ps-0",
        "demo-worker-0",
        "demo-worker-1",
        "demo-evaluator-0",
    ]


# -- Z. what no test of the reference covers -----------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["Never", "OnFailure", "Always", "ExitCode"])
def test_a_deleted_worker_is_no_failure(policy: str) -> None:
    manifest = job_manifest(TF, specs(policy, Worker=2))
    both = {"Worker-0": "running", "Worker-1": "running"}
    running = next_pass(manifest, decide(manifest, both))
    waits = decide(running, both | {"Worker-1": "running,deleting"})
    assert not creates(waits)
    assert not deletes(waits)
    replaced = decide(running, {"Worker-0": "running"})
    assert creates(replaced) == ["demo-worker-1"]
    assert "Failed" not in (holding(replaced) if replaced.status else [])


def test_resumed_within_the_grace_period() -> None:
    manifest = job_manifest(TF, specs(Worker=2))
    both = {"Worker-0": "running", "Worker-1": "running"}
    running = next_pass(manifest, decide(manifest, both))
    stopped = decide({**running, "spec": {**running["spec"], "runPolicy": {"suspend": True}}}, both, NOW + 10)
    late = dict.fromkeys(both, "running,deleting")
    resumed = decide(next_pass(running, stopped), late, NOW + 11)
    assert not creates(resumed)
    assert holding(resumed)[-1] != "Failed"


def test_a_permanent_failure_ends_restarting() -> None:
    replicas = {"Worker": replica_spec(TF, 2, "ExitCode"), "PS": replica_spec(TF, 1, "Never")}
    manifest = job_manifest(TF, replicas)
    pods = {"Worker-0": "running", "Worker-1": "failed 130", "PS-0": "running"}
    restarting = decide(manifest, pods)
    assert holding(restarting)[-1] == "Restarting"
    failed = decide(next_pass(manifest, restarting), pods | {"PS-0": "failed 1"})
    assert holding(failed) == ["Created", "Failed"]


def test_v1beta1_with_the_flat_run_policy() -> None:
    manifest = job_manifest(TF, specs(Worker=1), cleanPodPolicy="All", backoffLimit=3)
    manifest["apiVersion"] = "kubeflow.org/v1beta1"
    del manifest["spec"]["runPolicy"]
    job = read_job(TF, manifest)
    assert not job.errors
    assert (job.run_policy.clean_pod_policy, job.run_policy.backoff_limit) == ("All", 3)
