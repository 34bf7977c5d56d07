"""`jobcommon migrate`: the same pods there, and a word on every field that is not carried."""

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from jobcommon.api import labels
from jobcommon.api.replica import Replica
from jobcommon.cli.convert import ConvertError
from jobcommon.cli.frameworks import of_manifest
from jobcommon.cli.manifests import load
from jobcommon.cli.migrate import Migration, to_trainjob
from jobcommon.cli.migrate.trainjob import ANCESTOR, REPLICAS, planned_pods
from jobcommon.client.request import Request
from jobcommon.framework import Framework, Job
from jobcommon.spec import read_job
from localcluster.conformance import real
from tests.cli.commands import ROOT, answered

Json = dict[str, Any]


def _examples() -> Iterator[tuple[str, Json]]:
    for path in sorted((ROOT / "examples").rglob("*.yaml")):
        if "polyaxon" in path.parts:
            continue
        for manifest in load([str(path)]):
            if (found := of_manifest(manifest.body)) is not None and found.name != "trainjob":
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


def copied(body: Json) -> Json:
    """Without nodes that are one because of an anchor."""
    return dict(json.loads(json.dumps(body)))


def forward(body: Json) -> Migration:
    framework, job = read(body)
    return to_trainjob(framework, body, job)


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
        own = {job.pod_name(replica): str(replica)}
        assert comparable(made[replica][1], theirs) == comparable(pod, ours | own)


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


LONGEST = "x" * (63 - len("-worker-0-9-abcde"))
CONTAINERS = "spec.pytorchReplicaSpecs.Worker.template.spec.containers"


@pytest.mark.parametrize(
    ("of", "path", "value", "refused"),
    [
        ("", "metadata.name", f"{LONGEST}x", "metadata.name"),
        ("", CONTAINERS, [{"name": "pytorch", "image": "a"}, {"name": "node", "image": "a"}], CONTAINERS),
        ("", CONTAINERS.replace("containers", "initContainers"), [{"name": "node"}], CONTAINERS),
        ("allreduce-ssh.yaml:allreduce-ssh", "spec.transport", "Exec", "spec.transport"),
        ("allreduce-ssh.yaml:allreduce-ssh", "spec.mpiImplementation", "Intel", "spec.mpiImplementation"),
    ],
)
def test_jobs_that_trainer_cannot_run_are_refused(of: str, path: str, value: Any, refused: str) -> None:
    body = copied(CARRIED[of]) if of else pytorch()
    if not of:
        body["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] = 10
    *parents, last = path.split(".")
    reduce(getitem, parents, body)[last] = value
    with pytest.raises(ConvertError) as error:
        forward(body)
    assert [finding.path for finding in error.value.findings] == [refused]
    forward(pytorch(metadata={"name": LONGEST}))


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
    "status": ({**pytorch(), "status": {"startTime": "2026-01-01T00:00:00Z"}}, "status", "from the beginning"),
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


def test_ten_workers_are_told_apart_by_their_index_and_different_ones_by_their_jobs() -> None:
    body = copied(CARRIED["digits.yaml:digits"])
    body["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] = 11
    (group,) = forward(body).objects[0]["spec"]["template"]["spec"]["replicatedJobs"]
    variables = {one["name"]: one.get("value") for one in group["template"]["spec"]["template"]["spec"]["containers"][0]["env"]}
    assert (group["template"]["spec"]["parallelism"], variables["RANK"]) == (12, "$(JOB_COMPLETION_INDEX)")
    never = copied(body)
    for kind, policy in (("Master", "Never"), ("Worker", "ExitCode")):
        never["spec"]["pytorchReplicaSpecs"][kind]["restartPolicy"] = policy
    assert len(forward(never).objects[0]["spec"]["template"]["spec"]["replicatedJobs"]) == 12, "pods alike, Jobs not"
    body["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["nodeSelector"] = {"a": "b"}
    done = forward(body)
    assert len(done.objects[0]["spec"]["template"]["spec"]["replicatedJobs"]) == 12
    assert [finding.path for finding in done.findings] == ["spec.pytorchReplicaSpecs"]


def test_the_command(tmp_path: Path) -> None:
    done = answered("migrate", "-f", "examples/pytorch/digits.yaml")
    assert (done.returncode, done.stderr) == (0, "")
    assert [document["kind"] for document in yaml.safe_load_all(done.stdout)] == ["ConfigMap", "TrainingRuntime", "TrainJob"]
    (file := tmp_path / "job.yaml").write_text(yaml.safe_dump({**pytorch(), "metadata": {"generateName": "run-"}}))
    done = answered("migrate", "-f", str(file))
    assert {document["metadata"]["name"] for document in yaml.safe_load_all(done.stdout)} == {"run-xxxxx"}
    assert "metadata.generateName: the pods' addresses contain the name" in done.stderr
    assert len({load([str(file)], fresh=True)[0].name for _ in range(2)} - {"run-xxxxx"}) == 2
    file.write_text(yaml.safe_dump(pytorch(somethingNew=1)))
    for options, text in ((["--to", "v2"], "--to v2: use trainjob"), ([], "spec.somethingNew")):
        done = answered("migrate", *options, "-f", str(file))
        assert (done.returncode, text in done.stderr) == (2, True)


# -- A real API server takes the batch Jobs that a JobSet makes of the runtimes of `jobcommon migrate`

JOBS = "/apis/batch/v1/namespaces/default/jobs"
DRY = (("dryRun", "All"), ("fieldValidation", "Strict"))


@pytest.mark.skipif(not real.available(), reason=real.WHY_NOT)
async def test_the_jobs_are_valid() -> None:
    async with real.real() as target:
        assert target is not None
        for name, body in CARRIED.items():
            runtime, _ = forward(body).objects
            for group in runtime["spec"]["template"]["spec"]["replicatedJobs"]:
                job = {"metadata": {"name": "one"}, "spec": group["template"]["spec"]}
                answer = await target.transport.send(Request("POST", JOBS, DRY, msgspec.json.encode(job)))
                assert answer.status == 201, (name, group["name"], answer.body)
