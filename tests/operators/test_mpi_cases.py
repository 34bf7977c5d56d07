"""MPIJob v2beta1: the cases of the reference's tests. Where the reference's result is a defect, the expectation is the sensible
one; docs/deviations.md names those. The launcher is a pod, so what the reference said of its batch Job is said of the pod.
"""

from base64 import b64decode
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP521R1, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_ssh_public_key,
)

from jobcommon.api.observed import Observed
from jobcommon.api.replica import Replica
from jobcommon.framework import SERVICE_PER_REPLICA, Job, Options
from jobcommon.operators.mpi import MPI
from jobcommon.operators.mpi.hosts import discover_hosts, hostfile
from jobcommon.operators.mpi.job import slots, ssh_path, waits_for_workers
from jobcommon.reconcile import Create, Plan, plan, read_job
from jobcommon.reconcile.children import pod_manifest, service_manifests
from jobcommon.testutil import plans
from jobcommon.testutil.builders import Manifest, Pod, job_manifest, replica_spec
from jobcommon.testutil.cluster_model import ClusterModel
from jobcommon.testutil.plans import conditions, counts, creates, deletes, holding, next_pass, pods_of

LAUNCHER = {"Launcher": 1}


def mpi_job(workers: int | None = None, *, name: str = "demo", namespace: str = "default", **spec: Any) -> Manifest:
    replicas = LAUNCHER | ({} if workers is None else {"Worker": workers})
    manifest = job_manifest(MPI, replicas, name=name, **spec)
    manifest["metadata"]["namespace"] = namespace
    return manifest


def read(manifest: Manifest, domain: str = "") -> Job:
    return read_job(replace(MPI, options=Options(cluster_domain=domain)), manifest)


def decide(manifest: Manifest, pods: Mapping[str, str]) -> Plan:
    return plans.decide(MPI, manifest, pods)


def created_object(decision: Plan, plural: str) -> Manifest:
    (action,) = (a for a in decision.actions if isinstance(a, Create) and a.plural == plural)
    return dict(action.manifest)


def running_workers(job: Job, *indexes: int) -> list[Any]:
    return [Pod.of(MPI, job, "Worker", index).running().view for index in indexes]


# -- defaults ------------------------------------------------------------------------------------------------------------


def test_defaults_of_an_empty_spec() -> None:
    job = read(mpi_job(2))
    assert not job.errors
    assert (slots(job), ssh_path(job), waits_for_workers(job)) == (1, "/root/.ssh", False)
    assert job.run_policy.clean_pod_policy is None
    assert job.run_policy.backoff_limit == 6  # that of the batch Job
    assert (job.run_policy.ttl_seconds_after_finished, job.run_policy.active_deadline_seconds) == (None, None)
    assert job.run_policy.suspend is None
    assert hostfile(job).endswith(" slots=1\n")  # Open MPI


@pytest.mark.parametrize("implementation", ["Intel", "MPICH"])
def test_defaults_keep_fields_that_are_set(implementation: str) -> None:
    policy = {"cleanPodPolicy": "Running", "ttlSecondsAfterFinished": 2, "activeDeadlineSeconds": 3, "backoffLimit": 4}
    spec: dict[str, Any] = {
        "slotsPerWorker": 10,
        "sshAuthMountPath": "/home/mpiuser/.ssh",
        "launcherCreationPolicy": "AtStartup",
    }
    job = read(mpi_job(1, run_policy=policy, mpiImplementation=implementation, **spec))
    assert not job.errors
    assert (slots(job), ssh_path(job), waits_for_workers(job)) == (10, "/home/mpiuser/.ssh", False)
    assert job.run_policy.model_dump(by_alias=True, exclude_none=True) == policy
    assert hostfile(job).endswith(":10\n")


@pytest.mark.parametrize(("kind", "replicas", "policy"), [("Launcher", 1, "OnFailure"), ("Worker", 1, "ExitCode")])
def test_defaults_of_a_role(kind: str, replicas: int, policy: str) -> None:
    """The reference's Worker default of 0 replicas was itself invalid."""
    specs = {"Launcher": replica_spec(MPI, None), "Worker": replica_spec(MPI, None)}
    spec = read(job_manifest(MPI, specs)).replica_specs[kind]
    assert (spec.replicas, spec.restart_policy) == (replicas, policy)


# -- validation ----------------------------------------------------------------------------------------------------------

SPECS = "spec.mpiReplicaSpecs"
LONG_NAME = "this-name-is-waaaaaaaay-too-long-for-a-worker-hostname"


def with_container(**container: Any) -> Manifest:
    return {"template": {"spec": {"containers": [container]}}}


@pytest.mark.parametrize(
    ("change", "paths"),
    [
        pytest.param({}, [], id="launcher only"),
        pytest.param({"mpiImplementation": "Intel"}, [], id="intel"),
        pytest.param({"mpiImplementation": "MPICH"}, [], id="mpich"),
        pytest.param({"workers": 3}, [], id="with workers"),
        pytest.param({"specs": None}, [SPECS], id="no replica specs"),
        pytest.param({"name": LONG_NAME, "workers": 1000}, ["metadata.name"], id="name too long for worker 999"),
        pytest.param({"name": "n" * 54, "workers": 10}, [], id="63 characters: worker 9"),
        pytest.param({"name": "n" * 54, "workers": 11}, ["metadata.name"], id="64 characters: worker 10"),
        pytest.param({"name": "n" * 54}, [], id="63 characters: the launcher"),
        pytest.param({"mpiImplementation": "Unknown"}, ["spec.mpiImplementation"], id="implementation"),
        pytest.param({"launcherCreationPolicy": "Whenever"}, ["spec.launcherCreationPolicy"], id="creation policy"),
        pytest.param({"transport": "RSH"}, ["spec.transport"], id="transport"),
        pytest.param({"slotsPerWorker": 0}, ["spec.slotsPerWorker"], id="no slots"),
        pytest.param({"slotsPerWorker": -1}, ["spec.slotsPerWorker"], id="negative slots"),
        pytest.param({"sshAuthMountPath": "home"}, ["spec.sshAuthMountPath"], id="relative path"),
        pytest.param(
            {"specs": {"Launcher": {}, "Worker": {}}},
            [f"{SPECS}[Launcher].template", f"{SPECS}[Worker].template"],
            id="no templates",
        ),
        pytest.param(
            {"specs": {"Launcher": replica_spec(MPI, 2, "Always"), "Worker": replica_spec(MPI, 0)}},
            [f"{SPECS}[Launcher].replicas", f"{SPECS}[Launcher].restartPolicy", f"{SPECS}[Worker].replicas"],
            id="replicas and restart policy",
        ),
        pytest.param(
            {"specs": {"Launcher": replica_spec(MPI), "Worker": replica_spec(MPI, 1, "Invalid")}},
            [f"{SPECS}[Worker].restartPolicy"],
            id="unknown restart policy",
        ),
        pytest.param(
            {"specs": {"Launcher": with_container(name="main", image="i", command="mpirun python x.py")}},
            [f"{SPECS}[Launcher].template.spec.containers[0].command"],
            id="seed 002: command as a string",
        ),
    ],
)
def test_errors_of_an_mpi_job_name_their_fields(change: dict[str, Any], paths: list[str]) -> None:
    change = dict(change)
    workers, specs, name = change.pop("workers", None), change.pop("specs", "unset"), change.pop("name", "foo")
    manifest = mpi_job(workers, slotsPerWorker=2)
    manifest["spec"] |= change
    if specs != "unset":
        manifest["spec"]["mpiReplicaSpecs"] = specs
    manifest["metadata"]["name"] = name
    errors = read(manifest).errors
    assert [error.path for error in errors] == paths


# -- hostfile ------------------------------------------------------------------------------------------------------------


ALL_THREE = ["launcher", "worker-0", "worker-1"]


@pytest.mark.parametrize(
    ("implementation", "name", "namespace", "given", "launcher_too", "workers", "domain", "end", "lines"),
    [
        ("OpenMPI", "openmpi-without-slots", "tenant-a", None, True, 2, "", " slots=1", ALL_THREE),
        ("OpenMPI", "openmpi-without-slots", "tenant-a", None, True, 2, "cluster.local", " slots=1", ALL_THREE),
        ("OpenMPI", "openmpi-without-slots", "tenant-a", None, True, None, "", " slots=1", ["launcher"]),
        ("OpenMPI", "openmpi-without-slots", "tenant-a", None, False, 2, "", " slots=1", ["worker-0", "worker-1"]),
        ("OpenMPI", "openmpi-with-slots", "tenant-a", 10, False, 1, "", " slots=10", ["worker-0"]),
        ("OpenMPI", "openmpi-with-slots", "tenant-a", None, False, 1, "cluster.local", " slots=1", ["worker-0"]),
        ("Intel", "intelmpi-with-slots", "project-x", 10, False, 1, "", ":10", ["worker-0"]),
        ("Intel", "intelmpi-with-slots", "project-x", None, False, 1, "cluster.local", ":1", ["worker-0"]),
        ("MPICH", "mpich-with-slots", "project-x", 10, False, 1, "", ":10", ["worker-0"]),
        ("MPICH", "mpich-with-slots", "project-x", None, False, 1, "cluster.local", ":1", ["worker-0"]),
    ],
)  # fmt: skip
def test_hostfile(
    implementation: str,
    name: str,
    namespace: str,
    given: int | None,
    launcher_too: bool,
    workers: int | None,
    domain: str,
    end: str,
    lines: list[str],
) -> None:
    spec = {"mpiImplementation": implementation, "runLauncherAsWorker": launcher_too}
    job = read(mpi_job(workers, name=name, namespace=namespace, slotsPerWorker=given, **spec), domain)
    suffix = f".{name}.{namespace}.svc{'.' + domain if domain else ''}{end}\n"
    assert hostfile(job) == "".join(f"{name}-{line}{suffix}" for line in lines)


# -- discover_hosts.sh ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("namespace", "launcher_too", "running", "domain", "hosts"),
    [
        ("default", False, [], "", []),
        ("default", False, [0, 1], "", ["worker-0", "worker-1"]),
        ("default", True, [], "", ["launcher"]),
        ("default", True, [0, 1], "", ["launcher", "worker-0", "worker-1"]),
        ("tenant-a", False, [0], "cluster.local", ["worker-0"]),
        ("tenant-a", True, [0], "cluster.local", ["launcher", "worker-0"]),
        ("default", False, [2, 0, 1], "", ["worker-0", "worker-1", "worker-2"]),
        # By number: sorted as text, 10 came before 2, and ranks moved when the eleventh worker joined.
        ("default", False, range(11), "", [f"worker-{index}" for index in range(11)]),
    ],
)
def test_discover_hosts(namespace: str, launcher_too: bool, running: list[int], domain: str, hosts: list[str]) -> None:
    job = read(mpi_job(11, name="test-job", namespace=namespace, runLauncherAsWorker=launcher_too, slotsPerWorker=2), domain)
    suffix = f".test-job.{namespace}.svc{'.' + domain if domain else ''}:2\n"
    expected = "#!/bin/sh\n" + "".join(f"echo test-job-{host}{suffix}" for host in hosts)
    assert discover_hosts(job, running_workers(job, *running)) == expected


def test_discover_hosts_leaves_out_what_does_not_run_or_goes() -> None:
    job = read(mpi_job(4))
    pods = [Pod.of(MPI, job, "Worker", index) for index in range(4)]
    views = [pods[0].running().view, pods[1].view, pods[2].running().deleting().view, pods[3].running().failed(1).view]
    assert discover_hosts(job, views) == "#!/bin/sh\necho demo-worker-0.demo.default.svc:1\n"


# -- pods ----------------------------------------------------------------------------------------------------------------

LABEL = "training.kubeflow.org/"
OPEN_MPI = {
    "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
    "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
    "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
    "OMPI_MCA_orte_set_default_slots": "1",
    "PRTE_MCA_prte_keep_fqdn_hostnames": "true",
    "PRTE_MCA_prte_default_hostfile": "/etc/mpi/hostfile",
    "PRTE_MCA_plm_ssh_args": "-o ConnectionAttempts=10",
    "PRTE_MCA_prte_set_default_slots": "1",
}
NO_GPUS = {"NVIDIA_VISIBLE_DEVICES": "", "NVIDIA_DRIVER_CAPABILITIES": ""}


def env_of(container: Manifest) -> dict[str, str]:
    return {entry["name"]: entry["value"] for entry in container["env"]}


def mounts_of(container: Manifest) -> dict[str, str]:
    return {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}


def modes_of(pod: Manifest, volume: str) -> dict[str, int]:
    (found,) = (v for v in pod["spec"]["volumes"] if v["name"] == volume)
    return {item["path"]: item["mode"] for item in (found.get("secret") or found["configMap"])["items"]}


def test_launcher_by_default() -> None:
    job = read(mpi_job(1, name="foo", namespace="bar"))
    pod = pod_manifest(MPI, job, Replica("Launcher", 0))
    spec = pod["spec"]
    assert pod["metadata"]["name"] == spec["hostname"] == "foo-launcher"
    assert spec["subdomain"] == "foo"
    assert spec["restartPolicy"] == "OnFailure"
    assert pod["metadata"]["labels"] == {
        f"{LABEL}operator-name": "mpi-operator",
        f"{LABEL}job-name": "foo",
        f"{LABEL}replica-type": "launcher",
        f"{LABEL}replica-index": "0",
        f"{LABEL}job-role": "launcher",
    }
    (container,) = spec["containers"]
    assert env_of(container) == {"K_MPI_JOB_ROLE": "launcher", **OPEN_MPI, **NO_GPUS}
    assert mounts_of(container) == {"ssh-auth": "/root/.ssh", "mpi-job-config": "/etc/mpi"}
    assert modes_of(pod, "ssh-auth") == {"id_rsa": 0o600, "id_rsa.pub": 0o644, "authorized_keys": 0o644}
    assert modes_of(pod, "mpi-job-config") == {"hostfile": 0o444, "discover_hosts.sh": 0o555}
    secret, config = spec["volumes"]
    assert secret["secret"]["secretName"] == "foo-ssh"
    assert config["configMap"]["name"] == "foo-config"
    assert "command" not in container
    assert "ports" not in container
    assert "initContainers" not in spec


def test_worker_by_default() -> None:
    pod = pod_manifest(MPI, read(mpi_job(1, name="foo", namespace="bar")), Replica("Worker", 0))
    spec = pod["spec"]
    assert pod["metadata"]["name"] == spec["hostname"] == "foo-worker-0"
    assert pod["metadata"]["labels"][f"{LABEL}job-role"] == "worker"
    assert pod["metadata"]["labels"][f"{LABEL}replica-index"] == "0"
    (container,) = spec["containers"]
    assert container["command"] == ["/usr/sbin/sshd", "-De"]
    assert env_of(container) == {"K_MPI_JOB_ROLE": "worker"}
    assert mounts_of(container) == {"ssh-auth": "/root/.ssh"}
    assert spec["dnsConfig"] == {"searches": ["foo.bar.svc.cluster.local"]}


def test_launcher_as_worker() -> None:
    job = read(mpi_job(1, runLauncherAsWorker=True))
    pod = pod_manifest(MPI, job, Replica("Launcher", 0))
    assert env_of(pod["spec"]["containers"][0]) == {"K_MPI_JOB_ROLE": "launcher", **OPEN_MPI}
    assert pod["metadata"]["labels"][f"{LABEL}replica-index"] == "0"


@pytest.mark.parametrize("launcher_too", [False, True, None])
def test_workers_are_numbered_after_a_launcher_that_works(launcher_too: bool | None) -> None:
    """As in mpi-operator; Kueue takes the 1 off again, and Services of single replicas select by the same number."""
    fields = {} if launcher_too is None else {"runLauncherAsWorker": launcher_too}
    job = read(mpi_job(2, annotations={SERVICE_PER_REPLICA: "true"}, **fields))
    pods = [pod_manifest(MPI, job, Replica("Worker", index)) for index in range(2)]
    found = {pod["metadata"]["name"]: pod["metadata"]["labels"][f"{LABEL}replica-index"] for pod in pods}
    assert list(found.values()) == (["1", "2"] if launcher_too else ["0", "1"])
    services = {service["metadata"]["name"]: service["spec"]["selector"] for service in service_manifests(MPI, job)}
    assert {name: services[name][f"{LABEL}replica-index"] for name in found} == found


def test_the_users_fields_are_kept_beside_ours() -> None:
    launcher = replica_spec(MPI)
    launcher["template"] = {
        "metadata": {"labels": {"foo": "bar"}},
        "spec": {
            "hostNetwork": True,
            "containers": [
                {
                    "name": "main",
                    "image": "i",
                    "env": [{"name": "FOO", "value": "bar"}],
                    "securityContext": {"runAsUser": 1000},
                    "volumeMounts": [{"name": "fool-vol", "mountPath": "/mnt/foo"}],
                },
                {"name": "second", "image": "i"},
            ],
            "volumes": [{"name": "foo-vol"}],
        },
    }
    worker = replica_spec(MPI, 13)
    container = {"name": "main", "image": "i", "command": ["/entrypoint.sh"], "env": [{"name": "FOO", "value": "bar"}]}
    worker["template"] = {"spec": {"hostNetwork": True, "containers": [container]}}
    spec: dict[str, Any] = {"sshAuthMountPath": "/home/mpiuser/.ssh", "slotsPerWorker": 5, "mpiImplementation": "Intel"}
    job = read(job_manifest(MPI, {"Launcher": launcher, "Worker": worker}, name="bar", **spec))

    pod = pod_manifest(MPI, job, Replica("Launcher", 0))
    first, second = pod["spec"]["containers"]
    assert pod["metadata"]["labels"]["foo"] == "bar"
    assert pod["spec"]["dnsPolicy"] == "ClusterFirstWithHostNet"
    assert list(env_of(first).items()) == [
        ("K_MPI_JOB_ROLE", "launcher"),
        ("I_MPI_HYDRA_HOST_FILE", "/etc/mpi/hostfile"),
        ("I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS", "-o ConnectionAttempts=10"),
        ("I_MPI_PERHOST", "5"),
        *NO_GPUS.items(),
        ("FOO", "bar"),
    ]
    assert list(mounts_of(first).items()) == [
        ("fool-vol", "/mnt/foo"),
        ("ssh-auth", "/home/mpiuser/.ssh"),
        ("mpi-job-config", "/etc/mpi"),
    ]
    assert [volume["name"] for volume in pod["spec"]["volumes"]] == ["foo-vol", "ssh-auth", "mpi-job-config"]
    assert second == {"name": "second", "image": "i"}

    pod = pod_manifest(MPI, job, Replica("Worker", 12))
    assert pod["metadata"]["name"] == "bar-worker-12"
    assert pod["metadata"]["labels"][f"{LABEL}replica-index"] == "12"
    assert pod["spec"]["dnsPolicy"] == "ClusterFirstWithHostNet"
    (container,) = pod["spec"]["containers"]
    assert container["command"] == ["/entrypoint.sh"]
    assert list(env_of(container)) == ["K_MPI_JOB_ROLE", "FOO"]


def test_mpich_variables() -> None:
    pod = pod_manifest(MPI, read(mpi_job(1, mpiImplementation="MPICH")), Replica("Launcher", 0))
    assert env_of(pod["spec"]["containers"][0]) == {
        "K_MPI_JOB_ROLE": "launcher",
        "HYDRA_HOST_FILE": "/etc/mpi/hostfile",
        "HYDRA_LAUNCHER_EXTRA_ARGS": "-o ConnectionAttempts=10",
        "HYDRA_LAUNCH_EXTRA_ARGS": "-o ConnectionAttempts=10",
        **NO_GPUS,
    }


def test_the_users_ssh_arguments_are_kept() -> None:
    launcher = replica_spec(MPI)
    launcher["template"]["spec"]["containers"][0]["env"] = [{"name": "OMPI_MCA_plm_rsh_args", "value": "-p 2222"}]
    pod = pod_manifest(MPI, read(job_manifest(MPI, {"Launcher": launcher, "Worker": 1})), Replica("Launcher", 0))
    assert env_of(pod["spec"]["containers"][0])["OMPI_MCA_plm_rsh_args"] == "-p 2222"


@pytest.mark.parametrize(
    ("path", "pod_context", "context", "mode"),
    [
        pytest.param("/root/.ssh", {}, {}, 0o600, id="root"),
        pytest.param("/keys", {}, {}, 0o600, id="any path"),
        pytest.param("/home/mpiuser/.ssh", {}, {}, 0o644, id="another user by the path"),
        pytest.param("/home/mpiuser/.ssh", {}, {"runAsUser": 1000}, 0o644, id="another user"),
        pytest.param("/keys", {"runAsUser": 1000}, {}, 0o644, id="another user of the pod"),
        pytest.param("/keys", {"runAsNonRoot": True}, {}, 0o644, id="any user but root"),
        pytest.param("/home/mpiuser/.ssh", {"runAsUser": 1000}, {"runAsUser": 0}, 0o600, id="root after all"),
        pytest.param("/home/mpiuser/.ssh", {"runAsUser": 1000, "fsGroup": 1000}, {}, 0o600, id="the kubelet adds the group"),
    ],
)
def test_the_private_key_can_be_read_and_is_not_refused(path: str, pod_context: Manifest, context: Manifest, mode: int) -> None:
    worker = replica_spec(MPI)
    worker["template"]["spec"]["securityContext"] = pod_context
    worker["template"]["spec"]["containers"][0]["securityContext"] = context
    job = read(job_manifest(MPI, {"Launcher": 1, "Worker": worker}, sshAuthMountPath=path))
    assert modes_of(pod_manifest(MPI, job, Replica("Worker", 0)), "ssh-auth")["id_rsa"] == mode


# -- one pass ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("implementation", ["OpenMPI", "Intel", "MPICH"])
def test_all_is_created(implementation: str) -> None:
    manifest = mpi_job(5, name="foo", mpiImplementation=implementation)
    decision = plan(MPI, read(manifest), Observed(), plans.NOW)
    assert [str(action) for action in decision.actions] == [
        "create services/foo",
        "create configmaps/foo-config",
        "create secrets/foo-ssh",
        "create pods/foo-launcher",
        *(f"create pods/foo-worker-{index}" for index in range(5)),
    ]
    assert holding(decision) == ["Created"]
    assert counts(decision, "Launcher") == counts(decision, "Worker") == "0/0/0"
    service = created_object(decision, "services")
    assert service["spec"]["selector"] == {f"{LABEL}operator-name": "mpi-operator", f"{LABEL}job-name": "foo"}
    assert service["spec"]["publishNotReadyAddresses"] is True
    assert "ports" not in service["spec"]
    assert created_object(decision, "configmaps")["metadata"]["labels"]["app"] == "foo"
    secret = created_object(decision, "secrets")
    assert secret["type"] == "kubernetes.io/ssh-auth"
    assert "data" not in secret


def test_a_key_pair_is_made_when_the_secret_is_created() -> None:
    (action,) = (a for a in decide(mpi_job(1), {}).actions if isinstance(a, Create) and a.plural == "secrets")
    assert action.generate is not None
    data, other = action.generate()["data"], action.generate()["data"]
    assert data != other
    private = load_pem_private_key(b64decode(data["ssh-privatekey"]), None)
    assert isinstance(private, EllipticCurvePrivateKey)
    assert isinstance(private.curve, SECP521R1)
    public = load_ssh_public_key(b64decode(data["ssh-publickey"]))
    wire = Encoding.OpenSSH, PublicFormat.OpenSSH
    assert private.public_key().public_bytes(*wire) == public.public_bytes(*wire)


def test_the_secret_is_never_written_again() -> None:
    world = ClusterModel.of(MPI, {"Launcher": 1, "Worker": 1})
    world.settle()
    before = world.others["Secret", "demo-ssh"]
    world.others["Secret", "demo-ssh"] = {**before, "data": {"ssh-privatekey": "", "ssh-publickey": ""}, "type": "Opaque"}
    assert not world.step().actions


@pytest.mark.parametrize(
    "manager", ["kueue.x-k8s.io/multikueue", "kubeflow.org/mpi-operator", "kubeflow.org/training-operator"]
)
def test_jobs_for_the_former_operators_are_ours(manager: str) -> None:
    decision = decide(mpi_job(1, run_policy={"managedBy": manager}), {})
    ours = manager != "kueue.x-k8s.io/multikueue"
    assert bool(decision.actions) == (decision.status is not None) == ours


def test_launcher_succeeded_while_workers_run() -> None:
    manifest = mpi_job(2)
    ran = decide(manifest, {"Launcher-0": "running", **pods_of("Worker", ("running", 2))})
    done = decide(next_pass(manifest, ran), {"Launcher-0": "succeeded", **pods_of("Worker", ("running", 2))})
    assert conditions(done) == [
        "Created=T MPIJobCreated: MPIJob demo is created.",
        "Running=F MPIJobRunning: MPIJob default/demo is running.",
        "Succeeded=T MPIJobSucceeded: MPIJob default/demo successfully completed.",
    ]
    assert (counts(done, "Launcher"), counts(done, "Worker")) == ("0/1/0", "2/0/0")


def test_the_keys_go_with_the_end_of_the_job() -> None:
    world = ClusterModel.of(MPI, {"Launcher": 1, "Worker": 1})
    world.settle()
    world.run()
    world.exit("demo-launcher", 0).settle()
    assert world.current == "Succeeded"
    assert ("Secret", "demo-ssh") not in world.others
    assert "demo-worker-0" in world.pods
    world.stop_terminating().settle()
    assert sorted(world.pods) == ["demo-launcher"]


def test_pods_do_not_start_without_what_they_mount() -> None:
    """Another owner's Secret of that name must not be mounted: the creates are required, and the shell stops before pods."""
    decision = plan(MPI, read(mpi_job(1)), Observed(), plans.NOW)
    first = [action for action in decision.actions if isinstance(action, Create) and action.plural != "pods"]
    assert [action.plural for action in first] == ["services", "configmaps", "secrets"]
    assert all(action.required for action in first)


def test_suspended_and_resumed() -> None:
    world = ClusterModel.of(MPI, {"Launcher": 1, "Worker": 8}).start()
    started = world.status["startTime"]
    keys = world.others["Secret", "demo-ssh"]
    world.tick(10)
    world.suspend()
    assert not world.pods
    assert world.current == "Suspended"
    assert [c["type"] + c["status"] for c in world.status["conditions"]] == ["CreatedTrue", "RunningFalse", "SuspendedTrue"]
    assert world.status["startTime"] == started
    world.tick(10)
    template = world.manifest["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]
    template["metadata"] = {"annotations": {"kueue.x-k8s.io/workload": "my-workload"}, "labels": {"foo": "bar"}}
    template["spec"] |= {
        "nodeSelector": {"foo": "bar"},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "schedulingGates": [{"name": "kueue.x-k8s.io/topology"}],
    }
    world.edit(suspend=False).settle()
    assert len(world.pods) == 9
    assert world.status["startTime"] != started
    launcher = world.pods["demo-launcher"].raw
    assert launcher["metadata"]["annotations"] == {"kueue.x-k8s.io/workload": "my-workload"}
    assert launcher["metadata"]["labels"]["foo"] == "bar"
    assert launcher["spec"]["nodeSelector"] == {"foo": "bar"}
    assert launcher["spec"]["tolerations"] == [{"key": "gpu", "operator": "Exists"}]
    assert launcher["spec"]["schedulingGates"] == [{"name": "kueue.x-k8s.io/topology"}]
    world.run().settle()
    assert [c["type"] + c["status"] for c in world.status["conditions"]] == ["CreatedTrue", "SuspendedFalse", "RunningTrue"]
    assert world.others["Secret", "demo-ssh"]["data"] != keys["data"], "a new generation of pods has new keys (S19)"


@pytest.mark.parametrize(
    ("pods", "launcher", "worker", "last", "created"),
    [
        pytest.param({"Launcher-0": "running", **pods_of("Worker", ("scheduled", 8))}, "1/0/0", "0/0/0", "Created", 0),
        pytest.param({"Launcher-0": "running", **pods_of("Worker", ("running", 8))}, "1/0/0", "8/0/0", "Running", 0),
        pytest.param(pods_of("Worker", ("running", 8)), "0/0/0", "8/0/0", "Created", 1),
    ],
    ids=["launcher up, workers pending", "launcher and workers up", "workers up, no launcher"],
)
def test_a_job_runs_when_its_launcher_and_all_workers_do(
    pods: dict[str, str], launcher: str, worker: str, last: str, created: int
) -> None:
    decision = decide(mpi_job(8), pods)
    assert (counts(decision, "Launcher"), counts(decision, "Worker")) == (launcher, worker)
    assert holding(decision)[-1] == last
    assert creates(decision) == ["demo-launcher"] * created
    files = created_object(decision, "configmaps")["data"]
    assert files["discover_hosts.sh"].count("echo") == sum(state == "running" for slot, state in pods.items() if "Work" in slot)


@pytest.mark.parametrize(
    ("policy", "end", "current", "back"),
    [
        pytest.param(None, "evict", "Restarting", True, id="evicted"),
        pytest.param(None, 137, "Restarting", True, id="killed"),
        pytest.param(None, 1, "Failed", False, id="its program failed"),
        pytest.param(None, 0, "Restarting", True, id="its sshd answers SIGTERM with exit 0"),
        pytest.param("Never", 0, "Restarting", True, id="exit 0, Never"),
        pytest.param("Never", "evict", "Failed", False, id="evicted, Never"),
        pytest.param("Never", 137, "Failed", False, id="killed, Never"),
        pytest.param("OnFailure", "evict", "Restarting", True, id="evicted, OnFailure"),
    ],
)
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


@pytest.mark.parametrize("launcher_too", [False, True])
@pytest.mark.parametrize(("before", "after", "gone"), [(4, 2, [2, 3]), (3, 2, [2])])
def test_a_scale_down_takes_the_last_workers_out_of_the_hosts(
    launcher_too: bool, before: int, after: int, gone: list[int]
) -> None:
    world = ClusterModel.of(MPI, {"Launcher": 1, "Worker": replica_spec(MPI, before)}, runLauncherAsWorker=launcher_too).start()
    world.scale("Worker", after)
    assert not deletes(world.step()), "it is on record first"
    decision = world.step()
    assert deletes(decision) == [f"demo-worker-{index}" for index in gone]
    assert not creates(decision)
    files = world.others["ConfigMap", "demo-config"]["data"]
    assert files["hostfile"].count("\n") == after + launcher_too
    assert files["discover_hosts.sh"].count("echo") == after + launcher_too


def test_new_workers_are_hosts_at_once_and_discovered_when_they_run() -> None:
    world = ClusterModel.of(MPI, {"Launcher": 1, "Worker": replica_spec(MPI, 2)}).start()
    world.scale("Worker", 4)
    assert creates(world.step()) == ["demo-worker-2", "demo-worker-3"]
    files = world.others["ConfigMap", "demo-config"]["data"]
    assert (files["hostfile"].count("\n"), files["discover_hosts.sh"].count("echo")) == (4, 2)
    world.run().settle()
    assert world.others["ConfigMap", "demo-config"]["data"]["discover_hosts.sh"].count("echo") == 4


def unready(world: ClusterModel, name: str) -> None:
    pod = world.pods[name]
    world.pods[name] = pod._with(status={"conditions": [{"type": "Ready", "status": "False"}]})


@pytest.mark.parametrize("suspended", [False, True], ids=["at first", "after a resume"])
def test_the_launcher_waits_for_ready_workers(suspended: bool) -> None:
    policy = {"launcherCreationPolicy": "WaitForWorkersReady"}
    world = ClusterModel.of(MPI, {"Launcher": 1, "Worker": 2}, run_policy={"suspend": suspended}, **policy)
    world.settle()
    assert "demo-launcher" not in world.pods
    world.edit(suspend=False).settle()
    world.run("demo-worker-0", "demo-worker-1")
    unready(world, "demo-worker-1")
    world.settle()
    assert "demo-launcher" not in world.pods
    assert "; Launcher is created when the replicas that it needs are ready" in world.status["conditions"][-1]["message"]
    unready(world, "demo-worker-1")
    world.pods["demo-worker-1"] = world.pods["demo-worker-1"].running()
    world.settle()
    assert "demo-launcher" in world.pods
    world.run()
    unready(world, "demo-worker-0")
    world.settle()
    assert world.current == "Running"


# -- from start to end ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("creation", ["AtStartup", "WaitForWorkersReady"])
@pytest.mark.parametrize("launcher_too", [False, True])
def test_the_launchers_success_is_that_of_the_job(creation: str, launcher_too: bool) -> None:
    spec = {"launcherCreationPolicy": creation, "runLauncherAsWorker": launcher_too}
    world = ClusterModel.of(MPI, {"Launcher": 1, "Worker": 2}, **spec)
    for _ in range(2):
        world.start()
    assert world.current == "Running"
    active = {kind: status["active"] for kind, status in world.status["replicaStatuses"].items()}
    assert active == {"Launcher": 1, "Worker": 2}
    world.exit("demo-launcher", 0).settle()
    world.stop_terminating().settle()
    assert world.current == "Succeeded"
    assert sorted(world.pods) == ["demo-launcher"]
    assert world.status["replicaStatuses"]["Launcher"]["succeeded"] == 1
    assert "active" not in world.status["replicaStatuses"]["Worker"]
    reasons = [event.reason for event in world.events if event.reason.startswith("MPIJob")]
    assert reasons == ["MPIJobSucceeded"]


def test_a_job_without_workers() -> None:
    world = ClusterModel.of(MPI, {"Launcher": 1}, runLauncherAsWorker=True).start()
    assert world.current == "Running"
    world.exit("demo-launcher", 0).settle()
    assert world.current == "Succeeded"


@pytest.mark.parametrize(("main", "sidecar", "current"), [(0, 1, "Succeeded"), (1, 0, "Failed")])
def test_the_first_container_of_the_template_decides(main: int, sidecar: int, current: str) -> None:
    """The kubelet sorts the statuses by name, so the first of them need not be the first of the template."""
    launcher = replica_spec(MPI, 1, "Never")
    launcher["template"]["spec"]["containers"].append({"name": "a-sidecar", "image": "image"})
    job = read(job_manifest(MPI, {"Launcher": launcher}, run_policy={"backoffLimit": 0}))
    pod = Pod.of(MPI, job, "Launcher", 0).failed(main)
    ended = {"name": "a-sidecar", "restartCount": 0, "state": {"terminated": {"exitCode": sidecar, "reason": "Error"}}}
    pod = pod._with(status={"containerStatuses": [ended, *pod.raw["status"]["containerStatuses"]]})
    decision = plan(MPI, job, Observed(pods=(pod.view,)), plans.NOW)
    assert holding(decision)[-1] == current
