"""No job starts in a maintenance window: an optional feature of a third party.

The window is that of the job's own field `runPolicy.maintenanceWindow`, or else of the ConfigMaps of its namespace with the
label `example.com/maintenance-window`. A job that has started goes on.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from pydantic import Field, ValidationError, field_validator

from jobcommon import (
    FEATURES,
    Admission,
    ApiModel,
    Course,
    FieldError,
    Job,
    JobStatus,
    Lifecycle,
    Note,
    Options,
    Proposal,
    Wait,
    Wake,
    Watch,
    Why,
)
from jobcommon.operators.pytorch.framework import PYTORCH

LABEL = "example.com/maintenance-window"


class Window(ApiModel):
    """A maintenance window: no job starts between these times."""

    starts: str = Field(description="When it starts (RFC 3339).")
    ends: str = Field(description="When it ends (RFC 3339).")

    @field_validator("starts", "ends")
    @classmethod
    def _has_a_zone(cls, value: str) -> str:
        if datetime.fromisoformat(value).tzinfo is None:
            raise ValueError(f"{value} has no time zone; append Z")
        return value

    @property
    def times(self) -> tuple[float, float]:
        """Both, in seconds since the epoch."""
        return datetime.fromisoformat(self.starts).timestamp(), datetime.fromisoformat(self.ends).timestamp()


class Held(ApiModel):
    """What is on record of a job that waits."""

    until: str = Field(description="When the window ends for which the job waits.")


class MaintenanceWindow(Admission, Lifecycle):
    """Holds the start of jobs in maintenance windows."""

    name = "maintenanceWindow"
    spec = Window
    status = Held

    @classmethod
    def concerns(cls, job: Job) -> bool:
        """A job that is to start, or of which it is still on record that it waits."""
        return job.status.start_time is None or cls.name in job.status.features

    @classmethod
    def access(cls, options: Options) -> Iterable[Watch]:
        """The operator gets the right to list and watch ConfigMaps, and caches those with the label."""
        return [Watch("v1", "configmaps", selector=LABEL)]

    @classmethod
    def validate(cls, job: Job) -> Iterable[FieldError]:
        """A window that ends before it starts would hold nothing."""
        window = job.features.get(cls.name)
        if isinstance(window, Window) and window.times[0] >= window.times[1]:
            yield FieldError(f"spec.runPolicy.{cls.name}.ends", "must be after starts")

    def wait(self) -> Wait | None:
        """What holds the pods of the job, and its start."""
        if (end := self._held_until) is None:
            return None
        return Wait(Why.NOT_YET, Note(f"maintenance until {format_time(end)}"))

    def act(self, course: Course | None) -> Iterable[Proposal]:
        """Look again when the window ends: no event says so."""
        return [Wake(self._held_until)] if self._held_until is not None else []

    def record(self, status: JobStatus) -> Mapping[str, Any]:
        """`status.features.maintenanceWindow.until`, while the job waits."""
        return {"until": format_time(self._held_until)} if self._held_until is not None else {}

    @property
    def _held_until(self) -> float | None:
        if self.view.job.status.start_time is not None:
            return None
        return max((end for start, end in self._windows() if start <= self.view.now < end), default=None)

    def _windows(self) -> Iterator[tuple[float, float]]:
        if isinstance(self.policy, Window):
            yield self.policy.times
            return
        for (plural, _), view in self.view.observed.cluster.items():
            if plural == "configmaps":
                try:
                    yield Window.model_validate(view.raw.get("data")).times
                except ValidationError:
                    continue  # What is written wrongly holds nothing.


def format_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


PYTORCH_IN_WINDOWS = replace(PYTORCH, features=(*FEATURES, MaintenanceWindow))
"""The operator of PyTorchJob with the feature: `jobcommon operator --framework maintenance_window:PYTORCH_IN_WINDOWS`."""
