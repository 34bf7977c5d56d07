"""TrainingRuntime and ClusterTrainingRuntime of Kubeflow Trainer 2.3, with a field of our own, `mlPolicy.tensorflow`."""

from typing import Annotated, Literal

from pydantic import Field

from jobcommon import ApiModel, CelRule, Definition, Int32, RelatedKind
from jobcommon.operators.trainjob.models import (
    API_VERSION,
    CLUSTER_RUNTIME,
    DEFAULT_SSH_PATH,
    RUNTIME,
    STEP_LABEL,
    Json,
    Name,
    Texts,
    field,
)
from jobcommon.operators.trainjob.resolved import Step

_NOT_NODE = {"!self.exists(c, c == 'node')": "node has these variables in any case; remove it"}


class Target(ApiModel):
    """Containers of one replicated job."""

    job_name: Name = field("The name of the replicated job.", needed=True)
    container_names: list[Annotated[str, Field(max_length=63)]] = field(
        "The names of containers or init containers, other than node.",
        needed=True, min_length=1, max_length=8, rules=_NOT_NODE,
    )  # fmt: skip


class EnvInjection(ApiModel):
    """Which further containers have the variables."""

    targets: list[Target] = field("By replicated job.", many=True, max_length=16, key="jobName")


class Torch(ApiModel):
    """PyTorch, by torchrun."""

    env_injection: EnvInjection | None = field("Further containers that have torchrun's variables.")


class Mpi(ApiModel):
    """MPI over ssh."""

    num_proc_per_node: Int32 | None = field("Slots of each node. 1, the default, means as many as GPUs.", ge=1, default=1)
    mpi_implementation: str | None = field("OpenMPI.", default="OpenMPI", enum=["OpenMPI", ""])
    ssh_auth_mount_path: str | None = field(
        "Where the keys are mounted: the .ssh directory of the user.", max_length=4096, default=DEFAULT_SSH_PATH
    )
    run_launcher_as_node: bool | None = field("The launcher is one of the nodes.", default=False)


class Flux(ApiModel):
    """Flux, which this operator does not run."""

    num_proc_per_node: Int32 | None = field("Processes of each node.", ge=1, default=1)


class Nothing(ApiModel):
    """Without settings."""


_POLICIES = ("torch", "mpi", "flux", "jax", "xgboost", "tensorflow")


class MLPolicySpec(ApiModel):
    """The ML framework; none of them is a plain runtime."""

    num_nodes: Int32 | None = field("The number of nodes of a job that does not say it. Defaults to 1.")
    torch: Torch | None = field("PyTorch.")
    mpi: Mpi | None = field("MPI over ssh.")
    flux: Flux | None = field("Flux: its jobs are refused by this operator.")
    jax: Nothing | None = field("JAX.")
    xgboost: Nothing | None = field("XGBoost.")
    tensorflow: Nothing | None = field(
        "TensorFlow: pods have TF_CONFIG. Replicated jobs named chief, ps, worker or evaluator are what their names say; a "
        "trainer of another name has workers. A field of this operator."
    )


class Coscheduling(ApiModel):
    """The coscheduling plugin."""

    schedule_timeout_seconds: Int32 | None = field("How long the whole group may wait.", default=60)


class Volcano(ApiModel):
    """Volcano."""

    network_topology: Json | None = field("Where the nodes may be, as in Volcano's PodGroup.")


class PodGroupPolicy(ApiModel):
    """By which scheduler the pods are placed all at once."""

    coscheduling: Coscheduling | None = field("The coscheduling plugin.")
    volcano: Volcano | None = field("Volcano.")


class Metadata(ApiModel):
    """Labels and annotations."""

    name: str | None = field("A name, where one is needed.")
    namespace: str | None = field("Not used.")
    labels: Texts | None = field("Labels.")
    annotations: Texts | None = field("Annotations.")
    finalizers: list[str] | None = field("Not used.")


class BatchJobSpec(ApiModel):
    """The spec of a batch Job, as far as it is used; the numbers of pods are parallelism alone."""

    parallelism: Int32 | None = field("The number of pods, but for the trainer's.", ge=0)
    completions: Int32 | None = field("Not used: as many as parallelism.", ge=0)
    completion_mode: str | None = field("Not used: Indexed.")
    backoff_limit: Int32 | None = field("Failures of its pods before the job fails. Defaults to 6.", ge=0)
    active_deadline_seconds: int | None = field("Not used.")
    ttl_seconds_after_finished: Int32 | None = field("Not used.")
    backoff_limit_per_index: Int32 | None = field("Not used.")
    max_failed_indexes: Int32 | None = field("Not used.")
    pod_failure_policy: Json | None = field("Not used.")
    pod_replacement_policy: str | None = field("Not used.")
    success_policy: Json | None = field("Not used.")
    selector: Json | None = field("Not used.")
    manual_selector: bool | None = field("Not used.")
    suspend: bool | None = field("Not used.")
    managed_by: str | None = field("Not used.")
    template: Json = field("The pods.", "", needed=True)


class BatchJobTemplate(ApiModel):
    """The template of a batch Job."""

    metadata: Metadata | None = field(f"Labels of the jobs, such as {STEP_LABEL}; they are none of pods.")
    spec: BatchJobSpec | None = field("The job.")


class DependsOn(ApiModel):
    """What a replicated job waits for."""

    name: str = field("The name of an earlier replicated job.", needed=True)
    status: Literal["Ready", "Complete"] = field(
        "Ready: its jobs are ready or have ended; Complete: they have succeeded.", needed=True
    )


class ReplicatedJob(ApiModel):
    """Jobs of one template."""

    name: str = field("Its name, which its pods and jobs have after that of the TrainJob.", needed=True)
    group_name: str | None = field("The group.", default="default")
    replicas: Int32 | None = field("The number of jobs: 1 for the trainer and the initializers.", ge=0, default=1)
    template: BatchJobTemplate = field("The template of its jobs.", needed=True)
    depends_on: list[DependsOn] = field("Its pods are created when all of these hold.", many=True, max_length=5, key="name")


class Network(ApiModel):
    """How pods find each other."""

    enable_dns_hostnames: bool | None = field("Not used: they have names.", alias="enableDNSHostnames")
    subdomain: str | None = field("The name of the headless Service. Defaults to the name of the TrainJob.")
    publish_not_ready_addresses: bool | None = field("Whether pods have addresses before they are ready.")


class SuccessPolicy(ApiModel):
    """When the job has succeeded."""

    operator: Literal["All", "Any"] = field("Of how many jobs.", needed=True)
    target_replicated_jobs: list[str] = field("Of these replicated jobs; empty for all.", many=True)


Action = Literal[
    "FailJobSet", "RestartJobSet", "RestartJobSetAndIgnoreMaxRestarts", "RestartJob", "RestartJobAndIgnoreMaxRestarts"
]


class FailureRule(ApiModel):
    """What follows some failures."""

    name: str | None = field("Its name.")
    action: Action = field("What follows.", needed=True)
    on_job_failure_reasons: list[str] = field("For these reasons; empty for all.", many=True)
    on_job_failure_message_patterns: list[str] = field("Not used: the rule applies to none.", many=True)
    target_replicated_jobs: list[str] = field("Of these replicated jobs; empty for all.", many=True)


class FailurePolicy(ApiModel):
    """What follows when a job fails; without one the TrainJob fails."""

    max_restarts: Int32 | None = field("How often all jobs are restarted.")
    restart_strategy: Literal["Recreate", "BlockingRecreate", "InPlaceRestart"] | None = field(
        "InPlaceRestart keeps the pods that can be kept; the others make new ones.", default="Recreate"
    )
    rules: list[FailureRule] = field("The first that applies counts.", many=True, max_length=20)


class StartupPolicy(ApiModel):
    """In what order replicated jobs start."""

    startup_policy_order: Literal["AnyOrder", "InOrder"] = field("InOrder: each when the one before is ready.", needed=True)


class Coordinator(ApiModel):
    """The pod whose address all pods have as a label."""

    replicated_job: str = field("Its replicated job.", needed=True)
    job_index: int | None = field("The index of its job.")
    pod_index: int | None = field("Its index in the job.")


class RetentionPolicy(ApiModel):
    """What becomes of claims when the job is deleted."""

    when_deleted: Literal["Delete", "Retain"] | None = field("Delete (the default) or Retain.", default="Delete")


class ClaimTemplate(ApiModel):
    """A PersistentVolumeClaim."""

    metadata: Metadata | None = field("Its name, which is that of the volume, labels and annotations.")
    spec: Json | None = field("What is claimed.", "spec.volumes.ephemeral.volumeClaimTemplate.spec")


class ClaimPolicy(ApiModel):
    """Volumes that the pods share: each is mounted where a container has a mount of its name."""

    templates: list[ClaimTemplate] = field("The claims.", many=True, max_length=50)
    retention_policy: RetentionPolicy | None = field("What becomes of them with the job.")


class JobSetSpec(ApiModel):
    """A JobSet, which is not created: its replicated jobs are the roles of the TrainJob."""

    replicated_jobs: list[ReplicatedJob] = field("The roles.", many=True, max_length=100, key="name")
    network: Network | None = field("How pods find each other.")
    success_policy: SuccessPolicy | None = field("When the job has succeeded. Unset: with all of its jobs.")
    failure_policy: FailurePolicy | None = field("What follows when a job fails.")
    startup_policy: StartupPolicy | None = field("The order of the start; excludes dependsOn.")
    suspend: bool | None = field("Not used: that of the TrainJob counts.")
    coordinator: Coordinator | None = field("The pod whose address all pods have as a label.")
    managed_by: str | None = field("Not used.")
    ttl_seconds_after_finished: Int32 | None = field("Delete the TrainJob this many seconds after it finished.", ge=0)
    volume_claim_policies: list[ClaimPolicy] = field("Shared volumes.", many=True, max_length=50)


class JobSetTemplate(ApiModel):
    """The template of a JobSet."""

    metadata: Metadata | None = field("Labels and annotations.")
    spec: JobSetSpec | None = field("The replicated jobs.")


class TrainingRuntimeSpec(ApiModel):
    """A runtime."""

    ml_policy: MLPolicySpec | None = field("The ML framework.")
    pod_group_policy: PodGroupPolicy | None = field("By which scheduler the pods are placed all at once.")
    template: JobSetTemplate | None = field("The jobs of a TrainJob.")


_JOBS = ("spec", "template", "spec", "replicatedJobs", "*")
_STEP = f"'{STEP_LABEL}'"
_LABELLED = "has({0}.template.metadata) && has({0}.template.metadata.labels) && " + f"{_STEP} in {{0}}.template.metadata.labels"
_OF_STEP = f"self.template.metadata.labels[{_STEP}]"


def _rule(rule: str, message: str) -> CelRule:
    """A rule for each replicated job that is a step."""
    return CelRule(f"!({_LABELLED.format('self')}) || {rule}", message, _JOBS)


def _container_rule(step: Step, container: str, more: str = "") -> CelRule:
    """The literal names are cheap: a server refuses a rule that may compare two long strings for each container."""
    pod = "self.template.spec.template.spec"
    exists = f"has(self.template.spec) && has({pod}) && {pod}.containers.exists(c, c.name == '{container}'{more})"
    needs = f"the job of the {step} needs a container named {container}{' with an image' if more else ''}"
    return _rule(f"{_OF_STEP} != '{step}' || {exists}", needs)


_DEFINITION = Definition(
    TrainingRuntimeSpec,
    "A training runtime: what a TrainJob runs, but for what the job says itself.",
    rules=(
        CelRule(
            f"[{', '.join(f'has(self.{name})' for name in _POLICIES)}].filter(x, x).size() <= 1",
            "Only one of the policy can be configured",
            ("spec", "mlPolicy"),
        ),
        CelRule(
            "!(has(self.startupPolicy) && self.startupPolicy.startupPolicyOrder == 'InOrder'"
            " && has(self.replicatedJobs) && self.replicatedJobs.exists(x, has(x.dependsOn)))",
            "StartupPolicy and DependsOn APIs are mutually exclusive",
            ("spec", "template", "spec"),
        ),
        _rule(
            f"!({_OF_STEP} in {[step.value for step in Step]}) || self.replicas == 1",
            "replicas of the trainer and of initializers must be 1; set parallelism or numNodes instead",
        ),
        _container_rule(Step.TRAINER, "node", " && has(c.image)"),
        _container_rule(Step.DATASET, Step.DATASET),
        _container_rule(Step.MODEL, Step.MODEL),
        # The SDK reads all runtimes, and fails with the first that lacks these.
        CelRule("has(self.mlPolicy)", "mlPolicy is required: for a plain runtime, mlPolicy: {numNodes: 1}", ("spec",)),
        CelRule(
            "has(self.template) && has(self.template.spec) && has(self.template.spec.replicatedJobs) && "
            f"self.template.spec.replicatedJobs.exists(j, {_LABELLED.format('j')}"
            f" && j.template.metadata.labels[{_STEP}] == 'trainer')",
            f"one replicated job needs the label {STEP_LABEL}: trainer in its template",
            ("spec",),
        ),
    ),
)

RUNTIMES = (
    RelatedKind(API_VERSION, CLUSTER_RUNTIME, "clustertrainingruntimes", namespaced=False, definition=_DEFINITION),
    RelatedKind(API_VERSION, RUNTIME, "trainingruntimes", definition=_DEFINITION),
)
