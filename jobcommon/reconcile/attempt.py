"""Restarting all replicas of a job together (`restartScope: Job`), as a new attempt.

An attempt is one life of the whole job. Its first failed or lost replica ends it: that replica is charged, and its exit code
decides. What ends afterwards is a consequence, because ranks that cannot rejoin fail when a peer is gone. The number of the new
attempt is recorded first (rule R1). Only then are the pods of the earlier attempts deleted or stopped, and no program of the
new attempt is started while one of an earlier attempt may still run.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from math import inf

import msgspec

from jobcommon.api.pod import PodView
from jobcommon.api.status import MAX_REPLACED
from jobcommon.framework import Framework, Job
from jobcommon.reconcile import cleanup, in_place, limits
from jobcommon.reconcile.accounting import Accounting, first_failures, recorded_restarts
from jobcommon.reconcile.ending import Verdict, ending_by_others
from jobcommon.reconcile.plan import Action
from jobcommon.reconcile.slots import Ended, Slot, Slots, attempt_of, restart_policy

# Of failures seen together the first of these counts as the cause: an evicted pod may have no time, and a rank whose peer was
# lost or killed often ends with a permanent exit code. Of exit codes alone a permanent one is the cause if it came before.
_CAUSES = (Verdict.DISRUPTED, Verdict.RETRYABLE, Verdict.PERMANENT)


def without_consequences(framework: Framework, job: Job, accounting: Accounting, slots: Slots) -> Accounting:
    """The accounting in which only the first failure of the attempt is charged; as it is if no replica has failed.

    Unless that failure is permanent, it begins a new attempt, in which no earlier success counts. A deletion by others comes
    before the failures of peers, although its pod still terminates: its program may have ended at once.
    """
    failed = [
        entry
        for entry in accounting.having(*_CAUSES)
        if not (entry.ending.verdict == Verdict.PERMANENT and framework.tolerates_failure(job, entry.replica))
    ]
    if not failed:
        return accounting
    first = min([*failed, *_being_deleted(job, slots)], key=_order)
    permanent = [entry for entry in failed if entry.ending.verdict == Verdict.PERMANENT]
    unclear: list[Slot] = []
    if first.ending.verdict == Verdict.RETRYABLE and permanent:
        # Nodes have clocks of their own, but nothing else shows which came first. An operator that looks in between sees it.
        earliest = min(permanent, key=_order)
        unclear = [entry for entry in permanent if _end(entry) == _end(first) < inf]
        first = earliest if _end(earliest) < _end(first) else first
    verdict, charged = first.ending.verdict, recorded_restarts(job)
    charged[first.replica.type] += verdict == Verdict.RETRYABLE
    counted = replace(
        accounting,
        entries=(first,),
        restarts=charged,
        disruptions=max(job.status.disruptions or 0, 0) + (verdict == Verdict.DISRUPTED),
        in_place=0,
        failures=first_failures(job.status, [first, *unclear]),
    )
    if verdict == Verdict.PERMANENT:
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
    charged = {kind: times + (kind in first) for kind, times in accounting.restarts.items()}
    return _in_new_attempt(job, replace(accounting, entries=(), restarts=charged), pods)


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


def retire_earlier(
    job: Job, slots: Collection[Slot], backed_off: Collection[str], now: float, images: Mapping[str, str]
) -> tuple[Sequence[Action], float | None]:
    """How the pods of earlier attempts are removed or restarted in place, and whether the next attempt has to wait.

    Running pods are stopped at once. Ended pods are kept until the next attempt is due, because they say when the last one
    started. The second value is None if the next attempt may begin now. Otherwise it is when to look again (seconds since
    the epoch), infinity while the kubelet is awaited. `backed_off`: see `Observed`; `images`: see `in_place.images_of_attempt`.
    """
    earlier, recorded_at = limits.restarts_so_far(job.status)
    kept = kept_in_place(job, slots, backed_off, now)
    names = {slot.pod.name for slot in kept}
    replaced = [slot for slot in slots if slot.pod.name not in names]
    running = [slot for slot in replaced if not slot.over]
    stopped = [slot for slot in kept if in_place.is_stopped(slot.pod)]
    starts = [slot.pod.started for slot in replaced if slot.over and not slot.deleting]
    starts += [in_place.last_start(slot.pod) for slot in stopped]
    due = max((limits.restart_due(started, earlier, now, recorded_at).at for started in starts), default=now)
    actions = cleanup.stop_pods(running if due > now else replaced, "all replicas are restarted")
    if running or len(stopped) < len(kept):
        stops = (in_place.stop(job, slot, now) for slot in kept)
        late = min((in_place.given_up_at(job, slot.replica, slot.pod, now) for slot in kept), default=inf)
        return [*actions, *chain.from_iterable(stops)], late
    if due > now:
        return actions, due
    return [*actions, *(in_place.start(job, slot, images) for slot in kept)], None


def kept_in_place(job: Job, slots: Iterable[Slot], backed_off: Collection[str], now: float) -> list[Slot]:
    """The pods of earlier attempts that are restarted in place."""
    return [slot for slot in slots if job.restarts_in_place and not in_place.obstacle(job, slot, backed_off, now)]


def replaced(
    job: Job, slots: Iterable[Slot], known: Mapping[str, str], backed_off: Collection[str], now: float
) -> dict[str, str]:
    """The replicas whose pods are made anew although the job restarts in place, and why: those `known`, and of `slots`."""
    wanted = (slot for slot in slots if job.restarts_in_place and in_place.is_wanted(job, slot))
    found = ((str(slot.replica), in_place.obstacle(job, slot, backed_off, now)) for slot in wanted)
    new = ((name, why) for name, why in found if why and name not in known)
    return {**known, **dict(islice(new, max(MAX_REPLACED - len(known), 0)))}


def replaced_note(reasons: Mapping[str, str]) -> str:
    """The same for the condition: the replicas by reason."""
    by_reason: dict[str, list[str]] = {}
    for name, why in reasons.items():
        by_reason.setdefault(why, []).append(name)
    more = " and others" if len(reasons) == MAX_REPLACED else ""
    return "; ".join(f"{', '.join(names)}{more}: a new pod, because {why}" for why, names in by_reason.items())


def _order(entry: Slot) -> tuple[int, float, str]:
    return _CAUSES.index(entry.ending.verdict), _end(entry), entry.pod.name


def _end(entry: Slot) -> float:
    finished = entry.ending.finished_at
    return finished if finished is not None else inf
