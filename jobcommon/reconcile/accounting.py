"""The accounting: ended pods entered into the status, each exactly once.

Record, then act. What a decision destroys the evidence of is first counted in the status, keyed by pod UID; only when the
API server has that status may the pod's finalizer be removed and the pod be deleted (rule R9). A pod is entered if its UID
is not in `countedPods`; a success is entered as its index, which cannot be counted twice.

So is what the operator stops itself, for once it is stopped its end does not tell why: a suspension is on record before its
first DELETE, and as long as it is, the end of a pod counts as nothing; the resume enters the pods that are still terminating,
and a scale-down those that it is about to delete. Their exit codes count as nothing, also when another operator sees them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from jobcommon.api.job import MAX_REPLICAS, RestartPolicy
from jobcommon.api.pod import PodView
from jobcommon.api.replica import Replica, format_indexes, parse_indexes, replica_count
from jobcommon.api.status import MAX_FAILURES, MAX_MESSAGE, ConditionType, Failure, JobStatus, ReplicaStatus
from jobcommon.api.timestamp import format_time
from jobcommon.framework import Framework, Job
from jobcommon.reconcile.ending import (
    Ending,
    Verdict,
    ending_of,
    failures_in_place,
    is_over,
    restarts_in_place,
    runs_undisturbed,
)
from jobcommon.reconcile.slots import Slots

# More UIDs would make the status large; the rest is entered in the next pass (Kubernetes' Job controller has the same limit).
# Successes are ranges of indexes, and all of them are entered at once.
MAX_ENTRIES = 500
# A failure that is entered so late another operator may have entered before, and its pod be released.
LATE = 5.0


_NO_FAULT = (Verdict.SUCCEEDED, Verdict.STOPPED)


@dataclass(frozen=True)
class Entry:
    """A pod that is entered in this pass: it has ended, or is terminating when the job is resumed."""

    replica: Replica
    pod: PodView
    ending: Ending


@dataclass(frozen=True)
class Accounting:
    """The books of a job after this pass: totals that include `entries`, and what still runs on credit.

    `succeeded` holds, by type, the indexes that have succeeded; `charged` are failures that count against backoffLimit,
    with those of living pods (`in_place`).
    """

    entries: tuple[Entry, ...] = ()
    succeeded: Mapping[str, frozenset[int]] = field(default_factory=dict)
    restarts: Mapping[str, int] = field(default_factory=dict)
    disruptions: int = 0
    in_place: int = 0
    failures: tuple[Failure, ...] = ()
    counted_pods: tuple[str, ...] = ()

    @property
    def recorded(self) -> int:
        """The charged failures on record."""
        return sum(self.restarts.values())

    @property
    def charged(self) -> int:
        """All failures charged to backoffLimit so far."""
        return self.recorded + self.in_place

    def must_exist(self, now: float) -> tuple[tuple[str, str], ...]:
        """Name and UID of the pods whose failures are entered late, or may be: a time ahead of ours says nothing, nor does
        deletionTimestamp, which lies the grace period ahead of one DELETE and is moved by another.
        """
        failed = (entry for entry in self.entries if entry.ending.verdict not in _NO_FAULT)
        return tuple(
            (entry.pod.name, entry.pod.uid)
            for entry in failed
            if entry.pod.deletion_time is not None or not 0 <= now - (entry.ending.finished_at or 0.0) <= LATE
        )

    def having(self, *verdicts: Verdict) -> tuple[Entry, ...]:
        """The new entries with one of those verdicts."""
        return tuple(entry for entry in self.entries if entry.ending.verdict in verdicts)


def account_for_pods(framework: Framework, job: Job, slots: Slots) -> Accounting:
    """Enter what has ended since the status was written."""
    status = job.status
    succeeded = {kind: set(indexes) for kind, indexes in _succeeded(job).items()}
    counted = set(status.counted_pods)
    restarts = _recorded_restarts(job)
    disruptions = max(status.disruptions or 0, 0)
    entries: list[Entry] = []
    in_place = remembered = 0
    resumed = _resumed(job, slots)
    for replica, pod in slots.pods.items():
        if runs_undisturbed(pod) or replica.index in succeeded[replica.type] or pod.uid in counted:
            continue
        ending = _ending(framework, job, replica, pod, resumed=resumed)
        if ending is None or (ending.verdict != Verdict.SUCCEEDED and remembered >= MAX_ENTRIES):
            in_place += failures_in_place(pod, restart_policy(job, replica))
            continue
        entries.append(Entry(replica, pod, ending))
        restarts[replica.type] += restarts_in_place(pod, restart_policy(job, replica))
        remembered += ending.verdict != Verdict.SUCCEEDED
        if ending.verdict == Verdict.SUCCEEDED:
            succeeded[replica.type].add(replica.index)
        elif ending.verdict == Verdict.DISRUPTED:
            disruptions += 1
        elif ending.verdict == Verdict.RETRYABLE:
            restarts[replica.type] += 1
    for entry in _scaled_away(framework, job, slots, succeeded):
        entries.append(entry)
        succeeded[entry.replica.type].add(entry.replica.index)
    return Accounting(
        entries=tuple(entries),
        succeeded={kind: frozenset(indexes) for kind, indexes in succeeded.items()},
        restarts=restarts,
        disruptions=disruptions,
        in_place=in_place,
        failures=_story(status, entries),
        counted_pods=_counted(status, slots, entries),
    )


def ending_in_slot(framework: Framework, job: Job, replica: Replica, pod: PodView) -> Ending | None:
    """How the pod in a slot ended, by its restart policy and by what the framework makes of it; None while it has not."""
    policy = restart_policy(job, replica)
    if policy not in (RestartPolicy.ALWAYS, RestartPolicy.ON_FAILURE) and framework.retries(job, replica):
        policy = RestartPolicy.ON_FAILURE
    main = framework.main_container(job.replica_specs[replica.type], replica.index)
    ending = ending_of(pod, main, policy)
    if ending is not None and ending.verdict == Verdict.SUCCEEDED and not framework.runs_to_completion(replica.type):
        return replace(ending, verdict=Verdict.DISRUPTED)
    return ending


def is_counted(accounting: Accounting, replica: Replica, pod: PodView) -> bool:
    """Whether the end of the pod is in the books of this pass, whatever it may be."""
    return pod.uid in accounting.counted_pods or replica.index in accounting.succeeded.get(replica.type, ())


def restart_policy(job: Job, replica: Replica) -> RestartPolicy:
    """The restart policy of a slot."""
    return job.replica_specs[replica.type].restart_policy or RestartPolicy.NEVER


def recorded_success(job: Job) -> Mapping[str, frozenset[int]]:
    """By type, the indexes that the written status has as succeeded."""
    return {kind: frozenset(indexes) for kind, indexes in _succeeded(job).items()}


def replica_statuses(
    job: Job, accounting: Accounting, active: Mapping[str, int], failed: Mapping[str, int], selectors: Mapping[str, str]
) -> dict[str, ReplicaStatus]:
    """The counts per type as they are written; zero fields are left out, as in the reference.

    What others have added stays, and so does a type that the job no longer has: what it did is on record. No pod of that
    runs, unless it is there and could not be read.
    """
    known = job.status.replica_statuses
    kept = {
        kind: status if kind in job.unread else status.model_copy(update={"active": None, "failed": None})
        for kind, status in known.items()
        if kind not in job.replica_specs
    }
    ours = {
        kind: known.get(kind, ReplicaStatus()).model_copy(
            update={
                "active": active.get(kind) or None,
                "succeeded": sum(index < replica_count(spec) for index in accounting.succeeded[kind]) or None,
                "failed": failed.get(kind) or None,
                "selector": selectors.get(kind),
                "succeeded_indexes": format_indexes(accounting.succeeded[kind]),
                "restarts": accounting.restarts.get(kind) or None,
            }
        )
        for kind, spec in job.replica_specs.items()
    }
    return {**kept, **ours}


def failure_of(replica: Replica, pod: PodView, ending: Ending) -> Failure:
    """One failure as it is kept in the status."""
    return Failure(
        replica=str(replica),
        pod=pod.name,
        node=pod.node_name or None,
        reason=ending.reason,
        exit_code=ending.exit_code,
        message=ending.message[-MAX_MESSAGE:] or None,
        time=format_time(ending.finished_at) if ending.finished_at is not None else None,
    )


def _ending(framework: Framework, job: Job, replica: Replica, pod: PodView, *, resumed: bool) -> Ending | None:
    """How the pod ended, seen with what the operator itself has stopped.

    While the suspension is on record, also a pod that was not deleted yet may fail because its peers were.
    """
    on_record = job.status.has(ConditionType.SUSPENDED)
    if pod.deletion_time is not None and (on_record or job.suspended):
        return Ending(Verdict.STOPPED, "Deleted", deleted=True) if resumed or is_over(pod) else None
    ending = ending_in_slot(framework, job, replica, pod)
    if ending is not None and on_record and ending.verdict != Verdict.SUCCEEDED:
        return replace(ending, verdict=Verdict.STOPPED)
    return ending


def _resumed(job: Job, slots: Slots) -> bool:
    """Whether the job is to be resumed now, with so few pods still terminating that all their UIDs can be entered."""
    if job.suspended or not job.status.has(ConditionType.SUSPENDED):
        return False
    return sum(pod.deletion_time is not None and not is_over(pod) for pod in slots.ours) <= MAX_ENTRIES


def _scaled_away(framework: Framework, job: Job, slots: Slots, succeeded: Mapping[str, set[int]]) -> list[Entry]:
    """The surplus pods that have succeeded: when the job is scaled up again they need not run again."""
    found = []
    for replica, pod in slots.surplus.items():
        if replica.index < MAX_REPLICAS and replica.index not in succeeded.get(replica.type, (replica.index,)):
            ending = ending_in_slot(framework, job, replica, pod)
            if ending is not None and ending.verdict == Verdict.SUCCEEDED:
                found.append(Entry(replica, pod, ending))
    return found


def _succeeded(job: Job) -> dict[str, frozenset[int]]:
    """By type, the indexes on record as succeeded, also those beyond what is wanted now."""
    statuses = job.status.replica_statuses
    return {
        kind: parse_indexes(statuses[kind].succeeded_indexes if kind in statuses else None, MAX_REPLICAS)
        for kind in job.replica_specs
    }


def _recorded_restarts(job: Job) -> dict[str, int]:
    statuses = job.status.replica_statuses
    return {kind: max((statuses[kind].restarts or 0) if kind in statuses else 0, 0) for kind in job.replica_specs}


def _story(status: JobStatus, entries: list[Entry]) -> tuple[Failure, ...]:
    """The first failures, in the order in which they happened; a deletion that was asked for is none."""
    faults = [e for e in entries if e.ending.verdict not in _NO_FAULT and not e.ending.deleted]
    faults.sort(key=lambda e: (e.ending.finished_at or float("inf"), e.pod.name))
    return (*status.failures, *(failure_of(e.replica, e.pod, e.ending) for e in faults))[:MAX_FAILURES]


def _counted(status: JobStatus, slots: Slots, entries: list[Entry]) -> tuple[str, ...]:
    """The UIDs to remember: those of pods that may still be seen, and of those about to be deleted as surplus.

    Successes are remembered by their index.
    """
    surplus = [pod.uid for pod in slots.surplus.values()]
    still_there = {pod.uid for pod in slots.pods.values()}.union(surplus)
    kept = [uid for uid in status.counted_pods if uid in still_there]
    known = set(kept)
    new = [e.pod.uid for e in entries if e.ending.verdict != Verdict.SUCCEEDED]
    return (*kept, *new, *[uid for uid in surplus if uid not in known][:MAX_ENTRIES])
