"""The telemetry of a reconcile: events on the job, and counts and durations for metrics.

Both are derived from the results of the writes: a transition is published and counted only after its status was written, so
that a conflict or a restart counts nothing twice.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from jobcommon.api import reasons
from jobcommon.api.gang import POD_GROUPS
from jobcommon.api.status import ConditionType, JobStatus
from jobcommon.api.text import kind_of
from jobcommon.api.time_spent import FIELDS, TimeSpent
from jobcommon.api.timestamp import parse_time
from jobcommon.client.errors import NoLogError, StatusError, TransportError
from jobcommon.controller.refusals import Answer, answer_of, is_of_the_platform
from jobcommon.controller.result import ActionResult, Effect, Result, Work
from jobcommon.controller.status_size import is_status_too_large
from jobcommon.framework import Framework
from jobcommon.reconcile.plan import NORMAL, WARNING, Create, Delete, Event, Get, RemoveFinalizer, names_in_short

_Done = defaultdict[tuple[type[Create] | type[Delete], str], list[str]]

MAX_EMITTED = 256
"""How many lasting events are remembered for a job: more than one pass may have."""
# One event covers many objects: the recorder's burst is 25 events per job, and each costs a request.
MAX_OBJECTS_NAMED = 12

_CREATED = {"services": reasons.SUCCESSFUL_CREATE_SERVICE, "pods": reasons.SUCCESSFUL_CREATE_POD}
_DELETED = {"services": reasons.SUCCESSFUL_DELETE_SERVICE, "pods": reasons.SUCCESSFUL_DELETE_POD}
_NOT_CREATED = {
    "pods": reasons.FAILED_CREATE_POD,
    "services": reasons.FAILED_CREATE_SERVICE,
    POD_GROUPS: reasons.FAILED_CREATE_POD_GROUP,
}
_NOT_DELETED = {
    "pods": reasons.FAILED_DELETE_POD,
    "services": reasons.FAILED_DELETE_SERVICE,
    POD_GROUPS: reasons.FAILED_DELETE_POD_GROUP,
}
_NOT_UPDATED = {"pods": reasons.FAILED_UPDATE_POD, POD_GROUPS: reasons.FAILED_UPDATE_POD_GROUP}

JOBS_CREATED = "training_operator_jobs_created"
JOBS_DELETED = "training_operator_jobs_deleted"
JOBS_SUCCESSFUL = "training_operator_jobs_successful"
JOBS_FAILED = "training_operator_jobs_failed"
JOBS_RESTARTED = "training_operator_jobs_restarted"
PODS_CREATED = "created_pods"
PODS_DELETED = "deleted_pods"
PODS_FAILED = "failed_pods"
POD_GROUPS_CREATED = "created_pod_groups"
POD_GROUPS_DELETED = "deleted_pod_groups"
SERVICES_CREATED = "succeeded_service_creation"
SERVICES_FAILED = "failed_service_creation"
LAUNCH_DELAY = "training_operator_launch_delay_seconds"
JOB_DURATION = "training_operator_job_duration_seconds"

FIRST_POD = "first_pod"
ALL_PODS = "all_pods"
STAGE_RUNNING = "running"
RESULT_SUCCEEDED = "succeeded"
RESULT_FAILED = "failed"
LABELS = {LAUNCH_DELAY: (FIRST_POD, ALL_PODS, STAGE_RUNNING), JOB_DURATION: (RESULT_SUCCEEDED, RESULT_FAILED)}
"""The labels that the durations of a name have."""


@dataclass(frozen=True, slots=True)
class Duration:
    """One duration in seconds. `label` is the stage of a LAUNCH_DELAY, or the result after a JOB_DURATION."""

    name: str
    label: str
    seconds: float


@dataclass(frozen=True)
class Telemetry:
    """Events to emit on the job, in order, by how much each counter grows, restarts by cause, durations for histograms, and
    seconds of the job's time by what they were spent on.
    """

    events: tuple[Event, ...] = ()
    counts: dict[str, int] = field(default_factory=dict)
    restart_causes: tuple[tuple[str, int], ...] = ()
    durations: tuple[Duration, ...] = ()
    time_spent: tuple[tuple[str, float], ...] = ()


def telemetry(framework: Framework, work: Work, result: Result, emitted: dict[tuple[str, str], None], now: float) -> Telemetry:
    """The telemetry of `result` at `now` (seconds since the epoch).

    `emitted` has the lasting events already emitted for this job as its keys, the latest last; it is updated.
    """
    planned = () if result.stale or (work.plan.status is not None and result.status_version is None) else work.plan.events
    fresh = [event for event in planned if not (event.lasting and _key(event) in emitted)]
    done = _done(result.outcomes)
    finished = work.job is not None and work.job.status.finished
    of_writes = _write_events(framework, result.outcomes, done, finished=finished)
    written = dict.fromkeys([*of_writes, *_status_events(result), *_log_events(result)])
    writes = [event for event in written if _key(event) not in emitted]
    for key in [_key(event) for event in (*planned, *written) if event.lasting]:
        emitted.pop(key, None)
        emitted[key] = None
    for key in list(emitted)[: max(len(emitted) - MAX_EMITTED, 0)]:
        del emitted[key]
    counts = _counts(framework, work, result, done)
    causes = work.plan.restart_causes if result.status_version is not None else ()
    seconds = _time_spent(work) if result.status_version is not None else ()
    return Telemetry((*writes, *fresh), counts, causes, durations(work, result, counts.get(PODS_CREATED, 0), now), seconds)


def _key(event: Event) -> tuple[str, str]:
    return event.reason, kind_of(event.message)


def _write_events(framework: Framework, outcomes: Iterable[ActionResult], done: _Done, *, finished: bool) -> list[Event]:
    events: list[Event] = []
    for action, verb, of_plural in ((Create, "Created", _CREATED), (Delete, "Deleted", _DELETED)):
        made = {word: names for word in ("pod", "service") if (names := done[action, f"{word}s"])}
        # The Service goes with its pods. There is no event for the Service of a finished job.
        if made and not (finished and action is Delete and "pod" not in made):
            text = "; ".join(f"{word}: {names_in_short(names, MAX_OBJECTS_NAMED)}" for word, names in made.items())
            events.append(Event(NORMAL, of_plural[f"{next(iter(made))}s"], f"{verb} {text}"))
    return [*events, *_failures(framework, outcomes)]


def _warning(reason: str, text: str) -> Event:
    return Event(WARNING, reason, text[:1024], lasting=True)


def _failures(framework: Framework, outcomes: Iterable[ActionResult]) -> Iterator[Event]:
    for outcome in outcomes:
        action, error = outcome.action, outcome.error
        match outcome.effect, action:
            case Effect.NAME_CONFLICT, Create():
                there = "an object with this name exists, but belongs to another owner or has lost its labels"
                other = f"{action.plural}/{action.otherwise} is used instead" if action.otherwise else "delete or rename it"
                yield _warning(reasons.NAME_CONFLICT, f"{action} failed: {there}; {other}")
            case Effect.NOT_FOUND, Get(known=True):
                text = f"{action.plural}/{action.name} was deleted and will be recreated. Running pods keep the old content"
                yield Event(WARNING, reasons.LOST, text)
            case Effect.REFUSED, Create():
                reason = _NOT_CREATED.get(action.plural, reasons.FAILED_CREATE_OBJECT)
                yield _warning(reason, f"Error creating: {error}")
            case Effect.REFUSED, Delete():
                other = reasons.FAILED_DELETE_JOB if action.plural == framework.plural else reasons.FAILED_DELETE_OBJECT
                yield _warning(_NOT_DELETED.get(action.plural, other), f"Error deleting: {error}")
            case Effect.REFUSED, RemoveFinalizer():
                yield _warning(reasons.FAILED_REMOVE_FINALIZER, f"Error removing a pod's finalizer: {error}")
            case _ if answer_of(outcome) is Answer.REFUSED:
                if isinstance(action, Get):
                    yield _warning(reasons.FAILED_GET_OBJECT, f"Error reading: {error}")
                else:
                    reason = _NOT_UPDATED.get(action.plural, reasons.FAILED_UPDATE_OBJECT)
                    yield _warning(reason, f"Error updating: {error}")


def _status_events(result: Result) -> Iterable[Event]:
    """Events for a status that was refused, or only stored shortened because of its size."""
    error = result.status_error
    if is_status_too_large(error):
        text = f"The status cannot be stored, because the job is too large: {error}; make its spec smaller"
        yield _warning(reasons.STATUS_TOO_LARGE, text)
    elif is_of_the_platform(error):
        yield _warning(reasons.FAILED_UPDATE_STATUS, f"Error updating the status: {error}")
    elif result.shortened and result.status_version is not None:
        text = (
            "The job has nearly reached the maximum size of an object; its status omits failures and long messages. "
            "Make its spec smaller"
        )
        yield _warning(reasons.STATUS_TOO_LARGE, text)


def _log_events(result: Result) -> Iterable[Event]:
    if isinstance(result.log_error, StatusError | TransportError | NoLogError):
        yield _warning(reasons.FAILED_KEEP_LOGS, f"A failed replica's log or events are not kept: {result.log_error}")


def _done(outcomes: Iterable[ActionResult]) -> _Done:
    """The names of created and deleted objects, by the action's type and the object's plural, in the order of the plan."""
    done: _Done = defaultdict(list)
    for outcome in outcomes:
        action = outcome.action
        if outcome.effect is Effect.APPLIED and isinstance(action, Create | Delete):
            done[type(action), action.plural].append(action.name)
    return done


def _counts(framework: Framework, work: Work, result: Result, done: _Done) -> dict[str, int]:
    counts = {
        PODS_CREATED: len(done[Create, "pods"]),
        PODS_DELETED: len(done[Delete, "pods"]),
        POD_GROUPS_CREATED: len(done[Create, POD_GROUPS]),
        POD_GROUPS_DELETED: len(done[Delete, POD_GROUPS]),
        SERVICES_CREATED: len(done[Create, "services"]),
        JOBS_DELETED: len(done[Delete, framework.plural]),
        SERVICES_FAILED: sum(
            o.effect is Effect.REFUSED and isinstance(o.action, Create) and o.action.plural == "services"
            for o in result.outcomes
        ),
    }
    if work.job is not None and work.plan.status is not None and result.status_version is not None:
        before, after = work.job.status, work.plan.status
        for name, kind in (
            (JOBS_CREATED, ConditionType.CREATED),
            (JOBS_SUCCESSFUL, ConditionType.SUCCEEDED),
            (JOBS_FAILED, ConditionType.FAILED),
            (JOBS_RESTARTED, ConditionType.RESTARTING),
        ):
            counts[name] = int(after.has(kind) and not before.has(kind))
        counts[PODS_FAILED] = max(_charged(after) - _charged(before), 0)
    return {name: count for name, count in counts.items() if count}


def _time_spent(work: Work) -> tuple[tuple[str, float], ...]:
    """What the new status adds to the time spent."""
    after = work.plan.status.time_spent if work.plan.status is not None else None
    if work.job is None or after is None or after == (before := work.job.status.time_spent or TimeSpent()):
        return ()
    grown = ((name, (getattr(after, name) or 0.0) - (getattr(before, name) or 0.0)) for name in FIELDS)
    return tuple((name, seconds) for name, seconds in grown if seconds > 0)


def _charged(status: JobStatus) -> int:
    """The recorded failed runs."""
    return sum(of_type.charged for of_type in status.replica_statuses.values())


def durations(work: Work, result: Result, created_pods: int, now: float) -> tuple[Duration, ...]:
    """What this reconcile completed; `created_pods` is how many pods it created. `now` is seconds since the epoch.

    A launch is observed once: while the job has neither run nor lost a pod. Recorded times have whole seconds.
    """
    job = work.job
    if job is None:
        return ()
    before, after = job.status, work.plan.status if result.status_version is not None else None
    # True of most reconciles.
    if not created_pods and (after is None or _current(before) == _current(after)):
        return ()
    found = []
    if job.creation_time is not None and not _was_launched(before):
        stages = [STAGE_RUNNING] if after is not None and after.has(ConditionType.RUNNING) else []
        if created_pods and not work.active_pods:
            stages.append(FIRST_POD)
        if work.active_pods < job.total_replicas <= work.active_pods + created_pods:
            stages.append(ALL_PODS)
        delay = max(now - job.creation_time, 0.0)
        found += [Duration(LAUNCH_DELAY, stage, delay) for stage in stages]
    if after is not None and after.finished and not before.finished:
        began, ended = parse_time(after.start_time), parse_time(after.completion_time)
        if began is not None and ended is not None:
            label = RESULT_SUCCEEDED if after.has(ConditionType.SUCCEEDED) else RESULT_FAILED
            found.append(Duration(JOB_DURATION, label, max(ended - began, 0.0)))
    return tuple(found)


def _current(status: JobStatus) -> str:
    return status.conditions[-1].type if status.conditions else ""


def _was_launched(status: JobStatus) -> bool:
    ran = status.condition(ConditionType.RUNNING) or status.condition(ConditionType.RESTARTING)
    return ran is not None or bool(status.restarts or status.disruptions)
