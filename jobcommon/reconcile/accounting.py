"""The accounting: every ended pod is recorded in the status exactly once.

Record, then act. Before a decision destroys evidence, the evidence is counted in the status, keyed by pod UID; only when the
API server has stored that status may the pod's finalizer be removed and the pod be deleted (rule R9). A pod is entered if its
UID is not in `countedPods`; a success is entered as its index, which cannot be counted twice.

Stops by the operator itself are recorded first, too, because the end of a pod does not show who stopped it: a suspension is
stored before its first DELETE, and while it lasts the end of a pod is not counted; the resume enters the pods that are still
terminating, and a scale-down those that are to be deleted. Their exit codes are ignored, also by another operator.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from math import inf

from jobcommon.api.pod import PodView, Terminated
from jobcommon.api.replica import Replica, format_indexes
from jobcommon.api.status import MAX_FAILURES, MAX_OUTPUT, ConditionType, Failure, JobStatus, ReplicaStatus
from jobcommon.api.timestamp import format_moment, format_time
from jobcommon.framework import FINALIZER, Framework, Job, Tallies
from jobcommon.reconcile.ending import (
    PLATFORM_REASONS,
    RESTARTED,
    SIGNALS,
    STOPPED,
    STOPPED_BY_IMAGE,
    Ending,
    EndType,
    Life,
    decode,
    init_of,
    last_run,
)
from jobcommon.reconcile.slots import (
    MAX_ENTRIES,
    Active,
    Ended,
    Slot,
    Slots,
    order_of_end,
    recorded_success,
)

# If a failure is recorded more than these seconds after the pod's end, another replica may have recorded it already and removed
# the finalizer: the pod must then still exist.
FRESH_END_SECONDS = 5.0


_NO_FAULT = (EndType.SUCCEEDED, EndType.STOPPED)


@dataclass(frozen=True)
class Accounting:
    """The accounting of a job after this pass: totals that include `entries`, and failures of pods that still run.

    `succeeded` holds, by type, the indexes that have succeeded; `charged` are failures that count against backoffLimit,
    with those of living pods (`unrecorded`); `attempt` is the current one.
    """

    entries: tuple[Slot, ...] = ()
    succeeded: Mapping[str, frozenset[int]] = field(default_factory=dict)
    charged_by_type: Mapping[str, int] = field(default_factory=dict)
    disruptions: int = 0
    unrecorded: int = 0
    failures: tuple[Failure, ...] = ()
    counted_pods: tuple[str, ...] = ()
    stopped_pods: tuple[str, ...] = ()
    attempt: int = 0

    @property
    def charged_on_record(self) -> int:
        """The charged failures in the status that is to be written."""
        return sum(self.charged_by_type.values())

    @property
    def charged(self) -> int:
        """All failures charged to backoffLimit so far."""
        return self.charged_on_record + self.unrecorded

    def must_exist(self, now: float) -> tuple[tuple[str, str], ...]:
        """Name and UID of the pods whose failures are, or may be, entered late at `now` (seconds since the epoch). A time ahead
        of our clock proves nothing, nor does deletionTimestamp, which is the time of a DELETE plus the grace period, and which
        a second DELETE moves.
        """
        failed = (entry for entry in self.entries if entry.ending.type not in _NO_FAULT)
        return tuple(
            (entry.pod.name, entry.pod.uid)
            for entry in failed
            if entry.deleting or not 0 <= now - (entry.ending.finished_at or 0.0) <= FRESH_END_SECONDS
        )

    def having(self, *types: EndType) -> tuple[Slot, ...]:
        """The new entries with one of those types of end."""
        return tuple(slot for slot in self.entries if slot.ending.type in types)


def account_for_pods(job: Job, slots: Slots, *, entering: bool = True) -> Accounting:
    """Enter the pods that have ended since the status was written; without `entering`, only count what is on record."""
    status = job.status
    ended, living, surplus = (slots.ended, slots.living, slots.surplus) if entering else ((), (), ())
    succeeded = {kind: set(indexes) for kind, indexes in recorded_success(job).items()}
    by_type = recorded_failed_runs(job)
    disruptions = max(status.disruptions or 0, 0)
    entries: list[Slot] = []
    unrecorded, remembered = sum(slot.failed_runs.charged for slot in living), 0
    for slot in ended:
        kind, end = slot.replica.type, slot.ending.type
        charged = slot.failed_runs.charged + (end == EndType.RETRYABLE)
        if end == EndType.SUCCEEDED:
            succeeded[kind].add(slot.replica.index)
        elif remembered == MAX_ENTRIES:
            unrecorded += charged
            continue
        else:
            remembered += 1
        entries.append(slot)
        by_type[kind] += charged
        disruptions += end == EndType.DISRUPTED
    for slot in surplus:
        if isinstance(slot.state, Ended):
            entries.append(slot)
            succeeded[slot.replica.type].add(slot.replica.index)
    return Accounting(
        entries=tuple(entries),
        succeeded={kind: frozenset(indexes) for kind, indexes in succeeded.items()},
        charged_by_type=by_type,
        disruptions=disruptions,
        unrecorded=unrecorded,
        failures=first_failures(job, entries),
        counted_pods=(counted := pods_to_remember(status, slots, entries)),
        stopped_pods=_stopped(status, slots, entries, counted),
        attempt=job.attempt,
    )


def with_running(framework: Framework, accounting: Accounting, slots: Slots) -> Accounting:
    """The accounting of a job that has succeeded: replicas with work of their own that run count as succeeded.

    So they do in the reference, and pipelines wait for that number at the success: of how such a replica ends, nothing depends.
    """
    running = [slot.replica for slot in slots.wanted.values() if isinstance(slot.state, Active)]
    more = {kind: {r.index for r in running if r.type == kind and not framework.serves(kind)} for kind in accounting.succeeded}
    return replace(accounting, succeeded={kind: indexes | more[kind] for kind, indexes in accounting.succeeded.items()})


def is_counted(accounting: Accounting, slot: Slot) -> bool:
    """Whether the accounting of this pass includes the end of the pod, of any kind."""
    done = accounting.succeeded.get(slot.replica.type, ())
    return slot.pod.uid in accounting.counted_pods or slot.replica.index in done


def replica_statuses(
    job: Job, accounting: Accounting, tallies: Tallies, selectors: Mapping[str, str], *, active: bool
) -> dict[str, ReplicaStatus]:
    """The counts per type as they are written; zero fields are left out, as in the reference. `active`: whether any pod is.

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
                "active": (tallies[kind].active if active else 0) or None,
                "succeeded": len(accounting.succeeded[kind].intersection(job.indexes(kind))) or None,
                "failed": tallies[kind].failed or None,
                "selector": selectors.get(kind),
                "succeeded_indexes": format_indexes(accounting.succeeded[kind]),
                "failed_runs": accounting.charged_by_type.get(kind) or None,
            }
        )
        for kind in job.replica_specs
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
        message=f"{_tail(ending.message, MAX_OUTPUT - len(ending.where))}{ending.where}".strip() or None,
        time=format_time(ending.finished_at) if ending.finished_at is not None else None,
    )


def _tail(message: str, most: int) -> str:
    """The last lines of a message that have at most so many characters; of a longer line its end."""
    if len(message) <= most:
        return message
    tail = message[-most:]
    return tail.partition("\n")[2] or tail


def recorded_failed_runs(job: Job) -> dict[str, int]:
    """By type, the charged failures in the stored status."""
    statuses = job.status.replica_statuses
    return {kind: statuses[kind].charged if kind in statuses else 0 for kind in job.replica_specs}


def first_failures(job: Job, entries: list[Slot]) -> tuple[Failure, ...]:
    """The first failures, in the order in which they happened; a requested deletion is none, unless others failed after it."""
    faults = [e for e in entries if e.ending.type not in _NO_FAULT and not e.ending.deleted]
    ends = [e.ending.finished_at or 0.0 for e in faults]
    faults += filter(None, (deletion_before(entries, max(ends)),)) if ends else ()
    faults.sort(key=order_of_end)
    new = (failure_of(e.replica, e.pod, e.ending) for e in faults)
    known = job.status.failures
    # A run that had failed in its pod before that ended is on record already. Where all replicas are restarted together none
    # is, and a replica may fail in two attempts within a second.
    new = (f for f in new if job.restarts_together or f.time is None or not is_on_record(f, known))
    return (*known, *islice(new, max(MAX_FAILURES - len(known), 0)))


def deletion_before(entries: Iterable[Slot], at: float) -> Slot | None:
    """The first of the pods that others have deleted and that ended by then: it may explain why another failed."""
    deleted = [e for e in entries if e.ending.deleted and (e.ending.finished_at or 0.0) <= at]
    return min(deleted, key=order_of_end, default=None)


def ends_after_failure(framework: Framework, job: Job, slots: Slots) -> dict[str, Failure]:
    """By UID, the ends still to be recorded of replicas that ran when the job failed, the first ones.

    The replica that caused the failure may have hung, or be slower to end than its peers, and its log goes with its pod. Or the
    platform has ended it, which was reported later than the ends of its peers.
    """
    known = job.status.failures
    room = MAX_FAILURES - len(known) if job.status.has(ConditionType.FAILED) else 0
    done = {failure.pod for failure in known if failure.reason == STOPPED or failure.exit_code is None}
    over = [s for s in slots.wanted.values() if s.life is Life.REMOVED and not s.recorded and FINALIZER in s.pod.finalizers]
    new = [s for s in over if s.pod.name not in done and not framework.serves(s.replica.type)] if room > 0 else []
    runs = ((s, last_run(s.pod, framework.main_container(job.replica_specs[s.replica.type], s.replica.index))) for s in new)
    ends = sorted(((s, run) for s, run in runs if run is not None), key=lambda end: end[1].finished_at or inf)
    return {s.pod.uid: failure_of(s.replica, s.pod, run) for s, run in ends[:room]}


def is_on_record(failure: Failure, known: Iterable[Failure]) -> bool:
    """Whether `known` has the run of that failure."""
    return any((f.pod, f.time, f.exit_code) == (failure.pod, failure.time, failure.exit_code) for f in known)


def pods_to_remember(status: JobStatus, slots: Slots, entries: list[Slot]) -> tuple[str, ...]:
    """The UIDs to keep: those of pods that a watch may still show, and of surplus pods about to be deleted.

    Successes are kept by index.
    """
    surplus = [slot.pod.uid for slot in slots.surplus]
    still_there = {slot.pod.uid for slot in slots.ours}
    kept = [uid for uid in status.counted_pods if uid in still_there]
    known = set(kept)
    new = [e.pod.uid for e in entries if e.ending.type != EndType.SUCCEEDED]
    return (*kept, *new, *[uid for uid in surplus if uid not in known][:MAX_ENTRIES])


def _stopped(status: JobStatus, slots: Slots, entries: list[Slot], counted: tuple[str, ...]) -> tuple[str, ...]:
    """Those of `counted` that we have stopped."""
    known = set(status.counted_pods)
    stopped = {*status.stopped_pods, *(slot.pod.uid for slot in slots.surplus if slot.pod.uid not in known)}
    stopped.update(slot.pod.uid for slot in entries if slot.ending.type == EndType.STOPPED)
    return tuple(uid for uid in counted if uid in stopped)


# -- the restarts that follow ---------------------------------------------------------------------------------------------

OTHER_CAUSE = "Other"
# The kubelet's and the control plane's own words: of a container's end, of a DisruptionTarget condition, and of this package.
KNOWN_CAUSES = PLATFORM_REASONS | frozenset(SIGNALS) | {
    "Error", "Completed", "OOMKilled", "ContainerCannotRun", "StartError", "ContainerStatusUnknown", "PreemptionByScheduler",
    "DeletionByTaintManager", "EvictionByEvictionAPI", "DeletionByPodGC", "TerminationByKubelet", "DeadlineExceeded", "Deleted",
    "Lost", RESTARTED, STOPPED_BY_IMAGE,
}  # fmt: skip


def restarts_made(job: Job, accounting: Accounting, slots: Slots, *, ends: bool) -> int:
    """The restarts made or about to be made, in place or by a new pod; the last failure of a job that `ends` causes none.

    The number never decreases, although the count of a deleted pod is lost with it.
    """
    failed_now = len(accounting.having(EndType.RETRYABLE)) if ends else 0
    in_place = sum(slot.failed_runs.restarted for slot in slots.living)
    return max(accounting.charged_on_record - failed_now + in_place, job.status.restarts or 0)


def last_restart_time(before: JobStatus, after: tuple[int | None, ...], now: float) -> str | None:
    """The time of the last restart, which is `now` if one of the numbers of restarts, disruptions and attempts rises."""
    known = (before.restarts, before.disruptions, before.attempt)
    if any((new or 0) > (old or 0) for new, old in zip(after, known, strict=True)):
        return format_moment(now)
    return before.last_restart_time


def restart_causes(before: JobStatus, after: JobStatus, accounting: Accounting, slots: Slots) -> tuple[tuple[str, int], ...]:
    """The restarts that the status records `after` this pass and did not `before` it, by cause, sorted, for metrics.

    The causes are a bounded set, whatever a platform writes into a pod. The status has only the number of restarts in place:
    all of them get the cause of the latest.
    """
    if after.restarts == before.restarts and after.disruptions == before.disruptions:
        return ()
    replaced = accounting.having(EndType.RETRYABLE, EndType.DISRUPTED) if not after.finished else ()
    found = Counter(entry.ending.reason for entry in replaced)
    failed = sum(entry.ending.type == EndType.RETRYABLE for entry in replaced)
    if (in_place := (after.restarts or 0) - (before.restarts or 0) - failed) > 0:
        latest = max((run for _, run in runs_in_place(slots)), key=lambda run: run.finished_at or 0.0, default=None)
        found[decode(latest) if latest is not None else OTHER_CAUSE] += in_place
    known: Counter[str] = Counter()
    for cause, times in found.items():
        known[cause if cause in KNOWN_CAUSES else OTHER_CAUSE] += times
    return tuple(sorted(known.items()))


def failures_on_record(job: Job, accounting: Accounting, slots: Slots, *, suspended: bool) -> list[Failure]:
    """The first failures, with those of runs in living pods. Of these the kubelet keeps the latest of each container."""
    found = list(accounting.failures)
    # Where all replicas are restarted together, such a run ends its attempt, or is a consequence of that. While a job is
    # suspended, one fails for want of peers that were stopped.
    counted = not (job.restarts_together or suspended or job.status.has(ConditionType.SUSPENDED))
    for slot, run in runs_in_place(slots) if counted else ():
        if len(found) >= MAX_FAILURES:
            break
        ending = Ending(EndType.RETRYABLE, decode(run), run.exit_code, run.message, run.finished_at, init_of(slot.pod, run))
        failure = failure_of(slot.replica, slot.pod, ending)
        if slot.failed_runs.charged and not is_on_record(failure, found):
            found.append(failure)
    return found


def runs_in_place(slots: Slots) -> Iterator[tuple[Slot, Terminated]]:
    """The living pods in which a run has failed, each with the latest."""
    return ((slot, run) for slot in slots.living if (run := slot.failed_runs.last) is not None)
