"""Each check of valid jobs, where it applies and where it must not, and the page that lists them."""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jobcommon.api.observed import Observed
from jobcommon.api.status import JobStatus
from jobcommon.api.timestamp import format_time
from jobcommon.cli.frameworks import of_manifest
from jobcommon.cli.manifests import load
from jobcommon.cli.plan import checked, describe
from jobcommon.framework import Check, Framework, Job, ObjectKey
from jobcommon.operators.mpi import MPI
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.operators.tf import TF
from jobcommon.operators.trainjob.framework import TRAINJOB
from jobcommon.operators.trainjob.snapshot import snapshot_key
from jobcommon.reconcile import plan
from jobcommon.spec import read_job
from jobcommon.spec.checks import CHECKS
from jobcommon.testutil.builders import START, job_manifest, replica_spec, template
from jobcommon.testutil.cluster_model import ClusterModel
from tests.architecture.source import ROOT
from tests.kinds import KINDS
from tests.operators.test_trainjob_spec import base, train_job

DOCUMENT = ROOT / "docs/checks.md"
PLACE = re.compile(r"(<!-- checks -->\n).*(<!-- /checks -->)", re.DOTALL)
OF_KIND: Mapping[Check, str] = {check: kind.kind for kind in (*KINDS, TRAINJOB) for check in kind.checks}
ALL = {check.name: check for check in (*CHECKS, *OF_KIND)}
JOB, IN_PLACE = {"restartScope": "Job"}, {"restartScope": "Job", "restartMethod": "Auto"}
TORCHRUN, ELASTIC = ["torchrun", "train.py"], {"elasticPolicy": {"minReplicas": 1, "maxReplicas": 2}}
EXPORTED = [{"name": "PET_MASTER_ADDR", "value": "10.0.0.1"}]
Parts = dict[str, Any]
PROBE: Parts = {"livenessProbe": {"tcpSocket": {"port": 1}}}


def job(framework: Framework, replicas: Mapping[str, int], policy: str | None = None, /, **parts: Any) -> Job:
    """A job whose containers have those `parts`; `run`, `spec`, `pod` and `annotations` are of the job and of its pods."""
    run, spec, pod, annotations = (parts.pop(name, {}) for name in ("run", "spec", "pod", "annotations"))
    made = template(framework, **{"image": "image:1", **parts})
    made["spec"] |= pod
    specs = {kind: {**replica_spec(framework, count, policy), "template": made} for kind, count in replicas.items()}
    found = read_job(framework, job_manifest(framework, specs, run_policy=run, annotations=annotations, **spec))
    assert not found.errors
    return found


def pytorch(master: int, workers: int, policy: str | None = None, /, **parts: Any) -> Job:
    return job(PYTORCH, {**({"Master": 1} if master else {}), **({"Worker": workers} if workers else {})}, policy, **parts)


def mpi(workers: int, *command: str, **parts: Any) -> Job:
    return job(MPI, {"Launcher": 1, "Worker": workers}, command=list(command), **parts)


def env(**values: str) -> Parts:
    return {"env": [{"name": name, "value": value} for name, value in values.items()]}


def limits(**amounts: int) -> Parts:
    return {"resources": {"limits": {f"nvidia.com/{name}": str(amount) for name, amount in amounts.items()}}}


def as_user(user: object, **more: Any) -> Parts:
    return {"pod": {"securityContext": {"runAsUser": user, **more}}}


AT_HOME = {"sshAuthMountPath": "/home/mpiuser/.ssh"}
# The first row of a check is the example of the page.
# By job, the framework that it has alone.
OWN: dict[str, Framework] = {}


def trainjob(**row: Any) -> Job:
    """A TrainJob, as a row of tests/operators/trainjob.yaml has it."""
    runtime = base(row)
    runtime["metadata"]["labels"] |= row.get("labels", {})
    related: dict[ObjectKey, Any] = {ObjectKey("clustertrainingruntimes", "", "r"): runtime}
    body = train_job(row)
    if row.get("gone"):
        own = {"ownerReferences": [{"uid": body["metadata"].setdefault("uid", "u")}]}
        related = {snapshot_key(body): {"metadata": own, "data": {"runtime": json.dumps(runtime)}}}
    framework, manifest = TRAINJOB.specialized(body, related)
    manifest = {**manifest, "metadata": {**manifest["metadata"], "uid": str(len(OWN))}}
    OWN[str(len(OWN))] = framework
    return read_job(framework, manifest)


def trainer_with(**amounts: str) -> Parts:
    return {"job": {"trainer": {"resourcesPerNode": {"limits": amounts}}}}


CASES: list[tuple[str, Job, str | None]] = [
    ("an address", pytorch(1, 2, **env(MASTER_ADDR="10.0.0.1", WORLD_SIZE="8")), "VariablesReplaced"),
    ("for itself alone", job(TF, {"Worker": 1}, **env(TF_CONFIG="{}")), None),
    ("among several", job(TF, {"Worker": 2}, **env(TF_CONFIG="{}")), "VariablesReplaced"),
    ("a default", pytorch(1, 2, **env(PYTHONUNBUFFERED="0")), None),
    ("no devices", mpi(2, "mpirun", "x", **env(NVIDIA_VISIBLE_DEVICES="none")), None),
    ("the attempt", pytorch(1, 0, run=JOB, **env(JOBCOMMON_RESTART_ATTEMPT="1")), "VariablesReplaced"),
    ("too high a number", pytorch(1, 2, args=["--peer", "demo-worker-2"]), "NamesUnknown"),
    ("workers to come", pytorch(0, 2, args=["--peer", "demo-worker-2"], spec={"elasticPolicy": {"maxReplicas": 3}}), None),
    ("no such type", pytorch(0, 2, **env(ADDR="demo-master-0:23456")), "NamesUnknown"),
    ("a launcher has no number", mpi(2, "ping", "demo-launcher-0"), "NamesUnknown"),
    ("a Service for all workers", mpi(2, "ping", "demo-worker-0.demo-worker"), "NamesUnknown"),
    ("a Service for each", pytorch(1, 1, args=["--host=demo-master-0.default.svc"]), "NamesUnknown"),
    ("which there is", pytorch(1, 1, args=["demo-master-0.default.svc"],
                               annotations={"training.kubeflow.org/service-per-replica": "true"}), None),
    ("files", pytorch(1, 1, args=["/logs/demo-worker-9", "demo-worker-9.log", "my-demo-worker-9"]), None),
    ("a subdomain", pytorch(0, 1, pod={"hostname": "demo-worker-0", "subdomain": "training"}), "VariablesReplaced"),
    ("our names", pytorch(1, 0, pod={"hostname": "demo-master-0", "subdomain": "demo"}), None),
    ("lower case", job(PYTORCH, {"Master": 1, "worker": 1}), "NotScalable"),
    ("a type that is not scaled", job(PYTORCH, {"master": 1, "Worker": 1}), None),
    ("a master", pytorch(1, 2, "Always"), "NeverSucceeds"),
    ("workers", job(TF, {"Worker": 2}, "Always"), "NeverSucceeds"),
    ("all together", pytorch(1, 2, "Always", run=JOB), None),
    ("others", job(TF, {"PS": 1, "Worker": 2}, "OnFailure"), None),
    ("no tag", pytorch(1, 0, image="registry:5000/me/torch", run=IN_PLACE), "ImagesMove"),
    ("latest", pytorch(1, 0, image="torch:latest", run=IN_PLACE), "ImagesMove"),
    ("pulled always", pytorch(1, 0, image="torch:2", imagePullPolicy="Always", run=IN_PLACE), "ImagesMove"),
    ("a tag", pytorch(1, 0, image="registry:5000/me/torch:2", run=IN_PLACE), None),
    ("new pods", pytorch(1, 0, image="torch", run=JOB), None),
    ("a probe", pytorch(1, 2, "ExitCode", **PROBE), "ProbeMaySucceed"),
    ("a probe, all together", pytorch(1, 2, run=JOB, **PROBE), "ProbeMaySucceed"),
    ("a probe, in place", pytorch(1, 2, run=IN_PLACE, **PROBE), None),
    ("a probe, restarted by the kubelet", pytorch(1, 2, "OnFailure", **PROBE), None),
    ("torchrun", pytorch(1, 1, command=TORCHRUN), "TorchrunRestartedAlone"),
    ("in a shell", pytorch(1, 1, command=["sh", "-c", "exec /opt/bin/torchrun x.py"]), "TorchrunRestartedAlone"),
    ("in a single pod", pytorch(1, 0, command=TORCHRUN), None),
    ("torchrun, all together", pytorch(1, 1, command=TORCHRUN, run=JOB), None),
    ("elastic", pytorch(0, 2, command=TORCHRUN, spec=ELASTIC), None),
    ("each for itself", pytorch(0, 2, command=["torchrun", "--standalone", "x.py"]), None),
    ("a name like it", pytorch(1, 1, command=["python", "torchrun_me.py", "/logs/torchrun/1"]), None),
    ("workers alone", pytorch(0, 2, run=JOB, command=["torchrun", "--nnodes=2", "x.py"]), "TorchrunWithoutRendezvous"),
    ("an endpoint", pytorch(0, 2, run=JOB, command=["torchrun", "--rdzv-endpoint=demo-worker-0:1", "x.py"]), None),
    ("exported", pytorch(0, 2, run=JOB, command=TORCHRUN, env=EXPORTED), None),
    ("with a master", pytorch(1, 1, run=JOB, command=TORCHRUN), None),
    ("exit codes", pytorch(1, 1, "ExitCode", run=JOB, command=TORCHRUN), "TorchrunExitCode"),
    ("exit codes of a script", pytorch(1, 1, "ExitCode", command=["python", "x.py"]), None),
    ("a user", mpi(2, "mpirun", "x", **as_user(1000)), "KeysOutOfReach"),
    ("root", mpi(2, "mpirun", "x", **as_user(0)), None),
    ("the container's", mpi(2, "mpirun", "x", securityContext={"runAsUser": 0}, **as_user(1000)), None),
    ("at home", mpi(2, "mpirun", "x", spec=AT_HOME, **as_user(1000)), None),
    ("by kubectl exec", mpi(2, "mpirun", "x", spec={"transport": "Exec"}, **as_user(1000)), None),
    ("a Job's own policy", trainjob(change={"JOBS.0.template.spec.podFailurePolicy": {}}), "WithoutEffect"),
    ("an old runtime", trainjob(labels={"trainer.kubeflow.org/support": "deprecated"}), "DeprecatedRuntime"),
    ("no runtime any more", trainjob(gone=True), "RuntimeGone"),
    ("a gang", trainjob(change={"podGroupPolicy": {"coscheduling": {}}}), "NoGangScheduler"),
    ("memory alone", trainjob(**trainer_with(memory="1Gi")), "DeviceUnknown"),
    ("and a CPU", trainjob(**trainer_with(memory="1Gi", cpu="1")), None),
]  # fmt: skip


@pytest.mark.parametrize(("of", "wanted"), [row[1:] for row in CASES], ids=[row[0] for row in CASES])
def test_a_check_applies_where_it_should_and_nowhere_else(of: Job, wanted: str | None) -> None:
    framework = OWN.get(of.uid) or next(kind for kind in KINDS if kind.kind == of.kind)
    found = {check.name: text for check in (*CHECKS, *framework.checks) if (text := check.warning(framework, of))}
    assert list(found) == ([wanted] if wanted else [])
    assert of.warnings == tuple(found.values())
    events = [event.message for event in plan(framework, of, Observed(), START).events if event.reason == "SpecWarning"]
    assert events == list(found.values())


def test_no_example_is_warned() -> None:
    manifests = load(sorted(str(path) for path in ROOT.glob("examples/**/*.y*ml")))
    kinds = [(manifest, kind) for manifest in manifests if (kind := of_manifest(manifest.body)) is not None]
    jobs = [checked(manifest, kind, others=manifests) for manifest, kind in kinds]
    assert len(jobs) > 15
    assert [warning for found in jobs for warning in found.warnings] == []


def test_the_page_has_every_check_with_an_example() -> None:
    examples: dict[str, str] = {}
    for _, of, wanted in CASES:
        if wanted is not None:
            examples.setdefault(wanted, of.warnings[0])
    rows = ["| check | of | applies where | says, for example |", "|---|---|---|---|"]
    rows += [f"| {name} | {OF_KIND.get(check, 'any kind')} | {check.about} | {examples[name]} |" for name, check in ALL.items()]
    text = DOCUMENT.read_text(encoding="utf-8")
    wanted = PLACE.sub(lambda place: "\n".join([place[1][:-1], *rows, place[2]]), text)
    if os.environ.get("GOLDEN") == "write":
        DOCUMENT.write_text(wanted, encoding="utf-8")
    assert text == wanted, "see `make golden`"


def test_plan_prints_what_a_suspended_job_is_warned_of(tmp_path: Path) -> None:
    """Its operator writes no event before the job is resumed."""
    manifest = job_manifest(PYTORCH, {"Master": 1}, policy="Always", run_policy={"suspend": True})
    (file := tmp_path / "job.json").write_text(json.dumps(manifest))
    printed = describe(load([str(file)]), with_manifests=False)
    assert printed.endswith(
        "\nwarning: restartPolicy Always restarts Master after exit 0, so the job never succeeds: set OnFailure\n"
    )


def test_one_event_has_all_that_the_checks_find() -> None:
    of = pytorch(1, 1, "ExitCode", command=TORCHRUN)
    events = [event for event in plan(PYTORCH, of, Observed(), START).events if event.reason == "SpecWarning"]
    assert [event.message for event in events] == ["; ".join(of.warnings)]
    assert len(of.warnings) == 2
    started = replace(of, status=JobStatus(start_time=format_time(START)))
    assert "SpecWarning" not in [event.reason for event in plan(PYTORCH, started, Observed(), START).events]


DISCOVERS = {"command": ["horovodrun", "--host-discovery-script", "/etc/mpi/discover_hosts.sh", "python", "x.py"]}


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize(
    ("framework", "leader", "container", "run", "spec", "warned"),
    [
        (PYTORCH, "Master", {}, {}, {}, True),
        (PYTORCH, "Master", {}, JOB, {}, False),
        (PYTORCH, "", {}, {}, {"elasticPolicy": {"minReplicas": 1, "maxReplicas": 3}}, False),
        (TF, "PS", {}, {}, {}, True),
        (TF, "PS", {}, {}, {"enableDynamicWorker": True}, False),
        (MPI, "Launcher", {}, {}, {}, True),
        (MPI, "Launcher", DISCOVERS, {}, {}, False),
    ],
)
def test_a_job_is_warned_when_it_is_scaled_and_its_replicas_do_not_learn_of_it(
    framework: Framework, leader: str, container: Parts, run: Parts, spec: Parts, warned: bool, count: int
) -> None:
    made = {"template": template(framework, image="image:1", **container)}
    counts = {**({leader: 1} if leader else {}), "Worker": 2}
    replicas = {kind: {**replica_spec(framework, n, "OnFailure"), **made} for kind, n in counts.items()}
    world = ClusterModel.of(framework, replicas, run_policy=run, **spec).start().edit(backoffLimit=9)
    # A pod that is lost is missing as well.
    world.delete_pod("demo-worker-1").stop_terminating().start()
    assert scaled(world) == set()
    world = ClusterModel.of(framework, replicas, run_policy=run, **spec).start().scale("Worker", count)
    world.settle()
    text = "Scaling Worker does not affect running replicas"
    assert scaled(world) == ({text} if warned else set())


def scaled(world: ClusterModel) -> set[str]:
    events = (event for decided in world.plans for event in decided.events)
    return {event.message.partition(";")[0] for event in events if event.reason == "SpecWarning"}


@pytest.mark.parametrize("broken", [True, {"spec": True}, {"spec": {"containers": True}}])
def test_a_spec_with_errors_is_not_checked(broken: object) -> None:
    """A job that has begun is planned in spite of them, and its templates may be of any shape."""
    manifest = job_manifest(PYTORCH, {"Master": 1, "Worker": 2}, policy="Always")
    manifest["spec"]["pytorchReplicaSpecs"]["Worker"]["template"] = broken
    assert read_job(PYTORCH, manifest).warnings == ()
