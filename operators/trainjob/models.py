"""The kinds of Kubeflow Trainer 2.3 with fields of our own: TrainJob, TrainingRuntime and ClusterTrainingRuntime.

Read both by the generator of their definitions and by `resolve`. What is ours alone: `runPolicy` of a TrainJob and
`mlPolicy.tensorflow` of a runtime.
"""

from typing import Annotated, Any

from pydantic import Field

from jobcommon import ApiModel, CelRule, Definition, Int32, RunPolicy, crd_schema

GROUP = "trainer.kubeflow.org"
API_VERSION = f"{GROUP}/v1alpha1"
CLUSTER_RUNTIME, RUNTIME = "ClusterTrainingRuntime", "TrainingRuntime"
CONTROLLER, MULTIKUEUE = f"{GROUP}/trainjob-controller", "kueue.x-k8s.io/multikueue"
STEP_LABEL = f"{GROUP}/trainjob-ancestor-step"
DEFAULT_SSH_PATH = "/root/.ssh"
#: What runPolicy of other kinds says, and a TrainJob itself.
OWN_FIELDS = ("suspend", "managedBy", "activeDeadlineSeconds")
Json = dict[str, Any]
_FIXED = {"self == oldSelf": "field is immutable"}

_Name = Annotated[str, Field(min_length=1, max_length=253)]
_Words = Annotated[list[Annotated[str, Field(max_length=2**20)]], Field(max_length=128)]
_Texts = dict[str, str]


def _env(of: str) -> Any:
    return Field(
        default_factory=list,
        max_length=128,
        description=f"Variables of {of}; they replace those of the runtime with the same name.",
        json_schema_extra=crd_schema("spec.containers.env", key="name"),
    )


def _patched(part: str, what: str, most: int | None = None, *, key: str = "", fixed: bool = True) -> Any:
    """A field of a pod that a patch changes; a `fixed` one cannot be changed even while the job is suspended."""
    extra = crd_schema(f"spec.{part}", key=key, rules=_FIXED if fixed else {})
    return Field(None, max_length=most, description=f"Patches {what}.", json_schema_extra=extra)


class RuntimeRef(ApiModel):
    """The runtime of a job."""

    name: _Name = Field(description="The runtime's name. A TrainingRuntime is in the job's namespace.")
    api_group: str | None = Field(
        None, max_length=253, description=f"Defaults to {GROUP}.", json_schema_extra=crd_schema(default=GROUP)
    )
    kind: str | None = Field(
        None,
        max_length=253,
        description=f"{CLUSTER_RUNTIME} (the default) or {RUNTIME}.",
        json_schema_extra=crd_schema(default=CLUSTER_RUNTIME),
    )


class SecretRef(ApiModel):
    """A Secret in the job's namespace."""

    name: str | None = Field(None, description="Its name.")


class Source(ApiModel):
    """What an initializer downloads."""

    storage_uri: str | None = Field(
        None,
        max_length=2048,
        description="Where from: a URI with a scheme, such as hf://org/name or s3://bucket/path, or empty.",
        json_schema_extra=crd_schema(
            rules={
                "self == '' || self.matches('^[A-Za-z][A-Za-z0-9+.-]*://.+$')": "storageUri may be empty, or it must be a "
                "valid URI (scheme://...)"
            }
        ),
    )
    env: list[Json] = _env("the initializer")
    secret_ref: SecretRef | None = Field(None, description="The Secret whose entries are variables of the initializer.")


class Initializer(ApiModel):
    """What is downloaded before training begins."""

    dataset: Source | None = Field(None, description="The dataset, for the runtime's dataset-initializer.")
    model: Source | None = Field(None, description="The model, for the runtime's model-initializer.")


class Trainer(ApiModel):
    """What the trainer's nodes run; each field replaces the runtime's."""

    image: str | None = Field(None, max_length=500, description="The image of the container node.")
    command: _Words | None = Field(None, description="Its command.")
    args: _Words | None = Field(None, description="Its arguments.")
    env: list[Json] = _env("the container node")
    num_nodes: Int32 | None = Field(None, ge=0, description="The number of nodes: pods that train.")
    resources_per_node: Json | None = Field(
        None,
        description="The resources of each node, resource by resource.",
        json_schema_extra=crd_schema("spec.containers.resources"),
    )
    num_proc_per_node: Int32 | None = Field(
        None,
        ge=1,
        description="The processes on each node: for torchrun, and the slots of MPI. Unset: as many as GPUs, or CPUs of torch.",
    )


class PatchedMetadata(ApiModel):
    """Labels and annotations that are added."""

    labels: _Texts | None = Field(None, description="Labels.")
    annotations: _Texts | None = Field(None, description="Annotations.")


class ContainerPatch(ApiModel):
    """Changes of one container."""

    name: _Name = Field(description="The name of a container in the runtime.")
    env: list[Json] = _env("the container, which may be neither node nor an initializer")
    volume_mounts: list[Json] | None = _patched("containers.volumeMounts", "the mounts", 128, key="mountPath", fixed=False)
    security_context: Json | None = _patched("containers.securityContext", "the security context", fixed=False)


_Containers = Annotated[list[ContainerPatch], Field(max_length=64)]
_CONTAINERS = crd_schema(key="name", rules=_FIXED)


class PodPatch(ApiModel):
    """Changes of a pod: the last four fields may change while the job is suspended."""

    service_account_name: str | None = Field(
        None, max_length=253, description="Patches the service account.", json_schema_extra=crd_schema(rules=_FIXED)
    )
    volumes: list[Json] | None = _patched("volumes", "the volumes, by name", 128, key="name")
    init_containers: _Containers | None = Field(
        None, description="Patches init containers, by name.", json_schema_extra=_CONTAINERS
    )
    containers: _Containers | None = Field(None, description="Patches containers, by name.", json_schema_extra=_CONTAINERS)
    image_pull_secrets: list[Json] | None = _patched("imagePullSecrets", "the Secrets for pulling images", 64, key="name")
    security_context: Json | None = _patched("securityContext", "the pod's security context")
    termination_grace_period_seconds: int | None = Field(
        None, ge=0, description="Patches the time a pod has to end.", json_schema_extra=crd_schema(rules=_FIXED)
    )
    node_selector: _Texts | None = Field(None, description="Patches the labels that a node must have.")
    affinity: Json | None = _patched("affinity", "the affinity", fixed=False)
    tolerations: list[Json] | None = _patched("tolerations", "the tolerations, all of them", 128, fixed=False)
    scheduling_gates: list[Json] | None = _patched("schedulingGates", "the scheduling gates", 16, key="name", fixed=False)


class PodTemplatePatch(ApiModel):
    """Changes of a pod template."""

    metadata: PatchedMetadata | None = Field(None, description="Labels and annotations of the pods.")
    spec: PodPatch | None = Field(None, description="The pods.")


class JobSpecPatch(ApiModel):
    """Changes of a batch Job."""

    template: PodTemplatePatch | None = Field(None, description="The pod template.")


class JobTemplatePatch(ApiModel):
    """Changes of a Job template."""

    metadata: PatchedMetadata | None = Field(None, description="Labels and annotations of the jobs, which are none of pods.")
    spec: JobSpecPatch | None = Field(None, description="The jobs.")


class ReplicatedJobPatch(ApiModel):
    """Changes of one replicated job."""

    name: _Name = Field(description="Its name in the runtime.")
    template: JobTemplatePatch | None = Field(None, description="The template of its jobs.")


class JobSetSpecPatch(ApiModel):
    """Changes of the replicated jobs."""

    replicated_jobs: list[ReplicatedJobPatch] | None = Field(
        None, max_length=100, description="By name.", json_schema_extra=crd_schema(key="name")
    )


class JobSetPatch(ApiModel):
    """Changes of the runtime's template."""

    metadata: PatchedMetadata | None = Field(None, description="Labels and annotations of the whole.")
    spec: JobSetSpecPatch | None = Field(None, description="The replicated jobs.")


class RuntimeSpecPatch(ApiModel):
    """Changes of the runtime's spec."""

    template: JobSetPatch | None = Field(None, description="The template.")


class RuntimePatch(ApiModel):
    """What one manager changes of the runtime, for this job."""

    manager: _Name = Field(
        description="Who has written this patch, as a domain and a path, such as kueue.x-k8s.io/manager.",
        json_schema_extra=crd_schema(
            rules={
                **_FIXED,
                "self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9/_.~%!$&()*+,;=:@-]+$')": "must be a domain and a "
                "path, as in example.com/manager",
            }
        ),
    )
    time: str | None = Field(
        None,
        description="When the patch was last written; the operator sets it.",
        json_schema_extra=crd_schema(format="date-time"),
    )
    training_runtime_spec: RuntimeSpecPatch | None = Field(None, description="The changes.")


class TrainJobSpec(ApiModel):
    """A TrainJob."""

    runtime_ref: RuntimeRef = Field(description="The runtime. Immutable.", json_schema_extra=crd_schema(rules=_FIXED))
    initializer: Initializer | None = Field(
        None, description="What is downloaded before training. Immutable.", json_schema_extra=crd_schema(rules=_FIXED)
    )
    trainer: Trainer | None = Field(None, description="The trainer. Immutable.", json_schema_extra=crd_schema(rules=_FIXED))
    runtime_patches: list[RuntimePatch] = Field(
        default_factory=list,
        max_length=16,
        description="Changes of the runtime for this job, by manager, in order. They may change while the job is suspended.",
        json_schema_extra=crd_schema(key="manager"),
    )
    suspend: bool | None = Field(
        None, description="While true, the job has no pods.", json_schema_extra=crd_schema(default=False)
    )
    active_deadline_seconds: int | None = Field(
        None,
        ge=1,
        description="Fail the job this many seconds after its start or last resume. Immutable.",
        json_schema_extra=crd_schema(rules=_FIXED),
    )
    managed_by: str | None = Field(
        None,
        max_length=253,
        description=f"{CONTROLLER} (the default), which this operator takes for itself, or {MULTIKUEUE}. Immutable.",
        json_schema_extra=crd_schema(
            default=CONTROLLER,
            rules={f"self in ['{CONTROLLER}', '{MULTIKUEUE}']": f"must be {CONTROLLER} or {MULTIKUEUE}", **_FIXED},
        ),
    )
    run_policy: RunPolicy | None = Field(
        None,
        description="Restarts, limits and scheduling beyond Trainer's. The annotations "
        "training.kubeflow.org/run-policy.<field> say the same; what stands here wins.",
        json_schema_extra=crd_schema(rules={f"!has(self.{field})": f"set spec.{field} instead" for field in OWN_FIELDS}),
    )


class Condition(ApiModel):
    """A condition as Trainer writes it."""

    type: str = Field(description="Suspended, Complete or Failed.")
    status: str = Field(description="True, False or Unknown.")
    reason: str = Field(description="Why, in one word.")
    message: str = Field(description="Why, in words.")
    last_transition_time: str = Field(description="When the status last changed.")
    observed_generation: int | None = Field(None, ge=0, description="The generation that it was set for.")


_Count = Annotated[Int32, Field(ge=0)]


class RoleStatus(ApiModel):
    """The jobs of one replicated job, counted."""

    name: _Name = Field(description="The name of the replicated job.")
    ready: _Count = Field(description="Jobs whose pods are ready or have succeeded, all of them.")
    succeeded: _Count = Field(description="Jobs that have succeeded.")
    failed: _Count = Field(description="Jobs that have failed.")
    active: _Count = Field(description="Jobs with pods that are pending or run.")
    suspended: _Count = Field(description="Jobs that are suspended.")


class TrainJobStatus(ApiModel):
    """What the status of a TrainJob has beside the record that every kind has."""

    conditions: list[Condition] = Field(
        default_factory=list,
        max_length=8,
        description="Suspended, Complete and Failed, as far as they have been true; those of this operator are jobConditions.",
        json_schema_extra=crd_schema(key="type"),
    )
    jobs_status: list[RoleStatus] = Field(
        default_factory=list, max_length=100, description="Counts by role.", json_schema_extra=crd_schema(key="name")
    )


def suspended(of: str) -> str:
    """Whether a job is suspended, in CEL."""
    return f"has({of}.spec.suspend) && {of}.spec.suspend"


def _patches(of: str, part: str) -> str:
    return f"(has({of}.spec.runtimePatches) ? {of}.spec.runtimePatches.map(p, p.{part}) : [])"


_SAME_PATCHES = " && ".join(
    f"{_patches('self', part)} == {_patches('oldSelf', part)}" for part in ("manager", "?trainingRuntimeSpec")
)
_STOPPED = "(!has(self.status) || !has(self.status.jobsStatus) || self.status.jobsStatus.all(j, j.active == 0))"

TRAINJOB_DEFINITION = Definition(
    TrainJobSpec,
    "TrainJob: a training job of a runtime.",
    TrainJobStatus,
    (
        CelRule(
            "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')", "metadata.name must match RFC 1035 DNS label format"
        ),
        CelRule("size(self.metadata.name) <= 63", "metadata.name must be no more than 63 characters"),
        *(
            CelRule(f"has(self.{field}) == has(oldSelf.{field})", f"{field} is immutable", ("spec",), f".{field}")
            for field in ("trainer", "initializer", "activeDeadlineSeconds")
        ),
        # The time of a patch is not its author's.
        CelRule(
            f"{_SAME_PATCHES} || ({suspended('oldSelf')} || {suspended('self')}) && {_STOPPED}",
            "may be changed only while the job is suspended and none of its pods run",
            field_path=".spec.runtimePatches",
        ),
    ),
)
