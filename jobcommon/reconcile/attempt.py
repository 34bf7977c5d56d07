"""Restarting all replicas of a job together (`restartScope: Job`), as a new attempt.

An attempt is one life of the whole job. Its first failed or lost replica ends it: that replica is charged, and its exit code
decides. What ends afterwards is a consequence, because ranks that cannot rejoin fail when a peer is gone. The number of the new
attempt is recorded first (rule R1). Only then are the pods of the earlier attempts deleted, and no pod of the new attempt is
created while a program of an earlier one may still run.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace
from math import inf

from jobcommon.api.pod import PodView
from jobcommon.api.status import ConditionType, JobStatus
from jobcommon.api.timestamp import parse_time
from jobcommon.framework import Framework, Job
from jobcommon.reconcile import cleanup, limits
from jobcommon.reconcile.accounting import Accounting, first_failures, recorded_restarts
from jobcommon.reconcile.ending import Verdict
from jobcommon.reconcile.plan import Action
from jobcommon.reconcile.slots import Slot, attempt_of

# Of failures seen together the first of these counts as the cause. Times do not tell: nodes have clocks of their own, and an
# evicted pod may have no time. A rank whose peer was lost or killed often ends with a permanent exit code.
_CAUSES = (Verdict.DISRUPTED, Verdict.RETRYABLE, Verdict.PERMANENT)


def without_consequences(framework: Framework, job: Job, accounting: Accounting, pods: Iterable[PodView]) -> Accounting:
    """The accounting in which only the first failure of the attempt is charged; as it is if no replica has failed.

    Unless that failure is permanent, it begins a new attempt, in which no earlier success counts.
    """
    failed = [
        entry
        for entry in accounting.having(*_CAUSES)
        if not (entry.ending.verdict == Verdict.PERMANENT and framework.tolerates_failure(job, entry.replica))
    ]
    if not failed:
        return accounting
    first = min(failed, key=_order)
    verdict, charged = first.ending.verdict, recorded_restarts(job)
    charged[first.replica.type] += verdict == Verdict.RETRYABLE
    counted = replace(
        accounting,
        entries=(first,),
        restarts=charged,
        disruptions=max(job.status.disruptions or 0, 0) + (verdict == Verdict.DISRUPTED),
        in_place=0,
        failures=first_failures(job.status, [first]),
    )
    if verdict == Verdict.PERMANENT:
        return counted
    # A status that was deleted by hand has lost the number; the pods still have it.
    begun = 1 + max([job.attempt, *map(attempt_of, pods)])
    return replace(
        counted,
        succeeded={kind: frozenset[int]() for kind in accounting.succeeded},
        counted_pods=(),
        stopped_pods=(),
        attempt=begun,
    )


def retire_earlier(status: JobStatus, slots: Collection[Slot], now: float) -> tuple[list[Action], float | None]:
    """How the pods of earlier attempts are removed, and whether the next one has to wait.

    Running pods are deleted at once. Ended pods are kept until the next attempt is due, because they say when the last one
    started. The second value is None if the pods of the new attempt may be created now. Otherwise it is the time (seconds since
    the epoch) at which they are due, infinity while a pod still runs.
    """
    earlier = max(status.restarts or 0, 0) + max(status.disruptions or 0, 0)
    restarting = status.condition(ConditionType.RESTARTING)
    recorded_at = parse_time(restarting.last_update_time) if restarting else None
    ended = [slot.pod for slot in slots if slot.over and not slot.deleting]
    running = [slot for slot in slots if not slot.over]
    due = max((limits.restart_due(pod, earlier, now, recorded_at).at for pod in ended), default=now)
    why = "all replicas are restarted"
    actions = cleanup.stop_pods(running if due > now else slots, why)
    return actions, inf if running else due if due > now else None


def _order(entry: Slot) -> tuple[int, float, str]:
    finished = entry.ending.finished_at
    return _CAUSES.index(entry.ending.verdict), finished if finished is not None else inf, entry.pod.name
