"""Creates of one job that were refused for now: by a quota, RBAC, a policy or a webhook, or because the name is in use (409).

The job does not fail; the create is retried after 10 s, then with exponential back-off up to 10 minutes. Until then the job's
plans leave out what the platform refused (`Observed.backed_off`), whatever else queues the job: one refused call per retry
(rule R16). A name conflict may be resolved by the very next event, so it does not cause anything to be left out.

Admission may answer with any code: 403 from quota and Pod Security, 422 from a ValidatingAdmissionPolicy, any code that a
webhook chooses (often 400), 500 when a webhook cannot be reached.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from jobcommon.api.observed import FINALIZERS, IMAGES
from jobcommon.controller.result import ActionResult, Effect
from jobcommon.reconcile.plan import Action, Create, Plan, RemoveFinalizer, SetImage

FIRST_RETRY_DELAY = 10.0
MAX_RETRY_DELAY = 600.0
_CONFLICT = 409
# Not refusals of this object: authentication, a missing namespace or kind, too many requests.
_OTHERWISE = (401, 404, 408, 410, 429)
# With those of names: which pod of a type is refused first is no other cause.
_DIGITS = re.compile(r"\d+")
_CHANGES: dict[type[Action], str] = {RemoveFinalizer: FINALIZERS, SetImage: IMAGES}
_WEBHOOK_UNREACHABLE = "failed calling webhook"


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

    def record(self, plan: Plan, outcomes: Iterable[ActionResult], now: float) -> bool:
        """Record the outcomes of a plan. Returns whether something was refused and is to be retried at `until`."""
        outcomes = tuple(outcomes)
        creates = [outcome for outcome in outcomes if isinstance(outcome.action, Create)]
        changes = {change for outcome in outcomes if (change := _refused_change(outcome))}
        refused = bool(changes) or any(map(_is_refused, creates))
        if not refused and not any(getattr(outcome.error, "code", 0) == _CONFLICT for outcome in creates):
            return False
        said = next(filter(None, map(_said, outcomes)), "")
        if not self.text or (now >= self.until and _DIGITS.sub("", said) != _DIGITS.sub("", self.text)):
            self.text = said
        # A create that was skipped because an object it needs was refused is missing, too.
        made = {id(outcome.action) for outcome in outcomes if outcome.effect in (Effect.APPLIED, Effect.ALREADY_EXISTS)}
        made |= {id(outcome.action) for outcome in creates if is_transient(outcome)}
        missing = {action.plural for action in plan.actions if isinstance(action, Create) and id(action) not in made}
        missing |= changes
        if now < self.until:
            # A refusal during the back-off of another kind joins that back-off; otherwise the two would extend it in turns. So
            # does a name conflict: every event of the job may try again, and the last try must not wait for all of them.
            self._plurals |= frozenset(missing if refused else ())
            return True
        self.until = now + min(FIRST_RETRY_DELAY * 2.0 ** min(self._tries, 10), MAX_RETRY_DELAY)
        self._tries += 1
        self._plurals = frozenset(missing if refused else ())
        return True

    def pending(self, now: float) -> bool:
        """Whether something is still to be retried at `until`, or was left out of the last plan and has become due since."""
        return now < self.until or self._untried

    def backed_off(self, now: float) -> frozenset[str]:
        """The kinds (plurals) whose creates a plan at `now` has to leave out."""
        early = self._plurals if now < self.until else frozenset()
        self._untried = bool(early)
        return early


def _is_refused(outcome: ActionResult) -> bool:
    """Whether the platform refused the create, with any code."""
    code, message = getattr(outcome.error, "code", 0), getattr(outcome.error, "message", "")
    if code >= 500:
        return _WEBHOOK_UNREACHABLE in message
    return code >= 400 and code not in (*_OTHERWISE, _CONFLICT)


def is_transient(outcome: ActionResult) -> bool:
    """Whether the write failed for a reason that is neither the platform's nor a name in use: it is soon retried."""
    if outcome.effect is not Effect.REFUSED or _refused_change(outcome):
        return False
    conflict = getattr(outcome.error, "code", 0) == _CONFLICT
    return not (isinstance(outcome.action, Create) and (conflict or _is_refused(outcome)))


def _refused_change(outcome: ActionResult) -> str:
    """What stands for the change of a pod that was refused; "" if none was."""
    refused = outcome.effect is Effect.REFUSED and _is_refused(outcome)
    return _CHANGES.get(type(outcome.action), "") if refused else ""


def _said(outcome: ActionResult) -> str:
    """The status's text for a create; none if a terminating predecessor still has the name."""
    if _refused_change(outcome):
        return f"{outcome.action} is refused: {getattr(outcome.error, 'message', '')}"
    if not isinstance(outcome.action, Create):
        return ""
    what = f"{outcome.action.plural}/{outcome.action.name}"
    if outcome.effect is Effect.NAME_CONFLICT:
        return f"{what} exists already and is not this job's; delete or rename it"
    if outcome.effect is Effect.REFUSED and _is_refused(outcome):
        return f"{what} is refused: {getattr(outcome.error, 'message', '')}"
    return ""
