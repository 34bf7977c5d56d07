"""A job in a line: what the list of jobs shows of it; and which jobs it shows, in which order."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from urllib.parse import urlencode

from jobcommon.api.status import ConditionType, JobStatus
from jobcommon.api.timestamp import parse_time
from jobcommon.causes.cause import in_short
from jobcommon.cli.jobs.listing import CAUSE_WIDTH, pod_count, worth_telling
from jobcommon.diagnosis import Diagnosis, Found, diagnose
from jobcommon.framework import Framework

NEW = "New"
STATES = (NEW, *ConditionType)
NOT_WELL_FIRST, NEWEST_FIRST = "", "newest"
_ORDERS = {NEWEST_FIRST: NEWEST_FIRST}
# What the state says already.
_STATE_IN_WORDS = re.compile(
    r"^\w+ \S+ (is created|is running|is suspended|is restarting because|has failed because|successfully completed)"
    r"(; (waiting: )?|[. ]|$)"
)
_EXPLAINED = (ConditionType.FAILED, ConditionType.RESTARTING)


@dataclass(frozen=True)
class Progress:
    """The last report: the share that is done in percent, and all of it in words, "" without one."""

    percent: int | None
    words: str


def progress_of(status: JobStatus, words: str) -> Progress:
    """The progress, with `words` for it as every list has them, but for their bar: a page draws its own."""
    report = status.trainer_status
    return Progress(report.progress_percentage if report is not None else None, words.lstrip("█░ "))


@dataclass(frozen=True)
class JobSummary:
    """A job as the list shows it, by its JSON and its status as it was read. What takes long is computed when it is shown."""

    framework: Framework
    raw: Mapping[str, Any]
    status: JobStatus
    told: Diagnosis | None = None
    beside: Found | None = None

    def explained(self, beside: Found, now: float) -> "JobSummary":
        """The job with what explains it, as far as a list reads it: its pods, and warnings about them."""
        return replace(self, told=worth_telling(diagnose(beside, now)), beside=beside)

    @cached_property
    def namespace(self) -> str:
        """Its namespace."""
        return str(self.raw["metadata"].get("namespace", ""))

    @cached_property
    def name(self) -> str:
        """Its name."""
        return str(self.raw["metadata"].get("name", ""))

    @property
    def kind(self) -> str:
        """Its kind."""
        return self.framework.kind

    @property
    def path(self) -> str:
        """The address of the job's page."""
        return f"/jobs/{self.framework.plural}/{self.namespace}/{self.name}"

    @cached_property
    def state(self) -> str:
        """Its state."""
        return state_of(self.status)

    @cached_property
    def created(self) -> float | None:
        """When it was created, in seconds since the epoch."""
        return parse_time(self.raw["metadata"].get("creationTimestamp"))

    @property
    def pods(self) -> str:
        """``2/3``: of the replicas that are wanted, those that run or have succeeded."""
        return pod_count(self.beside or Found(self.framework, self.raw))

    @property
    def reason(self) -> str:
        """The reason of the diagnosis, "" for a job that is well."""
        return str(self.told.reason) if self.told is not None else ""

    @property
    def restarts(self) -> int:
        """Its restarts for whatever cause."""
        return (self.status.restarts or 0) + (self.status.disruptions or 0)

    @property
    def progress(self) -> Progress:
        """What its program has reported."""
        return progress_of(self.status, self.status.reported_progress)

    @cached_property
    def cause(self) -> str:
        """The diagnosis, of a failure by the status alone; else what the current condition says beyond the state."""
        if self.told is not None:
            return _STATE_IN_WORDS.sub("", in_short(self.told.sentence, CAUSE_WIDTH))
        if not self.status.conditions:
            return "no operator has reconciled it"
        current = self.status.conditions[-1]
        if current.type in _EXPLAINED:
            return _STATE_IN_WORDS.sub("", diagnose(Found(self.framework, self.raw), 0.0).sentence)
        return _STATE_IN_WORDS.sub("", current.message).replace(f"{self.kind} {self.namespace}/{self.name} ", "it ", 1)

    @cached_property
    def rank(self) -> int:
        """0 for a job that is not over and not well, 1 for one that has failed, 2 for the others."""
        if self.state == ConditionType.FAILED:
            return 1
        waits = self.state in (NEW, ConditionType.CREATED, ConditionType.RUNNING) and self.cause
        return 0 if waits or self.state in (ConditionType.STALLED, ConditionType.RESTARTING) else 2


@dataclass(frozen=True)
class Filter:
    """Which jobs are shown, "" for all; `q`: words that each occur in a job's name, namespace, kind, state or cause."""

    namespace: str = ""
    state: str = ""
    kind: str = ""
    q: str = ""
    order: str = NOT_WELL_FIRST
    page: str = ""

    def admits(self, job: JobSummary) -> bool:
        """Whether the job is shown."""
        wanted = ((self.namespace, job.namespace), (self.state, job.state), (self.kind, job.kind))
        if not all(not value or value == found for value, found in wanted):
            return False
        words = self.q.lower().split()
        text = f"{job.name} {job.namespace} {job.kind} {job.state} {job.cause}".lower() if words else ""
        return all(word in text for word in words)

    def address(self, **changes: str) -> str:
        """The address of the list with these changes, on its first page unless they name another."""
        fields = vars(replace(self, **{"page": "", **changes}))
        return "/?" + urlencode({name: value for name, value in fields.items() if value})


def read_filter(query: Mapping[str, str], frameworks: Iterable[Framework]) -> tuple[Filter, Sequence[str]]:
    """The filter of an address, whose kinds may be written as kubectl takes them; and in words, which values do not exist."""
    given = Filter(**{name: query.get(name, "") for name in vars(Filter())})
    of_kind = {name.lower(): one.kind for one in frameworks for name in (one.kind, one.plural, one.singular)}
    of_state = {state.lower(): str(state) for state in STATES}
    wrong = [
        f"unknown {name} {value}: use {', '.join(sorted({*known.values()}))}"
        for name, value, known in (
            ("kind", given.kind, of_kind),
            ("state", given.state, of_state),
            ("order", given.order, _ORDERS),
        )
        if value and value.lower() not in known
    ]
    kind, state = of_kind.get(given.kind.lower(), given.kind), of_state.get(given.state.lower(), given.state)
    return replace(given, kind=kind, state=state), wrong


def state_of(status: JobStatus) -> str:
    """The current condition's type; `NEW` without one of ours."""
    found = status.conditions[-1].type if status.conditions else ""
    return found if found in STATES else NEW


def in_order(jobs: Iterable[JobSummary], order: str) -> Sequence[JobSummary]:
    """The jobs, the newest first; unless the order says so, those that are not well before the others."""
    return sorted(
        jobs,
        key=lambda job: (0 if order == NEWEST_FIRST else job.rank, -(job.created or 0.0), job.namespace, job.name),
    )
