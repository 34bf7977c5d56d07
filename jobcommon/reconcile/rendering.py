"""What a status says: its conditions, whose messages nothing else in this package reads or writes.

Each pass renders all messages anew, from values. A message has words of our own and quotes the platform. A stored one that
differs in numbers and times of its quotes alone is kept: a quota and a scheduler count the pods of other jobs, too, and their
messages must not cause a write each time (rule R19).

The current condition is the last one and is True, also after suspend and resume. How conditions change is the reference's
(Running and Restarting exclude each other; a terminal condition sets Running to False) with
three exceptions: a terminal condition removes Restarting, and sets Suspended to False and Running as well if it is absent; and
Created moves to the end while no other condition is True, so that the STATE column never shows a condition that is False.
Conditions of unknown types belong to other writers and are kept.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from jobcommon.api.pod import Terminated
from jobcommon.api.replica import Replica
from jobcommon.api.status import MAX_MESSAGE, MAX_OUTPUT, ConditionType, Failure, JobCondition, JobStatus
from jobcommon.api.text import ANY_NUMBER, NUMBER, kind_of
from jobcommon.api.timestamp import format_time
from jobcommon.causes.cause import listed, without_middle
from jobcommon.causes.error_lines import error_in, last_words
from jobcommon.reconcile.ending import decode
from jobcommon.reconcile.slots import Slot

_EXCLUDES = {
    ConditionType.RUNNING: (ConditionType.RESTARTING,),
    ConditionType.RESTARTING: (ConditionType.RUNNING,),
    ConditionType.SUCCEEDED: (ConditionType.RESTARTING,),
    ConditionType.FAILED: (ConditionType.RESTARTING,),
    ConditionType.SUSPENDED: (ConditionType.RESTARTING,),
}
# The conditions that each type sets to False; they stay in the list.
_ENDS = {
    ConditionType.SUCCEEDED: (ConditionType.RUNNING, ConditionType.SUSPENDED, ConditionType.STALLED),
    ConditionType.FAILED: (ConditionType.RUNNING, ConditionType.SUSPENDED, ConditionType.STALLED),
    ConditionType.SUSPENDED: (ConditionType.RUNNING, ConditionType.STALLED),
    ConditionType.RESTARTING: (ConditionType.STALLED,),
}
_FINAL = (ConditionType.SUCCEEDED, ConditionType.FAILED)
_KNOWN = frozenset(ConditionType)
# Bounds the size of a status with a forged list.
MAX_FOREIGN = 16

SAYS_WAITING = "; waiting: "
SAYS_BLOCKED, SAYS_INVALID = "it waits: ", "the spec is invalid: "
"""How what blocks a job begins, for who explains its condition."""

Conditions = tuple[JobCondition, ...]
_Part = tuple[str, bool]


@dataclass(frozen=True, slots=True)
class Note:
    """Part of a sentence: the `replicas` that it is about, then our own words, then those of the platform."""

    text: str = ""
    quoted: str = ""
    replicas: Sequence[Replica] = ()

    @property
    def parts(self) -> tuple[_Part, _Part]:
        """The texts, each with whether it is a quote."""
        who = f"{listed(self.replicas)}: " if self.replicas else ""
        return (f"{who}{self.text}", False), (self.quoted, True)

    def __str__(self) -> str:
        return "".join(text for text, _ in self.parts)[:MAX_MESSAGE]


class Why(StrEnum):
    """Why a replica has no pod, or no node. Only for want of room may a job begin with fewer replicas."""

    NO_ROOM = "no room"
    """The scheduler finds no node, a quota refuses the pod, or its node is silent past the time for it."""
    NOT_ALLOWED = "not allowed"
    """A webhook, a policy or a missing right refuses it, or the spec or an option has an error."""
    NOT_YET = "not yet"
    """It waits for pods of an earlier attempt or job, for other replicas, a gang, a queue or a back-off."""


@dataclass(frozen=True, slots=True)
class Wait:
    """What delays a job, or replicas of it, and since when, as far as that is known (seconds since the epoch).

    It always has words, for the condition.
    """

    why: Why
    words: Note
    since: float | None = None

    def __post_init__(self) -> None:
        if not str(self.words):
            raise ValueError("a wait has words")


@dataclass(frozen=True, slots=True)
class Sentence:
    """The message of a condition: what holds, which ends with `quoted`, with `remarks`, and what is `waiting` for what.

    `last` stands behind all, but before the `end`.
    """

    base: str
    quoted: str = ""
    remarks: Sequence[Note] = ()
    waiting: Sequence[Note] = ()
    last: Sequence[Note] = ()
    end: str = "."

    @property
    def parts(self) -> list[_Part]:
        """The texts, each with whether it is a quote."""
        rest = [(self.quoted, True)]
        for notes, mark in ((self.remarks, "; "), (self.waiting, SAYS_WAITING), (self.last, "; ")):
            for position, note in enumerate(notes):
                rest += [("; " if position else mark, False), *note.parts]
        return [(self._cut(rest), False), *rest, (self.end, False)]

    def _cut(self, rest: Iterable[_Part]) -> str:
        """What holds, which leaves at least a quarter of the room to what follows. Each number counts as one character."""
        if len(self.base) <= MAX_MESSAGE * 3 // 4:
            return self.base
        taken = sum(len(kind_of(text) if is_quote else text) for text, is_quote in rest)
        most = max(MAX_MESSAGE - taken, MAX_MESSAGE * 3 // 4)
        return without_middle(self.base, most)

    def __str__(self) -> str:
        return "".join(text for text, _ in self.parts)[:MAX_MESSAGE]

    def matches(self, message: str) -> bool:
        """Whether the message is this sentence, but for numbers and times in what it quotes."""
        at = 0
        for text, is_quote in self.parts:
            for position, piece in enumerate(NUMBER.split(text) if is_quote else (text,)):
                number = ANY_NUMBER.match(message, at) if position % 2 else None
                if number is None and not message.startswith(piece, at):
                    return len(message) == MAX_MESSAGE and piece.startswith(message[at:])
                at = number.end() if number is not None else at + len(piece)
        return at == len(message)


@dataclass(frozen=True, slots=True)
class Statement:
    """One condition as it is to be: whether it holds, and why. A feature's may be stated only `beside` that current one."""

    type: ConditionType
    holds: bool
    reason: str
    sentence: Sentence
    beside: ConditionType | None = None


def rendered(status: JobStatus, statements: Iterable[Statement], last: Sequence[Note], now: float) -> list[JobCondition]:
    """The conditions of the status after `statements`, in order, each with the notes in `last`."""
    conditions: Iterable[JobCondition] = status.conditions
    for new in statements:
        stated = replace(new, sentence=replace(new.sentence, last=last)) if last else new
        conditions = set_condition(conditions, stated, now)
    return list(conditions)


def set_condition(conditions: Iterable[JobCondition], stated: Statement, now: float) -> Conditions:
    """The conditions after one of them was set. Nothing changes once the job has succeeded or failed (rule R11)."""
    conditions, kind = normalized(conditions), stated.type
    if any(c.type in _FINAL and c.is_true for c in conditions):
        return conditions
    status = "True" if stated.holds else "False"
    old, message = next((c for c in conditions if c.type == kind), None), str(stated.sentence)
    if (
        old is not None
        and (old.status, old.reason) == (status, stated.reason)
        and (old.message == message or stated.sentence.matches(old.message))
    ):
        return conditions
    moment = format_time(now)
    same_status = old is not None and old.status == status
    new = JobCondition(
        type=kind,
        status=status,
        reason=stated.reason,
        message=message,
        last_update_time=moment,
        last_transition_time=old.last_transition_time if old is not None and same_status else moment,
    )
    kept = [c for c in conditions if c.type != kind]
    if stated.holds and kind in _FINAL and all(c.type != ConditionType.RUNNING for c in kept):
        kept.append(_not_running(kept, new))
    if stated.holds:
        kept = [c for c in kept if c.type not in _EXCLUDES.get(kind, ())]
        kept = [_ended(c, new) if c.is_true and c.type in _ENDS.get(kind, ()) else c for c in kept]
    return _current_last((*kept, new))


def condition_states(status: JobStatus) -> list[tuple[str, str, str]]:
    """All of the conditions but texts and times."""
    return [(condition.type, condition.status, condition.reason) for condition in status.conditions]


def lines(status: JobStatus) -> list[str]:
    """The conditions for the command line, a line each."""
    return [f"{c.type}={c.status} {c.reason}: {c.message}" for c in status.conditions]


def said_after(message: str, words: str) -> str:
    """What a condition's message says after those words, for others than the decision; "" if it does not have them."""
    return message.partition(words)[2]


def is_stated(condition: JobCondition, note: str) -> bool:
    """Whether the condition has that note, for others than the decision."""
    return note in condition.message


def described_end(slot: Slot, *, read: bool) -> str:
    """Which replica ended, how and where, of one that is not on record; with what was printed if that is to be `read`."""
    ending, node = slot.ending, slot.pod.node_name
    how = _how(ending.reason, ending.exit_code, f"{ending.where} on node {node}" if node else ending.where)
    if ending.before is not None:
        name, run = ending.before
        how = f"its container {name} ended first: {described_run(run, read=read)}; then {how}"
    elif read:
        how = _with_words(how, ending.reason, ending.exit_code, ending.message)
    return f"{slot.replica}: {how}"


def described_run(run: Terminated, *, read: bool = True, init: str = "") -> str:
    """How a run ended and why, in one line: ``ValueError: no shard (train.py, line 3); exited with code 1 (Error)``."""
    how = _how(decode(run), run.exit_code) + (f" (init container {init})" if init else "")
    return _with_words(how, decode(run), run.exit_code, run.message) if read else how


def described_failure(failure: Failure) -> str:
    """A failure on record, in one line as `described_end` gives it."""
    how = _how(failure.reason, failure.exit_code, f" on node {failure.node}" if failure.node else "")
    return f"{failure.replica}: {_with_words(how, failure.reason, failure.exit_code, failure.message or '')}"


def _how(reason: str, exit_code: int | None, where: str = "") -> str:
    return f"exited with code {exit_code} ({reason}){where}" if exit_code is not None else f"{reason}{where}"


def _with_words(how: str, reason: str, exit_code: int | None, message: str) -> str:
    """How a run ended, with the error in what it printed. The operator reads such text here alone, and once a pass."""
    message = message[-MAX_OUTPUT:]
    if error := error_in(reason, exit_code, message):
        return f"{error}; {how}"
    words = last_words(reason, message)
    return f"{how}: {words}" if words else how


def end_of(status: JobStatus) -> str:
    """How the job has ended, for others than its users."""
    return end.message if (end := _end_of(status)) is not None else ""


def _end_of(status: JobStatus) -> JobCondition | None:
    return next((c for c in reversed(status.conditions) if c.type in _FINAL and c.is_true), None)


def with_last_restart(status: JobStatus) -> JobStatus:
    """The status with the time of its last restart, of which another operator has written a condition alone."""
    found = status.condition(ConditionType.RESTARTING)
    if found is None or status.last_restart_time:
        return status
    return status.model_copy(update={"last_restart_time": found.last_update_time})


def normalized(conditions: Iterable[JobCondition]) -> Conditions:
    """The conditions with at most one of each type, the last one, and at most `MAX_FOREIGN` of unknown types."""
    by_type = {c.type: c for c in conditions}
    foreign = [kind for kind in by_type if kind not in _KNOWN][MAX_FOREIGN:]
    return _current_last(tuple(c for c in by_type.values() if c.type not in foreign))


def _ended(condition: JobCondition, by: JobCondition) -> JobCondition:
    """The condition set to False because of `by`. A suspension and a restart give their reason and times.

    A terminal condition changes nothing else, as in the reference: programs take the condition with the latest transition for
    the job's state, and of several the first.
    """
    changes: dict[str, str | None] = {"status": "False"}
    if by.type in (ConditionType.SUSPENDED, ConditionType.RESTARTING):
        moment = by.last_update_time
        changes |= {"reason": by.reason, "message": by.message, "last_update_time": moment, "last_transition_time": moment}
    return condition.model_copy(update=changes)


def _not_running(conditions: Iterable[JobCondition], end: JobCondition) -> JobCondition:
    """Running=False of a job that ends without the condition: it has not been True since the restart, or the creation."""
    times = {c.type: c.last_transition_time for c in conditions}
    since = times.get(ConditionType.RESTARTING) or times.get(ConditionType.CREATED) or end.last_transition_time
    return end.model_copy(update={"type": ConditionType.RUNNING, "status": "False", "last_transition_time": since})


def _current_last(conditions: Conditions) -> Conditions:
    """Foreign conditions first: the last condition is what `kubectl get` shows as the job's state."""
    foreign = tuple(c for c in conditions if c.type not in _KNOWN)
    created = tuple(c for c in conditions if c.type == ConditionType.CREATED)
    others = tuple(c for c in conditions if c.type in _KNOWN and c.type != ConditionType.CREATED)
    # A job that is stalled runs as well, and that is the lesser news.
    ordered = sorted(others, key=lambda c: (c.is_true, c.type == ConditionType.STALLED))
    if any(c.is_true for c in others):
        return (*foreign, *created, *ordered)
    return (*foreign, *ordered, *created)
