"""Defects in restarts in place and in stalls, put back."""

from dataclasses import replace
from typing import Any

from jobcommon.framework import Job
from jobcommon.reconcile import attempt, compose, failed_logs, in_place, progress
from jobcommon.reconcile.accounting import Accounting
from jobcommon.reconcile.plan import KeepLog, SetImage
from jobcommon.testutil.sim.faults import Fault
from jobcommon.testutil.sim.mutation import Mutant

_stall = progress.stall
_logs_to_keep = failed_logs.logs_to_keep


def _without_allowance(job: Job, *more: Any) -> progress.Stall | None:
    policy = job.run_policy.model_copy(update={"evaluation_seconds": None})
    return _stall(replace(job, spec=job.spec.model_copy(update={"run_policy": policy})), *more)


def _by_recorded_times(job: Job, now: float, _: Any, *more: Any) -> progress.Stall | None:
    return _stall(job, now, None, *more)


def _unless_in_place(job: Job, actions: Any, pods: Any) -> tuple[KeepLog, ...]:
    return _logs_to_keep(job, [action for action in actions if not isinstance(action, SetImage)], pods)


def _all_charged(_framework: Any, _job: Any, accounting: Accounting, _slots: Any) -> Accounting:
    return accounting


def _always(*_: Any) -> bool:
    return True


RECOVERY = (
    Mutant(
        "E19-gate-lifted-early",
        "Programs are started in place while others of the attempt before have not stopped.",
        ((in_place, "is_stopped", _always),),
        where=("*/A-in-place-slowly",),
        faults=(),
    ),
    Mutant(
        "E20-charged-in-place",
        "What is stopped for a restart in place counts as a failure.",
        ((attempt, "without_consequences", _all_charged),),
        where=("*/A-in-place",),
    ),
    Mutant(
        "E21-no-log-in-place",
        "A pod is restarted in place before the log of its failure is kept, which its next end replaces.",
        ((compose, "logs_to_keep", _unless_in_place),),
        where=("*/K-log-in-place",),
    ),
    Mutant(
        "E22-evaluation-is-a-stall",
        "A program that evaluates is stalled after the time that is allowed between two steps.",
        ((progress, "stall", _without_allowance),),
        where=("*/S-evaluates",),
        faults=(),
    ),
    Mutant(
        "E23-stalled-by-a-wrong-clock",
        "A deadline counts from a time in the status by the clock on the wall, which may have jumped.",
        ((progress, "stall", _by_recorded_times),),
        where=("*/S-evaluates",),
        faults=("clock-jump",),
    ),
    Mutant(
        "E24-acts-on-an-old-report",
        "After an outage a job is restarted at once, though a report that is to be written says that it trains.",
        ((progress, "CONFIRM_SECONDS", 0.0),),
        where=("pytorch/S-evaluates",),
        faults=(),
        always=(Fault("rights-revoked", at=15.0, seconds=60.0, value="get pytorchjobs"),),
    ),
)
