"""The spec of a PaddleJob beyond what every job has."""

from typing import Any

from pydantic import Field

from jobcommon import ApiModel, Int32, JobSpec


class PaddleElasticPolicy(ApiModel):
    """The bounds of an elastic job. As in training-operator they are stored, and nothing acts on them."""

    min_replicas: Int32 | None = Field(None, ge=1, description="The fewest workers. Stored, but not used.")
    max_replicas: Int32 | None = Field(None, ge=1, description="The most workers. Stored, but not used.")
    max_restarts: Int32 | None = Field(None, ge=0, description="The limit for restarts of pods. Stored, but not used.")
    metrics: list[dict[str, Any]] | None = Field(
        None, description="Metrics for an autoscaler (autoscaling/v2 MetricSpec). Stored, but not used."
    )


class PaddleJobSpec(JobSpec):
    """A PaddleJob."""

    elastic_policy: PaddleElasticPolicy | None = Field(None, description="The bounds of an elastic job. Stored, but not used.")
