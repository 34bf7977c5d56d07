"""`jobcommon migrate`: the same pods there and back, and a word on every field that is not carried."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from jobcommon.api import labels
from jobcommon.api.replica import Replica
from jobcommon.cli.convert import ConvertError
from jobcommon.cli.frameworks import installed, of_manifest
from jobcommon.cli.manifests import load
from jobcommon.cli.migrate import Migration, to_trainjob, to_v1
from jobcommon.cli.migrate.trainjob import ANCESTOR, OWN_FIELDS, REPLICAS, planned_pods
from jobcommon.framework import Framework, Job
from jobcommon.reconcile import read_job
from tests.cli.commands import ROOT, answered

Json = dict[str, Any]
EXEC = "allreduce-exec.yaml"
TRAINER = "trainer.kubeflow.org/v1alpha1"


def _examples() -> Iterator[tuple[str, Json]]:
    for path in sorted((ROOT / "examples").rglob("*.yaml")):
        if "polyaxon" in path.parts:
            continue
        for manifest in load([str(path)]):
            if of_manifest(manifest.body) is not None:
                yield f"{Path(manifest.source).name}:{manifest.name}", dict(manifest.body)


EXAMPLES = dict(_examples())
# Those over kubectl exec are refused.
CARRIED = {
    name: body
    for name, body in EXAMPLES.items()
    if not (body["kind"] == "MPIJob" and body["apiVersion"] != "kubeflow.org/v2beta1")
}


def read(body: Json) -> tuple[Framework, Job]:
    framework = of_manifest(body)
    assert framework is not None
    job = read_job(framework, body)
    assert not job.errors
    return framework, replace(job, namespace=job.namespace or "default")


def forward(body: Json) -> Migration:
    framework, job = read(body)
    return to_trainjob(framework, body, job)


def back(train_job: Json, runtime: Json) -> Migration:
    return to_v1(train_job, runtime, list(installed().values()))


def expanded(runtime: Json) -> list[tuple[str, str, Json]]:
    """What Trainer, JobSet and the kubelet make of a runtime: replica type, address and template of each pod."""
    name = runtime["metadata"]["name"]
    found = []
    for group in runtime["spec"]["template"]["spec"]["replicatedJobs"]:
        job = group["template"]["spec"]
        assert job["completionMode"] == "Indexed"
        assert job["parallelism"] == job["completions"]
        assert job["template"]["spec"]["restartPolicy"] in ("Never", "OnFailure")
        marks = group["template"]["metadata"]["annotations"][REPLICAS].split(",")
        types = [kind for mark in marks for kind, _, count in [mark.partition("=")] for _ in range(int(count))]
        for index, kind in enumerate(types):
            pod = json.loads(json.dumps(job["template"]))
            for container in pod["spec"]["containers"]:
                container["env"] = _resolved(container.get("env") or [], index)
            found.append((kind, f"{name}-{group['name']}-0-{index}.{name}.default.svc", pod))
        assert len(types) == job["parallelism"]
    return found


def _resolved(env: list[Json], index: int) -> list[Json]:
    """The variables as a container has them."""
    known: dict[str, str] = {}
    found = []
    for one in env:
        if "job-completion-index" in str(one.get("valueFrom")):
            known[one["name"]] = str(index)
            continue
        value = one.get("value")
        for name, text in known.items():
            value = value and value.replace(f"$({name})", text)
        found.append({**one, "value": value} if value is not None else one)
    return found


def comparable(pod: Json, addresses: dict[str, str]) -> Json:
    """The pod with its peers' addresses by replica, its variables by name, without what Trainer adds to MPI's itself."""
    text = json.dumps(pod)
    for address, replica in addresses.items():
        text = text.replace(address, replica)
    found: Json = json.loads(text)
    spec = found["spec"]
    spec.pop("restartPolicy", None)
    # What the operator notes on a pod of a job that is restarted as a whole; a TrainJob has no restartScope.
    metadata = found.get("metadata") or {}
    metadata["annotations"] = {k: v for k, v in (metadata.get("annotations") or {}).items() if not k.startswith(labels.PREFIX)}
    found["metadata"] = {key: value for key, value in metadata.items() if value}
    own = ("ssh-auth", "mpi-job-config")
    spec["volumes"] = [volume for volume in spec.get("volumes") or () if volume["name"] not in own]
    for container in spec["containers"]:
        container["env"] = {one["name"]: one for one in container.get("env") or ()}
        container["volumeMounts"] = [mount for mount in container.get("volumeMounts") or () if mount["name"] not in own]
        del container["name"]
    return found


@pytest.mark.parametrize("name", CARRIED)
def test_a_trainjob_runs_the_same_pods(name: str) -> None:
    framework, job = read(CARRIED[name])
    runtime, train_job = forward(CARRIED[name]).objects
    assert train_job["spec"]["runtimeRef"]["name"] == runtime["metadata"]["name"]
    seen: dict[str, int] = {}
    made: dict[Replica, tuple[str, Json]] = {}
    for kind, address, pod in expanded(runtime):
        made[Replica(kind, seen.setdefault(kind, 0))] = (address, pod)
        seen[kind] += 1
    theirs = {address: str(replica) for replica, (address, _) in made.items()}
    ours = {job.address(replica): str(replica) for replica in job.replicas}
    planned = planned_pods(framework, job)
    assert made.keys() == planned.keys()
    for replica, pod in planned.items():
        assert comparable(made[replica][1], theirs) == comparable(pod, ours)


@pytest.mark.parametrize("name", CARRIED)
def test_the_runtime_has_what_trainers_webhook_asks_for(name: str) -> None:
    """One replicated Job is the step of the TrainJob's trainer: it has one replica and a container named node."""
    runtime, _ = forward(CARRIED[name]).objects
    groups = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    (step,) = (group for group in groups if ANCESTOR in group["template"]["metadata"].get("labels", {}))
    assert step["replicas"] == 1
    assert "node" in _containers(step)
    for group in groups:
        rules = group["template"]["spec"].get("podFailurePolicy", {}).get("rules", ())
        named = [rule["onExitCodes"]["containerName"] for rule in rules if "onExitCodes" in rule]
        assert set(named) <= set(_containers(group)), "a Job's exit codes are those of a container it has"


def _containers(group: Json) -> list[str]:
    return [container["name"] for container in group["template"]["spec"]["template"]["spec"]["containers"]]


def test_a_name_that_is_too_long_for_the_pods_of_a_jobset_is_refused() -> None:
    longest = "x" * (63 - len("-worker-0-9-abcde"))
    body = pytorch(metadata={"name": longest})
    body["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] = 10
    forward(body)
    body["metadata"]["name"] += "x"
    with pytest.raises(ConvertError, match=f"use up to {len(longest)} for the job's") as refused:
        forward(body)
    assert [finding.path for finding in refused.value.findings] == ["metadata.name"]


def test_a_launcher_without_workers_waits_for_none() -> None:
    body = json.loads(json.dumps(CARRIED["allreduce-ssh.yaml:allreduce-ssh"]))
    del body["spec"]["mpiReplicaSpecs"]["Worker"]
    body["spec"]["launcherCreationPolicy"] = "WaitForWorkersReady"
    (launcher,) = forward(body).objects[0]["spec"]["template"]["spec"]["replicatedJobs"]
    assert "dependsOn" not in launcher, "JobSet refuses it of the first replicated Job"


@pytest.mark.parametrize("place", ["containers", "initContainers"])
def test_another_container_that_is_named_node_is_refused(place: str) -> None:
    body = pytorch()
    spec = body["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]
    spec[place] = [*spec.get(place, ()), {"name": "node", "image": "side"}]
    with pytest.raises(ConvertError, match="but another one has that name: rename it") as refused:
        forward(body)
    assert [finding.path for finding in refused.value.findings] == ["spec.pytorchReplicaSpecs.Worker.template.spec.containers"]


@pytest.mark.parametrize("name", CARRIED)
def test_there_and_back_the_operator_creates_the_same_pods(name: str) -> None:
    framework, job = read(CARRIED[name])
    runtime, train_job = forward(CARRIED[name]).objects
    done = back(train_job, runtime)
    assert not done.findings
    (again,) = done.objects
    assert of_manifest(again) is framework
    assert again["apiVersion"] == CARRIED[name]["apiVersion"]
    _, job_again = read(again)
    before, after = planned_pods(framework, job), planned_pods(framework, job_again)
    assert {r: comparable(pod, {}) for r, pod in after.items()} == {r: comparable(pod, {}) for r, pod in before.items()}
    for field in ("suspend", "backoff_limit", "active_deadline_seconds", "ttl_seconds_after_finished"):
        assert getattr(job_again.run_policy, field) == getattr(job.run_policy, field), field
    own = {key: value for key, value in CARRIED[name]["spec"].items() if key not in ("runPolicy", framework.replica_specs)}
    assert own.items() <= again["spec"].items()
    policies = [{kind: spec.restart_policy for kind, spec in one.replica_specs.items()} for one in (job, job_again)]
    assert policies[0] == policies[1]


def pytorch(policy: Json | None = None, metadata: Json | None = None, **spec: Any) -> Json:
    template = {"spec": {"containers": [{"name": "pytorch", "image": "any", "command": ["train"]}]}}
    body = {**({"runPolicy": policy} if policy else {}), "pytorchReplicaSpecs": {"Worker": {"template": template}}, **spec}
    return {
        "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "one", **(metadata or {})}, "spec": body,
    }  # fmt: skip


FINDINGS = {
    "cleanPodPolicy": (pytorch({"cleanPodPolicy": "All"}), "spec.runPolicy.cleanPodPolicy", "JobSet"),
    "ttl": (pytorch({"ttlSecondsAfterFinished": 5}), "spec.runPolicy.ttlSecondsAfterFinished", "TrainJob itself stays"),
    "queue": (pytorch({"schedulingPolicy": {"queue": "a"}}), "spec.runPolicy.schedulingPolicy.queue", "podGroupPolicy"),
    "gang": (pytorch({"schedulingPolicy": {"minAvailable": 1}}), "spec.runPolicy.schedulingPolicy.minAvailable", "all pods"),
    "elastic": (pytorch(elasticPolicy={"minReplicas": 1}), "spec.elasticPolicy.minReplicas", "does not change the number"),
    "status": ({**pytorch(), "status": {"startTime": "2026-01-01T00:00:00Z"}}, "status", "anew"),
    "finalizer": (pytorch(metadata={"finalizers": ["a/b"]}), "metadata.finalizers", "no counterpart"),
    "unknown": (pytorch(somethingNew=1), "spec.somethingNew", "no counterpart"),
    "unknown below": (pytorch({"somethingNew": {"a": 1}}), "spec.runPolicy.somethingNew", "no counterpart"),
}


@pytest.mark.parametrize("name", FINDINGS)
def test_each_field_that_is_not_migrated_is_a_finding(name: str) -> None:
    body, path, message = FINDINGS[name]
    (found,) = [finding for finding in forward(body).findings if finding.path == path]
    assert message in found.message


def test_migrated_fields_give_no_finding() -> None:
    policy = {"backoffLimit": 3, "activeDeadlineSeconds": 60, "suspend": True, "managedBy": "kueue.x-k8s.io/multikueue"}
    labels = {"kueue.x-k8s.io/queue-name": "a"}
    done = forward(pytorch(policy, {"labels": labels}, nprocPerNode="2"))
    assert not done.findings
    runtime, train_job = done.objects
    assert train_job["metadata"]["labels"] == labels
    assert train_job["spec"] == {
        "runtimeRef": {"apiGroup": "trainer.kubeflow.org", "kind": "TrainingRuntime", "name": "one"},
        "suspend": True, "managedBy": "kueue.x-k8s.io/multikueue",
    }  # fmt: skip
    (group,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    job = group["template"]["spec"]
    assert (job["backoffLimit"], job["activeDeadlineSeconds"]) == (3, 60)


SUCCESS = {
    "all workers": ("Worker", {}, "All", ["worker"], None),
    "any worker of an elastic job": ("Worker", {"elasticPolicy": {}}, "All", ["worker"], {"succeededCount": 1}),
    "any of workers that differ": ("overrides", {"elasticPolicy": {}}, "Any", ["worker-0", "worker-1"], None),
}


@pytest.mark.parametrize("name", SUCCESS)
def test_success(name: str) -> None:
    how, fields, operator, names, rule = SUCCESS[name]
    body = pytorch(**fields)
    worker = body["spec"]["pytorchReplicaSpecs"]["Worker"]
    worker["replicas"] = 2
    if how == "overrides":
        worker["overrides"] = [{"indices": [1], "template": {"spec": {"nodeSelector": {"a": "b"}}}}]
    job_set = forward(body).objects[0]["spec"]["template"]["spec"]
    assert job_set["successPolicy"] == {"operator": operator, "targetReplicatedJobs": names}
    policies = [one["template"]["spec"].get("successPolicy") for one in job_set["replicatedJobs"]]
    assert policies == [rule and {"rules": [rule]}] * len(names)


def test_a_limit_that_several_jobs_share_is_said() -> None:
    body = json.loads(json.dumps(CARRIED["parameter-server.yaml:parameter-server"]))
    body["spec"]["runPolicy"] = {"backoffLimit": 3}
    assert [finding.path for finding in forward(body).findings] == ["spec.runPolicy.backoffLimit"]


def test_ten_workers_are_told_apart_by_their_index_and_different_ones_by_their_jobs() -> None:
    body = json.loads(json.dumps(CARRIED["digits.yaml:digits"]))
    body["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] = 11
    (group,) = forward(body).objects[0]["spec"]["template"]["spec"]["replicatedJobs"]
    variables = {one["name"]: one.get("value") for one in group["template"]["spec"]["template"]["spec"]["containers"][0]["env"]}
    assert (group["template"]["spec"]["parallelism"], variables["RANK"]) == (12, "$(JOB_COMPLETION_INDEX)")
    never = json.loads(json.dumps(body))
    for kind, policy in (("Master", "Never"), ("Worker", "ExitCode")):
        never["spec"]["pytorchReplicaSpecs"][kind]["restartPolicy"] = policy
    assert len(forward(never).objects[0]["spec"]["template"]["spec"]["replicatedJobs"]) == 12, "pods alike, Jobs not"
    body["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["nodeSelector"] = {"a": "b"}
    done = forward(body)
    assert len(done.objects[0]["spec"]["template"]["spec"]["replicatedJobs"]) == 12
    assert [finding.path for finding in done.findings] == ["spec.pytorchReplicaSpecs"]


def test_the_end_of_a_job_is_decided_by_the_same_pods() -> None:
    runtime, _ = forward(CARRIED["digits.yaml:digits"]).objects
    job_set = runtime["spec"]["template"]["spec"]
    assert job_set["successPolicy"] == {"operator": "All", "targetReplicatedJobs": ["node"]}
    # The master is the first of three.
    assert job_set["replicatedJobs"][0]["template"]["spec"]["successPolicy"] == {"rules": [{"succeededIndexes": "0"}]}
    runtime, _ = forward(CARRIED["parameter-server.yaml:parameter-server"]).objects
    assert runtime["spec"]["template"]["spec"]["successPolicy"]["targetReplicatedJobs"] == ["chief"]


@pytest.mark.parametrize(
    ("change", "path"), [({"transport": "Exec"}, "spec.transport"), ({"mpiImplementation": "Intel"}, "spec.mpiImplementation")]
)
def test_jobs_that_trainer_cannot_run_are_refused(change: Json, path: str) -> None:
    body = json.loads(json.dumps(CARRIED["allreduce-ssh.yaml:allreduce-ssh"]))
    body["spec"] |= change
    with pytest.raises(ConvertError) as refused:
        forward(body)
    assert [finding.path for finding in refused.value.findings] == [path]


def runtime_of(policy: Json, *groups: str, step: str = "node", **spec: Any) -> Json:
    """A runtime of Trainer's own; a TrainJob's trainer is about the group `step`."""
    jobs = [
        {
            "name": group,
            "template": {
                "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"} if group == step else {}},
                "spec": {"template": {"spec": {"containers": [{"name": "node", "image": "runtime", "command": ["sshd"]}]}}},
            },
        }
        for group in groups
    ]
    template = {"spec": {"replicatedJobs": jobs, **spec}}
    return {
        "apiVersion": TRAINER, "kind": "ClusterTrainingRuntime", "metadata": {"name": "theirs"},
        "spec": {"mlPolicy": policy, "template": template},
    }  # fmt: skip


def train_job_of(**spec: Any) -> Json:
    return {
        "apiVersion": TRAINER, "kind": "TrainJob", "metadata": {"name": "one"},
        "spec": {"runtimeRef": {"name": "theirs"}, **spec},
    }  # fmt: skip


def test_a_torch_job_of_trainer_becomes_a_pytorchjob() -> None:
    trainer = {
        "numNodes": 3, "numProcPerNode": 2, "image": "mine", "command": ["torchrun", "a.py"],
        "env": [{"name": "A", "value": "1"}], "resourcesPerNode": {"limits": {"cpu": "2"}},
    }  # fmt: skip
    (job,) = back(train_job_of(trainer=trainer), runtime_of({"numNodes": 1, "torch": {}}, "node")).objects
    container = {
        "name": "pytorch", "image": "mine", "command": ["torchrun", "a.py"], "env": [{"name": "A", "value": "1"}],
        "resources": {"limits": {"cpu": "2"}},
    }  # fmt: skip
    worker = {"replicas": 3, "restartPolicy": "OnFailure", "template": {"spec": {"containers": [container]}}}
    assert (job["kind"], job["spec"]) == ("PyTorchJob", {"nprocPerNode": "2", "pytorchReplicaSpecs": {"Worker": worker}})
    read(job)


def test_an_mpi_job_of_trainer_becomes_an_mpijob() -> None:
    policy = {"numNodes": 4, "mpi": {"numProcPerNode": 2, "sshAuthMountPath": "/home/mpiuser/.ssh"}}
    runtime = runtime_of(policy, "node", "launcher", step="launcher")
    (job,) = back(train_job_of(trainer={"command": ["mpirun"]}), runtime).objects
    assert (job["apiVersion"], job["kind"]) == ("kubeflow.org/v2beta1", "MPIJob")
    assert (job["spec"]["slotsPerWorker"], job["spec"]["sshAuthMountPath"]) == (2, "/home/mpiuser/.ssh")
    replicas = job["spec"]["mpiReplicaSpecs"]
    assert {kind: spec["replicas"] for kind, spec in replicas.items()} == {"Worker": 4, "Launcher": 1}
    commands = {kind: spec["template"]["spec"]["containers"][0]["command"] for kind, spec in replicas.items()}
    assert commands == {"Worker": ["sshd"], "Launcher": ["mpirun"]}, "a TrainJob's command is the launcher's"
    policy["mpi"]["runLauncherAsNode"] = True
    (job,) = back(train_job_of(), runtime).objects
    assert (job["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"], job["spec"]["runLauncherAsWorker"]) == (3, True)
    read(job)


def test_each_trainjob_field_that_is_not_migrated_is_a_finding() -> None:
    job = train_job_of(initializer={"dataset": {}}, runtimePatches=[{"manager": "a"}], trainer={"somethingNew": 1})
    runtime = runtime_of({"torch": {"elasticPolicy": {}}}, "node", "dataset-initializer", failurePolicy={"maxRestarts": 1})
    runtime["spec"]["podGroupPolicy"] = {"volcano": {}}
    job_spec = runtime["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]
    job_spec["ttlSecondsAfterFinished"] = 1
    job_spec["template"]["spec"]["containers"][0]["env"] = [{"name": "PET_NNODES", "value": "7"}]
    assert {finding.path for finding in back(job, runtime).findings} == {
        "spec.initializer", "spec.runtimePatches", "spec.trainer.somethingNew", "runtime spec.podGroupPolicy",
        "runtime spec.mlPolicy.torch.elasticPolicy", "runtime spec.template.spec.failurePolicy",
        "runtime spec.template.spec.replicatedJobs[0].template.spec.ttlSecondsAfterFinished", "env PET_NNODES",
        "runtime spec.template.spec.replicatedJobs[1]",
    }  # fmt: skip


def test_an_address_of_the_trainjob_is_said() -> None:
    runtime = runtime_of({"torch": {}}, "node")
    container = runtime["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][
        0
    ]
    container["env"] = [{"name": "SERVER", "value": "one-node-0-0.one:80"}]
    (finding,) = back(train_job_of(), runtime).findings
    assert "one-node-0-0.one" in finding.message


def test_a_runtime_of_no_known_kind_is_refused() -> None:
    with pytest.raises(ConvertError, match="migrated-from"):
        back(train_job_of(), runtime_of({"flux": {}}, "node"))


def test_fields_without_a_place_in_a_trainjob_come_back_and_a_damaged_note_of_them_is_an_error() -> None:
    body = json.loads(json.dumps(CARRIED["multi-worker-mirrored.yaml:multi-worker-mirrored"]))
    body["spec"]["successPolicy"] = "AllWorkers"
    runtime, train_job = forward(body).objects
    assert back(train_job, runtime).objects[0]["spec"]["successPolicy"] == "AllWorkers"
    runtime["metadata"]["annotations"][OWN_FIELDS] = "["
    with pytest.raises(ConvertError, match="must be a JSON object"):
        back(train_job, runtime)


def test_the_command_there_and_back(tmp_path: Path) -> None:
    there = answered("migrate", "--to", "trainjob", "-f", "examples/pytorch/digits.yaml")
    assert (there.returncode, there.stderr) == (0, "")
    kinds = [document["kind"] for document in yaml.safe_load_all(there.stdout)]
    assert kinds == ["ConfigMap", "TrainingRuntime", "TrainJob"]
    path = tmp_path / "there.yaml"
    path.write_text(there.stdout)
    again = answered("migrate", "--to", "v1", "-f", str(path))
    assert (again.returncode, again.stderr) == (0, "")
    assert [document["kind"] for document in yaml.safe_load_all(again.stdout)] == ["ConfigMap", "PyTorchJob"]


BAD = {
    "target": (["--to", "v2"], pytorch(), "--to v2: use trainjob or v1"),
    "runtime": (["--to", "v1"], train_job_of(), "kubectl get clustertrainingruntime theirs -o yaml"),
    "nothing": (["--to", "v1"], pytorch(), "nothing in it to migrate to v1"),
    "unknown field": (["--to", "trainjob"], pytorch(somethingNew=1), "spec.somethingNew"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_named(name: str, tmp_path: Path) -> None:
    options, body, text = BAD[name]
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(body))
    done = answered("migrate", *options, "-f", str(path))
    assert done.returncode == 2
    assert text in done.stderr
