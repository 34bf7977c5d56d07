"""The spec of a TFJob beyond what every job has."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from jobcommon import BY_VALUE, FlatRunPolicySpec


class SuccessPolicy(StrEnum):
    """When a job without Chief and Master has succeeded."""

    DEFAULT = ""
    ALL_WORKERS = "AllWorkers"


class TFJobSpec(FlatRunPolicySpec):
    """A TFJob."""

    success_policy: Annotated[SuccessPolicy, BY_VALUE] | None = Field(
        None,
        description='Without Chief and Master: "" (the default): the job succeeds with worker 0; AllWorkers: with all workers.',
    )
    enable_dynamic_worker: bool | None = Field(
        None,
        description="Workers may come, go and fail while the job runs: each knows only the parameter servers and itself.",
    )
