"""The spec of an MXJob beyond what every job has."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from jobcommon import BY_VALUE, FlatRunPolicySpec, ReplicaSpec


class JobMode(StrEnum):
    """What an MXJob does."""

    TRAIN = "MXTrain"
    TUNE = "MXTune"


class SuccessPolicy(StrEnum):
    """When a training job has succeeded."""

    DEFAULT = ""
    ALL_WORKERS = "AllWorkers"


class MXReplicaSpec(ReplicaSpec):
    """The replicas of one type of an MXJob."""

    label: str | None = Field(None, max_length=253, description="Older place of the annotation tuner-server-key (v1beta1).")


class MXJobSpec(FlatRunPolicySpec):
    """An MXJob."""

    job_mode: Annotated[JobMode, BY_VALUE] = Field(
        JobMode.TRAIN, description="MXTrain (Scheduler, Server, Worker) or MXTune (TunerTracker, TunerServer, Tuner)."
    )
    success_policy: Annotated[SuccessPolicy, BY_VALUE] | None = Field(
        None, description='"" (the default): the scheduler decides if there is one; AllWorkers: all workers must succeed.'
    )
