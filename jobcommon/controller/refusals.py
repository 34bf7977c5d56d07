"""What could not be created for one job, for now: a quota, RBAC, a policy or a webhook says no, or a name is taken (409).

The job does not fail; it is tried again after 10 s, then with pauses that double, up to 10 minutes. Until then the job's plans
leave out what the platform refused (`Observed.backed_off`), whatever else brings the job back: one doomed call a try (rule
R16). A name may be free with the very next event, so that is no reason to leave anything out.

Admission may answer with any code: 403 from quota and Pod Security, 422 from a ValidatingAdmissionPolicy, 400 or whatever a
webhook chooses, 500 when a webhook cannot be reached.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from jobcommon.api.observed import FINALIZERS
from jobcommon.controller.result import ActionResult, Effect
from jobcommon.reconcile.plan import Create, Plan, RemoveFinalizer

FIRST_DELAY = 10.0
MAX_DELAY = 600.0
_CONFLICT = 409
# Not refusals of this object: authentication, a missing namespace or kind, too many requests.
_OTHERWISE = (401, 404, 408, 410, 429)
_WEBHOOK_UNREACHABLE = "failed calling webhook"


@dataclass(slots=True)
class Refusals:
    """The refusals of one job. Times are seconds of a monotonic clock.

    `text` is the first refusal, for the job's status. It stays the same while they last: the numbers in a quota's message
    change with every pod of others, and the status is not to be written for that (rule R19).
    """

    until: float = 0.0
    text: str = ""
    _tries: int = 0
    _plurals: frozenset[str] = frozenset()
    _untried: bool = False

    def take(self, plan: Plan, outcomes: Iterable[ActionResult], now: float) -> bool:
        """Take note of what became of a plan; says whether something was refused and is to be tried again at `until`."""
        outcomes = tuple(outcomes)
        creates = [outcome for outcome in outcomes if isinstance(outcome.action, Create)]
        kept = any(_keeps_finalizer(outcome) for outcome in outcomes)
        refused = kept or any(map(_is_refused, creates))
        if not refused and not any(getattr(outcome.error, "code", 0) == _CONFLICT for outcome in creates):
            return False
        self.text = self.text or next(filter(None, map(_said, outcomes)), "")
        # Not made is also what was not even tried, for want of something that was refused.
        made = {id(outcome.action) for outcome in outcomes if outcome.effect in (Effect.APPLIED, Effect.ALREADY_EXISTS)}
        missing = {action.plural for action in plan.actions if isinstance(action, Create) and id(action) not in made}
        missing |= {FINALIZERS} if kept else set()
        if now < self.until and self._plurals:
            # Refused during the back-off of another kind of object: it joins that one, or the two would lengthen it in turns.
            self._plurals |= frozenset(missing if refused else ())
            return True
        self.until = now + min(FIRST_DELAY * 2.0 ** min(self._tries, 10), MAX_DELAY)
        self._tries += 1
        self._plurals = frozenset(missing if refused else ())
        return True

    def pending(self, now: float) -> bool:
        """Whether something is still to be tried at `until`: also what the last plan left out, if its time has come since."""
        return now < self.until or self._untried

    def backed_off(self, now: float) -> frozenset[str]:
        """What the plan that is made now has to leave out."""
        early = self._plurals if now < self.until else frozenset()
        self._untried = bool(early)
        return early


def _is_refused(outcome: ActionResult) -> bool:
    """Whether the platform's word was no, whatever code it chose."""
    code, message = getattr(outcome.error, "code", 0), getattr(outcome.error, "message", "")
    if code >= 500:
        return _WEBHOOK_UNREACHABLE in message
    return code >= 400 and code not in (*_OTHERWISE, _CONFLICT)


def _keeps_finalizer(outcome: ActionResult) -> bool:
    """Whether the platform did not let us remove a finalizer."""
    return isinstance(outcome.action, RemoveFinalizer) and outcome.effect is Effect.REFUSED and _is_refused(outcome)


def _said(outcome: ActionResult) -> str:
    """What the status says of a create; nothing of a name that a predecessor on its way out still has."""
    if _keeps_finalizer(outcome):
        return f"{outcome.action} is refused: {getattr(outcome.error, 'message', '')}"
    if not isinstance(outcome.action, Create):
        return ""
    what = f"{outcome.action.plural}/{outcome.action.name}"
    if outcome.effect is Effect.NAME_CONFLICT:
        return f"{what} exists already and is not this job's; delete or rename it"
    if outcome.effect is Effect.REFUSED and _is_refused(outcome):
        return f"{what} is refused: {getattr(outcome.error, 'message', '')}"
    return ""
