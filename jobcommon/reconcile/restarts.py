"""The restarts of a job: their number and causes, and new attempts, which restart all replicas together (`restartScope: Job`).

An attempt is one life of the whole job. Its first failed or lost replica ends it: that replica is charged, and its exit code
decides. What ends afterwards is a consequence, because ranks that cannot rejoin fail when a peer is gone. The number of the new
attempt is recorded first (rule R1). Only then are the pods of the earlier attempts deleted or stopped, and no program of the
new attempt is started while one of an earlier attempt may still run.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import inf

import msgspec

from jobcommon.api.pod import PodView, Terminated
from jobcommon.api.status import MAX_FAILURES, ConditionType, Failure, JobStatus
from jobcommon.api.timestamp import format_moment
from jobcommon.framework import Framework, Job
from jobcommon.reconcile import limits
from jobcommon.reconcile.accounting import Accounting, failure_of, first_failures, is_on_record, recorded_failed_runs
from jobcommon.reconcile.ending import (
    PLATFORM_REASONS,
    SIGNALS,
    STOPPED_BY_IMAGE,
    Ending,
    EndType,
    decode,
    described_end,
    ending_by_others,
)
from jobcommon.reconcile.extension import RestartInPlace
from jobcommon.reconcile.rendering import Note
from jobcommon.reconcile.slots import Ended, Slot, Slots, attempt_of, restart_policy

MAX_NAMED = 3
OTHER_CAUSE = "Other"
# The kubelet's and the control plane's own words: of a container's end, of a DisruptionTarget condition, and of this package.
KNOWN_CAUSES = PLATFORM_REASONS | frozenset(SIGNALS) | {
    "Error", "Completed", "OOMKilled", "ContainerCannotRun", "StartError", "ContainerStatusUnknown", "PreemptionByScheduler",
    "DeletionByTaintManager", "EvictionByEvictionAPI", "DeletionByPodGC", "TerminationByKubelet", "DeadlineExceeded", "Deleted",
    "Lost", STOPPED_BY_IMAGE,
}  # fmt: skip


def count(job: Job, accounting: Accounting, slots: Slots, *, ends: bool) -> int:
    """The restarts made or about to be made, in place or by a new pod; the last failure of a job that `ends` causes none.

    The number never decreases, although the count of a deleted pod is lost with it.
    """
    failed_now = len(accounting.having(EndType.RETRYABLE)) if ends else 0
    in_place = sum(slot.failed_runs.restarted for slot in slots.living)
    return max(accounting.recorded - failed_now + in_place, job.status.restarts or 0)


def recorded_time(before: JobStatus, after: tuple[int | None, ...], now: float) -> str | None:
    """The time of the last restart, which is `now` if one of the numbers of restarts, disruptions and attempts rises."""
    known = (before.restarts, before.disruptions, before.attempt)
    if any((new or 0) > (old or 0) for new, old in zip(after, known, strict=True)):
        return format_moment(now)
    return before.last_restart_time


def notes(slots: Slots) -> list[Note]:
    """What the condition says of restarts in place: the replica with most of them, and its last failure."""
    found = [(times, slot) for slot in slots.living if (times := slot.failed_runs.restarted)]
    if not found:
        return []
    times, slot = max(found, key=lambda entry: entry[0])
    run = slot.failed_runs.last
    why = f", last: {described_end(run)}" if run is not None else ""
    more = f"; {len(found) - 1} more restarted" if len(found) > 1 else ""
    return [Note(f"{slot.replica} restarted {'once' if times == 1 else f'{times} times'}{why}{more}")]


def causes(before: JobStatus, after: JobStatus, accounting: Accounting, slots: Slots) -> tuple[tuple[str, int], ...]:
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


def backoff_message(job: Job, accounting: Accounting, slots: Slots) -> str:
    """Why a job with an exhausted backoffLimit has failed, with the last cause."""
    limit = f"it has reached the specified backoff limit: failed runs {accounting.charged}, "
    limit += f"restarts allowed {job.run_policy.backoff_limit}"
    causes = [f"{slot.replica}: {described_end(run)}" for slot, run in [*runs_in_place(slots)][-1:]] or [
        entry.ending.describe(entry.replica, entry.pod.node_name) for entry in accounting.having(EndType.RETRYABLE)[-1:]
    ]
    return f"Job {job.name} has failed because {'; '.join([*causes, limit])}"


def still_terminating(job: Job, slots: Slots) -> list[Note]:
    """The note on pods that others are deleting while the job fails: their peers may have failed of that."""
    ends = [(slot, ending_by_others(slot.pod, restart_policy(job, slot.replica))) for slot in slots.leaving]
    leaving = [ending.describe(slot.replica, slot.pod.node_name) for slot, ending in ends[:MAX_NAMED] if ending is not None]
    return [Note(f"still terminating: {', '.join(leaving)}")] if leaving else []


def failures(job: Job, accounting: Accounting, slots: Slots, *, suspended: bool) -> list[Failure]:
    """The first failures, with those of runs in living pods. Of these the kubelet keeps the latest of each container."""
    found = list(accounting.failures)
    # Where all replicas are restarted together, such a run ends its attempt, or is a consequence of that. While a job is
    # suspended, one fails for want of peers that were stopped.
    counted = not (job.restarts_together or suspended or job.status.has(ConditionType.SUSPENDED))
    for slot, run in runs_in_place(slots) if counted else ():
        ending = Ending(EndType.RETRYABLE, decode(run), run.exit_code, run.message, run.finished_at)
        failure = failure_of(slot.replica, slot.pod, ending)
        if slot.failed_runs.charged and len(found) < MAX_FAILURES and not is_on_record(failure, found):
            found.append(failure)
    return found


def runs_in_place(slots: Slots) -> Iterator[tuple[Slot, Terminated]]:
    """The living pods in which a run has failed, each with the latest."""
    return ((slot, run) for slot in slots.living if (run := slot.failed_runs.last) is not None)


# Of failures seen together the first of these counts as the cause: an evicted pod may have no time, and a rank whose peer was
# lost or killed often ends with a permanent exit code. Of exit codes alone a permanent one is the cause if it came before.
_CAUSES = (EndType.DISRUPTED, EndType.RETRYABLE, EndType.PERMANENT)


def without_consequences(framework: Framework, job: Job, accounting: Accounting, slots: Slots) -> Accounting:
    """The accounting in which only the first failure of the attempt is charged; as it is if no replica has failed.

    Unless that failure is permanent, it begins a new attempt, in which no earlier success counts. A deletion by others comes
    before the failures of peers, although its pod still terminates: its program may have ended at once.
    """
    failed = [
        entry
        for entry in accounting.having(*_CAUSES)
        if not (entry.ending.type == EndType.PERMANENT and framework.tolerates_failure(job, entry.replica))
    ]
    if not failed:
        return accounting
    first = min([*failed, *_being_deleted(job, slots)], key=_order)
    permanent = [entry for entry in failed if entry.ending.type == EndType.PERMANENT]
    unclear: list[Slot] = []
    if first.ending.type == EndType.RETRYABLE and permanent:
        # Nodes have clocks of their own, but nothing else shows which came first. An operator that looks in between sees it.
        earliest = min(permanent, key=_order)
        unclear = [entry for entry in permanent if _end(entry) == _end(first) < inf]
        first = earliest if _end(earliest) < _end(first) else first
    kind, charged = first.ending.type, recorded_failed_runs(job)
    charged[first.replica.type] += kind == EndType.RETRYABLE
    counted = replace(
        accounting,
        entries=(first,),
        charged_by_type=charged,
        disruptions=max(job.status.disruptions or 0, 0) + (kind == EndType.DISRUPTED),
        in_place=0,
        failures=first_failures(job, [first, *unclear]),
    )
    if kind == EndType.PERMANENT:
        return counted
    return _in_new_attempt(job, counted, [slot.pod for slot in slots.ours])


def _being_deleted(job: Job, slots: Slots) -> Iterator[Slot]:
    """The pods that others are deleting, as ended by that."""
    for slot in slots.leaving:
        if (ending := ending_by_others(slot.pod, restart_policy(job, slot.replica))) is not None:
            yield msgspec.structs.replace(slot, state=Ended(ending))


def after_deadline(job: Job, accounting: Accounting, pods: Iterable[PodView]) -> Accounting:
    """The accounting in which a deadline begins a new attempt. It is charged to the first replica type with replicas."""
    first = [kind for kind in job.replica_specs if job.count(kind)][:1]
    charged = {kind: times + (kind in first) for kind, times in accounting.charged_by_type.items()}
    return _in_new_attempt(job, replace(accounting, entries=(), charged_by_type=charged), pods)


def _in_new_attempt(job: Job, accounting: Accounting, pods: Iterable[PodView]) -> Accounting:
    # A status that was deleted by hand has lost the number; the pods still have it.
    begun = 1 + max([job.attempt, *map(attempt_of, pods)])
    return replace(
        accounting,
        succeeded={kind: frozenset[int]() for kind in accounting.succeeded},
        counted_pods=(),
        stopped_pods=(),
        attempt=begun,
    )


@dataclass(frozen=True)
class AttemptChange:
    """How the job changes from its earlier attempts to the present one.

    `in_place`: the restarts of the pods that are kept, by UID. `delayed`: the UIDs of those that remain for now. `due`: None
    if pods of the present attempt may be started now; otherwise when to look again (seconds since the epoch), infinity while
    a kubelet is awaited.
    """

    in_place: Mapping[str, RestartInPlace] = field(default_factory=dict)
    delayed: Collection[str] = ()
    due: float | None = None


def change_of_attempt(
    job: Job, earlier: Collection[Slot], in_place: Mapping[str, RestartInPlace], now: float, *, begins: bool = True
) -> AttemptChange:
    """The change of attempts at `now`, with the restarts `in_place` of pods of `earlier` attempts.

    Running pods are stopped at once. Ended pods are kept until the next attempt is due, because they say when the last one
    started. Unless it `begins`, nothing happens to them.
    """
    if not earlier:
        return AttemptChange()
    if not begins:
        return AttemptChange(delayed=[slot.pod.uid for slot in earlier], due=inf)
    restarted, recorded_at = limits.restarts_so_far(job.status)
    replaced = [slot for slot in earlier if slot.pod.uid not in in_place]
    starts = [slot.pod.started for slot in replaced if slot.over and not slot.deleting]
    starts += [restart.last_start for restart in in_place.values() if restart.stopped]
    due = max((limits.restart_due(started, restarted, now, recorded_at).at for started in starts), default=now)
    delayed = [slot.pod.uid for slot in replaced if slot.over and due > now]
    if not all(slot.over for slot in replaced) or not all(restart.stopped for restart in in_place.values()):
        return AttemptChange(in_place, delayed, min((restart.given_up_at for restart in in_place.values()), default=inf))
    return AttemptChange(in_place, delayed, due if due > now else None)


def _order(entry: Slot) -> tuple[int, float, str]:
    return _CAUSES.index(entry.ending.type), _end(entry), entry.pod.name


def _end(entry: Slot) -> float:
    finished = entry.ending.finished_at
    return finished if finished is not None else inf
