"""MPIJob v1 and v1alpha2, whose transport is kubectl exec: the cases of the reference's tests, and seed 002's job without a
launcher. The v1alpha1 rows on sizing and StatefulSets belong to the converter.
"""

import os
import stat
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jobcommon.api.replica import Replica
from jobcommon.framework import Job
from jobcommon.operators.mpi import MPI
from jobcommon.operators.mpi.hosts import KUBECTL, discover_hosts, hostfile, kubexec
from jobcommon.operators.mpi.job import waits_for_workers
from jobcommon.operators.mpi.options import MPIOptions
from jobcommon.reconcile import Create, Delete, Plan, plan, read_job
from jobcommon.reconcile.children import pod_manifest
from jobcommon.testutil import plans
from jobcommon.testutil.builders import Manifest, Pod, finished_status, job_manifest, observe, replica_spec
from jobcommon.testutil.cluster_model import ClusterModel
from jobcommon.testutil.plans import counts, creates, deletes, holding, next_pass, pods_of


def v1_job(workers: int = 2, *, version: str = "v1", launcher: Manifest | None = None, **spec: Any) -> Manifest:
    manifest = job_manifest(MPI, {"Launcher": launcher or replica_spec(MPI), "Worker": replica_spec(MPI, workers)}, **spec)
    manifest["apiVersion"] = f"kubeflow.org/{version}"
    return manifest


def read(manifest: Manifest) -> Job:
    return read_job(MPI, manifest)


def decide(manifest: Manifest, pods: Mapping[str, str]) -> Plan:
    return plans.decide(MPI, manifest, pods)


def launcher_with(**container: Any) -> Manifest:
    spec = replica_spec(MPI)
    spec["template"]["spec"]["containers"][0] |= container
    return spec


def env_of(job: Job, kind: str = "Launcher") -> dict[str, str]:
    container = pod_manifest(MPI, job, Replica(kind, 0))["spec"]["containers"][0]
    return {entry["name"]: entry["value"] for entry in container["env"]}


def companion(decision: Plan, plural: str) -> Manifest:
    (found,) = (a.manifest for a in decision.actions if isinstance(a, Create) and a.plural == plural)
    return dict(found)


# -- the transport of a version ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "given", "secrets", "roles"),
    [
        ("v2beta1", None, 1, 0),
        ("v1", None, 0, 1),
        ("v1alpha2", None, 0, 1),
        ("v1", "SSH", 1, 0),
        ("v2beta1", "Exec", 0, 1),
    ],
)
def test_a_version_has_its_transport_unless_the_job_names_one(
    version: str, given: str | None, secrets: int, roles: int
) -> None:
    decision = decide(v1_job(version=version, transport=given), {})
    assert (len(creates(decision, "secrets")), len(creates(decision, "roles"))) == (secrets, roles)


def test_the_operator_reads_a_v1_job_in_the_stored_version() -> None:
    """As the API server stores it: with the defaults of the version in which it was created."""
    manifest = v1_job()
    stored = {**manifest, "apiVersion": MPI.api_version, "spec": {**MPI.defaults_of("v1"), **manifest["spec"]}}
    assert creates(decide(stored, {}), "roles") == ["demo-launcher"]
    assert read(stored).replica_specs["Launcher"].restart_policy == "Never"


# -- objects -------------------------------------------------------------------------------------------------------------


def test_the_launchers_rights() -> None:
    decision = decide(v1_job(2), {"Worker-0": "running", "Worker-1": "running"})
    names = ["demo-worker-0", "demo-worker-1"]
    assert companion(decision, "roles")["rules"] == [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": names},
        {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create", "get"], "resourceNames": names},
    ]
    binding = companion(decision, "rolebindings")
    assert binding["roleRef"] == {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "demo-launcher"}
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "demo-launcher", "namespace": "default"}]
    assert companion(decision, "serviceaccounts")["metadata"]["name"] == "demo-launcher"
    spec = pod_manifest(MPI, read(v1_job(2)), Replica("Launcher", 0))["spec"]
    assert spec["serviceAccountName"] == "demo-launcher"
    assert "serviceAccountName" not in pod_manifest(MPI, read(v1_job(2)), Replica("Worker", 0))["spec"]


def test_a_service_account_of_the_users_is_neither_made_nor_owned() -> None:
    launcher = replica_spec(MPI)
    launcher["template"]["spec"]["serviceAccountName"] = "mine"
    manifest = v1_job(launcher=launcher)
    decision = decide(manifest, {})
    assert not creates(decision, "serviceaccounts")
    assert companion(decision, "rolebindings")["subjects"][0]["name"] == "mine"
    assert pod_manifest(MPI, read(manifest), Replica("Launcher", 0))["spec"]["serviceAccountName"] == "mine"


def test_a_job_without_workers_has_no_rights() -> None:
    manifest = v1_job()
    del manifest["spec"]["mpiReplicaSpecs"]["Worker"]
    assert companion(decide(manifest, {}), "roles")["rules"] == []


def test_the_rights_go_with_the_end_of_the_job() -> None:
    world = ClusterModel(MPI, v1_job(1)).start()
    world.run()
    world.exit("demo-launcher", 0).settle()
    assert world.current == "Succeeded"
    assert not {"Role", "RoleBinding", "ServiceAccount"} & {kind for kind, _ in world.others}


def test_the_rights_follow_the_workers() -> None:
    world = ClusterModel(MPI, v1_job(3)).start()
    world.scale("Worker", 1).settle()
    rules = world.others["Role", "demo-launcher"]["rules"]
    assert [rule["resourceNames"] for rule in rules] == [["demo-worker-0"]] * 2


def test_launcher_and_worker_pods() -> None:
    job = read_job(replace(MPI, own_options=MPIOptions(kubectl_image="registry/kubectl:1")), v1_job())
    launcher = pod_manifest(MPI, job, Replica("Launcher", 0))
    assert launcher["metadata"]["labels"]["training.kubeflow.org/job-role"] == "master"
    (main,) = launcher["spec"]["containers"]
    mounts = {m["name"]: m["mountPath"] for m in main["volumeMounts"]}
    assert mounts == {"mpi-job-kubectl": "/opt/kube", "mpi-job-config": "/etc/mpi"}
    assert launcher["spec"]["restartPolicy"] == "Never"
    (delivery,) = launcher["spec"]["initContainers"]
    assert (delivery["name"], delivery["image"]) == ("kubectl-delivery", "registry/kubectl:1")
    assert delivery["volumeMounts"] == [{"name": "mpi-job-kubectl", "mountPath": "/opt/kube"}]
    config = launcher["spec"]["volumes"][1]["configMap"]
    modes = {item["path"]: item["mode"] for item in config["items"]}
    assert (config["name"], modes) == ("demo-config", {"kubexec.sh": 0o555, "hostfile": 0o444, "discover_hosts.sh": 0o555})

    worker = pod_manifest(MPI, job, Replica("Worker", 1))
    assert "training.kubeflow.org/job-role" not in worker["metadata"]["labels"]
    (main,) = worker["spec"]["containers"]
    assert main["command"] == ["sleep", "365d"]
    assert {m["name"]: m["mountPath"] for m in main["volumeMounts"]} == {"mpi-job-config": "/etc/mpi"}
    assert [item["path"] for item in worker["spec"]["volumes"][0]["configMap"]["items"]] == ["kubexec.sh"]


def test_a_workers_own_arguments_are_kept() -> None:
    manifest = v1_job()
    manifest["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["args"] = ["serve"]
    (main,) = pod_manifest(MPI, read(manifest), Replica("Worker", 0))["spec"]["containers"]
    assert main["args"] == ["serve"]
    assert "command" not in main


# -- environment ---------------------------------------------------------------------------------------------------------

OPEN_MPI = {
    "OMPI_MCA_plm_rsh_agent": "/etc/mpi/kubexec.sh",
    "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
    "PRTE_MCA_plm_ssh_agent": "/etc/mpi/kubexec.sh",
    "PRTE_MCA_prte_default_hostfile": "/etc/mpi/hostfile",
}
NO_GPUS = {"NVIDIA_VISIBLE_DEVICES": "", "NVIDIA_DRIVER_CAPABILITIES": ""}
INTEL = {"I_MPI_HYDRA_BOOTSTRAP": "rsh", "I_MPI_HYDRA_BOOTSTRAP_EXEC": "/etc/mpi/kubexec.sh"}


def test_environment() -> None:
    assert env_of(read(v1_job())) == {"K_MPI_JOB_ROLE": "launcher", **OPEN_MPI, **INTEL, **NO_GPUS}
    assert env_of(read(v1_job()), "Worker") == {"K_MPI_JOB_ROLE": "worker"}


@pytest.mark.parametrize(
    ("resource", "is_gpu"),
    [("nvidia.com/gpu", True), ("vendor-domain/gpu", True), ("vendor-domain/resourcetype", False)],
)
def test_a_launcher_with_a_gpu_is_a_host(resource: str, is_gpu: bool) -> None:
    job = read(v1_job(1, launcher=launcher_with(resources={"limits": {resource: 1}})))
    assert ("NVIDIA_VISIBLE_DEVICES" not in env_of(job)) == is_gpu
    assert hostfile(job).startswith("demo-launcher slots=1\n") == is_gpu


@pytest.mark.parametrize(
    ("given", "bootstrap", "executable"),
    [
        ({"X_MPI_HYDRA_BOOTSTRAP": "x"}, "rsh", "/etc/mpi/kubexec.sh"),
        ({"I_MPI_HYDRA_BOOTSTRAP": "RSH"}, "RSH", "/etc/mpi/kubexec.sh"),
        ({"I_MPI_HYDRA_BOOTSTRAP_EXEC": "/script.sh"}, "rsh", "/script.sh"),
        ({"I_MPI_HYDRA_BOOTSTRAP": "RSH", "I_MPI_HYDRA_BOOTSTRAP_EXEC": "/script.sh"}, "RSH", "/script.sh"),
    ],
    ids=["neither", "bootstrap", "executable", "both"],
)
def test_intel_mpi_settings_of_the_user(given: dict[str, str], bootstrap: str, executable: str) -> None:
    own = [{"name": name, "value": value} for name, value in given.items()]
    env = env_of(read(v1_job(launcher=launcher_with(env=own))))
    assert (env["I_MPI_HYDRA_BOOTSTRAP"], env["I_MPI_HYDRA_BOOTSTRAP_EXEC"]) == (bootstrap, executable)


@pytest.mark.parametrize(
    ("distribution", "line", "variables"),
    [
        ("OpenMPI", "demo-worker-0 slots=3\n", OPEN_MPI),
        ("IntelMPI", "demo-worker-0:3\n", {**INTEL, "I_MPI_HYDRA_HOST_FILE": "/etc/mpi/hostfile"}),
        (
            "MPICH",
            "demo-worker-0:3\n",
            {"HYDRA_LAUNCHER_EXEC": "/etc/mpi/kubexec.sh", "HYDRA_HOST_FILE": "/etc/mpi/hostfile"},
        ),
    ],
)
def test_distributions_of_v1alpha2(distribution: str, line: str, variables: dict[str, str]) -> None:
    job = read(v1_job(1, version="v1alpha2", mpiDistribution=distribution, slotsPerWorker=3))
    assert not job.errors
    assert hostfile(job) == line
    assert env_of(job) == {"K_MPI_JOB_ROLE": "launcher", **variables, **NO_GPUS}


def test_an_unknown_distribution_is_an_error() -> None:
    assert [e.path for e in read(v1_job(version="v1alpha2", mpiDistribution="LAM")).errors] == ["spec.mpiImplementation"]


# -- files ---------------------------------------------------------------------------------------------------------------


def test_hosts_are_pods() -> None:
    job = read(v1_job(2, slotsPerWorker=4))
    assert hostfile(job) == "demo-worker-0 slots=4\ndemo-worker-1 slots=4\n"
    running = [Pod.of(MPI, job, "Worker", index).running().view for index in (1, 0)]
    assert discover_hosts(job, running) == "#!/bin/sh\necho demo-worker-0:4\necho demo-worker-1:4\n"


@pytest.mark.parametrize(
    ("arguments", "container", "expected"),
    [
        (["demo-worker-0", "orted", "-mca", "x"], "", "exec|--namespace|default|demo-worker-0|--|/bin/sh|-c|orted -mca x"),
        (["-x", "demo-worker-0", "a"], "", "exec|--namespace|default|demo-worker-0|--|/bin/sh|-c|a"),
        (["-l", "root", "-n", "demo-worker-0", "a"], "", "exec|--namespace|default|demo-worker-0|--|/bin/sh|-c|a"),
        (["-o", "X=1", "h", "a  b"], "", "exec|--namespace|default|h|--|/bin/sh|-c|a  b"),
        (["h", "a"], "it's", "exec|--namespace|default|h|--container|it's|--|/bin/sh|-c|a"),
        (["h", "a"], '-x $(id);`id`\n"*', 'exec|--namespace|default|h|--container|-x $(id);`id`\n"*|--|/bin/sh|-c|a'),
    ],
)
def test_kubexec_runs_the_command_in_the_pod_that_mpirun_names(
    tmp_path: Path, arguments: list[str], container: str, expected: str
) -> None:
    kubectl = tmp_path / "kubectl"
    kubectl.write_text('#!/bin/sh\nIFS="|"\necho "$*"\n')
    script = tmp_path / "kubexec.sh"
    text = kubexec(read(v1_job(mainContainer=container or None)))
    script.write_text(text.replace(KUBECTL, str(kubectl)))
    for path in (kubectl, script):
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    ran = subprocess.run([str(script), *arguments], capture_output=True, text=True, check=True, env={"PATH": os.defpath})
    assert ran.stdout == f"{expected}\n"


@pytest.mark.parametrize("version", ["v1", "v2beta1"])
def test_discover_hosts_is_a_script(tmp_path: Path, version: str) -> None:
    job = read(v1_job(12, version=version, slotsPerWorker=2))
    script = tmp_path / "discover_hosts.sh"
    script.write_text(discover_hosts(job, [Pod.of(MPI, job, "Worker", index).running().view for index in range(12)]))
    ran = subprocess.run(["/bin/sh", str(script)], capture_output=True, text=True, check=True)
    domain = ".demo.default.svc" if version == "v2beta1" else ""
    assert ran.stdout.splitlines() == [f"demo-worker-{index}{domain}:2" for index in range(12)]


# -- status --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("policy", "waits"), [(None, True), ("AtStartup", False), ("WaitForWorkersReady", True)], ids=str)
def test_the_launcher_waits_unless_told_otherwise(policy: str | None, waits: bool) -> None:
    """kubectl exec fails at once where ssh would try again; v1alpha2's init container waited, too."""
    manifest = v1_job(launcherCreationPolicy=policy)
    assert waits_for_workers(read(manifest)) == waits
    assert ("demo-launcher" in creates(decide(manifest, {}))) != waits


def test_a_failed_launcher_fails_a_v1_job_and_is_retried_in_v1alpha2() -> None:
    pods = {"Launcher-0": "failed 1", **pods_of("Worker", ("running", 2))}
    assert holding(decide(v1_job(), pods))[-1] == "Failed"
    manifest = v1_job(version="v1alpha2", launcher=replica_spec(MPI, 1, "Never"))
    assert read(manifest).run_policy.backoff_limit == 6
    first = decide(manifest, pods)
    assert holding(first)[-1] == "Restarting"
    assert counts(first, "Launcher") == "0/0/1"
    assert deletes(decide(next_pass(manifest, first), pods)) == ["demo-launcher"]


def test_v1alpha2_clean_up() -> None:
    manifest = v1_job(version="v1alpha2", status=finished_status(), cleanPodPolicy="All")
    decision = decide(manifest, {"Launcher-0": "succeeded", **pods_of("Worker", ("running", 2))})
    assert deletes(decision) == ["demo-launcher", "demo-worker-0", "demo-worker-1"]


# -- validation and defaults ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "policy", "expected"),
    [
        pytest.param({}, None, None, id="unset"),
        pytest.param({"cleanPodPolicy": "None"}, None, "None", id="in spec"),
        pytest.param({"cleanPodPolicy": "None"}, "All", "All", id="runPolicy wins"),
        pytest.param({}, "All", "All", id="in runPolicy"),
    ],
)
def test_clean_pod_policy_of_both_places(spec: Manifest, policy: str | None, expected: str | None) -> None:
    job = read(v1_job(run_policy={"cleanPodPolicy": policy} if policy else {}, **spec))
    assert job.run_policy.clean_pod_policy == expected


def test_defaults() -> None:
    manifest = v1_job()
    manifest["spec"]["mpiReplicaSpecs"] = {"Launcher": replica_spec(MPI, None), "worker": replica_spec(MPI, None, "Always")}
    job = read(manifest)
    assert [(spec.replicas, spec.restart_policy) for spec in job.replica_specs.values()] == [(1, "Never"), (1, "Always")]
    assert job.run_policy.backoff_limit is None


# -- no launcher: seed 002 -----------------------------------------------------------------------------------------------


def seed_002(command: Any) -> Manifest:
    container = {
        "name": "tensorflow",
        "image": "distributed_training_hovorod:latest",
        "resources": {"limits": {"nvidia.com/gpu": 4, "cpu": 2}},
        "command": command,
    }
    return {
        "apiVersion": "kubeflow.org/v1alpha2",
        "kind": "MPIJob",
        "metadata": {"name": "distributed-training", "namespace": "default", "uid": "u"},
        "spec": {"mpiReplicaSpecs": {"Worker": {"replicas": 4, "template": {"spec": {"containers": [container]}}}}},
    }


def test_a_job_without_a_launcher_gets_one_from_its_workers() -> None:
    job = read(seed_002(["mpirun", "python", "hovorod_benchmarks.py"]))
    assert not job.errors
    assert list(job.replica_specs) == ["Launcher", "Worker"]
    (launcher,) = pod_manifest(MPI, job, Replica("Launcher", 0))["spec"]["containers"]
    assert launcher["command"] == ["mpirun", "python", "hovorod_benchmarks.py"]
    assert launcher["image"] == "distributed_training_hovorod:latest"
    assert launcher["resources"] == {"limits": {"cpu": 2}}
    (worker,) = pod_manifest(MPI, job, Replica("Worker", 3))["spec"]["containers"]
    assert worker["command"] == ["sleep", "365d"]
    assert worker["resources"]["limits"]["nvidia.com/gpu"] == 4
    assert hostfile(job).splitlines() == [f"distributed-training-worker-{index} slots=1" for index in range(4)]


def test_the_command_of_the_slide_is_no_list() -> None:
    path = "spec.mpiReplicaSpecs[Launcher].template.spec.containers[0].command"
    assert [error.path for error in read(seed_002("mpirun python hovorod_benchmarks.py")).errors] == [path]


@pytest.mark.parametrize(
    "spec",
    [
        {"mpiReplicaSpecs": {"Worker": None}},
        {"mpiReplicaSpecs": {"Worker": {}}},
        {"mpiReplicaSpecs": {"Worker": {"template": 1}}},
        {"mpiReplicaSpecs": {"Worker": {"template": {"spec": {"containers": 1}}}}},
        {"mpiReplicaSpecs": {"Worker": {"template": {"spec": {"containers": [1]}}}}},
        {"mpiReplicaSpecs": {"Launcher": 1}},
        {"mpiReplicaSpecs": []},
        {"runPolicy": [], "mpiReplicaSpecs": {}},
        {"mpiDistribution": {}, "mpiReplicaSpecs": {}},
        {"transport": 1, "mpiReplicaSpecs": {}},
    ],
    ids=str,
)
@pytest.mark.parametrize("version", ["v1", "v1alpha2", "v2beta1"])
def test_nonsense_is_an_error_and_no_exception(spec: Manifest, version: str) -> None:
    manifest = {**v1_job(), "apiVersion": f"kubeflow.org/{version}", "spec": spec}
    assert read(manifest).errors
    decision = plan(MPI, read(manifest), observe(MPI, manifest), plans.NOW)
    assert not [action for action in decision.actions if not isinstance(action, Delete)]
