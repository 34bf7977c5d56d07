"""A TrainJob together with its runtime: what is to run, as the operator needs it. Data only; `resolve` makes it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from jobcommon import RestartPolicy

Json = Mapping[str, Any]


class Step(StrEnum):
    """What a replicated job does for the TrainJob: the value of its label trainer.kubeflow.org/trainjob-ancestor-step."""

    DATASET = "dataset-initializer"
    MODEL = "model-initializer"
    TRAINER = "trainer"


class Dependency(StrEnum):
    """What a role waits for: that all jobs of another one are ready, or have ended; or that all have succeeded."""

    READY = "Ready"
    COMPLETE = "Complete"


class MLFramework(StrEnum):
    """The member of the runtime's mlPolicy: which variables the pods of the trainer get."""

    PLAIN = "plain"
    TORCH = "torch"
    JAX = "jax"
    XGBOOST = "xgboost"
    MPI = "mpi"
    TENSORFLOW = "tensorflow"


@dataclass(frozen=True, slots=True)
class MLPolicy:
    """The runtime's mlPolicy with the job's numbers.

    `processes` are those on each node; None leaves their number to torchrun, which counts devices. `targets` are the further
    containers with the variables of torch, by role. `ssh_path` and `launcher_is_node` are for MPI.
    """

    framework: MLFramework = MLFramework.PLAIN
    processes: int | None = 1
    targets: Mapping[str, frozenset[str]] = field(default_factory=dict)
    ssh_path: str = ""
    launcher_is_node: bool = False


@dataclass(frozen=True, slots=True)
class Role:
    """One replicated job of the runtime: `jobs` times `pods` pods of `template`, in which the main container is the first.

    The template has everything that the job, its patches and its claims add to the runtime's, but for variables and mounts of
    the ML policy. A role waits for those it `depends_on`, all of them earlier ones. `backoff_limit` is that of each of its
    jobs. It `retries` if a pod with restartPolicy Never is replaced within that limit, as those of a batch Job are. `labels`
    and `annotations` are those of its jobs, which are no labels of pods.
    """

    name: str
    jobs: int
    pods: int
    template: Json
    step: Step | None = None
    depends_on: tuple[tuple[str, Dependency], ...] = ()
    restart_policy: RestartPolicy = RestartPolicy.ON_FAILURE
    retries: bool = False
    backoff_limit: int = 6
    group: str = "default"
    labels: Json = field(default_factory=dict)
    annotations: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Success:
    """When the job has succeeded: when all jobs of the named roles have, or with `any_of_them` one of these. `roles` are never
    empty.
    """

    roles: tuple[str, ...]
    any_of_them: bool = False


@dataclass(frozen=True, slots=True)
class Claim:
    """A PersistentVolumeClaim that the job's pods share: `manifest` is without owner. `retained`: it outlives the job."""

    name: str
    manifest: Json
    retained: bool


@dataclass(frozen=True, slots=True)
class Resolved:
    """What a TrainJob runs: the roles in the runtime's order.

    `run_policy` is a whole runPolicy of ours: the job's suspend, managedBy and deadline; what the runtime says of failures, the
    time to live and scheduling; over them the job's annotations, over these its `runPolicy`. `gang` is the scheduler in the
    runtime's podGroupPolicy. `labels` and `annotations` are those of its template, which are none of pods. `coordinator` is the
    address of a pod, "" for none. `ignored` are the paths of fields that mean something to JobSet and nothing here.
    """

    name: str
    roles: tuple[Role, ...]
    policy: MLPolicy
    success: Success
    run_policy: Json
    subdomain: str
    publish_not_ready: bool = True
    claims: tuple[Claim, ...] = ()
    gang: str = ""
    labels: Json = field(default_factory=dict)
    annotations: Json = field(default_factory=dict)
    coordinator: str = ""
    ignored: tuple[str, ...] = ()

    def role(self, name: str) -> Role | None:
        """The role of that name."""
        return next((role for role in self.roles if role.name == name), None)

    @property
    def trainer(self) -> Role | None:
        """The role that trains, which with MPI is the launcher of most runtimes."""
        return next((role for role in self.roles if role.step is Step.TRAINER), None)
