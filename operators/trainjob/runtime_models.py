"""TrainingRuntime and ClusterTrainingRuntime: a template of jobs, and what is special about its ML framework."""

from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field

from jobcommon import ApiModel, CelRule, Definition, Int32, RelatedKind, crd_schema, enum_field
from jobcommon.operators.trainjob.models import API_VERSION, CLUSTER_RUNTIME, DEFAULT_SSH_PATH, RUNTIME, STEP_LABEL
from jobcommon.operators.trainjob.resolved import Dependency, Step

Json = dict[str, Any]
_Name = Annotated[str, Field(min_length=1, max_length=253)]
_ONE = crd_schema(default=1)


class Target(ApiModel):
    """Containers of one replicated job."""

    job_name: _Name = Field(description="The name of the replicated job.")
    container_names: list[Annotated[str, Field(max_length=63)]] = Field(
        min_length=1,
        max_length=8,
        description="The names of containers or init containers, other than node.",
        json_schema_extra=crd_schema(
            rules={"!self.exists(c, c == 'node')": "node has these variables in any case; remove it"},
            **{"x-kubernetes-list-type": "set"},
        ),
    )


class EnvInjection(ApiModel):
    """Which further containers have the variables."""

    targets: list[Target] = Field(
        default_factory=list, max_length=16, description="By replicated job.", json_schema_extra=crd_schema(key="jobName")
    )


class Torch(ApiModel):
    """PyTorch, by torchrun."""

    env_injection: EnvInjection | None = Field(None, description="Further containers that have torchrun's variables.")


class Mpi(ApiModel):
    """MPI over ssh."""

    num_proc_per_node: Int32 | None = Field(
        None, ge=1, description="Slots of each node. 1, the default, means as many as GPUs.", json_schema_extra=_ONE
    )
    mpi_implementation: str | None = Field(
        None, description="OpenMPI.", json_schema_extra=crd_schema(default="OpenMPI", enum=["OpenMPI", ""])
    )
    ssh_auth_mount_path: str | None = Field(
        None,
        max_length=4096,
        description="Where the keys are mounted: the .ssh directory of the user.",
        json_schema_extra=crd_schema(default=DEFAULT_SSH_PATH),
    )
    run_launcher_as_node: bool | None = Field(
        None, description="The launcher is one of the nodes.", json_schema_extra=crd_schema(default=False)
    )


class Flux(ApiModel):
    """Flux, which this operator does not run."""

    num_proc_per_node: Int32 | None = Field(None, ge=1, description="Processes of each node.", json_schema_extra=_ONE)


class Nothing(ApiModel):
    """Without settings."""


_POLICIES = ("torch", "mpi", "flux", "jax", "xgboost", "tensorflow")


class MLPolicySpec(ApiModel):
    """The ML framework; none of them is a plain runtime."""

    num_nodes: Int32 | None = Field(None, description="The number of nodes of a job that does not say it. Defaults to 1.")
    torch: Torch | None = Field(None, description="PyTorch.")
    mpi: Mpi | None = Field(None, description="MPI over ssh.")
    flux: Flux | None = Field(None, description="Flux: its jobs are refused by this operator.")
    jax: Nothing | None = Field(None, description="JAX.")
    xgboost: Nothing | None = Field(None, description="XGBoost.")
    tensorflow: Nothing | None = Field(
        None,
        description="TensorFlow: the pods have TF_CONFIG. Replicated jobs named chief, ps, worker or evaluator are what their "
        "names say; the trainer's of another name are workers. A field of this operator.",
    )


class Coscheduling(ApiModel):
    """The coscheduling plugin."""

    schedule_timeout_seconds: Int32 | None = Field(
        None, description="How long the whole group may wait.", json_schema_extra=crd_schema(default=60)
    )


class Volcano(ApiModel):
    """Volcano."""

    network_topology: Json | None = Field(None, description="Where the nodes may be, as in Volcano's PodGroup.")


class PodGroupPolicy(ApiModel):
    """By which scheduler the pods are placed all at once."""

    coscheduling: Coscheduling | None = Field(None, description="The coscheduling plugin.")
    volcano: Volcano | None = Field(None, description="Volcano.")


class Metadata(ApiModel):
    """Labels and annotations."""

    name: str | None = Field(None, description="A name, where one is needed.")
    namespace: str | None = Field(None, description="Not set.")
    labels: dict[str, str] | None = Field(None, description="Labels.")
    annotations: dict[str, str] | None = Field(None, description="Annotations.")
    finalizers: list[str] | None = Field(None, description="Finalizers.")


class BatchJobSpec(ApiModel):
    """The spec of a batch Job, as far as it is used; the numbers of pods are parallelism alone."""

    parallelism: Int32 | None = Field(None, ge=0, description="The number of pods, but for the trainer's.")
    completions: Int32 | None = Field(None, ge=0, description="Not used: as many as parallelism.")
    completion_mode: str | None = Field(None, description="Not used: Indexed.")
    backoff_limit: Int32 | None = Field(None, ge=0, description="Failures of its pods before the job fails. Defaults to 6.")
    active_deadline_seconds: int | None = Field(None, description="Not used.")
    ttl_seconds_after_finished: Int32 | None = Field(None, description="Not used.")
    backoff_limit_per_index: Int32 | None = Field(None, description="Not used.")
    max_failed_indexes: Int32 | None = Field(None, description="Not used.")
    pod_failure_policy: Json | None = Field(None, description="Not used.")
    pod_replacement_policy: str | None = Field(None, description="Not used.")
    success_policy: Json | None = Field(None, description="Not used.")
    selector: Json | None = Field(None, description="Not used.")
    manual_selector: bool | None = Field(None, description="Not used.")
    suspend: bool | None = Field(None, description="Not used.")
    managed_by: str | None = Field(None, description="Not used.")
    template: Json = Field(description="The pods.", json_schema_extra=crd_schema(""))


class BatchJobTemplate(ApiModel):
    """The template of a batch Job."""

    metadata: Metadata | None = Field(None, description=f"Labels of the jobs, such as {STEP_LABEL}; they are none of pods.")
    spec: BatchJobSpec | None = Field(None, description="The job.")


class DependsOn(ApiModel):
    """What a replicated job waits for."""

    name: str = Field(description="The name of an earlier replicated job.")
    status: Annotated[Dependency, enum_field(Dependency)] = Field(
        description="Ready: its jobs are ready or have ended; Complete: they have succeeded."
    )


class ReplicatedJob(ApiModel):
    """Jobs of one template."""

    name: str = Field(description="Its name, which its pods and jobs have after that of the TrainJob.")
    group_name: str | None = Field(None, description="The group.", json_schema_extra=crd_schema(default="default"))
    replicas: Int32 | None = Field(
        None, ge=0, description="The number of jobs: 1 for the trainer and the initializers.", json_schema_extra=_ONE
    )
    template: BatchJobTemplate = Field(description="The template of its jobs.")
    depends_on: list[DependsOn] = Field(
        default_factory=list,
        max_length=5,
        description="Its pods are created when all of these hold.",
        json_schema_extra=crd_schema(key="name"),
    )


class Network(ApiModel):
    """How pods find each other."""

    enable_dns_hostnames: bool | None = Field(None, alias="enableDNSHostnames", description="Not used: they have names.")
    subdomain: str | None = Field(None, description="The name of the headless Service. Defaults to the name of the TrainJob.")
    publish_not_ready_addresses: bool | None = Field(None, description="Whether pods have addresses before they are ready.")


class Operator(StrEnum):
    """Of how many."""

    ALL = "All"
    ANY = "Any"


class SuccessPolicy(ApiModel):
    """When the job has succeeded."""

    operator: Annotated[Operator, enum_field(Operator)] = Field(description="All or Any of the jobs.")
    target_replicated_jobs: list[str] = Field(default_factory=list, description="Of these replicated jobs; empty for all.")


class Action(StrEnum):
    """What follows the failure of a job."""

    FAIL = "FailJobSet"
    RESTART = "RestartJobSet"
    RESTART_UNCOUNTED = "RestartJobSetAndIgnoreMaxRestarts"
    RESTART_JOB = "RestartJob"
    RESTART_JOB_UNCOUNTED = "RestartJobAndIgnoreMaxRestarts"


class FailureRule(ApiModel):
    """What follows some failures."""

    name: str | None = Field(None, description="Its name.")
    action: Annotated[Action, enum_field(Action)] = Field(description="What follows.")
    on_job_failure_reasons: list[str] = Field(default_factory=list, description="For these reasons; empty for all.")
    on_job_failure_message_patterns: list[str] = Field(default_factory=list, description="Not used: the rule applies to none.")
    target_replicated_jobs: list[str] = Field(default_factory=list, description="Of these replicated jobs; empty for all.")


class RestartStrategy(StrEnum):
    """How all jobs are restarted."""

    RECREATE = "Recreate"
    BLOCKING_RECREATE = "BlockingRecreate"
    IN_PLACE = "InPlaceRestart"


class FailurePolicy(ApiModel):
    """What follows when a job fails; without one the TrainJob fails."""

    max_restarts: Int32 | None = Field(None, description="How often all jobs are restarted.")
    restart_strategy: Annotated[RestartStrategy, enum_field(RestartStrategy)] | None = Field(
        None,
        description="Recreate makes new pods; BlockingRecreate does the same here. InPlaceRestart keeps pods that can be kept.",
        json_schema_extra=crd_schema(default="Recreate"),
    )
    rules: list[FailureRule] = Field(default_factory=list, max_length=20, description="The first that applies counts.")


class StartupOrder(StrEnum):
    """The order of the replicated jobs' start."""

    ANY_ORDER = "AnyOrder"
    IN_ORDER = "InOrder"


class StartupPolicy(ApiModel):
    """In what order replicated jobs start."""

    startup_policy_order: Annotated[StartupOrder, enum_field(StartupOrder)] = Field(
        description="AnyOrder, or InOrder: each when the one before is ready."
    )


class Coordinator(ApiModel):
    """The pod whose address all pods have as a label."""

    replicated_job: str = Field(description="Its replicated job.")
    job_index: int | None = Field(None, description="The index of its job.")
    pod_index: int | None = Field(None, description="Its index in the job.")


class Retention(StrEnum):
    """What becomes of claims."""

    DELETE = "Delete"
    RETAIN = "Retain"


class RetentionPolicy(ApiModel):
    """What becomes of claims when the job is deleted."""

    when_deleted: Annotated[Retention, enum_field(Retention)] | None = Field(
        None, description="Delete (the default) or Retain.", json_schema_extra=crd_schema(default="Delete")
    )


class ClaimTemplate(ApiModel):
    """A PersistentVolumeClaim."""

    metadata: Metadata | None = Field(None, description="Its name, which is that of the volume, labels and annotations.")
    spec: Json | None = Field(
        None, description="What is claimed.", json_schema_extra=crd_schema("spec.volumes.ephemeral.volumeClaimTemplate.spec")
    )


class ClaimPolicy(ApiModel):
    """Volumes that the pods share: each is mounted where a container has a mount of its name."""

    templates: list[ClaimTemplate] = Field(default_factory=list, max_length=50, description="The claims.")
    retention_policy: RetentionPolicy | None = Field(None, description="What becomes of them with the job.")


class JobSetSpec(ApiModel):
    """A JobSet, which is not created: its replicated jobs are the roles of the TrainJob."""

    replicated_jobs: list[ReplicatedJob] = Field(
        default_factory=list, max_length=100, description="The roles.", json_schema_extra=crd_schema(key="name")
    )
    network: Network | None = Field(None, description="How pods find each other.")
    success_policy: SuccessPolicy | None = Field(None, description="When the job has succeeded. Unset: with all of its jobs.")
    failure_policy: FailurePolicy | None = Field(None, description="What follows when a job fails.")
    startup_policy: StartupPolicy | None = Field(None, description="The order of the start; excludes dependsOn.")
    suspend: bool | None = Field(None, description="Not used: that of the TrainJob counts.")
    coordinator: Coordinator | None = Field(None, description="The pod whose address all pods have as a label.")
    managed_by: str | None = Field(None, description="Not used.")
    ttl_seconds_after_finished: Int32 | None = Field(
        None, ge=0, description="Delete the TrainJob this many seconds after it finished."
    )
    volume_claim_policies: list[ClaimPolicy] = Field(default_factory=list, max_length=50, description="Shared volumes.")


class JobSetTemplate(ApiModel):
    """The template of a JobSet."""

    metadata: Metadata | None = Field(None, description="Labels and annotations.")
    spec: JobSetSpec | None = Field(None, description="The replicated jobs.")


class TrainingRuntimeSpec(ApiModel):
    """A runtime."""

    ml_policy: MLPolicySpec | None = Field(None, description="The ML framework.")
    pod_group_policy: PodGroupPolicy | None = Field(None, description="By which scheduler the pods are placed all at once.")
    template: JobSetTemplate | None = Field(None, description="The jobs of a TrainJob.")


_JOBS = ("spec", "template", "spec", "replicatedJobs", "*")
_STEP = f"'{STEP_LABEL}'"
_LABELLED = "has({0}.template.metadata) && has({0}.template.metadata.labels) && " + f"{_STEP} in {{0}}.template.metadata.labels"
_OF_STEP = f"self.template.metadata.labels[{_STEP}]"
_KNOWN = f"{_OF_STEP} in ['trainer', 'dataset-initializer', 'model-initializer']"


def _container_rule(step: Step, container: str, more: str = "") -> CelRule:
    """The literal names are cheap: a server refuses a rule that may compare two long strings for each container."""
    containers = (
        "has(self.template.spec) && has(self.template.spec.template.spec) && self.template.spec.template.spec.containers"
    )
    return CelRule(
        f"!({_LABELLED.format('self')}) || {_OF_STEP} != '{step}' || {containers}.exists(c, c.name == '{container}'{more})",
        f"the job of the {step} needs a container named {container}{' with an image' if more else ''}",
        _JOBS,
    )


RUNTIME_DEFINITION = Definition(
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
        CelRule(
            f"!({_LABELLED.format('self')}) || !({_KNOWN}) || self.replicas == 1",
            "replicas of the trainer and of initializers must be 1; set parallelism or numNodes instead",
            _JOBS,
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
    RelatedKind(API_VERSION, CLUSTER_RUNTIME, "clustertrainingruntimes", namespaced=False, definition=RUNTIME_DEFINITION),
    RelatedKind(API_VERSION, RUNTIME, "trainingruntimes", definition=RUNTIME_DEFINITION),
)
