"""The lives of jobs, as those see them who read our objects: each state of a job and of its pods, in the order of the writes.

The jobs are every example manifest and one of each kind, version and form that some reader tells apart. Each is simulated
three times: run and done, failed, and queued as Kueue does it (created suspended, admitted, preempted, admitted again, done).
"""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import yaml

from jobcommon.api import labels
from jobcommon.framework import Framework
from jobcommon.operators.jax import JAX
from jobcommon.operators.mpi import MPI
from jobcommon.operators.paddle import PADDLE
from jobcommon.operators.xgboost import XGBOOST
from jobcommon.reconcile import read_job
from jobcommon.testutil.sim import user
from jobcommon.testutil.sim.framework_lifecycles import whole_job
from jobcommon.testutil.sim.job_templates import JOB_TEMPLATES, MPI_V1, MPI_V2, MX, TENSORFLOW, TORCH, JobTemplate
from jobcommon.testutil.sim.scenario import Exit, Scenario, UserStep
from jobcommon.testutil.sim.simulation import Simulation
from localcluster import ApiServer
from localcluster.model import Change
from tests.architecture.source import ROOT
from tests.kinds import KINDS

Obj = dict[str, Any]
FRAMEWORKS = {framework.kind: framework for framework in KINDS}
# The types whose end is the job's, the first that the job has.
LEADERS = {
    "TFJob": ("Chief", "Master", "Worker"),
    "PyTorchJob": ("Master", "Worker"),
    "MPIJob": ("Launcher",),
    "MXJob": ("TunerTracker", "Tuner", "Scheduler", "Worker"),
    "JAXJob": ("Worker",),
    "XGBoostJob": ("Master",),
    "PaddleJob": ("Master", "Worker"),
}
# What Kueue writes into each template when it admits a job.
WORKLOAD = "kueue.x-k8s.io/workload"
POD_SET = "kueue.x-k8s.io/podset"
INDEX_OFFSET = "kueue.x-k8s.io/pod-index-offset"
GATE = {"name": "kueue.x-k8s.io/topology"}
FLAVOR = {"flavor": "spot"}
TOLERATION = {"key": "spot", "operator": "Exists", "effect": "NoSchedule"}


@dataclass(frozen=True)
class Life:
    """One job from its creation to its end. `moments` are all states of the job ("job") and of its pods ("pod")."""

    framework: Framework
    name: str
    manifest: Obj
    moments: Sequence[tuple[str, Obj]]
    course: str

    @property
    def kind(self) -> str:
        """The column of the table: the kind, MPIJob by the transport that its version stands for."""
        version = self.manifest["apiVersion"].rpartition("/")[2]
        return f"MPIJob {'v2beta1' if version == 'v2beta1' else 'v1'}" if self.framework is MPI else self.framework.kind

    @property
    def jobs(self) -> list[Obj]:
        """The job, state by state."""
        return [obj for table, obj in self.moments if table == "job"]

    @property
    def pods(self) -> list[Obj]:
        """The pods as they were created, each once."""
        first: dict[str, Obj] = {}
        for table, obj in self.moments:
            if table == "pod":
                first.setdefault(obj["metadata"]["uid"], obj)
        return list(first.values())

    @property
    def specs(self) -> Mapping[str, Obj]:
        """The replica specs, as the API server has them after creation."""
        return dict(self.jobs[0]["spec"][self.framework.replica_specs])

    @property
    def leader(self) -> str:
        """The replica type whose end is the job's."""
        there = read_job(self.framework, self.jobs[0]).replica_specs
        return next(kind for kind in LEADERS[self.framework.kind] if kind in there)


def conditions(job: Obj) -> list[Obj]:
    """Its conditions."""
    return list((job.get("status") or {}).get("conditions") or ())


def holds(job: Obj, kind: str) -> bool:
    """Whether that condition is True."""
    return any(one["type"] == kind and one["status"] == "True" for one in conditions(job))


def active(job: Obj) -> int:
    """All pods that the status counts as active."""
    return sum(one.get("active") or 0 for one in ((job.get("status") or {}).get("replicaStatuses") or {}).values())


# -- the jobs ------------------------------------------------------------------------------------------------------------


def manifests() -> Iterator[tuple[str, Obj]]:
    """By name."""
    for path in sorted((ROOT / "examples").rglob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            if isinstance(document, dict) and document.get("kind") in FRAMEWORKS:
                yield path.relative_to(ROOT).as_posix(), document
    for template in JOB_TEMPLATES:
        yield f"{template.framework.kind} {template.version or template.framework.storage_version}", template.job()
    for framework in (JAX, XGBOOST, PADDLE):
        yield f"{framework.kind} v1", whole_job(framework)
    alone = whole_job(PADDLE)
    del alone["spec"]["paddleReplicaSpecs"]["Master"]
    yield "a PaddleJob without a Master", alone
    yield "a TFJob with a PS and without a Chief", _of(TENSORFLOW, {"PS": 1, "Worker": 2})
    yield "a TFJob with an Evaluator", _of(TENSORFLOW, {"Master": 1, "Worker": 1, "Evaluator": 1})
    yield "a TFJob v1beta1", _of(TENSORFLOW, {"Chief": 1, "Worker": 1}, version="v1beta1")
    yield "a PyTorchJob without a Master", _of(TORCH, {"Worker": 3})
    yield "an elastic PyTorchJob", _of(TORCH, {"Worker": 3}, elasticPolicy={"minReplicas": 2, "maxReplicas": 4})
    yield "an MPIJob whose launcher works", _of(MPI_V2, {"Launcher": 1, "Worker": 2}, runLauncherAsWorker=True)
    late = {"launcherCreationPolicy": "WaitForWorkersReady"}
    yield "an MPIJob whose launcher waits", _of(MPI_V2, {"Launcher": 1, "Worker": 2}, **late)
    yield "an MPIJob v1alpha2", _of(MPI_V1, {"Launcher": 1, "Worker": 2}, version="v1alpha2")
    yield "an MXJob with a Server", _of(MX, {"Scheduler": 1, "Server": 1, "Worker": 2})
    yield "an MXJob v1beta1", _of(MX, {"Scheduler": 1, "Server": 1, "Worker": 1}, version="v1beta1")


def _of(template: JobTemplate, replicas: Mapping[str, int], *, version: str = "", **spec: Any) -> Obj:
    manifest = template.manifest({kind: template.replicas(count) for kind, count in replicas.items()}, spec=spec)
    return {**manifest, "apiVersion": f"kubeflow.org/{version}"} if version else manifest


# -- their lives -----------------------------------------------------------------------------------------------------------


@dataclass
class _Witness(Simulation):
    """A simulation that keeps what happens to the job and its pods."""

    moments: list[tuple[str, Obj]] = field(default_factory=list)

    def __init__(self, scenario: Scenario) -> None:
        self.moments = []
        super().__init__(scenario, 0, ())

    def noticed(self, at: float, change: Change, writer: str) -> None:
        """See `Simulation.noticed`."""
        (framework,) = self.scenario.frameworks
        tables = {"pods": "pod", f"{framework.plural}.{framework.group}": "job"}
        if change.table in tables and change.type != "DELETED":
            self.moments.append((tables[change.table], deepcopy(change.item.obj)))


@cache
def lives() -> tuple[Life, ...]:
    """Every job three times."""
    return tuple(life for name, manifest in manifests() for life in _three(name, manifest))


def _three(name: str, manifest: Obj) -> Iterator[Life]:
    framework = FRAMEWORKS[manifest["kind"]]
    manifest = deepcopy(manifest)
    manifest["metadata"]["namespace"] = "default"
    policy = manifest["spec"].get("runPolicy") or {}
    # What would end or delete the job before the story does.
    kept = {
        key: value
        for key, value in policy.items()
        if key not in ("suspend", "activeDeadlineSeconds", "ttlSecondsAfterFinished")
    }
    manifest["spec"]["runPolicy"] = kept
    job = read_job(framework, manifest)
    pods = [job.pod_name(replica) for replica in job.replicas]
    leading = next(kind for kind in LEADERS[framework.kind] if kind in job.replica_specs)
    leaders = [job.pod_name(replica) for replica in job.replicas if replica.type == leading]
    together = user.peers(*pods)
    # When the job has succeeded, those with work of their own come to their end, too.
    succeeded = user.condition(framework, manifest["metadata"]["name"], "Succeeded")
    working = [job.pod_name(replica) for replica in job.replicas if not framework.serves(replica.type)]
    done = {pod: [Exit(5, cue=lambda server, _: succeeded(server))] for pod in working}
    done |= {leader: [Exit(10, cue=together)] for leader in leaders}
    failed = {leaders[0]: [Exit(10, 3, message="no such file", cue=together)]}
    yield _live(framework, name, manifest, "run", done)
    once = deepcopy(manifest)
    once["spec"]["runPolicy"] |= {"backoffLimit": 0}
    yield _live(framework, name, once, "failed", failed)
    queued = deepcopy(manifest)
    queued["spec"]["runPolicy"] |= {"suspend": True}
    _by_the_webhook(queued)
    key = manifest["metadata"]["name"]
    steps = (
        *(step for pod in pods for step in _ungate(pod)),
        UserStep("admit", _admit(framework, queued), when=user.condition(framework, key, "Suspended"), after=5),
        UserStep("preempt", _preempt(framework, queued), when=user.running(*pods), after=2),
        UserStep("admit-again", _admit(framework, queued), when=user.gone("pods", *pods), after=20),
    )
    preempted = {leader: [Exit(), Exit(10, cue=together)] for leader in leaders}
    yield _live(framework, name, queued, "queued", preempted, steps)


def _live(
    framework: Framework,
    name: str,
    manifest: Obj,
    course: str,
    behaviour: Mapping[str, Sequence[Exit]],
    steps: tuple[UserStep, ...] = (),
) -> Life:
    maps = {
        volume["configMap"]["name"]
        for spec in manifest["spec"][framework.replica_specs].values()
        for volume in spec["template"]["spec"].get("volumes") or ()
        if "configMap" in volume
    }
    objects = tuple(("/api/v1/namespaces/default/configmaps", {"metadata": {"name": name}}) for name in sorted(maps))
    scenario = Scenario(f"{course}/{name}", (framework,), (manifest,), behaviour, user=steps, objects=objects)
    witness = _Witness(scenario)
    run = witness.result()
    assert not run.errors, run.errors
    return Life(framework, name, manifest, tuple(witness.moments), course)


def _ungate(pod: str) -> Iterator[UserStep]:
    """Kueue takes its gate off each pod that it has found a place for: both times."""

    def gated(server: ApiServer) -> bool:
        item = server.storage.table("pods").get("default", pod)
        return item is not None and bool(item.obj["spec"].get("schedulingGates"))

    do = user.merge("pods", pod, {"spec": {"schedulingGates": None}})
    yield UserStep(f"ungate-{pod}", do, when=gated, chain=pod)
    yield UserStep(f"ungate-{pod}-again", do, when=gated, chain=pod)


def _by_the_webhook(manifest: Obj) -> None:
    """Kueue tells itself at which number the workers begin, where it knows that mpi-operator's begin at 1."""
    if manifest["spec"].get("runLauncherAsWorker"):
        template = manifest["spec"]["mpiReplicaSpecs"]["Worker"]["template"]
        template.setdefault("metadata", {}).setdefault("annotations", {})[INDEX_OFFSET] = "1"


def _admit(framework: Framework, manifest: Obj) -> Any:
    templates = {
        kind: {
            "template": {
                "metadata": {"labels": {POD_SET: kind.lower()}, "annotations": {WORKLOAD: "the-workload"}},
                "spec": {"nodeSelector": FLAVOR, "tolerations": [TOLERATION], "schedulingGates": [GATE]},
            }
        }
        for kind in manifest["spec"][framework.replica_specs]
    }
    return _patch(framework, manifest, False, templates)


def _preempt(framework: Framework, manifest: Obj) -> Any:
    templates = {}
    for kind, spec in manifest["spec"][framework.replica_specs].items():
        template = spec["template"]
        was = {key: template["spec"].get(key) for key in ("nodeSelector", "tolerations", "schedulingGates")}
        nothing = {"labels": {POD_SET: None}, "annotations": {WORKLOAD: None}}
        templates[kind] = {"template": {"metadata": nothing, "spec": {**was, "nodeSelector": {"flavor": None}}}}
    return _patch(framework, manifest, True, templates)


def _patch(framework: Framework, manifest: Obj, suspend: bool, templates: Obj) -> Any:
    spec = {"runPolicy": {"suspend": suspend}, framework.replica_specs: templates}
    return user.merge(framework, manifest["metadata"]["name"], {"spec": spec})


def label(pod: Obj, name: str) -> str:
    """One of our labels of a pod."""
    return str(pod["metadata"]["labels"].get(labels.PREFIX + name, ""))
