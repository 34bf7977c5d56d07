"""Attempts: restarts of all replicas of a job together (`restartScope: Job`).

An attempt is one life of the whole job. Its first failed or lost replica ends it: that replica is charged, and its exit code
decides. What ends afterwards is a consequence, because ranks that cannot rejoin fail when a peer is gone. The number of the new
attempt is recorded first (rule R1). Only then are the pods of the earlier attempts deleted or stopped, and no program of the
new attempt is started while one of an earlier attempt may still run.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from math import inf

from jobcommon.api.pod import PodView
from jobcommon.framework import Job
from jobcommon.reconcile import limits
from jobcommon.reconcile.accounting import Accounting, first_failures, recorded_failed_runs
from jobcommon.reconcile.ending import EndType
from jobcommon.reconcile.slots import Slot, Slots, attempt_of, being_deleted, order_of_end

# Of failures seen together the first of these counts as the cause: an evicted pod may have no time, and a rank whose peer was
# lost or killed often ends with a permanent exit code. Of exit codes alone a permanent one is the cause if it came before.
_CAUSES = (EndType.DISRUPTED, EndType.RETRYABLE, EndType.PERMANENT)


def without_consequences(job: Job, accounting: Accounting, slots: Slots) -> Accounting:
    """The accounting in which only the first failure of the attempt is charged; as it is if no replica has failed.

    Unless that failure is permanent, it begins a new attempt, in which no earlier success counts. A deletion by others comes
    before the failures of peers, although its pod still terminates: its program may have ended at once.
    """
    failed = [
        slot
        # Of all that have ended, one pass enters a part.
        for slot in (slots.ended if accounting.entries else ())
        if slot.ending.type in _CAUSES and not slot.given_up
    ]
    if not failed:
        return accounting
    first = min([*failed, *being_deleted(job, slots)], key=_order)
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
        unrecorded=0,
        failures=first_failures(job, [first, *unclear]),
    )
    if kind == EndType.PERMANENT:
        return counted
    return in_new_attempt(job, counted, [slot.pod for slot in slots.ours])


def after_deadline(job: Job, accounting: Accounting, pods: Iterable[PodView]) -> Accounting:
    """The accounting in which a deadline begins a new attempt. It is charged to the first replica type with replicas."""
    first = [kind for kind in job.replica_specs if job.count(kind)][:1]
    charged = {kind: times + (kind in first) for kind, times in accounting.charged_by_type.items()}
    return in_new_attempt(job, replace(accounting, entries=(), charged_by_type=charged), pods)


def in_new_attempt(job: Job, accounting: Accounting, pods: Iterable[PodView]) -> Accounting:
    """The accounting in which a new attempt begins: no earlier success counts in it."""
    return replace(
        accounting,
        succeeded={kind: frozenset[int]() for kind in accounting.succeeded},
        counted_pods=(),
        stopped_pods=(),
        attempt=next_attempt(job, pods),
    )


def next_attempt(job: Job, pods: Iterable[PodView]) -> int:
    """The number of the next attempt, which no pod has: the status may have lost a number, and anyone may annotate a pod."""
    taken = set(map(attempt_of, pods))
    return next(number for number in count(job.attempt + 1) if number not in taken)


@dataclass(frozen=True, slots=True)
class RestartInPlace:
    """How far the restart of a pod in place has come. `last_start` of its program, in seconds since the epoch.

    A pod that is not `stopped` by `given_up_at` is replaced.
    """

    stopped: bool
    last_start: float | None
    given_up_at: float


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


NO_CHANGE = AttemptChange()


def change_of_attempt(
    job: Job, earlier: Collection[Slot], in_place: Mapping[str, RestartInPlace], now: float, *, begins: bool = True
) -> AttemptChange:
    """The change of attempts at `now`, with the restarts `in_place` of pods of `earlier` attempts.

    Running pods are stopped at once. Ended pods are kept until the next attempt is due, because they say when the last one
    started. Unless it `begins`, nothing happens to them.
    """
    if job.is_elastic:
        # Its node is silent: the others are not held for what cannot be had again.
        earlier = [slot for slot in earlier if slot.removal_due is None or slot.removal_due > now]
    if not begins:
        return AttemptChange(delayed=[slot.pod.uid for slot in earlier], due=inf)
    restarted, recorded_at = limits.restarts_so_far(job.status)
    replaced = [slot for slot in earlier if slot.pod.uid not in in_place]
    starts = [slot.pod.started for slot in replaced if slot.over and not slot.deleting]
    starts += [restart.last_start for restart in in_place.values() if restart.stopped]
    due = max((limits.restart_due(started, restarted, now, recorded_at) for started in starts), default=now)
    delayed = [slot.pod.uid for slot in replaced if slot.over and due > now]
    if not all(slot.over for slot in replaced) or not all(restart.stopped for restart in in_place.values()):
        return AttemptChange(in_place, delayed, min((restart.given_up_at for restart in in_place.values()), default=inf))
    return AttemptChange(in_place, delayed, due if due > now else None)


def _order(entry: Slot) -> tuple[int, float, bool, str]:
    return _CAUSES.index(entry.ending.type), *order_of_end(entry)


def _end(entry: Slot) -> float:
    return order_of_end(entry)[0]
