"""What a kind decides about the lives of its jobs: launchers, keys and rights, hosts, servers, autoscalers."""

import os
import stat
import subprocess
from base64 import b64decode
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP521R1, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key, load_ssh_public_key

from jobcommon.api.observed import Observed
from jobcommon.api.replica import Replica
from jobcommon.crd import custom_resource_definition
from jobcommon.framework import SERVICE_PER_REPLICA, Framework, Job
from jobcommon.manifests.children import pod_manifest, service_manifests
from jobcommon.operators.mpi import MPI
from jobcommon.operators.mpi.hosts import KUBECTL, kubexec
from jobcommon.operators.mpi.job import waits_for_workers
from jobcommon.operators.mxnet import MXNET
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.operators.tf import TF
from jobcommon.reconcile import Create, Plan, plan
from jobcommon.reconcile.plan import Delete
from jobcommon.spec import read_job
from jobcommon.testutil import plans
from jobcommon.testutil.builders import START, Manifest, Pod, condition, finished_status, job_manifest, replica_spec, view_of
from jobcommon.testutil.cluster_model import ClusterModel
from jobcommon.testutil.plans import counts, creates, deletes, holding, next_pass, pods_of

BOTH = {"Launcher": 1, "Worker": 2}


def mpi_job(version: str = "v2beta1", replicas: Mapping[str, int | Manifest] = BOTH, **more: Any) -> Manifest:
    return {**job_manifest(MPI, replicas, **more), "apiVersion": f"kubeflow.org/{version}"}


def read(manifest: Manifest) -> Job:
    return read_job(MPI, manifest)


def decide(manifest: Manifest, pods: Mapping[str, str]) -> Plan:
    return plans.decide(MPI, manifest, pods)


# -- MPI: what a version means -------------------------------------------------------------------------------------------


def test_the_operator_reads_a_v1_job_in_the_stored_version() -> None:
    """As the API server stores it: with the defaults of the version in which it was created."""
    manifest = mpi_job("v1")
    stored = {**manifest, "apiVersion": MPI.api_version, "spec": {**MPI.defaults_of("v1"), **manifest["spec"]}}
    assert creates(decide(stored, {}), "roles") == ["demo-launcher"]
    assert read(stored).replica_specs["Launcher"].restart_policy == "Never"


@pytest.mark.parametrize(("policy", "waits"), [(None, True), ("AtStartup", False), ("WaitForWorkersReady", True)], ids=str)
def test_a_v1_launcher_waits_unless_told_otherwise(policy: str | None, waits: bool) -> None:
    """kubectl exec fails at once where ssh would try again; v1alpha2's init container waited, too."""
    manifest = mpi_job("v1", launcherCreationPolicy=policy)
    assert waits_for_workers(read(manifest)) == waits
    assert ("demo-launcher" in creates(decide(manifest, pods_of("Worker", ("scheduled", 2))))) != waits


def test_a_failed_launcher_fails_a_v1_job_and_is_retried_in_v1alpha2() -> None:
    pods = {"Launcher-0": "failed 1", **pods_of("Worker", ("running", 2))}
    assert holding(decide(mpi_job("v1"), pods))[-1] == "Failed"
    manifest = mpi_job("v1alpha2", {"Launcher": replica_spec(MPI, 1, "Never"), "Worker": 2})
    first = decide(manifest, pods)
    assert holding(first)[-1] == "Restarting"
    assert counts(first, "Launcher") == "0/0/1"
    assert deletes(decide(next_pass(manifest, first), pods)) == ["demo-launcher"]


@pytest.mark.parametrize(
    "manager", ["kueue.x-k8s.io/multikueue", "kubeflow.org/mpi-operator", "kubeflow.org/training-operator"]
)
def test_jobs_for_the_former_operators_are_ours(manager: str) -> None:
    decision = decide(mpi_job(run_policy={"managedBy": manager}), {})
    ours = manager != "kueue.x-k8s.io/multikueue"
    assert bool(decision.actions) == (decision.status is not None) == ours


FLAT: Manifest = {"cleanPodPolicy": "All", "backoffLimit": 3, "activeDeadlineSeconds": 60, "ttlSecondsAfterFinished": 5}


@pytest.mark.parametrize("run_policy", [{}, {"cleanPodPolicy": "None"}], ids=["alone", "runPolicy wins"])
@pytest.mark.parametrize(
    ("framework", "version"),
    [(PYTORCH, "v1"), (TF, "v1beta1"), (MXNET, "v1"), (MXNET, "v1beta1"), (MPI, "v1"), (MPI, "v1alpha2")],
)
def test_the_flat_run_policy_of_older_operators(framework: Framework, version: str, run_policy: Manifest) -> None:
    replicas = BOTH if framework is MPI else {"Worker": 1}
    manifest = {**job_manifest(framework, replicas, run_policy=run_policy, **FLAT), "apiVersion": f"kubeflow.org/{version}"}
    job = read_job(framework, manifest)
    assert not job.errors
    assert job.run_policy.model_dump(by_alias=True, exclude_none=True, mode="json") == {**FLAT, **run_policy}
    for each in custom_resource_definition(framework)["spec"]["versions"]:
        known = each["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        assert FLAT.keys() <= known.keys(), "kubectl apply refuses a field that the definition does not know"


# -- MPI: keys and rights ------------------------------------------------------------------------------------------------


def test_a_key_pair_is_made_when_the_secret_is_created() -> None:
    (action,) = (a for a in decide(mpi_job(), {}).actions if isinstance(a, Create) and a.plural == "secrets")
    assert action.generate is not None
    data, other = action.generate()["data"], action.generate()["data"]
    assert data != other
    private = load_pem_private_key(b64decode(data["ssh-privatekey"]), None)
    assert isinstance(private, EllipticCurvePrivateKey)
    assert isinstance(private.curve, SECP521R1)
    public = load_ssh_public_key(b64decode(data["ssh-publickey"]))
    wire = Encoding.OpenSSH, PublicFormat.OpenSSH
    assert private.public_key().public_bytes(*wire) == public.public_bytes(*wire)


def test_a_secret_is_never_written_again_and_a_resumed_job_has_new_keys() -> None:
    world = ClusterModel.of(MPI, {"Launcher": 1, "Worker": 1}).start()
    keys = world.others["Secret", "demo-ssh"]
    world.others["Secret", "demo-ssh"] = {**keys, "data": {"ssh-privatekey": "", "ssh-publickey": ""}, "type": "Opaque"}
    assert not world.step().actions
    world.suspend()
    assert ("Secret", "demo-ssh") not in world.others
    world.edit(suspend=False).settle()
    assert world.others["Secret", "demo-ssh"]["data"] != keys["data"]


def test_keys_and_rights_go_with_the_end_of_the_job_and_servers_of_the_launcher_after_it() -> None:
    for version, access in (("v2beta1", {"Secret"}), ("v1", {"Role", "RoleBinding", "ServiceAccount"})):
        world = ClusterModel(MPI, mpi_job(version)).start()
        world.run()
        assert access <= {kind for kind, _ in world.others}
        world.exit("demo-launcher", 0).settle()
        assert world.current == "Succeeded"
        assert not access & {kind for kind, _ in world.others}
        assert "demo-worker-0" in world.pods
        world.stop_terminating().settle()
        assert sorted(world.pods) == ["demo-launcher"]
        assert world.status["replicaStatuses"]["Launcher"]["succeeded"] == 1
        assert "active" not in world.status["replicaStatuses"]["Worker"]


def test_the_rights_follow_the_workers() -> None:
    world = ClusterModel(MPI, mpi_job("v1", {"Launcher": 1, "Worker": 3})).start()
    world.scale("Worker", 1).settle()
    rules = world.others["Role", "demo-launcher"]["rules"]
    assert [rule["resourceNames"] for rule in rules] == [["demo-worker-0"]] * 2


# -- MPI: hosts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("launcher_too", [False, True])
def test_hosts_follow_the_workers(launcher_too: bool) -> None:
    """The last workers leave; new ones are hosts at once, and discovered when they run."""
    replicas = {"Launcher": 1, "Worker": replica_spec(MPI, 4)}
    world = ClusterModel.of(MPI, replicas, runLauncherAsWorker=launcher_too).start()

    def hosts() -> tuple[int, int]:
        files = world.others["ConfigMap", "demo-config"]["data"]
        return files["hostfile"].count("\n") - launcher_too, files["discover_hosts.sh"].count("echo") - launcher_too

    world.scale("Worker", 2)
    assert not deletes(world.step()), "it is on record first"
    decision = world.step()
    assert (deletes(decision), creates(decision)) == (["demo-worker-2", "demo-worker-3"], [])
    assert hosts() == (2, 2)
    world.stop_terminating().settle()
    world.scale("Worker", 3)
    assert creates(world.step()) == ["demo-worker-2"]
    assert hosts() == (3, 2)
    world.run().settle()
    assert hosts() == (3, 3)


@pytest.mark.parametrize("launcher_too", [False, True, None])
def test_workers_are_numbered_after_a_launcher_that_works(launcher_too: bool | None) -> None:
    """As in mpi-operator; Kueue takes the 1 off again, and Services of single replicas select by the same number."""
    index = "training.kubeflow.org/replica-index"
    fields: Manifest = {} if launcher_too is None else {"runLauncherAsWorker": launcher_too}
    job = read(mpi_job(annotations={SERVICE_PER_REPLICA: "true"}, **fields))
    pods = [pod_manifest(MPI, job, Replica("Worker", number)) for number in range(2)]
    found = {pod["metadata"]["name"]: pod["metadata"]["labels"][index] for pod in pods}
    assert list(found.values()) == (["1", "2"] if launcher_too else ["0", "1"])
    services = {service["metadata"]["name"]: service["spec"]["selector"] for service in service_manifests(MPI, job)}
    assert {name: services[name][index] for name in found} == found


@pytest.mark.parametrize(("arguments", "container", "expected"), [
    (["demo-worker-0", "orted", "-mca", "x"], "", "exec|--namespace|default|demo-worker-0|--|/bin/sh|-c|orted -mca x"),
    (["-x", "demo-worker-0", "a"], "", "exec|--namespace|default|demo-worker-0|--|/bin/sh|-c|a"),
    (["-l", "root", "-n", "demo-worker-0", "a"], "", "exec|--namespace|default|demo-worker-0|--|/bin/sh|-c|a"),
    (["-o", "X=1", "h", "a  b"], "", "exec|--namespace|default|h|--|/bin/sh|-c|a  b"),
    (["h", "a"], "it's", "exec|--namespace|default|h|--container|it's|--|/bin/sh|-c|a"),
    (["h", "a"], '-x $(id);`id`\n"*', 'exec|--namespace|default|h|--container|-x $(id);`id`\n"*|--|/bin/sh|-c|a'),
])  # fmt: skip
def test_kubexec_runs_the_command_in_the_pod_that_mpirun_names(
    tmp_path: Path, arguments: list[str], container: str, expected: str
) -> None:
    kubectl = tmp_path / "kubectl"
    kubectl.write_text('#!/bin/sh\nIFS="|"\necho "$*"\n')
    script = tmp_path / "kubexec.sh"
    script.write_text(kubexec(read(mpi_job("v1", mainContainer=container or None))).replace(KUBECTL, str(kubectl)))
    for path in (kubectl, script):
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    ran = subprocess.run([str(script), *arguments], capture_output=True, text=True, check=True, env={"PATH": os.defpath})
    assert ran.stdout == f"{expected}\n"


# -- MPI: launcher and workers -------------------------------------------------------------------------------------------


def unready(world: ClusterModel, name: str) -> None:
    world.pods[name] = world.pods[name]._with(status={"conditions": [{"type": "Ready", "status": "False"}]})


@pytest.mark.parametrize("suspended", [False, True], ids=["at first", "after a resume"])
def test_the_launcher_waits_for_ready_workers(suspended: bool) -> None:
    policy = {"launcherCreationPolicy": "WaitForWorkersReady"}
    world = ClusterModel.of(MPI, BOTH, run_policy={"suspend": suspended}, **policy)
    world.settle()
    assert "demo-launcher" not in world.pods
    world.edit(suspend=False).settle()
    world.run("demo-worker-0", "demo-worker-1")
    unready(world, "demo-worker-1")
    world.settle()
    assert "demo-launcher" not in world.pods
    assert "Launcher waits for the replicas that it needs" in world.status["conditions"][-1]["message"]
    world.pods["demo-worker-1"] = world.pods["demo-worker-1"].running()
    world.settle()
    assert "demo-launcher" in world.pods
    world.run()
    unready(world, "demo-worker-0")
    world.settle()
    assert world.current == "Running"


POLICIES = pytest.mark.parametrize("policy", ["AtStartup", "WaitForWorkersReady"])


@POLICIES
def test_no_launcher_is_created_before_all_its_workers(policy: str) -> None:
    """A quota or a foreign pod keeps one from being created: the launcher would wait for it, and use up backoffLimit."""
    world = ClusterModel.of(MPI, BOTH, launcherCreationPolicy=policy)
    world.put(Pod.of(MPI, world.job, "Worker", 0)._with(metadata={"ownerReferences": []}))
    for _ in range(3):
        world.step()
    world.run("demo-worker-1").step()
    assert set(world.pods) == {"demo-worker-0", "demo-worker-1"}
    assert "Launcher waits for the replicas that it needs" in world.status["conditions"][-1]["message"]
    del world.pods["demo-worker-0"]
    world.start().start()
    assert (world.current, world.status.get("restarts")) == ("Running", None)


@POLICIES
def test_no_launcher_is_started_again_in_its_pod_before_all_its_workers(policy: str) -> None:
    replicas = {kind: replica_spec(MPI, count, "OnFailure") for kind, count in BOTH.items()}
    in_place = {"restartScope": "Job", "restartMethod": "Auto"}
    world = ClusterModel.of(MPI, replicas, run_policy=in_place, launcherCreationPolicy=policy)
    world.react()
    world.refused, world.room = (frozenset({"pods"}), 3) if policy == "AtStartup" else (frozenset(), 0)
    world.evict("demo-worker-0")
    world.react()
    world.wait(300)
    assert (world.runs["demo-launcher"], world.current) == (1, "Restarting")
    assert "Launcher waits for the replicas that it needs" in world.status["conditions"][-1]["message"]
    world.refused, world.room = frozenset(), 3
    world.react().wait(300)
    assert (world.runs["demo-launcher"], world.current, world.status.get("restarts")) == (2, "Running", None)


@pytest.mark.parametrize(("policy", "end", "current", "back"), [
    pytest.param(None, "evict", "Restarting", True, id="evicted"), pytest.param(None, 137, "Restarting", True, id="killed"),
    pytest.param(None, 1, "Failed", False, id="its program failed"),
    pytest.param(None, 0, "Restarting", True, id="its sshd answers SIGTERM with exit 0"),
    pytest.param("Never", 0, "Restarting", True, id="exit 0, Never"),
    pytest.param("Never", "evict", "Failed", False, id="evicted, Never"),
    pytest.param("Never", 137, "Failed", False, id="killed, Never"),
    pytest.param("OnFailure", "evict", "Restarting", True, id="evicted, OnFailure"),
])  # fmt: skip
def test_a_lost_worker_is_replaced_or_fails_the_job(policy: str | None, end: str | int, current: str, back: bool) -> None:
    world = ClusterModel.of(MPI, {"Launcher": 1, "Worker": replica_spec(MPI, 4, policy)}).start()
    world.tick(5)
    if isinstance(end, int):
        world.exit("demo-worker-1", end)
    else:
        world.evict("demo-worker-1")
    world.settle()
    assert world.current == current
    assert ("completionTime" in world.status) == (current == "Failed")
    assert (world.pods.get("demo-worker-1") is not None and world.pods["demo-worker-1"].view.phase == "Pending") == back
    assert world.runs["demo-launcher"] == 1


# -- TensorFlow and PyTorch ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("last", [0, 1], ids=["succeeds", "fails"])
def test_a_job_fails_when_no_dynamic_worker_is_left(last: int) -> None:
    world = ClusterModel.of(TF, {"Worker": 2, "PS": 1}, policy="ExitCode", enableDynamicWorker=True).start()
    world.exit("demo-worker-0", 1).settle()
    assert world.current == "Running"
    world.exit("demo-worker-1", last).settle()
    assert world.current == "Failed"
    text = "TFJob demo has failed because Worker-0 has failed, and no replica is left that could continue"
    assert world.job.status.conditions[-1].message == text


def test_a_worker_ends_by_itself_and_a_server_does_not() -> None:
    world = ClusterModel.of(TF, {"Worker": 3, "PS": 1}).start()
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


def test_an_autoscaler_is_no_need_and_goes_with_suspension_and_the_end() -> None:
    elastic: Manifest = {"elasticPolicy": {"minReplicas": 1, "maxReplicas": 3, "metrics": [{"type": "Resource"}]}}

    def autoscaler(companions: Any = None, **job: Any) -> list[Any]:
        manifest = job_manifest(PYTORCH, {"Worker": 2}, **elastic, **job)
        decided = plan(PYTORCH, read_job(PYTORCH, manifest), Observed(companions=companions or {}), START)
        return [a for a in decided.actions if a.plural == "horizontalpodautoscalers"]

    (create,) = autoscaler()
    assert (create.required, create.manifest["spec"]["maxReplicas"]) == (False, 3)
    there = {("horizontalpodautoscalers", "demo"): view_of(create.manifest, uid="uid-hpa")}
    assert autoscaler(there) == []
    on_record = {"conditions": [condition("Created"), condition("Suspended")]}
    for gone in ({"run_policy": {"suspend": True}, "status": on_record}, {"status": finished_status()}):
        (delete,) = autoscaler(there, **gone)
        assert isinstance(delete, Delete)
        assert delete.uid == "uid-hpa"
