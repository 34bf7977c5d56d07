"""The last observed state of a job's companions of unwatched kinds.

It is taken from the responses to our own reads and writes and may be out of date: before pods are created, and while some wait
to be started, an object is read again once its state is `jobcommon.reconcile.wanted.RECHECK_PERIOD` seconds old.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from jobcommon.api.view import ObjectView
from jobcommon.controller.refusals import Answer, answer_of
from jobcommon.controller.result import ActionResult, Effect
from jobcommon.reconcile.plan import Create, Delete, Get


@dataclass(slots=True)
class LastObserved:
    """By plural and name: when an object was last observed, and its state."""

    _at: dict[str, dict[str, float]] = field(default_factory=dict)
    _found: dict[tuple[str, str], ObjectView] = field(default_factory=dict)

    def of(self, plural: str) -> Mapping[str, float]:
        """When the objects of a kind were last observed, present or absent (seconds since the epoch), by name."""
        return self._at.get(plural, {})

    def found(self, plural: str) -> list[ObjectView]:
        """The objects of a kind that were present."""
        return [view for (kind, _), view in self._found.items() if kind == plural]

    def record(self, outcome: ActionResult, now: float) -> bool:
        """Record the outcome of an action at `now` (seconds since the epoch).

        Returns whether the job must be requeued, because no watch event will do it.
        """
        action = outcome.action
        if outcome.effect is Effect.SKIPPED:
            return False
        plural, name = action.plural, action.name
        before = self._found.get((plural, name))
        if outcome.seen is not None:
            self._at.setdefault(plural, {})[name] = now
            self._found[plural, name] = outcome.seen
            unchanged = before is not None and before.resource_version == outcome.seen.resource_version
            return isinstance(action, Get) and not unchanged
        if isinstance(action, Create) or (isinstance(action, Get | Delete) and outcome.effect is Effect.REFUSED):
            return False
        if answer_of(outcome) is Answer.REFUSED:
            return False  # An update that certainly did nothing: to read the object again would end the back-off.
        self._found.pop((plural, name), None)
        if isinstance(action, Get) or (isinstance(action, Delete) and outcome.effect is Effect.APPLIED):
            self._at.setdefault(plural, {})[name] = now
        else:
            # The name now belongs to another object, or the outcome of the write is unknown (rule R12).
            self._at.get(plural, {}).pop(name, None)
        return outcome.effect is not Effect.REFUSED
