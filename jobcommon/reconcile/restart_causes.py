"""Why pods were restarted, for metrics: a bounded set of causes, whatever a platform writes into a pod."""

from collections import Counter
from dataclasses import replace

from jobcommon.api.status import JobStatus
from jobcommon.reconcile.accounting import Accounting
from jobcommon.reconcile.ending import PLATFORM_REASONS, SIGNALS, Verdict, decode
from jobcommon.reconcile.plan import Plan
from jobcommon.reconcile.restarts import runs_in_place
from jobcommon.reconcile.slots import Slots

OTHER = "Other"
# The kubelet's and the control plane's own words: of a container's end, of a DisruptionTarget condition, and of this package.
KNOWN_CAUSES = PLATFORM_REASONS | frozenset(SIGNALS) | {
    "Error", "Completed", "OOMKilled", "ContainerCannotRun", "StartError", "ContainerStatusUnknown", "PreemptionByScheduler",
    "DeletionByTaintManager", "EvictionByEvictionAPI", "DeletionByPodGC", "TerminationByKubelet", "DeadlineExceeded", "Deleted",
    "Lost",
}  # fmt: skip


def added(plan: Plan, before: JobStatus, accounting: Accounting, slots: Slots) -> Plan:
    """The plan with the restarts that its status records and `before`, the stored one, does not; by cause, sorted.

    The status has only the number of restarts in place: all of them get the cause of the latest.
    """
    after = plan.status
    if after is None or (after.restarts == before.restarts and after.disruptions == before.disruptions):
        return plan
    replaced = accounting.having(Verdict.RETRYABLE, Verdict.DISRUPTED) if not after.finished else ()
    causes = Counter(_bounded(entry.ending.reason) for entry in replaced)
    failed = sum(entry.ending.verdict == Verdict.RETRYABLE for entry in replaced)
    if (in_place := (after.restarts or 0) - (before.restarts or 0) - failed) > 0:
        causes[_latest_in_place(slots)] += in_place
    return replace(plan, restarts=tuple(sorted(causes.items())))


def _latest_in_place(slots: Slots) -> str:
    latest = max((run for _, run in runs_in_place(slots)), key=lambda run: run.finished_at or 0.0, default=None)
    return _bounded(decode(latest)) if latest is not None else OTHER


def _bounded(cause: str) -> str:
    return cause if cause in KNOWN_CAUSES else OTHER
