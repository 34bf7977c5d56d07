"""What the API server's answer to a write means for the next try, and the back-off of what the platform refuses.

A job whose creates or updates are refused for now, by a quota, RBAC, a policy or a webhook, or because the name is in use
(409), does not fail: they are retried after 10 s, then with exponential back-off up to 10 minutes. So are reads that it
forbids. Until then the job's plans leave out what the platform refused (`Observed.backed_off`), whatever else queues the job:
one refused call per retry (rule R16). A name conflict may be resolved by the very next event, so it does not cause anything to
be left out. The conflict of an update is none: the next plan is made for the object as it is by then.

Admission may answer with any code: 403 from quota and Pod Security, 422 from a ValidatingAdmissionPolicy, any code that a
webhook chooses (often 400), 500 when a webhook cannot be reached.
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from enum import Enum, auto
from http import HTTPStatus

from jobcommon.api.observed import IMAGES_LATER
from jobcommon.client.errors import ClientError, StatusError
from jobcommon.controller.result import ActionResult, Effect
from jobcommon.reconcile.plan import Action, Create, Get, SetImage, backed_off_as

FIRST_RETRY_DELAY = 10.0
MAX_RETRY_DELAY = 600.0
_CONFLICT = 409
# Not refusals of this object: authentication, a missing namespace or kind, too many requests.
_OTHERWISE = (401, 404, 408, 410, 429)
# With those of names: which pod of a type is refused first is no other cause.
_DIGITS = re.compile(r"\d+")
# One that cannot be reached, and one that denies with a code of its own error, which may be 500.
_BY_WEBHOOK = re.compile(r'failed calling webhook|admission webhook "[^"]*" denied the request')
# The API server's own messages for an object that it rejects: apimachinery's text for 422 Invalid, and for a body that
# does not fit the type (400). Admission answers with the same codes, but with other messages: 'admission webhook "x" denied the
# request', 'pods "x" is forbidden: ValidatingAdmissionPolicy …'. Such a policy can change without a change of the job.
_OWN_VALIDATION = re.compile(r'[A-Z]\w*(\.\S+)? "[^"]*" is invalid: |[A-Z]\w* in version "[^"]*" cannot be handled as a ')
_OF_VALIDATION = (400, 422)
# Of the admission plugin ResourceQuota.
_BY_QUOTA = "exceeded quota: "
_ABOVE_LIMIT = re.compile(r"spec\.(\w+)\[(\d+)\]\.resources\.requests: .*? must be less than or equal to (\S+) limit")


class Answer(Enum):
    """What the answer to one write means for the next try."""

    DONE = auto()
    """The object is as wanted, or the event of its change will queue the job."""
    INVALID = auto()
    """The spec itself is the cause: every cluster would refuse it."""
    REFUSED = auto()
    """The platform refuses it for now."""
    NAME_IN_USE = auto()
    GIVEN_UP = auto()
    """Another owner has the name for good. The next plan takes another one."""
    TRANSIENT = auto()
    """It failed for another reason, and is soon retried."""
    SKIPPED = auto()


def answer_of(outcome: ActionResult) -> Answer:
    """The one classification of an outcome."""
    action, error, code = outcome.action, outcome.error, getattr(outcome.error, "code", 0)
    match outcome.effect:
        case Effect.APPLIED | Effect.ALREADY_EXISTS:
            return Answer.DONE
        case Effect.NOT_FOUND:
            # Another code than 404: nothing was deleted and no finalizer removed, so no event need follow.
            return Answer.DONE if code in (0, 404) else Answer.TRANSIENT
        case Effect.SKIPPED:
            return Answer.SKIPPED
        case Effect.NAME_CONFLICT:
            # Without an answer to the create itself, what has the name is known only by a later read.
            in_use = Answer.GIVEN_UP if isinstance(action, Create) and action.otherwise else Answer.NAME_IN_USE
            return in_use if code == _CONFLICT else Answer.TRANSIENT
    if isinstance(action, Create):
        if code == _CONFLICT:
            return Answer.NAME_IN_USE
        if isinstance(error, StatusError) and is_own_fault(error) and not _is_by_default(action, error.message):
            return Answer.INVALID
    elif not backed_off_as(action):
        return Answer.TRANSIENT
    return Answer.REFUSED if is_of_the_platform(error) else Answer.TRANSIENT


def is_own_fault(error: StatusError) -> bool:
    """Whether the spec itself is the cause of the refusal, so that every cluster would refuse it."""
    if error.code == 413 or "request is too large" in error.message:
        return True
    return error.code in _OF_VALIDATION and _OWN_VALIDATION.match(error.message) is not None


def _is_by_default(create: Create, message: str) -> bool:
    """Whether a container's request exceeds its limit, and one of the two is the default of a LimitRange."""
    for part_of, index, resource in _ABOVE_LIMIT.findall(message):
        containers = create.manifest["spec"].get(part_of) or ()
        # A container that the manifest does not have was added by the platform.
        own = (containers[int(index)].get("resources") or {}) if int(index) < len(containers) else {}
        if any(resource not in (own.get(part) or {}) for part in ("requests", "limits")):
            return True
    return False


def is_of_the_platform(error: ClientError | None) -> bool:
    """Whether the platform refuses a write for now, such as by RBAC, a quota, a policy or a webhook."""
    if not isinstance(error, StatusError):
        return False
    if error.code >= 500:
        return _BY_WEBHOOK.search(error.message) is not None
    return error.code not in (*_OTHERWISE, _CONFLICT)


@dataclass(slots=True)
class _BackOff:
    """Of one kind of write and one cause: what is left out of plans until then, and the status's text."""

    text: str = ""
    by_quota: bool = False
    since: float = 0.0
    until: float = 0.0
    tries: int = 0
    held: frozenset[str] = frozenset()


@dataclass(slots=True)
class Refusals:
    """The refusals of one job. Times are monotonic seconds.

    Each kind of write has a back-off for each cause, which is the code of the answer: a webhook that fails once beside a right
    that is missing for good costs the job one short wait. `until` is when the first of them ends.
    """

    until: float = 0.0
    _back_offs: dict[tuple[str, int], _BackOff] = field(default_factory=dict)
    _left_out: tuple[float, ...] = ()

    @property
    def text(self) -> str:
        """The oldest refusal, one of a create first, for the job's status. It stays the same while the cause does: the numbers
        in a quota's message change with every pod of other jobs, and that must not cause status writes (rule R19).
        """
        worded = [one for one in self._back_offs.values() if one.text]
        return min(worded, key=lambda one: all("/" in what for what in one.held)).text if worded else ""

    def record(self, outcomes: Iterable[ActionResult], now: float) -> bool:
        """Record the outcomes of a plan. Returns whether something was refused and is to be retried at `until`."""
        answers = [(outcome, answer_of(outcome)) for outcome in outcomes]
        # Creates that were skipped because an object they need was refused are missing, too; not those that another failure
        # of their own kind stopped.
        skipped = {o.action.plural for o, a in answers if a is Answer.SKIPPED and isinstance(o.action, Create)}
        skipped -= {o.action.plural for o, a in answers if a in (Answer.TRANSIENT, Answer.NAME_IN_USE)}
        new: dict[tuple[str, int], _BackOff] = {}
        for outcome, answer in answers:
            action, code = outcome.action, getattr(outcome.error, "code", 0)
            if answer in (Answer.REFUSED, Answer.INVALID):
                held = _held(action, code) | (skipped if isinstance(action, Create | Get) else set())
            elif answer is Answer.NAME_IN_USE and isinstance(action, Create):
                # The very next event may show that it is free.
                held = frozenset()
            else:
                continue
            one = new.setdefault((backed_off_as(action), code), _BackOff(by_quota=_is_of_quota(outcome), since=now))
            one.text, one.held = one.text or _said(outcome, answer), one.held | held
        known, refused = self._back_offs, {what for what, _ in new}
        done = {backed_off_as(o.action) for o, answer in answers if answer is Answer.DONE}
        for key in [key for key, one in known.items() if key not in new and _is_over(key[0], one, done, refused, now)]:
            del known[key]
        for key, found in new.items():
            one = known.setdefault(key, found)
            one.held |= found.held
            one.since = one.since if one.by_quota == found.by_quota else now
            one.by_quota = found.by_quota
            # What is tried again early does not prolong it.
            if now >= one.until:
                one.held = found.held
                one.text = found.text if _DIGITS.sub("", found.text) != _DIGITS.sub("", one.text) else one.text
                one.until = now + min(FIRST_RETRY_DELAY * 2.0 ** min(one.tries, 10), MAX_RETRY_DELAY)
                one.tries += 1
        self.pending(now)
        return bool(new)

    def pending(self, now: float) -> bool:
        """Whether something is still to be retried at `until`, or was left out of the last plan and has become due since."""
        due = (*(one.until for one in self._back_offs.values() if now < one.until), *self._left_out)
        self.until = min(due, default=now)
        return bool(due)

    def backed_off(self, now: float) -> frozenset[str]:
        """What a plan at `now` has to leave out (see `Observed`)."""
        early = [one for one in self._back_offs.values() if now < one.until and one.held]
        self._left_out = tuple(one.until for one in early)
        return frozenset[str]().union(*(one.held for one in early))

    def quota_refuses_for(self, now: float) -> float | None:
        """For how many seconds a quota has refused pods; None if none does, or another cause does as well."""
        holding = [one for one in self._back_offs.values() if "pods" in one.held]
        return now - min(one.since for one in holding) if holding and all(one.by_quota for one in holding) else None


def _is_of_quota(outcome: ActionResult) -> bool:
    error = outcome.error
    return isinstance(error, StatusError) and error.code == HTTPStatus.FORBIDDEN and _BY_QUOTA in error.message


def _held(action: Action, code: int) -> frozenset[str]:
    """What waits for the retry of a refused write. A webhook that cannot be reached has decided nothing about an image."""
    if isinstance(action, SetImage) and code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return frozenset((IMAGES_LATER,))
    needed = {"pods"} if isinstance(action, Get) and action.required else set()
    return frozenset({backed_off_as(action), *needed})


def _is_over(what: str, known: _BackOff, done: Collection[str], refused: Collection[str], now: float) -> bool:
    """Whether it was tried, and is not refused any more or for another cause."""
    return what in done or (what in refused and now >= known.until)


def _said(outcome: ActionResult, answer: Answer) -> str:
    """The status's text for a write; none if a terminating predecessor still has the name."""
    action = outcome.action
    if answer in (Answer.REFUSED, Answer.INVALID):
        what = f"{action.plural}/{action.name}"
        if not isinstance(action, Create):
            what = f"set image of {what}" if isinstance(action, SetImage) else str(action)
        message = str(getattr(outcome.error, "message", ""))
        return f"{what} is refused: {message}"
    if outcome.strayed is not None:
        return f"{action.plural}/{action.name} already exists, but has lost its labels; delete it or add them again"
    if outcome.effect is Effect.NAME_CONFLICT and isinstance(action, Create):
        return f"{action.plural}/{action.name} already exists and belongs to another owner; delete or rename it"
    return ""
