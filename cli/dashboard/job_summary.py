"""A job in a line: what the list of jobs shows of it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from jobcommon.api.status import ConditionType, JobStatus, read_status
from jobcommon.api.timestamp import parse_time

NEW = "New"
STATES = (NEW, *ConditionType)


@dataclass(frozen=True)
class JobSummary:
    """A job as the list shows it. Times are seconds since the epoch; `why` is the message of the current condition."""

    kind: str
    plural: str
    namespace: str
    name: str
    state: str
    why: str
    created: float | None
    ended: float | None
    active: int
    succeeded: int
    restarts: int

    @property
    def path(self) -> str:
        """The address of the job's page."""
        return f"/jobs/{self.plural}/{self.namespace}/{self.name}"


@dataclass(frozen=True)
class Filter:
    """Which jobs are shown; "" for all."""

    namespace: str = ""
    state: str = ""
    kind: str = ""

    def admits(self, job: JobSummary) -> bool:
        """Whether the job is shown."""
        wanted = ((self.namespace, job.namespace), (self.state, job.state), (self.kind, job.kind))
        return all(not value or value == found for value, found in wanted)


def summary(raw: dict[str, Any], plural: str) -> JobSummary:
    """The line of one job."""
    metadata, status = raw["metadata"], read_status(raw.get("status"))
    current = status.conditions[-1] if status.conditions else None
    replicas = status.replica_statuses.values()
    return JobSummary(
        kind=str(raw.get("kind", "")),
        plural=plural,
        namespace=str(metadata.get("namespace", "")),
        name=str(metadata.get("name", "")),
        state=state_of(status),
        why=current.message if current is not None else "No operator has taken it up yet.",
        created=parse_time(metadata.get("creationTimestamp")),
        ended=parse_time(status.completion_time),
        active=sum(of_type.active or 0 for of_type in replicas),
        succeeded=sum(of_type.succeeded or 0 for of_type in replicas),
        restarts=(status.restarts or 0) + (status.disruptions or 0),
    )


def state_of(status: JobStatus) -> str:
    """The current condition's type; `NEW` without one of ours."""
    found = status.conditions[-1].type if status.conditions else ""
    return found if found in STATES else NEW


def newest_first(jobs: Iterable[JobSummary]) -> Sequence[JobSummary]:
    """The jobs by time of creation."""
    return sorted(jobs, key=lambda job: (-(job.created or 0.0), job.namespace, job.name))
