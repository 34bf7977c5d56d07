"""Where the time of a job goes: seconds by phase, and the phase it is in."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from jobcommon.api.model import ApiModel
from jobcommon.api.timestamp import parse_time

_Seconds = Annotated[float, Field(ge=0)]


class Phase(StrEnum):
    """What a job that has not finished does. Pending: its programs have not run yet since its start or its last resume."""

    PENDING = "Pending"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    RESIZING = "Resizing"
    STALLED = "Stalled"
    SUSPENDED = "Suspended"


class TimeSpent(ApiModel):
    """Where the time of a job went, in seconds, up to the beginning of its phase."""

    phase: str | None = Field(
        None,
        description="The current phase: Pending, Running, Restarting, Resizing, Stalled or Suspended. Unset when the job has "
        "finished.",
    )
    since: str | None = Field(None, description="When the phase began. The numbers do not include the time since then.")
    queued: _Seconds | None = Field(None, description="Suspended, or before all of its pods had nodes.")
    starting: _Seconds | None = Field(None, description="From then until it ran: images, volumes, containers.")
    running: _Seconds | None = Field(None, description="It ran.")
    restarting: _Seconds | None = Field(None, description="From a failure or a loss until all replicas ran again.")
    resizing: _Seconds | None = Field(None, description="Like restarting, for another number of replicas.")
    stalled: _Seconds | None = Field(None, description="Its programs ran and reported no progress.")
    progressing: _Seconds | None = Field(
        None, description="The time, up to the last report, in which the highest step rose. Part of running."
    )
    lost_steps: Annotated[int, Field(ge=0)] | None = Field(
        None, description="The steps that were repeated because a run had ended without a checkpoint of them."
    )

    def seconds(self, now: float) -> Mapping[str, float]:
        """All of its time until `now` (seconds since the epoch), by field, without fields that are zero.

        The time of the phase Pending is not divided yet and counts as queued.
        """
        spent = {name: getattr(self, name) or 0.0 for name in FIELDS}
        began = parse_time(self.since)
        if self.phase in FIELD_OF and began is not None:
            spent[FIELD_OF[self.phase]] += max(now - began, 0.0)
        return {name: amount for name, amount in spent.items() if amount}

    def availability(self, now: float) -> float | None:
        """The share of its time in which it ran, from 0 to 1, without the time in which it was queued; None without any."""
        return self._share(self.seconds(now).get("running", 0.0), now)

    def goodput(self, now: float) -> float | None:
        """The share of the same time in which the highest step rose; None without reports of steps."""
        return self._share(self.progressing, now) if self.progressing is not None else None

    def _share(self, seconds: float, now: float) -> float | None:
        whole = sum(amount for name, amount in self.seconds(now).items() if name != "queued")
        return seconds / whole if whole else None


FIELDS = ("queued", "starting", "running", "restarting", "resizing", "stalled")
"""The fields with seconds, in the order of a job's life."""
FIELD_OF: Mapping[str | None, str] = {
    Phase.PENDING: "queued",
    Phase.SUSPENDED: "queued",
    Phase.RUNNING: "running",
    Phase.RESTARTING: "restarting",
    Phase.RESIZING: "resizing",
    Phase.STALLED: "stalled",
}
