"""A job in a line: what the list of jobs shows of it."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from jobcommon.api.status import ConditionType, JobStatus, read_status
from jobcommon.api.timestamp import parse_time
from jobcommon.framework import Framework
from jobcommon.spec import read_job

NEW = "New"
STATES = (NEW, *ConditionType)
# What the state says already.
_STATE_IN_WORDS = re.compile(
    r"^\w+ \S+ (is created|is running|is suspended|is restarting because|has failed because|successfully completed)"
    r"(; (waiting: )?|[. ]|$)"
)


@dataclass(frozen=True)
class JobSummary:
    """A job as the list shows it. Times are seconds since the epoch; `cause` is what the current condition
    says beyond the state; `there` counts the replicas that run or have succeeded, of those `wanted`."""

    kind: str
    plural: str
    namespace: str
    name: str
    state: str
    cause: str
    created: float | None
    there: int
    wanted: int
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


def summary(framework: Framework, raw: dict[str, Any]) -> JobSummary:
    """The line of one job."""
    metadata, status = raw["metadata"], read_status(raw.get("status"))
    current = status.conditions[-1] if status.conditions else None
    replicas = status.replica_statuses.values()
    return JobSummary(
        kind=framework.kind,
        plural=framework.plural,
        namespace=str(metadata.get("namespace", "")),
        name=str(metadata.get("name", "")),
        state=state_of(status),
        cause=_STATE_IN_WORDS.sub("", current.message) if current is not None else "no operator has answered",
        created=parse_time(metadata.get("creationTimestamp")),
        there=sum((of_type.active or 0) + (of_type.succeeded or 0) for of_type in replicas),
        wanted=read_job(framework, raw).total_replicas,
        restarts=(status.restarts or 0) + (status.disruptions or 0),
    )


def state_of(status: JobStatus) -> str:
    """The current condition's type; `NEW` without one of ours."""
    found = status.conditions[-1].type if status.conditions else ""
    return found if found in STATES else NEW


def newest_first(jobs: Iterable[JobSummary]) -> Sequence[JobSummary]:
    """The jobs by time of creation."""
    return sorted(jobs, key=lambda job: (-(job.created or 0.0), job.namespace, job.name))
