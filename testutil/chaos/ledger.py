"""What the jobs wrote down themselves, and what it must not say: the oracle of a chaos trial."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from jobcommon.api.reasons import BACKOFF_LIMIT_EXCEEDED
from jobcommon.api.status import ConditionType, JobStatus, read_status
from jobcommon.operators.tf import TF
from jobcommon.testutil.chaos.jobs import EXHAUST_LIMIT, ChaosJob, Script

LOST = "ContainerStatusUnknown"


@dataclass(frozen=True)
class RunOf:
    """One run of a pod's script: when it began, and when and how it ended; None when it was cut short."""

    pod: str
    uid: str
    started: float
    ended: float | None = None
    code: int | None = None


def read_ledger(path: Path) -> list[RunOf]:
    """The runs in the order in which they began. Raises ValueError for a line that no script writes."""
    runs: list[RunOf] = []
    last: dict[str, int] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        match line.split(" "):
            case ["start", pod, uid, moment]:
                last[uid] = len(runs)
                runs.append(RunOf(pod, uid, float(moment)))
            case ["end", pod, uid, moment, code] if uid in last:
                run = runs[last[uid]]
                runs[last[uid]] = RunOf(pod, uid, run.started, float(moment), int(code))
            case _:
                raise ValueError(f"{path}: what is {line!r}?")
    return runs


@dataclass
class Evidence:
    """What was seen from outside: when the cluster was killed, and by pod UID when a success was first on record, and the
    most restarts; by job name the final condition that was seen first, and the status at the end.
    """

    cluster_kills: list[float] = field(default_factory=list)
    succeeded: dict[str, float] = field(default_factory=dict)
    restarts: dict[str, int] = field(default_factory=dict)
    finals: dict[str, tuple[str, str | None]] = field(default_factory=dict)
    statuses: dict[str, Any] = field(default_factory=dict)

    def killed_between(self, start: float, end: float) -> bool:
        """Whether the cluster was killed then."""
        return any(start <= moment <= end for moment in self.cluster_kills)


def surplus_runs(runs: Sequence[RunOf], evidence: Evidence) -> Iterator[str]:
    """The runs that must not have happened: of a replica whose success is on record, and of one that was not stopped.

    A success that the cluster could not record, because it was killed before, does not count.
    """
    by_pod: Mapping[str, list[RunOf]] = defaultdict(list)
    for run in runs:
        by_pod[run.pod].append(run)
    for pod, series in by_pod.items():
        for before, after in pairwise(series):
            recorded = evidence.succeeded.get(before.uid)
            if recorded is not None and recorded < after.started:
                yield f"{pod} ran again {after.started - recorded:.2f} s after its success was on record"
            elif before.code == 0 and not evidence.killed_between(before.ended or 0.0, after.started):
                yield f"{pod} ran again after it had succeeded"
            elif before.ended is None and not evidence.killed_between(before.started, after.started):
                yield f"{pod} ran again though its run had not ended, and the cluster was not killed meanwhile"


def repeated_pods(jobs: Sequence[ChaosJob], runs: Sequence[RunOf], evidence: Evidence) -> Iterator[str]:
    """Pods whose main container was started more often than their policy and their restart count allow."""
    in_place = {pod for job in jobs if job.script is Script.IN_PLACE for pod in job.pods}
    starts: Mapping[str, list[RunOf]] = defaultdict(list)
    for run in runs:
        starts[run.uid].append(run)
    for uid, series in starts.items():
        allowed = 1 + (evidence.restarts.get(uid, 0) if series[0].pod in in_place else 0)
        if len(series) > allowed:
            yield f"pod {series[0].pod} ({uid}) was started {len(series)} times, {allowed} allowed"


def job_faults(job: ChaosJob, runs: Sequence[RunOf], evidence: Evidence) -> Iterator[str]:
    """What is wrong with the end of one job and with its counts."""
    status = read_status(evidence.statuses.get(job.name))
    last = status.conditions[-1] if status.conditions else None
    if last is None or not status.finished:
        yield f"has not come to an end: {last.type if last else 'no condition'}"
        return
    if evidence.finals.get(job.name, (last.type, last.reason)) != (last.type, last.reason):
        yield f"was {evidence.finals[job.name]} and then {last.type} {last.reason}"
    if status.completion_time is None:
        yield "has no completionTime"
    series = [run for run in runs if run.pod in job.pods]
    message = last.message or ""
    match job.script:
        case Script.EXHAUSTS:
            if last.type != ConditionType.FAILED or last.reason != BACKOFF_LIMIT_EXCEEDED:
                yield f"should have used up its backoffLimit, but is {last.type} {last.reason}: {message}"
            yield from _exact_count([run for run in series if run.pod == job.pods[0]], status)
        case Script.FAILS:
            if last.type != ConditionType.FAILED:
                yield f"should have failed, but is {last.type}"
        case Script.NEVER:
            if last.type != ConditionType.SUCCEEDED and not (evidence.cluster_kills and LOST in message):
                yield f"should have succeeded or lost a run with the cluster, but is {last.type}: {message}"
            if len({run.pod for run in series}) != len(series):
                yield "ran a replica twice"
        case _:
            if last.type != ConditionType.SUCCEEDED:
                yield f"should have succeeded, but is {last.type}: {message}"
            if job.script is not Script.IN_PLACE:
                yield from _accounted(job, series, status)


def _exact_count(series: Sequence[RunOf], status: JobStatus) -> Iterator[str]:
    """An always failing replica runs limit + 1 times, and once more for each run that was lost without fault."""
    lost = status.disruptions or 0
    if not EXHAUST_LIMIT + 1 <= len(series) <= EXHAUST_LIMIT + 1 + lost:
        yield f"ran {len(series)} times with backoffLimit {EXHAUST_LIMIT} and {lost} disruptions"


def _accounted(job: ChaosJob, series: Sequence[RunOf], status: JobStatus) -> Iterator[str]:
    """Every run beyond the first of a replica was a restart or a disruption that the status counts."""
    again = len(series) - len({run.pod for run in series})
    told = (status.restarts or 0) + (status.disruptions or 0)
    # Every replica of a TFJob of this trial decides, so there the counts are equal.
    if again > told or (job.framework is TF and again < told and not _never_started(job, series)):
        yield f"has {again} runs more than replicas, and tells of {status.restarts} restarts, {status.disruptions} disruptions"


def _never_started(job: ChaosJob, series: Sequence[RunOf]) -> bool:
    """Whether some pod was lost before its script had written its first line: a disruption without a run."""
    return any(run.ended is None for run in series) or len({run.pod for run in series}) < len(job.pods)
