"""The standard part of every job's spec: ReplicaSpec, RunPolicy and what they are made of.

The JSON names, types and meanings are those of the kubeflow.org v1 API (reference operators), plus `overrides`.
"""

from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any

from pydantic import Field

from jobcommon.api.model import POD_PART, ApiModel
from jobcommon.api.template import Templates

#: Of a field that is an enum: it arrives as a string, which strict mode would refuse to look up.
BY_VALUE = Field(strict=False)
Int32 = Annotated[int, Field(ge=-(2**31), le=2**31 - 1)]
MAX_REPLICAS = 10_000
# What one list multiplies by another is bounded: no job may cost the others more than its size.
MAX_OVERRIDES = 1000
MAX_RESOURCES = 256
MAX_SECONDS = 10 * 365 * 24 * 3600


class RestartPolicy(StrEnum):
    """What happens when a replica's pod or container ends. The empty string means the default."""

    ALWAYS = "Always"
    ON_FAILURE = "OnFailure"
    NEVER = "Never"
    EXIT_CODE = "ExitCode"
    DEFAULT = ""


class RestartScope(StrEnum):
    """What is restarted when a replica has to run again."""

    POD = "Pod"
    JOB = "Job"


class RestartMethod(StrEnum):
    """How a pod gets to a new attempt of its job: in place where that is possible, or always by a new pod."""

    AUTO = "Auto"
    RECREATE = "Recreate"


class TopologyMode(StrEnum):
    """Whether a topology is kept at any rate."""

    REQUIRED = "Required"
    PREFERRED = "Preferred"


class StallAction(StrEnum):
    """What follows when a job is stalled."""

    NONE = "None"
    RESTART = "Restart"
    FAIL = "Fail"


class PendingDeadlineAction(StrEnum):
    """What follows when a replica has been pending for too long."""

    FAIL = "Fail"
    RESTART = "Restart"


class CleanPodPolicy(StrEnum):
    """Which pods are deleted when the job has finished. The empty string means the default."""

    ALL = "All"
    RUNNING = "Running"
    NONE = "None"
    DEFAULT = ""


class TopologyConstraint(ApiModel):
    """Where the pods of a job are placed with regard to each other."""

    key: str = Field(
        min_length=1,
        max_length=317,
        description="The key of a node label, such as topology.kubernetes.io/rack: all pods are placed on nodes where it has "
        "the same value. With Volcano, the name of a tier.",
    )
    mode: Annotated[TopologyMode, BY_VALUE] | None = Field(
        None, description="Required (the default): the pods wait for such nodes; Preferred: they may be placed elsewhere."
    )


class SchedulingPolicy(ApiModel):
    """How the pods of a job are scheduled together (gang scheduling)."""

    min_available: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = Field(
        None, description="How many pods must be schedulable at once. Defaults to all replicas."
    )
    queue: str | None = Field(None, description="The scheduler's queue. Immutable.")
    min_resources: dict[str, Any] | None = Field(
        None,
        max_length=MAX_RESOURCES,
        description="The resources that must be free at once. Defaults to what minAvailable pods request.",
        json_schema_extra={POD_PART: "spec.containers.resources.limits"},
    )
    priority_class: str | None = Field(None, description="The priority class of the group of pods.")
    schedule_timeout_seconds: Int32 | None = Field(
        None, ge=0, description="How long the scheduler waits for the whole group, in seconds."
    )
    topology: TopologyConstraint | None = Field(None, description="Which nodes the pods are placed on together.")


class Elasticity(ApiModel):
    """How a job is resized by itself to what can be placed."""

    min_replicas: Annotated[int, Field(ge=1, le=MAX_REPLICAS)] | None = Field(
        None, description="The fewest replicas with which training continues. Defaults to 1."
    )
    max_replicas: Annotated[int, Field(ge=1, le=MAX_REPLICAS)] | None = Field(
        None, description="The most replicas, whatever kubectl scale or an autoscaler requests. Unset: no limit."
    )
    shrink_after_seconds: int | None = Field(
        None,
        ge=1,
        le=MAX_SECONDS,
        description="After this many seconds without room for it a replica is left out of the attempt. Defaults to 60.",
    )
    grow_after_seconds: int | None = Field(
        None,
        ge=1,
        le=MAX_SECONDS,
        description="Replicas that are left out request nodes again this many seconds after the last resize. Defaults to 600.",
    )


class RunPolicy(ApiModel):
    """What holds for the job as a whole: clean-up, limits, scheduling, suspension."""

    clean_pod_policy: Annotated[CleanPodPolicy, BY_VALUE] | None = Field(
        None,
        description="Which pods are deleted when the job has finished: All, Running (those still running) or None, which keeps "
        "all, and ends what runs after a limit or a deadline. Unset: "
        "those still running, but after success only servers at once; other replicas have 60 seconds to end by themselves. "
        "Finished pods stay, so their logs can be read.",
    )
    ttl_seconds_after_finished: Int32 | None = Field(
        None, ge=0, description="Delete the job this many seconds after it finished. Unset: never."
    )
    active_deadline_seconds: int | None = Field(
        None, ge=1, le=MAX_SECONDS, description="Fail the job when it has been active for this many seconds."
    )
    backoff_limit: Int32 | None = Field(
        None,
        ge=0,
        description="How often failed replicas are restarted, counted over the whole job, before the job fails. "
        "Replacements of pods and restarts of containers both count; evictions and lost nodes do not. Unset: no limit.",
    )
    restart_scope: Annotated[RestartScope, BY_VALUE] | None = Field(
        None,
        description="What a failed or lost replica restarts: Pod (the default) that replica alone, Job all replicas as a new "
        "attempt, which counts once towards backoffLimit. Programs whose ranks cannot rejoin, such as "
        "DistributedDataParallel, need Job.",
    )
    restart_method: Annotated[RestartMethod, BY_VALUE] | None = Field(
        None,
        description="How restartScope Job restarts a replica: Auto keeps its pod, node, address and volumes, restarts its "
        "container, and creates a new pod where that is not possible; Recreate (the default) always creates new pods.",
    )
    node_loss_seconds: int | None = Field(
        None,
        ge=1,
        le=MAX_SECONDS,
        description="Evict pods from a node after it has not been ready for this many seconds (Kubernetes: 300), by "
        "tolerations. While the node is silent a pod is replaced only if it has the annotation "
        "kueue.x-k8s.io/safe-to-forcefully-delete.",
    )
    avoid_failed_nodes: bool | None = Field(
        None,
        description="New pods avoid nodes on which two pods of the job failed or were lost, if there are others. Defaults to "
        "true with nodeLossSeconds, else to false.",
    )
    pending_deadline_seconds: int | None = Field(
        None,
        ge=1,
        le=MAX_SECONDS,
        description="How many seconds a pod of the job may wait for a node; see pendingDeadlineAction. Unset: no limit.",
    )
    pending_deadline_action: Annotated[PendingDeadlineAction, BY_VALUE] | None = Field(
        None,
        description="What follows after pendingDeadlineSeconds: Fail (the default), or Restart, which frees the nodes of the "
        "others: all replicas begin a new attempt, charged like a failure; needs restartScope Job.",
    )
    report_progress: bool | None = Field(
        None,
        description="Give the pods the address and the token with which programs report their progress, as Kubeflow Trainer "
        "does; transformers 5.4 or later does so by itself. The reports are in status.trainerStatus.",
    )
    progress_deadline_seconds: int | None = Field(
        None,
        ge=20,
        le=MAX_SECONDS,
        description="The job is Stalled when the reported step has not risen for this many seconds, from the second distinct "
        "step of a run. At least 20, because reports are recorded every 10 seconds.",
    )
    progress_start_deadline_seconds: int | None = Field(
        None,
        ge=20,
        le=MAX_SECONDS,
        description="The job is Stalled when a run has not reported a second distinct step within this many seconds of its "
        "start or first report, for loading data and compiling. Unset: no limit.",
    )
    evaluation_seconds: int | None = Field(
        None,
        ge=1,
        le=MAX_SECONDS,
        description="Added to progressDeadlineSeconds, for evaluation and checkpoints, during which programs report nothing. "
        "Not added after a report with a metric named phase and the value train.",
    )
    stall_action: Annotated[StallAction, BY_VALUE] | None = Field(
        None,
        description="What follows when the job is Stalled: None (the default), Restart (all replicas, as a new attempt; needs "
        "restartScope Job) or Fail.",
    )
    max_restarts_without_progress: Int32 | None = Field(
        None,
        ge=0,
        description="Fail the job after this many restarts in a row in which the highest reported step has not risen. "
        "Defaults to 3 if progress is reported.",
    )
    keep_failed_logs: bool | None = Field(
        None,
        description="Whether the last 64 KiB that a failed replica printed, and its events, are kept in a ConfigMap of the "
        "job before its pod is deleted: of the first 10 failures, and of 4 more replicas at the end of the job. Unset: with "
        "restartMethod Auto.",
    )
    elastic: Elasticity | None = Field(
        None,
        description="Resize the job to the replicas that can be placed, each time with a new attempt of all replicas. It "
        "applies to the type that kubectl scale changes. Needs restartScope Job. Unset: only its user resizes the job.",
    )
    scheduling_policy: SchedulingPolicy | None = Field(None, description="Gang scheduling.")
    suspend: bool | None = Field(None, description="While true, the job has no pods. Set to false to start or resume it.")
    managed_by: str | None = Field(
        None,
        description="Which controller runs this job. Unset or kubeflow.org/training-operator: this operator. Immutable.",
    )


class ReplicaOverride(ApiModel):
    """What differs for some replicas of a type."""

    indices: list[Annotated[int, Field(ge=0, le=MAX_REPLICAS - 1)]] = Field(
        min_length=1,
        max_length=MAX_REPLICAS,
        description="Indices of the replicas that this override applies to. Indices that are not in use yet are allowed.",
    )
    template: dict[str, Any] = Field(
        description="Merged onto the template of the replica type; containers, env, ports and volumes are merged by name."
    )


class ReplicaSpec(ApiModel):
    """The replicas of one type: how many, of what, and what happens when one ends."""

    replicas: Annotated[int, Field(ge=0, le=MAX_REPLICAS)] | None = Field(
        None, description="The number of replicas. Defaults to 1."
    )
    template: dict[str, Any] = Field(description="The pod that each replica runs.", json_schema_extra={POD_PART: ""})
    restart_policy: Annotated[RestartPolicy, BY_VALUE] | None = Field(
        None,
        description="Always, OnFailure, Never, or ExitCode: exit codes 1-127 fail the job, 128-255 restart the replica.",
    )
    overrides: list[ReplicaOverride] = Field(
        default_factory=list, max_length=MAX_OVERRIDES, description="Replicas whose template differs; later entries win."
    )

    @cached_property
    def templates(self) -> Templates:
        """The templates of the replicas."""
        return Templates(self.template, ((override.indices, override.template) for override in self.overrides))


def template_for(spec: ReplicaSpec, index: int) -> dict[str, Any]:
    """The template of one replica, its overrides applied in order. A new top level; what lies below may be shared."""
    return dict(spec.templates.at(spec.templates.of(index)))


class JobSpec(ApiModel):
    """The fields of a spec that every kind has."""

    run_policy: RunPolicy = Field(default_factory=RunPolicy, description="Clean-up, limits, scheduling, suspension.")
    managed_by: str | None = Field(
        None,
        description="The same as runPolicy.managedBy, where MultiKueue looks for it in kinds that it does not know. Immutable.",
    )


_FIELDS = ("cleanPodPolicy", "ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit", "schedulingPolicy")


class FlatRunPolicySpec(JobSpec):
    """A spec that also takes RunPolicy's fields where older versions had them. What stands in runPolicy wins."""

    clean_pod_policy: Annotated[CleanPodPolicy, BY_VALUE] | None = Field(
        None, description="Older place of runPolicy.cleanPodPolicy."
    )
    ttl_seconds_after_finished: Int32 | None = Field(
        None, ge=0, description="Older place of runPolicy.ttlSecondsAfterFinished."
    )
    active_deadline_seconds: int | None = Field(None, ge=1, description="Older place of runPolicy.activeDeadlineSeconds.")
    backoff_limit: Int32 | None = Field(None, ge=0, description="Older place of runPolicy.backoffLimit.")


def lift_run_policy(spec: Mapping[str, Any], _version: str) -> Mapping[str, Any]:
    """The raw spec with RunPolicy's fields where they belong now; total over any JSON object."""
    flat = {name: spec[name] for name in _FIELDS if spec.get(name) is not None}
    policy = spec.get("runPolicy")
    if not flat or not isinstance(policy, Mapping | None):
        return spec
    rest = {name: value for name, value in spec.items() if name not in flat}
    return {**rest, "runPolicy": {**flat, **{k: v for k, v in (policy or {}).items() if v is not None}}}
