"""The timeline of a job: a lane for the job and one for each pod, with what it waited for and when it ran.

It is made of what the cluster still knows: times of conditions, events and pods, the last two runs of a container, and the time
spent and the failures in the job's status; and of what this process has seen. Times are seconds since the epoch.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from jobcommon.api import reasons
from jobcommon.api.status import ConditionType, Failure, JobStatus
from jobcommon.api.time_spent import Phase
from jobcommon.api.timestamp import parse_time
from jobcommon.cli.dashboard.conditions import failure_in_words
from jobcommon.cli.dashboard.history import Seen
from jobcommon.cli.dashboard.pod_row import PodRow
from jobcommon.diagnosis import Found

# In words, by the segment's state, which is also its style.
STATES = {
    "queued": "queued: not all pods have a node",
    "suspended": "suspended",
    "pending": "waiting for a node",
    "gone": "earlier runs, whose times are unknown",
    "starting": "starting: volumes, images, containers",
    "running": "running",
    "waiting": "waiting for a restart",
    "restarting": "restarting",
    "resizing": "restarting with another size",
    "stalled": "stalled: no progress was reported",
}
# The states whose bars have a pattern, by its angle.
PATTERNS = {"waiting": 45, "restarting": -45, "resizing": 0, "stalled": 90}
# Of a condition, and of a phase of the time spent.
_STATES: Mapping[str, str] = {
    ConditionType.RUNNING: "running",
    ConditionType.RESTARTING: "restarting",
    ConditionType.SUSPENDED: "suspended",
    ConditionType.STALLED: "stalled",
    Phase.RESIZING: "resizing",
}
# A restart and the new size that it brings are recorded at the same time, in whole seconds.
_SAME = 1.0

_EVENTS = (ConditionType.RESTARTING, ConditionType.SUSPENDED)
# The time spent in them is on record.
_FIELDS = ("restarting", "resizing", "stalled")
_HAS_RUN = (ConditionType.RUNNING, ConditionType.RESTARTING, ConditionType.SUCCEEDED)
Step = tuple[float, str]
"""When a state began."""


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


def timeline(
    created: float, status: JobStatus, pods: Sequence[PodRow], now: float, *, most: int, changes: Sequence[Step] = ()
) -> Timeline:
    """The timeline of a job at `now`, with at most `most` lanes of pods: those that failed or restarted go before others.

    `changes` are those of the job, beyond the ones that its conditions have.
    """
    ended = parse_time(status.completion_time)
    end = max(ended if ended is not None else now, created + 1.0)
    failures = status.failures
    troubled = {failure.replica for failure in failures}
    first = [i for i, pod in enumerate(pods) if pod.restarts or pod.cause or pod.replica in troubled]
    chosen = sorted([*dict.fromkeys([*first, *range(len(pods))])][:most])
    there = {pod.replica for pod in pods}
    gone = dict.fromkeys(failure.replica for failure in failures if failure.replica not in there)
    lanes = [
        Lane("Job", job_segments(created, status, pods, end, changes)),
        *(pod_lane(pods[i], status, end) for i in chosen),
        *(Lane(replica, (), tuple(_marks(failures, replica))) for replica in gone),
    ]
    latest = [segment.end for lane in lanes for segment in lane.segments] + [mark.at for lane in lanes for mark in lane.marks]
    return Timeline(created, max([end, *latest]), lanes, len(pods) - len(chosen))


def changes_of(found: Found, seen: Seen | None) -> Sequence[Step]:
    """When phases of the job began, by its status, by its events, of which a cluster keeps the last hour's, and as was seen."""
    status, kind = found.status, found.framework.kind
    begun = {reasons.STALLED: "stalled", **{reasons.of_kind(kind, name): _STATES[name] for name in _EVENTS}}
    steps = [(event.at, begun[event.reason]) for event in found.events_of(found.read.uid) if event.reason in begun]
    if seen is not None:
        steps += [(began, _STATES[phase]) for began, phase in seen.phases.items() if phase in _STATES]
    runs_since = _runs_since(status)
    for at in map(parse_time, (status.last_restart_time, status.last_resize_time)):
        if at is not None and runs_since is not None and at <= runs_since:
            steps.append((at, "restarting"))
    return steps


def _runs_since(status: JobStatus) -> float | None:
    """When the job began to run last; its end does not change that."""
    running = status.condition(ConditionType.RUNNING)
    return parse_time(running.last_transition_time) if running and (running.is_true or status.finished) else None


def job_segments(
    created: float, status: JobStatus, pods: Sequence[PodRow], end: float, known: Sequence[Step] = ()
) -> tuple[Segment, ...]:
    """The life of the job. Of each condition only the last change is on record, so that an earlier phase may be missing."""
    steps = [(created, "queued"), *_first_start(created, status, pods)]
    stalled = status.condition(ConditionType.STALLED)
    lasted = dict(status.time_spent.seconds(end)) if status.time_spent is not None else None
    if stalled is not None and not stalled.is_true and (over := parse_time(stalled.last_transition_time)) is not None:
        if not any(state == "stalled" and at < over for at, state in known):
            steps.append((max(over - (lasted or {}).get("stalled", 0.0), steps[-1][0]), "stalled"))
        steps.append((over, "running"))
    # Of a job that ended before it ran the condition has the time of another.
    has_run = status.time_spent is None or status.time_spent.running
    if status.finished and has_run and (ran := _runs_since(status)) is not None:
        steps.append((ran, "running"))
    steps += [step for step in known if step[0] >= created]
    for condition in status.conditions:
        at, state = parse_time(condition.last_transition_time), _STATES.get(condition.type)
        if at is not None and state is not None and condition.is_true:
            steps.append((at, state))
        elif at is not None and state == "suspended":
            steps.append((at, "queued"))
    resized = parse_time(status.last_resize_time)
    if resized is not None:
        steps = [(at, "resizing" if state == "restarting" and abs(at - resized) <= _SAME else state) for at, state in steps]
    return _segments(sorted(steps, key=lambda step: step[0]), created, end, lasted, goes_on=not status.finished)


def _segments(
    steps: Sequence[Step], begin: float, end: float, lasted: dict[str, float] | None, *, goes_on: bool
) -> tuple[Segment, ...]:
    """The time between the steps. Not all ends of restarts and stalls are known, but together they `lasted` so long."""
    begins = [step for before, step in pairwise([(begin, ""), *steps]) if step[1] != before[1] or step[0] - before[0] > _SAME]
    found: list[Segment] = []
    until, after = end, end
    for at, state in reversed(begins):
        if state in _FIELDS and lasted is not None:
            # The current phase lasts; the later ones are the better known.
            until = until if after == end and goes_on else min(until, at + lasted.get(state, 0.0))
            lasted[state] = max(lasted.get(state, 0.0) - max(until - at, 0.0), 0.0)
        for one in (Segment("running", until, after), Segment(state, at, until)):
            if one.end <= one.begin:
                continue
            if found and found[-1].state == one.state:
                one = replace(found.pop(), begin=one.begin)
            found.append(one)
        until = after = min(at, end)
    return tuple(reversed(found))


def _first_start(created: float, status: JobStatus, pods: Sequence[PodRow]) -> list[Step]:
    """When the first pods had nodes and when they ran."""
    spent, suspended = status.time_spent, status.condition(ConditionType.SUSPENDED)
    if spent is not None and status.last_restart_time and suspended is None:
        # The pods of today are later ones.
        placed = created + (spent.queued or 0.0)
        return [(placed, "starting"), (placed + (spent.starting or 0.0), "running")]
    begins = [run.begin for pod in pods for run in pod.runs]
    # A job may end before a condition says that it runs.
    ran = status.finished and (begins or any(failure.exit_code is not None for failure in status.failures))
    has_run = ran or any(condition.type in _HAS_RUN for condition in status.conditions)
    # The first run that is still on record: the Running condition has only the time of its last change, as after a restart.
    ran_at = min(begins, default=parse_time(status.start_time)) if has_run else None
    nodes_at = [pod.scheduled for pod in pods if pod.scheduled is not None]
    if ran_at is None:
        return [(max(nodes_at), "starting")] if pods and len(nodes_at) == len(pods) else []
    placed_at = max((at for at in nodes_at if at <= ran_at), default=ran_at)
    return [(placed_at, "starting"), (ran_at, "running")]


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
        steps.append((pod.scheduled, "gone" if pod.ran_before else "starting", f"node {pod.node}" if pod.node else ""))
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
