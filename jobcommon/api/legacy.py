"""Older places of RunPolicy's fields: v1beta1 kinds and v1 of pytorch-operator and mxnet-operator had them directly in spec."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from jobcommon.api.job import CleanPodPolicy, Int32, JobSpec, enum_field

_FIELDS = ("cleanPodPolicy", "ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit", "schedulingPolicy")


class FlatRunPolicySpec(JobSpec):
    """A spec that also takes RunPolicy's fields where older versions had them. What stands in runPolicy wins."""

    clean_pod_policy: Annotated[CleanPodPolicy, enum_field(CleanPodPolicy)] | None = Field(
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
