"""The standard part of every job's spec: ReplicaSpec, RunPolicy and what they are made of.

The JSON names, types and meanings are those of the kubeflow.org v1 API (reference operators), plus `overrides`.
"""

import json
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from jobcommon.api.model import ApiModel
from jobcommon.api.template import Templates

# Enums arrive as strings; strict mode would refuse to look one up.
Int32 = Annotated[int, Field(ge=-(2**31), le=2**31 - 1)]
MAX_REPLICAS = 10_000
# What one list multiplies by another is bounded: no job may cost the others more than its size.
MAX_OVERRIDES = 1000
MAX_RESOURCES = 256
MAX_SECONDS = 10 * 365 * 24 * 3600


class RestartPolicy(StrEnum):
    """What happens when a replica's pod or container ends."""

    ALWAYS = "Always"
    ON_FAILURE = "OnFailure"
    NEVER = "Never"
    EXIT_CODE = "ExitCode"


class RestartScope(StrEnum):
    """What is restarted when a replica has to run again."""

    POD = "Pod"
    JOB = "Job"


class CleanPodPolicy(StrEnum):
    """Which pods are deleted when the job has finished. The empty string means the default."""

    ALL = "All"
    RUNNING = "Running"
    NONE = "None"
    DEFAULT = ""


def enum_field(kind: type[StrEnum]) -> BeforeValidator:
    """Look a string up in `kind`, with a message that lists the allowed values."""

    def look_up(value: object) -> object:
        if value is None or isinstance(value, kind):
            return value
        try:
            return kind(str(value))
        except ValueError:
            allowed = ", ".join(f'"{member}"' for member in kind)
            msg = f"{json.dumps(value)[:40]} is not supported; use one of {allowed}"
            raise ValueError(msg) from None

    return BeforeValidator(look_up)


class SchedulingPolicy(ApiModel):
    """How the pods of a job are scheduled together (gang scheduling)."""

    min_available: Int32 | None = Field(
        None, description="How many pods must be schedulable at once. Defaults to all replicas."
    )
    queue: str | None = Field(None, description="The scheduler's queue. Immutable.")
    min_resources: dict[str, Any] | None = Field(
        None,
        max_length=MAX_RESOURCES,
        description="The resources that must be free at once. Defaults to what minAvailable pods request.",
    )
    priority_class: str | None = Field(None, description="The priority class of the group of pods.")
    schedule_timeout_seconds: Int32 | None = Field(
        None, ge=0, description="How long the scheduler waits for the whole group, in seconds."
    )


class RunPolicy(ApiModel):
    """What holds for the job as a whole: clean-up, limits, scheduling, suspension."""

    clean_pod_policy: Annotated[CleanPodPolicy, enum_field(CleanPodPolicy)] | None = Field(
        None,
        description="Which pods are deleted when the job has finished: All, Running (those still running) or None. Not set: "
        "those still running, but after success only servers at once; other replicas may end by themselves for 60 seconds. "
        "Finished pods stay, so their logs can be read.",
    )
    ttl_seconds_after_finished: Int32 | None = Field(
        None, ge=0, description="Delete the job this many seconds after it finished. Unset: never."
    )
    active_deadline_seconds: int | None = Field(
        None, ge=1, le=MAX_SECONDS, description="Fail the job when it has been active for longer, in seconds."
    )
    backoff_limit: Int32 | None = Field(
        None,
        ge=0,
        description="How often failed replicas are restarted, counted over the whole job, before the job fails. "
        "Replacements of pods and restarts of containers both count; evictions and lost nodes do not. Unset: no limit.",
    )
    restart_scope: Annotated[RestartScope, enum_field(RestartScope)] | None = Field(
        None,
        description="What a failed or lost replica restarts: Pod (the default) that replica alone, Job all replicas as a new "
        "attempt, which counts once towards backoffLimit. Programs whose ranks cannot rejoin, such as "
        "DistributedDataParallel, need Job.",
    )
    scheduling_policy: SchedulingPolicy | None = Field(None, description="Gang scheduling.")
    suspend: bool | None = Field(
        None, description="While true, the job has no pods. Set to false to start it, or to start it again."
    )
    managed_by: str | None = Field(
        None,
        description="Which controller runs this job. Unset or kubeflow.org/training-operator: this operator. Immutable.",
    )


class ReplicaOverride(ApiModel):
    """What differs for some replicas of a type."""

    indices: list[Annotated[int, Field(ge=0, le=MAX_REPLICAS - 1)]] = Field(
        min_length=1,
        max_length=MAX_REPLICAS,
        description="The replicas this is for. An index beyond their number waits for it.",
    )
    template: dict[str, Any] = Field(
        description="Merged onto the template of the replica type; containers, env, ports and volumes are merged by name."
    )


class ReplicaSpec(ApiModel):
    """The replicas of one type: how many, of what, and what happens when one ends."""

    replicas: Annotated[int, Field(ge=0, le=MAX_REPLICAS)] | None = Field(None, description="How many. Defaults to 1.")
    template: dict[str, Any] = Field(description="The pod that each replica runs.")
    restart_policy: Annotated[RestartPolicy, enum_field(RestartPolicy)] | None = Field(
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
    return dict(spec.templates.at(spec.templates.applied.get(index, ())))


class JobSpec(ApiModel):
    """The part of a spec that every kind has. A framework's own model adds its fields to this."""

    run_policy: RunPolicy = Field(default_factory=RunPolicy, description="Clean-up, limits, scheduling, suspension.")
