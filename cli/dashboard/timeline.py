"""The timeline of a job: a lane for the job and one for each pod, with what it waited for and when it ran.

It is made of what the cluster still knows: times of conditions and pods, the last two runs of a container, and the failures in
the job's status. Times are seconds since the epoch.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from jobcommon.api.status import ConditionType, Failure, JobStatus
from jobcommon.api.timestamp import parse_time
from jobcommon.cli.dashboard.conditions import failure_in_words
from jobcommon.cli.dashboard.pod_row import PodRow

# In words, by the segment's state, which is also its style.
STATES = {
    "queued": "queued: no pods yet",
    "suspended": "suspended",
    "pending": "waiting for a node",
    "gone": "earlier pods, which are gone",
    "starting": "starting: volumes, images, containers",
    "running": "running",
    "waiting": "waiting for a restart",
    "restarting": "restarting",
}
_STATES: Mapping[str, str] = {
    ConditionType.RUNNING: "running",
    ConditionType.RESTARTING: "restarting",
    ConditionType.SUSPENDED: "suspended",
}

_HAS_RUN = (ConditionType.RUNNING, ConditionType.RESTARTING, ConditionType.SUCCEEDED)


@dataclass(frozen=True)
class Segment:
    """A stretch of time in one state."""

    state: str
    begin: float
    end: float
    note: str = ""

    @property
    def words(self) -> str:
        """The state in words."""
        return STATES[self.state] + (f" ({self.note})" if self.note else "")


@dataclass(frozen=True)
class Mark:
    """An end or a failure."""

    at: float
    text: str
    failed: bool


@dataclass(frozen=True)
class Lane:
    """The life of the job or of one replica."""

    label: str
    segments: tuple[Segment, ...]
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True)
class Timeline:
    """All lanes, from `begin` to `end`; `left_out` lanes are not shown."""

    begin: float
    end: float
    lanes: Sequence[Lane]
    left_out: int = 0

    @property
    def states(self) -> Sequence[str]:
        """The states that occur, in the order of a life."""
        there = {segment.state for lane in self.lanes for segment in lane.segments}
        return [state for state in STATES if state in there]


def timeline(created: float, status: JobStatus, pods: Sequence[PodRow], now: float, *, most: int) -> Timeline:
    """The timeline of a job at `now`, with at most `most` lanes of pods: those that failed or restarted go before others."""
    ended = parse_time(status.completion_time)
    end = max(ended if ended is not None else now, created + 1.0)
    failures = status.failures
    troubled = {failure.replica for failure in failures}
    first = [i for i, pod in enumerate(pods) if pod.restarts or pod.cause or pod.replica in troubled]
    chosen = sorted([*dict.fromkeys([*first, *range(len(pods))])][:most])
    there = {pod.replica for pod in pods}
    gone = dict.fromkeys(failure.replica for failure in failures if failure.replica not in there)
    lanes = [
        Lane("Job", job_segments(created, status, pods, end)),
        *(pod_lane(pods[i], status, end) for i in chosen),
        *(Lane(replica, (), tuple(_marks(failures, replica))) for replica in gone),
    ]
    latest = [segment.end for lane in lanes for segment in lane.segments] + [mark.at for lane in lanes for mark in lane.marks]
    return Timeline(created, max([end, *latest]), lanes, len(pods) - len(chosen))


def job_segments(created: float, status: JobStatus, pods: Sequence[PodRow], end: float) -> tuple[Segment, ...]:
    """The life of the job. Only the last change of each condition is known, so an earlier one may be missing."""
    steps = [(created, "queued")]
    if pods_at := [pod.created for pod in pods if pod.created is not None]:
        steps.append((min(pods_at), "starting"))
    begins = [run.begin for pod in pods for run in pod.runs]
    # A job may end before a condition says that it runs.
    ran = status.finished and (begins or any(failure.exit_code is not None for failure in status.failures))
    if ran or any(condition.type in _HAS_RUN for condition in status.conditions):
        # The first run that pods still tell of: the Running condition has only the time of its last change, as after a restart.
        ran_at = min(begins, default=parse_time(status.start_time))
        steps += [(ran_at, "running")] if ran_at is not None else []
    for condition in status.conditions:
        at, state = parse_time(condition.last_transition_time), _STATES.get(condition.type)
        if at is not None and state is not None and condition.is_true:
            steps.append((at, state))
        elif at is not None and state == "suspended":
            steps.append((at, "queued"))
    steps.sort(key=lambda step: step[0])
    changes = [step for before, step in pairwise([(created, ""), *steps]) if step[1] != before[1]]
    return tuple(
        Segment(state, begin, min(after, end))
        for (begin, state), (after, _) in pairwise([*changes, (end, "")])
        if min(after, end) > begin
    )


def pod_lane(pod: PodRow, status: JobStatus, end: float) -> Lane:
    """The lane of a replica: its pod, and before it those that it replaces, of which only the failures are known."""
    marks, segments = pod_marks(pod, status.failures), pod_segments(pod, end)
    began = parse_time(status.start_time)
    if (
        began is not None
        and pod.created is not None
        and any(began <= mark.at <= pod.created for mark in marks)
        and began < pod.created
    ):
        segments = (Segment("gone", began, pod.created), *segments)
    return Lane(pod.replica, segments, marks)


def pod_segments(pod: PodRow, end: float) -> tuple[Segment, ...]:
    """The life of a pod, to its end, its deletion or to `end`."""
    if pod.created is None:
        return ()
    steps = [(pod.created, "pending", "")]
    if pod.scheduled is not None:
        steps.append((pod.scheduled, "starting", f"node {pod.node}" if pod.node else ""))
    for run in pod.runs:
        steps.append((run.begin, "running", ""))
        if run.end is not None:
            steps.append((run.end, "waiting", run.reason))
    last = pod.runs[-1].end if pod.over and pod.runs else None
    ends = min(time for time in (end, pod.deleted, last) if time is not None)
    followed = pairwise([*steps, (ends, "", "")])
    return tuple(
        Segment(s, begin, min(after, ends), note) for (begin, s, note), (after, _, _) in followed if min(after, ends) > begin
    )


def pod_marks(pod: PodRow, failures: Iterable[Failure]) -> tuple[Mark, ...]:
    """The recorded failures of the pod's replica, and the end of the pod itself."""
    own = list(_marks(failures, pod.replica))
    run = pod.runs[-1] if pod.runs else None
    if run is not None and run.end is not None and pod.over and run.end not in {mark.at for mark in own}:
        reason = f" ({run.reason})" if run.reason not in ("", "Completed", "Error") else ""
        own.append(Mark(run.end, f"{pod.replica}: exited with code {run.exit_code}{reason}", failed=run.exit_code != 0))
    return tuple(own)


def _marks(failures: Iterable[Failure], replica: str) -> Iterable[Mark]:
    own = ((parse_time(failure.time), failure) for failure in failures if failure.replica == replica)
    return (Mark(at, failure_in_words(failure), failed=True) for at, failure in own if at is not None)
