"""The verdict on a job that has not finished: one a pass, by the first of `RULES` that has one.

Each is a closed value with what it was made from; `decision` carries it out. The order of the rules is that of precedence, in
case several apply: success of the deciding replicas, a final failure, suspension, the limits, the deadlines, a new attempt.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from jobcommon.api import reasons
from jobcommon.api.status import MAX_ATTEMPT, ConditionType
from jobcommon.reconcile import limits, restarts
from jobcommon.reconcile.accounting import is_counted
from jobcommon.reconcile.ending import Verdict
from jobcommon.reconcile.rendering import Note
from jobcommon.reconcile.situation import Situation


@dataclass(frozen=True)
class GoOn:
    """Its pods are created, replaced and removed as its spec says. `running`: the deciding replicas run."""

    view: Situation
    running: bool


@dataclass(frozen=True)
class Suspend:
    """It is to have no pods."""

    view: Situation


@dataclass(frozen=True)
class Resume:
    """It may have pods again."""

    view: Situation


@dataclass(frozen=True)
class BeginAttempt:
    """All its replicas are restarted. `cause`: of a restart without a failure, a part of a sentence."""

    view: Situation
    cause: str = ""


@dataclass(frozen=True)
class Succeed:
    """Its deciding replicas have succeeded."""

    view: Situation


@dataclass(frozen=True)
class Fail:
    """It has failed, with the message of its condition."""

    view: Situation
    reason: str
    message: str
    remarks: Sequence[Note] = ()
    waiting: Sequence[Note] = ()


JobVerdict = GoOn | Suspend | Resume | BeginAttempt | Succeed | Fail


def judge(view: Situation) -> JobVerdict:
    """The verdict on the job."""
    for rule in RULES:
        if (verdict := rule(view)) is not None:
            return verdict
    raise AssertionError("the last rule always has a verdict")


def _invalid(view: Situation) -> JobVerdict | None:
    job = view.job
    if job.errors and not view.has_begun:
        return Fail(view.uncharged, reasons.INVALID_SPEC, "; ".join(map(str, job.errors)))
    for (plural, name), rejection in view.observed.rejections.items():
        if rejection.required:
            text = f"the API server refuses {plural}/{name}: {rejection.message}"
            return Fail(view.uncharged, reasons.INVALID_SPEC, text)
    return None


def _unread(view: Situation) -> JobVerdict | None:
    """What an end means for the job is unknown, so nothing but a suspension is decided."""
    if not view.held.unread:
        return None
    return Suspend(view) if view.job.suspended else GoOn(view, running=False)


def _succeeded(view: Situation) -> JobVerdict | None:
    return Succeed(view.uncharged) if view.outcome.succeeded else None


def _failed_for_good(view: Situation) -> JobVerdict | None:
    job = view.job
    final = [e for e in view.accounting.having(Verdict.PERMANENT) if not view.framework.tolerates_failure(job, e.replica)]
    if not final:
        return None
    first = min(final, key=lambda e: e.ending.finished_at or float("inf"))
    text = f"{job.kind} {job.name} has failed because {first.ending.describe(first.replica, first.pod.node_name)}"
    return Fail(view, reasons.of_kind(job.kind, reasons.FAILED), text, restarts.still_terminating(job, view.slots))


def _suspended(view: Situation) -> JobVerdict | None:
    return Suspend(view) if view.job.suspended or _is_stopping(view) else None


def _is_stopping(view: Situation) -> bool:
    """Whether a job that is to be resumed has to be stopped first: a pod of it is not being deleted, or too many terminate.

    Also if the cache shows otherwise: another operator may have deleted them because of the recorded suspension, and the watch
    may lag. A resume that does not enter them would count their exit codes; and half of a job fails without its peers.
    """
    if not view.job.status.has(ConditionType.SUSPENDED):
        return False
    everywhere = (*view.slots.wanted.values(), *view.slots.surplus)
    if any(slot.stays for slot in (*everywhere, *view.slots.earlier)):
        return True
    return not all(is_counted(view.accounting, slot) for slot in everywhere if slot.deleting)


def _none_left(view: Situation) -> JobVerdict | None:
    text = limits.none_left(view.framework, view.job, view.slots)
    return Fail(view, reasons.of_kind(view.job.kind, reasons.FAILED), text) if text is not None else None


def _used_up(view: Situation) -> JobVerdict | None:
    """The failure of a job that may not be restarted again."""
    job = view.job
    leaving = restarts.still_terminating(job, view.slots)
    if limits.backoff_exceeded(job, view.accounting):
        text = restarts.backoff_message(job, view.accounting, view.slots)
        return Fail(view, reasons.BACKOFF_LIMIT_EXCEEDED, text, leaving)
    if view.accounting.attempt > MAX_ATTEMPT:
        text = f"{job.kind} {job.name} has failed because no attempt follows number {MAX_ATTEMPT}"
        return Fail(view, reasons.of_kind(job.kind, reasons.FAILED), text, leaving)
    for extension in view.extensions:
        if (exhausted := extension.exhausted()) is not None:
            return Fail(view, *exhausted, leaving)
    return None


def _resumed(view: Situation) -> JobVerdict | None:
    return Resume(view) if view.job.status.has(ConditionType.SUSPENDED) else None


def _overdue(view: Situation) -> JobVerdict | None:
    """The job fails or all its replicas are restarted, which is charged as a failure of one is."""
    deadline = next((deadline for deadline in view.undisturbed.deadlines if view.now >= deadline.at), None)
    if deadline is None:
        return None
    if not deadline.new_attempt:
        return Fail(view, deadline.reason, deadline.message, waiting=deadline.waiting)
    charged = restarts.after_deadline(view.job, view.accounting, [slot.pod for slot in view.slots.ours])
    again = replace(view, accounting=charged, in_vain=deadline.in_vain)
    failed = _used_up(again)
    # The deadline that ends the job restarts nothing.
    return replace(failed, view=view, remarks=()) if isinstance(failed, Fail) else BeginAttempt(again, deadline.cause)


def _goes_on(view: Situation) -> JobVerdict:
    begins = view.accounting.attempt > view.job.attempt and not view.keeps_attempt
    return BeginAttempt(view) if begins else GoOn(view.undisturbed, view.outcome.running)


RULES: tuple[Callable[[Situation], JobVerdict | None], ...] = (
    _invalid,
    _unread,
    _succeeded,
    _failed_for_good,
    _suspended,
    _none_left,
    _used_up,
    _resumed,
    _overdue,
    _goes_on,
)
