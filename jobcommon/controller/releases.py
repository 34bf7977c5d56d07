"""Releases under way: finalizers that are taken off beside everything else.

A release follows from what is on record, so nothing waits for it: the shell carries releases out when it has nothing better
to do, and the job goes on meanwhile. Here is noted which pods are being let go, so that no later plan does it again.
"""

from dataclasses import dataclass, field, replace
from typing import Any

from jobcommon.api.pod import PodView
from jobcommon.cache.store import Change
from jobcommon.controller.result import Effect, Outcome
from jobcommon.controller.workqueue import backoff
from jobcommon.framework import FINALIZER
from jobcommon.reconcile.plan import Action, Plan, Release

# As long as an expectation: a release that was carried out and yet is not seen is tried anew.
LAPSE = 300.0


@dataclass(slots=True)
class Releases:
    """The pods, by UID, that are being let go, and until when we believe it."""

    _until: dict[str, float] = field(default_factory=dict)
    _failures: dict[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._until)

    def part(self, plan: Plan, now: float) -> tuple[Plan, tuple[Release, ...]]:
        """The plan without the releases that may be carried out beside it, and those of them that are not yet under way.

        A pod that is deleted by the same plan is let go by it, too: first the one, then the other.
        """
        deleted = {action.name for action in plan.actions if not isinstance(action, Release) and action.plural == "pods"}
        rest: list[Action] = []
        new: list[Release] = []
        for action in plan.actions:
            if not isinstance(action, Release) or action.name in deleted:
                rest.append(action)
            elif self._until.get(action.uid, float("-inf")) <= now:
                self._until[action.uid] = now + LAPSE
                new.append(action)
        return (plan if len(rest) == len(plan.actions) else replace(plan, actions=tuple(rest))), tuple(new)

    def observe(self, change: Change[Any]) -> None:
        """Take note of what became of a pod."""
        old, new = change.old, change.new
        if isinstance(old, PodView) and (new is None or FINALIZER not in new.finalizers):
            self._until.pop(old.uid, None)
            self._failures.pop(old.uid, None)

    def take(self, outcome: Outcome, now: float, random: float) -> float | None:
        """Take note of what became of a release. Returns when it must be looked at anew, if it must.

        The back-off is the pod's own (rule R14; `random` in [0, 1) is the jitter): the job's is cleared by each of its
        plans that went well, and those are not held up by releases.
        """
        if not isinstance(outcome.action, Release):
            return None
        uid = outcome.action.uid
        # Contested: somebody has changed the finalizers meanwhile, and no event need come of it.
        contested = outcome.effect is Effect.ABSENT and getattr(outcome.error, "code", 404) != 404
        if contested or outcome.effect in (Effect.REFUSED, Effect.SKIPPED):
            failures = self._failures.get(uid, 0)
            self._failures[uid] = failures + 1
            self._until[uid] = now + backoff(failures, random)
            return self._until[uid]
        self._failures.pop(uid, None)
        if outcome.effect is not Effect.APPLIED:
            self._until.pop(uid, None)
        return None

    def due(self, plan: Plan) -> float | None:
        """When the first of the plan's releases that were refused may be tried again; a look at the job is due then."""
        uids = [action.uid for action in plan.actions if isinstance(action, Release) and action.uid in self._failures]
        return min((self._until[uid] for uid in uids if uid in self._until), default=None)


def is_release(change: Change[PodView]) -> bool:
    """Whether all that happened to a pod is that it was released. To a job at its end that leaves nothing new to do."""
    old, new = change.old, change.new
    if old is None or new is None or FINALIZER not in old.finalizers or FINALIZER in new.finalizers:
        return False
    return (old.owner, old.phase, old.deletion_time, old.labels) == (new.owner, new.phase, new.deletion_time, new.labels)
