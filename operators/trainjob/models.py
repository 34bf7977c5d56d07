"""A TrainJob of Kubeflow Trainer 2.3 with a field of our own, `runPolicy`: for its definition, and for reading it."""

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
Texts = dict[str, str]
Name = Annotated[str, Field(min_length=1, max_length=253)]
_Words = Annotated[list[Annotated[str, Field(max_length=2**20)]], Field(max_length=128)] | None
_FIXED = {"self == oldSelf": "field is immutable"}
_OF_FIELD = {"ge", "alias", "min_length", "max_length"}


def field(text: str, part: str | None = None, /, *, needed: bool = False, many: bool = False, **more: Any) -> Any:
    """A field that is None when it is absent, or empty if there may be `many`. `more` are pydantic's bounds, and what
    `crd_schema` takes.
    """
    kept = {key: more.pop(key) for key in _OF_FIELD & more.keys()}
    kept |= {} if needed else {"default_factory": list} if many else {"default": None}
    return Field(description=text, json_schema_extra=crd_schema(part, **more), **kept)


def _env(of: str) -> Any:
    text = f"Variables of {of}; they replace those of the runtime with the same name."
    return field(text, "spec.containers.env", many=True, max_length=128, key="name")


class RuntimeRef(ApiModel):
    """The runtime of a job."""

    name: Name = field("The runtime's name. A TrainingRuntime is in the job's namespace.", needed=True)
    api_group: str | None = field(f"Defaults to {GROUP}.", max_length=253, default=GROUP)
    kind: str | None = field(f"{CLUSTER_RUNTIME} (the default) or {RUNTIME}.", max_length=253, default=CLUSTER_RUNTIME)


class SecretRef(ApiModel):
    """A Secret in the job's namespace."""

    name: str | None = field("Its name.")


_URI = {
    "self == '' || self.matches('^[A-Za-z][A-Za-z0-9+.-]*://.+$')": "storageUri may be empty, or it must be a valid URI (scheme://...)"
}


class Source(ApiModel):
    """What an initializer downloads."""

    storage_uri: str | None = field("Where from: a URI with a scheme, such as hf://org/name.", max_length=2048, rules=_URI)
    env: list[Json] = _env("the initializer")
    secret_ref: SecretRef | None = field("The Secret whose entries are variables of the initializer.")


class Initializer(ApiModel):
    """What is downloaded before training begins."""

    dataset: Source | None = field("The dataset, for the runtime's dataset-initializer.")
    model: Source | None = field("The model, for the runtime's model-initializer.")


class Trainer(ApiModel):
    """What the trainer's nodes run; each field replaces the runtime's."""

    image: str | None = field("The image of the container node.", max_length=500)
    command: _Words = field("Its command.")
    args: _Words = field("Its arguments.")
    env: list[Json] = _env("the container node")
    num_nodes: Int32 | None = field("The number of nodes: pods that train.", ge=0)
    resources_per_node: Json | None = field("The resources of each node, one by one.", "spec.containers.resources")
    num_proc_per_node: Int32 | None = field(
        "The processes on each node: for torchrun, and the slots of MPI. Unset: as many as GPUs, or CPUs of torch.", ge=1
    )


def _node(text: str, **properties: Json) -> Json:
    return {"type": "object", "description": text, "properties": properties}


def _patched(what: str, part: str = "", most: int = 0, *, key: str = "", fixed: bool = True, **node: Any) -> Json:
    """A field of a pod that a patch changes; a `fixed` one not even while the job is suspended."""
    found = crd_schema(f"spec.{part}" if part else None, key=key, rules=_FIXED if fixed else {}, **node)
    return {**found, "description": f"Patches {what}.", **({"maxItems": most} if most else {})}


_TEXTS: Json = {"type": "object", "additionalProperties": {"type": "string"}}
_METADATA = _node(
    "Labels and annotations.",
    labels={**_TEXTS, "description": "Labels."},
    annotations={**_TEXTS, "description": "Annotations."},
)
_NAME: Json = {"type": "string", "minLength": 1, "maxLength": 253, "description": "Its name in the runtime."}
_CONTAINER: Json = {
    **_node(
        "A container.",
        name=_NAME,
        env=_patched(
            "variables of a container that is neither node nor an initializer", "containers.env", 128, key="name", fixed=False
        ),
        volumeMounts=_patched("the mounts", "containers.volumeMounts", 128, key="mountPath", fixed=False),
        securityContext=_patched("the security context", "containers.securityContext", fixed=False),
    ),
    "required": ["name"],
}
_POD = _node(
    "The pods.",
    serviceAccountName=_patched("the service account", type="string", maxLength=253),
    volumes=_patched("the volumes, by name", "volumes", 128, key="name"),
    initContainers=_patched("init containers, by name", most=64, key="name", type="array", items=_CONTAINER),
    containers=_patched("containers, by name", most=64, key="name", type="array", items=_CONTAINER),
    imagePullSecrets=_patched("the Secrets for pulling images", "imagePullSecrets", 64, key="name"),
    securityContext=_patched("the pod's security context", "securityContext"),
    terminationGracePeriodSeconds=_patched("the time that a pod has to end", type="integer", format="int64", minimum=0),
    nodeSelector=_patched("the labels that a node must have", fixed=False, **_TEXTS),
    affinity=_patched("the affinity", "affinity", fixed=False),
    tolerations=_patched("the tolerations, all of them", "tolerations", 128, fixed=False),
    schedulingGates=_patched("the scheduling gates", "schedulingGates", 16, key="name", fixed=False),
)
_POD_TEMPLATE = _node("The pod template.", metadata=_METADATA, spec=_POD)
_JOB_TEMPLATE = _node("The jobs.", metadata=_METADATA, spec=_node("The job.", template=_POD_TEMPLATE))
_JOBS: Json = {
    **crd_schema(key="name", type="array", maxItems=100),
    "description": "The replicated jobs, by name.",
    "items": {**_node("A replicated job.", name=_NAME, template=_JOB_TEMPLATE), "required": ["name"]},
}
_PATCH = _node("The template.", metadata=_METADATA, spec=_node("The JobSet.", replicatedJobs=_JOBS))
_DOMAIN = {
    "self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9/_.~%!$&()*+,;=:@-]+$')": "must be a domain and a path, as in "
    "example.com/manager"
}


class RuntimePatch(ApiModel):
    """What one manager changes of the runtime, for this job."""

    manager: Name = field("Who has written this patch: a domain and a path.", needed=True, rules={**_FIXED, **_DOMAIN})
    time: str | None = field("When the patch was last written; the operator sets it.", format="date-time")
    training_runtime_spec: Json | None = field("The changes.", properties={"template": _PATCH})


_MANAGERS = {f"self in ['{CONTROLLER}', '{MULTIKUEUE}']": f"must be {CONTROLLER} or {MULTIKUEUE}"}
_NOT_OURS = {f"!has(self.{name})": f"set spec.{name} instead" for name in OWN_FIELDS}


class TrainJobSpec(ApiModel):
    """A TrainJob."""

    runtime_ref: RuntimeRef = field("The runtime. Immutable.", needed=True, rules=_FIXED)
    initializer: Initializer | None = field("What is downloaded before training. Immutable.", rules=_FIXED)
    trainer: Trainer | None = field("The trainer. Immutable.", rules=_FIXED)
    runtime_patches: list[RuntimePatch] = field(
        "Changes of the runtime for this job, by manager, in order. They may change while the job is suspended.",
        many=True, max_length=16, key="manager",
    )  # fmt: skip
    suspend: bool | None = field("While true, the job has no pods.", default=False)
    active_deadline_seconds: int | None = field(
        "Fail the job this many seconds after its start or last resume. Immutable.", ge=1, rules=_FIXED
    )
    managed_by: str | None = field(
        f"{CONTROLLER} (the default), which this operator takes for itself, or {MULTIKUEUE}. Immutable.",
        max_length=253, default=CONTROLLER, rules={**_MANAGERS, **_FIXED},
    )  # fmt: skip
    run_policy: RunPolicy | None = field(
        "Restarts, limits and scheduling beyond Trainer's. The annotations training.kubeflow.org/run-policy.<field> say the "
        "same; what stands here wins.",
        rules=_NOT_OURS,
    )


class Condition(ApiModel):
    """A condition as Trainer writes it."""

    type: str = field("Suspended, Complete or Failed.", needed=True)
    status: str = field("True, False or Unknown.", needed=True)
    reason: str = field("Why, in one word.", needed=True)
    message: str = field("Why, in words.", needed=True)
    last_transition_time: str = field("When the status last changed.", needed=True)
    observed_generation: int | None = field("The generation that it was set for.", ge=0)


class RoleStatus(ApiModel):
    """The jobs of one replicated job, counted."""

    name: Name = field("The name of the replicated job.", needed=True)
    ready: Int32 = field("Jobs whose pods are ready or have succeeded, all of them.", needed=True, ge=0)
    succeeded: Int32 = field("Jobs that have succeeded.", needed=True, ge=0)
    failed: Int32 = field("Jobs that have failed.", needed=True, ge=0)
    active: Int32 = field("Jobs with pods that are pending or run.", needed=True, ge=0)
    suspended: Int32 = field("Jobs that are suspended.", needed=True, ge=0)


class TrainJobStatus(ApiModel):
    """What the status of a TrainJob has beside the record that every kind has."""

    conditions: list[Condition] = field(
        "Suspended, Complete and Failed, as far as they have been true; those of this operator are jobConditions.",
        many=True, max_length=8, key="type",
    )  # fmt: skip
    jobs_status: list[RoleStatus] = field("Counts by role.", many=True, max_length=100, key="name")


def _patches(of: str, part: str) -> str:
    return f"(has({of}.spec.runtimePatches) ? {of}.spec.runtimePatches.map(p, p.{part}) : [])"


_SAME_PATCHES = " && ".join(
    f"{_patches('self', part)} == {_patches('oldSelf', part)}" for part in ("manager", "?trainingRuntimeSpec")
)
_SUSPENDED = " || ".join(f"has({of}.spec.suspend) && {of}.spec.suspend" for of in ("oldSelf", "self"))
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
            CelRule(f"has(self.{name}) == has(oldSelf.{name})", f"{name} is immutable", ("spec",), f".{name}")
            for name in ("trainer", "initializer", "activeDeadlineSeconds")
        ),
        # The time of a patch is not its author's.
        CelRule(
            f"{_SAME_PATCHES} || ({_SUSPENDED}) && {_STOPPED}",
            "may be changed only while the job is suspended and none of its pods run",
            field_path=".spec.runtimePatches",
        ),
    ),
)
