"""The accounting: every ended pod is recorded in the status exactly once.

Record, then act. Before a decision destroys evidence, the evidence is counted in the status, keyed by pod UID; only when the
API server has stored that status may the pod's finalizer be removed and the pod be deleted (rule R9). A pod is entered if its
UID is not in `countedPods`; a success is entered as its index, which cannot be counted twice.

Stops by the operator itself are recorded first, too, because the end of a pod does not show who stopped it: a suspension is
stored before its first DELETE, and while it lasts the end of a pod is not counted; the resume enters the pods that are still
terminating, and a scale-down those that it is about to delete. Their exit codes are ignored, also by another operator.
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

# More UIDs would make the status large; the others are entered in the next pass (Kubernetes' Job controller has this limit).
# Successes are ranges of indexes, and all of them are entered at once.
MAX_ENTRIES = 500
# If a failure is recorded more than these seconds after the pod's end, another replica may have recorded it already and removed
# the finalizer: the pod must then still exist.
FRESH_END_SECONDS = 5.0


_NO_FAULT = (Verdict.SUCCEEDED, Verdict.STOPPED)


@dataclass(frozen=True)
class Entry:
    """A pod that is recorded in this pass: it has ended, or is terminating when the job is resumed."""

    replica: Replica
    pod: PodView
    ending: Ending


@dataclass(frozen=True)
class Accounting:
    """The accounting of a job after this pass: totals that include `entries`, and failures of pods that still run.

    `succeeded` holds, by type, the indexes that have succeeded; `charged` are failures that count against backoffLimit,
    with those of living pods (`in_place`); `attempt` is the current one.
    """

    entries: tuple[Entry, ...] = ()
    succeeded: Mapping[str, frozenset[int]] = field(default_factory=dict)
    restarts: Mapping[str, int] = field(default_factory=dict)
    disruptions: int = 0
    in_place: int = 0
    failures: tuple[Failure, ...] = ()
    counted_pods: tuple[str, ...] = ()
    attempt: int = 0

    @property
    def recorded(self) -> int:
        """The charged failures in the stored status."""
        return sum(self.restarts.values())

    @property
    def charged(self) -> int:
        """All failures charged to backoffLimit so far."""
        return self.recorded + self.in_place

    def must_exist(self, now: float) -> tuple[tuple[str, str], ...]:
        """Name and UID of the pods whose failures are, or may be, entered late at `now` (seconds since the epoch). A time ahead
        of our clock proves nothing, nor does deletionTimestamp, which is the time of a DELETE plus the grace period, and which
        a second DELETE moves.
        """
        failed = (entry for entry in self.entries if entry.ending.verdict not in _NO_FAULT)
        return tuple(
            (entry.pod.name, entry.pod.uid)
            for entry in failed
            if entry.pod.deletion_time is not None or not 0 <= now - (entry.ending.finished_at or 0.0) <= FRESH_END_SECONDS
        )

    def having(self, *verdicts: Verdict) -> tuple[Entry, ...]:
        """The new entries with one of those verdicts."""
        return tuple(entry for entry in self.entries if entry.ending.verdict in verdicts)


@dataclass(frozen=True, slots=True)
class LateEnds:
    """What has ended since the job finished and is not on record.

    `succeeded` holds, by each type that has gained, the indexes that have succeeded; `pods` are the UIDs of those new, `failed`
    those of the others.
    """

    succeeded: Mapping[str, frozenset[int]]
    pods: frozenset[str]
    failed: frozenset[str]


def account_for_pods(framework: Framework, job: Job, slots: Slots) -> Accounting:
    """Enter the pods that have ended since the status was written."""
    status = job.status
    if job.unread:
        # What an end means for the job is unknown until the whole spec can be read; the pods remain as evidence.
        return _as_recorded(job, slots)
    succeeded = {kind: set(indexes) for kind, indexes in recorded_success(job).items()}
    counted = set(status.counted_pods)
    restarts = recorded_restarts(job)
    disruptions = max(status.disruptions or 0, 0)
    entries: list[Entry] = []
    in_place = remembered = 0
    resumed = is_resuming(job, slots)
    for replica, pod in slots.pods.items():
        if runs_undisturbed(pod) or replica.index in succeeded[replica.type] or pod.uid in counted:
            continue
        ending = counted_ending(framework, job, replica, pod, resumed=resumed)
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
        failures=first_failures(status, entries),
        counted_pods=pods_to_remember(status, slots, entries),
        attempt=job.attempt,
    )


def _as_recorded(job: Job, slots: Slots) -> Accounting:
    """The accounting of the stored status."""
    return Accounting(
        succeeded=recorded_success(job),
        restarts=recorded_restarts(job),
        attempt=job.attempt,
        disruptions=max(job.status.disruptions or 0, 0),
        failures=tuple(job.status.failures),
        counted_pods=pods_to_remember(job.status, slots, []),
    )


def ending_in_slot(framework: Framework, job: Job, replica: Replica, pod: PodView) -> Ending | None:
    """How the pod in a slot ended, by its restart policy and the framework's rules; None while it has not."""
    policy = restart_policy(job, replica)
    if policy not in (RestartPolicy.ALWAYS, RestartPolicy.ON_FAILURE) and framework.retries(job, replica):
        policy = RestartPolicy.ON_FAILURE
    main = framework.main_container(job.replica_specs[replica.type], replica.index)
    ending = ending_of(pod, main, policy)
    if ending is not None and ending.verdict == Verdict.SUCCEEDED and not framework.runs_to_completion(replica.type):
        return replace(ending, verdict=Verdict.DISRUPTED)
    return ending


def is_counted(accounting: Accounting, replica: Replica, pod: PodView) -> bool:
    """Whether the accounting of this pass includes the end of the pod, of any kind."""
    return pod.uid in accounting.counted_pods or replica.index in accounting.succeeded.get(replica.type, ())


def restart_policy(job: Job, replica: Replica) -> RestartPolicy:
    """The restart policy of a slot."""
    return job.replica_specs[replica.type].restart_policy or RestartPolicy.NEVER


def recorded_success(job: Job) -> Mapping[str, frozenset[int]]:
    """By type, the indexes recorded as succeeded in the stored status, including those beyond the wanted number."""
    statuses = job.status.replica_statuses
    return {
        kind: parse_indexes(statuses[kind].succeeded_indexes if kind in statuses else None, MAX_REPLICAS)
        for kind in job.replica_specs
    }


def late_ends(framework: Framework, job: Job, slots: Slots) -> LateEnds:
    """The pods that have ended since the job finished, as far as they are not on record.

    Successes count where they make the number on record higher: another operator counts as succeeded what still runs when it
    finishes a job.
    """
    recorded, counted = recorded_success(job), set(job.status.counted_pods)
    succeeded: dict[str, list[tuple[int, str]]] = {}
    failed: list[str] = []
    for replica, pod in slots.pods.items():
        if not is_over(pod) or pod.deletion_time is not None:
            continue
        if pod.uid in counted or replica.index in recorded[replica.type]:
            continue
        ending = ending_in_slot(framework, job, replica, pod)
        if ending is not None and ending.verdict == Verdict.SUCCEEDED:
            succeeded.setdefault(replica.type, []).append((replica.index, pod.uid))
        else:
            failed.append(pod.uid)
    known = {kind: status.succeeded or 0 for kind, status in job.status.replica_statuses.items()}
    more = {
        kind: new
        for kind, new in succeeded.items()
        if kind in known and sum(i < job.count(kind) for i in recorded[kind]) + len(new) > known[kind]
    }
    return LateEnds(
        succeeded={kind: recorded[kind].union(index for index, _ in new) for kind, new in more.items()},
        pods=frozenset(uid for new in more.values() for _, uid in new),
        failed=frozenset(failed),
    )


def replica_statuses(
    job: Job, accounting: Accounting, active: Mapping[str, int], failed: Mapping[str, int], selectors: Mapping[str, str]
) -> dict[str, ReplicaStatus]:
    """The counts per type as they are written; zero fields are left out, as in the reference.

    Fields of other writers are kept, and so is a type that the job no longer has, because its results are recorded. No pod of
    such a type runs, unless the spec has the type and it could not be read.
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


def counted_ending(framework: Framework, job: Job, replica: Replica, pod: PodView, *, resumed: bool) -> Ending | None:
    """How the pod ended, with regard to stops by the operator itself.

    During a recorded suspension a pod that is not deleted yet may fail because its peers were deleted.
    """
    on_record = job.status.has(ConditionType.SUSPENDED)
    if pod.deletion_time is not None and (on_record or job.suspended):
        return Ending(Verdict.STOPPED, "Deleted", deleted=True) if resumed or is_over(pod) else None
    ending = ending_in_slot(framework, job, replica, pod)
    if ending is not None and on_record and ending.verdict != Verdict.SUCCEEDED:
        return replace(ending, verdict=Verdict.STOPPED)
    return ending


def is_resuming(job: Job, slots: Slots) -> bool:
    """Whether the job is to be resumed now, and the UIDs of all pods still terminating fit into one status (MAX_ENTRIES)."""
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


def recorded_restarts(job: Job) -> dict[str, int]:
    """By type, the charged failures in the stored status."""
    statuses = job.status.replica_statuses
    return {kind: max((statuses[kind].restarts or 0) if kind in statuses else 0, 0) for kind in job.replica_specs}


def first_failures(status: JobStatus, entries: list[Entry]) -> tuple[Failure, ...]:
    """The first failures, in the order in which they happened; a requested deletion is no failure."""
    faults = [e for e in entries if e.ending.verdict not in _NO_FAULT and not e.ending.deleted]
    faults.sort(key=lambda e: (e.ending.finished_at or float("inf"), e.pod.name))
    return (*status.failures, *(failure_of(e.replica, e.pod, e.ending) for e in faults))[:MAX_FAILURES]


def pods_to_remember(status: JobStatus, slots: Slots, entries: list[Entry]) -> tuple[str, ...]:
    """The UIDs to keep: those of pods that a watch may still show, and of surplus pods about to be deleted.

    Successes are kept by index.
    """
    surplus = [pod.uid for pod in slots.surplus.values()]
    still_there = {pod.uid for pod in slots.ours}
    kept = [uid for uid in status.counted_pods if uid in still_there]
    known = set(kept)
    new = [e.pod.uid for e in entries if e.ending.verdict != Verdict.SUCCEEDED]
    return (*kept, *new, *[uid for uid in surplus if uid not in known][:MAX_ENTRIES])
