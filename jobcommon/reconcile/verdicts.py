"""The verdict on a job that has not finished: one a pass, by the first of `RULES` that has one.

Each is a closed value with what it was made from; `decision` carries it out. The order of the rules is that of precedence, in
case several apply: success of the deciding replicas, a final failure, suspension, the limits, the deadlines, a new attempt.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from jobcommon.api import reasons
from jobcommon.api.status import MAX_ATTEMPT, ConditionType
from jobcommon.framework import Job
from jobcommon.reconcile import limits
from jobcommon.reconcile.accounting import Accounting, deletion_before, is_counted, runs_in_place
from jobcommon.reconcile.attempts import after_deadline, in_new_attempt
from jobcommon.reconcile.ending import EndType, init_of
from jobcommon.reconcile.rendering import Note, described_end, described_failure, described_run
from jobcommon.reconcile.situation import Situation, only
from jobcommon.reconcile.slots import Slot, Slots, being_deleted
from jobcommon.reconcile.view import End, NewAttempt

# Of the pods that others are deleting while a job fails, so many are named.
MAX_NAMED = 3


@dataclass(frozen=True)
class _Verdict:
    """What becomes of a job, and what it was made from."""

    situation: Situation


@dataclass(frozen=True)
class GoOn(_Verdict):
    """Its pods are created, replaced and removed as its spec says. `running`: the deciding replicas run."""

    running: bool


class Suspend(_Verdict):
    """It is to have no pods."""


class Resume(_Verdict):
    """It may have pods again."""


@dataclass(frozen=True)
class BeginAttempt(_Verdict):
    """All its replicas are restarted. `cause`: of a restart without a failure, a part of a sentence."""

    cause: str = ""


class Succeed(_Verdict):
    """Its deciding replicas have succeeded."""


@dataclass(frozen=True)
class Fail(_Verdict):
    """It has failed, with the message of its condition."""

    reason: str
    message: str
    remarks: Sequence[Note] = ()
    waiting: Sequence[Note] = ()


Verdict = GoOn | Suspend | Resume | BeginAttempt | Succeed | Fail


def judge(situation: Situation) -> Verdict:
    """The verdict on the job."""
    for rule in RULES:
        if (verdict := rule(situation)) is not None:
            return verdict
    raise AssertionError("the last rule always has a verdict")


def _invalid(situation: Situation) -> Verdict | None:
    view, job = situation.view, situation.view.job
    empty = f"spec.{view.framework.replica_specs}: Required value: all replica types have 0 replicas"
    wrong = [*map(str, job.errors)] or ([] if any(map(job.asked_of, job.replica_specs)) else [empty])
    if wrong and not view.facts.has_begun and not job.missing:
        return Fail(situation.uncharged, reasons.INVALID_SPEC, "; ".join(wrong))
    for (plural, name), rejection in view.observed.rejections.items():
        if rejection.required:
            text = f"the API server refuses {plural}/{name}: {rejection.message}"
            return Fail(situation.uncharged, reasons.INVALID_SPEC, text)
    return None


def _unread(situation: Situation) -> Verdict | None:
    """What an end means for the job is unknown, so nothing but a suspension is decided."""
    view = situation.view
    if not view.facts.blocked.unread:
        return None
    return Suspend(situation) if view.facts.suspended else GoOn(situation, running=False)


def _succeeded(situation: Situation) -> Verdict | None:
    return Succeed(situation.uncharged) if situation.outcome.succeeded else None


def _failed_for_good(situation: Situation) -> Verdict | None:
    view, job = situation.view, situation.view.job
    final = [e for e in view.accounting.having(EndType.PERMANENT) if not view.framework.tolerates_failure(job, e.replica)]
    if not final:
        return None
    text = f"{job.kind} {job.name} has failed because {_because(view.accounting, final)}"
    return Fail(situation, reasons.of_kind(job.kind, reasons.FAILED), text, _still_terminating(job, view.slots))


def _because(accounting: Accounting, ends: Sequence[Slot]) -> str:
    """The first of the ends, and a deletion by others before it, of which it may be a consequence."""
    before = deletion_before(accounting.entries, ends[0].ending.finished_at or 0.0)
    return "; ".join(described_end(end, read=end is ends[0]) for end in (before, ends[0]) if end is not None)


def _suspended(situation: Situation) -> Verdict | None:
    return Suspend(situation) if situation.view.facts.suspended or _is_stopping(situation) else None


def _is_stopping(situation: Situation) -> bool:
    """Whether a job that is to be resumed has to be stopped first: a pod of it is not being deleted, or too many terminate.

    Also if the cache shows otherwise: another operator may have deleted them because of the recorded suspension, and the watch
    may lag. A resume that does not enter them would count their exit codes; and half of a job fails without its peers.
    """
    view = situation.view
    if not view.job.status.has(ConditionType.SUSPENDED):
        return False
    everywhere = (*view.slots.wanted.values(), *view.slots.surplus)
    if any(slot.stays for slot in (*everywhere, *view.slots.earlier)):
        return True
    return not all(is_counted(view.accounting, slot) for slot in everywhere if slot.deleting)


def _none_left(situation: Situation) -> Verdict | None:
    """The failure of a job of which all replicas have ended for good, and which was to go on without one of them.

    A failure that is tolerated does not end the job, so without this it would run for ever.
    """
    view, job, done = situation.view, situation.view.job, situation.view.accounting.succeeded
    serving = {kind for kind in job.replica_specs if view.framework.serves(kind)}
    working = [slot for slot in view.slots.wanted.values() if slot.replica.type not in serving]
    ended = all(slot.over and (slot.given_up or slot.replica.index in done[slot.replica.type]) for slot in working)
    first = next((slot for slot in working if slot.given_up), None)
    if first is None or not ended or any(replica.type not in serving for replica in view.missing):
        return None
    text = f"{job.kind} {job.name} has failed because {first.replica} has failed, and no replica is left that could continue"
    return Fail(situation, reasons.of_kind(job.kind, reasons.FAILED), text)


def _used_up(situation: Situation) -> Verdict | None:
    """The failure of a job that may not be restarted again. A deadline that would restart it remains its cause."""
    view = situation.view
    job, cause = view.job, view.overdue.cause if view.overdue is not None else ""
    leaving = _still_terminating(job, view.slots)
    if limits.backoff_exceeded(job, view.accounting):
        text = _backoff_message(job, view.accounting, view.slots, cause)
        return Fail(situation, reasons.BACKOFF_LIMIT_EXCEEDED, text, leaving)
    if view.accounting.attempt > MAX_ATTEMPT:
        text = f"{job.kind} {job.name} has failed because attempt {MAX_ATTEMPT} is the last"
        return Fail(situation, reasons.of_kind(job.kind, reasons.FAILED), text, leaving)
    end = next(iter(only(situation.proposed, End)), None)
    return Fail(situation, end.reason, f"{end.message}; {cause}" if cause else end.message, leaving) if end else None


def _backoff_message(job: Job, accounting: Accounting, slots: Slots, cause: str) -> str:
    """Why a job with an exhausted backoffLimit has failed, with the last cause."""
    limit = f"it has reached the specified backoff limit: failed runs {accounting.charged}, "
    limit += f"restarts allowed {job.run_policy.backoff_limit}"
    last = [*runs_in_place(slots)][-1:]
    found = [f"{slot.replica}: {described_run(run, init=init_of(slot.pod, run))}" for slot, run in last] or [
        _because(accounting, ends) for ends in filter(None, [accounting.having(EndType.RETRYABLE)])
    ]
    # A failure that a suspension was recorded with ends the job when it is resumed.
    causes = [cause] if cause else found or [described_failure(failure) for failure in job.status.failures[-1:]]
    return f"Job {job.name} has failed because {'; '.join([*causes, limit])}"


def _still_terminating(job: Job, slots: Slots) -> list[Note]:
    """The note on pods that others are deleting while the job fails: their peers may have failed of that."""
    leaving = [described_end(slot, read=False) for slot in islice(being_deleted(job, slots), MAX_NAMED)]
    return [Note(f"still terminating: {', '.join(leaving)}")] if leaving else []


def _resumed(situation: Situation) -> Verdict | None:
    return Resume(situation) if situation.view.job.status.has(ConditionType.SUSPENDED) else None


def _overdue(situation: Situation) -> Verdict | None:
    """The job fails or all its replicas are restarted, which is charged as a failure of one is."""
    view = situation.view
    deadline = next((deadline for deadline in situation.undisturbed.deadlines if view.now >= deadline.at), None)
    if deadline is None:
        return None
    if not deadline.new_attempt:
        return Fail(situation, deadline.reason, deadline.message, waiting=deadline.waiting)
    charged = after_deadline(view.job, view.accounting, [slot.pod for slot in view.slots.ours])
    again = situation.with_accounting(charged, overdue=deadline)
    failed = _used_up(again)
    # The deadline that ends the job restarts nothing.
    return replace(failed, situation=situation, remarks=()) if isinstance(failed, Fail) else BeginAttempt(again, deadline.cause)


def _asked_for(situation: Situation) -> Verdict | None:
    """An attempt that a feature asks for. One that a failure begins is that attempt, too."""
    view = situation.view
    if view.accounting.attempt > view.job.attempt or view.keeps_attempt:
        return None
    proposal = next(iter(only(situation.proposed, NewAttempt)), None)
    if proposal is None:
        return None
    begun = in_new_attempt(view.job, view.accounting, [slot.pod for slot in view.slots.ours])
    return BeginAttempt(situation.with_accounting(begun), proposal.cause)


def _goes_on(situation: Situation) -> Verdict:
    view = situation.view
    begins = view.accounting.attempt > view.job.attempt and not view.keeps_attempt
    return BeginAttempt(situation) if begins else GoOn(situation.undisturbed, situation.outcome.running)


RULES: tuple[Callable[[Situation], Verdict | None], ...] = (
    _invalid,
    _unread,
    _succeeded,
    _failed_for_good,
    _suspended,
    _none_left,
    _used_up,
    _resumed,
    _overdue,
    _asked_for,
    _goes_on,
)
