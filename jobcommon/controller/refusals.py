"""What the API server's answer to a write means for the next try, and the back-off of what the platform refuses.

A job whose creates or updates are refused for now, by a quota, RBAC, a policy or a webhook, or because the name is in use
(409), does not fail: they are retried after 10 s, then with exponential back-off up to 10 minutes. Until then the job's plans
leave out what the platform refused (`Observed.backed_off`), whatever else queues the job: one refused call per retry (rule
R16). A name conflict may be resolved by the very next event, so it does not cause anything to be left out. The conflict of an
update is none: the next plan is made for the object as it is by then.

Admission may answer with any code: 403 from quota and Pod Security, 422 from a ValidatingAdmissionPolicy, any code that a
webhook chooses (often 400), 500 when a webhook cannot be reached.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto

from jobcommon.api import kueue
from jobcommon.api.template import mapping_of, mappings_in
from jobcommon.client.errors import ClientError, StatusError
from jobcommon.controller.result import ActionResult, Effect
from jobcommon.reconcile.plan import Action, Create, backed_off_as

FIRST_RETRY_DELAY = 10.0
MAX_RETRY_DELAY = 600.0
_CONFLICT = 409
# Not refusals of this object: authentication, a missing namespace or kind, too many requests.
_OTHERWISE = (401, 404, 408, 410, 429)
# With those of names: which pod of a type is refused first is no other cause.
_DIGITS = re.compile(r"\d+")
# One that cannot be reached, and one that denies with a code of its own error, which may be 500.
_BY_WEBHOOK = re.compile(r'failed calling webhook|admission webhook "[^"]*" denied the request')
_KUEUE_FAILS = re.compile(kueue.POD_WEBHOOK_FAILS, re.DOTALL)
# The API server's own messages for an object that it rejects: apimachinery's text for 422 Invalid, and for a body that
# does not fit the type (400). Admission answers with the same codes, but with other messages: 'admission webhook "x" denied the
# request', 'pods "x" is forbidden: ValidatingAdmissionPolicy …'. Such a policy can change without a change of the job.
_OWN_VALIDATION = re.compile(r'[A-Z]\w*(\.\S+)? "[^"]*" is invalid: |[A-Z]\w* in version "[^"]*" cannot be handled as a ')
_OF_VALIDATION = (400, 422)
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
    for field, index, resource in _ABOVE_LIMIT.findall(message):
        containers = create.manifest["spec"].get(field) or ()
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
class Refusals:
    """The refusals of one job. Times are monotonic seconds.

    `text` is the first refusal of the last retry, for the job's status. It stays the same while the cause does: the numbers in
    a quota's message change with every pod of other jobs, and that must not cause status writes (rule R19).
    """

    until: float = 0.0
    text: str = ""
    _tries: int = 0
    _plurals: frozenset[str] = frozenset()
    _untried: bool = False

    def record(self, outcomes: Iterable[ActionResult], now: float) -> bool:
        """Record the outcomes of a plan. Returns whether something was refused and is to be retried at `until`."""
        answers = [(outcome, answer_of(outcome)) for outcome in outcomes]
        turned_down = [o for o, answer in answers if answer in (Answer.REFUSED, Answer.INVALID)]
        if not turned_down and not any(a is Answer.NAME_IN_USE and isinstance(o.action, Create) for o, a in answers):
            return False
        said = next(filter(None, (_said(outcome, answer) for outcome, answer in answers)), "")
        if not self.text or (now >= self.until and _DIGITS.sub("", said) != _DIGITS.sub("", self.text)):
            self.text = said
        missing = {backed_off_as(outcome.action) for outcome in turned_down}
        # Creates that were skipped because an object they need was refused are missing, too; not those that another failure
        # of their own kind stopped.
        failed = {o.action.plural for o, answer in answers if answer in (Answer.TRANSIENT, Answer.NAME_IN_USE)}
        skipped = {o.action.plural for o, answer in answers if answer is Answer.SKIPPED and isinstance(o.action, Create)}
        missing |= skipped - failed
        if now < self.until:
            # A refusal during the back-off of another kind joins that back-off; otherwise the two would extend it in turns. So
            # does a name conflict: every event of the job may try again, and the last try must not wait for all of them.
            self._plurals |= frozenset(missing if turned_down else ())
            return True
        self.until = now + min(FIRST_RETRY_DELAY * 2.0 ** min(self._tries, 10), MAX_RETRY_DELAY)
        self._tries += 1
        self._plurals = frozenset(missing if turned_down else ())
        return True

    def pending(self, now: float) -> bool:
        """Whether something is still to be retried at `until`, or was left out of the last plan and has become due since."""
        return now < self.until or self._untried

    def backed_off(self, now: float) -> frozenset[str]:
        """What a plan at `now` has to leave out (see `Observed`)."""
        early = self._plurals if now < self.until else frozenset()
        self._untried = bool(early)
        return early


def _said(outcome: ActionResult, answer: Answer) -> str:
    """The status's text for a write; none if a terminating predecessor still has the name."""
    action = outcome.action
    if answer in (Answer.REFUSED, Answer.INVALID):
        what = f"{action.plural}/{action.name}" if isinstance(action, Create) else str(action)
        message = str(getattr(outcome.error, "message", ""))
        return f"{what} is refused: {message}{_advice(action, message)}"
    if outcome.effect is Effect.NAME_CONFLICT and isinstance(action, Create):
        return f"{action.plural}/{action.name} already exists and belongs to another owner; delete or rename it"
    return ""


def _advice(action: Action, message: str) -> str:
    """What to change where the API server's message does not say it; "" where it does."""
    if not isinstance(action, Create) or _KUEUE_FAILS.search(message) is None:
        return ""
    owners = mappings_in(mapping_of(action.manifest.get("metadata")).get("ownerReferences"))
    kind = next((str(owner.get("kind")) for owner in owners), "owner")
    return (
        f"; Kueue's webhook reads the {kind} of each pod: its manager must run, and its ServiceAccount may lack the rights "
        "get, list and watch on that kind, which jobcommon doctor checks"
    )
