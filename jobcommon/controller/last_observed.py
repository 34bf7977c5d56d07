"""What was last seen of a job's companions that nobody watches.

It comes from the answers to our own reads and writes. All of it may be out of date: before pods are created, and while some
wait to be started, it is looked at again once it is `jobcommon.reconcile.companions.RECHECK_PERIOD` seconds old.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from jobcommon.api.view import ObjectView
from jobcommon.controller.result import ActionResult, Effect
from jobcommon.reconcile.plan import Create, Delete, Get, RemoveFinalizer


@dataclass(slots=True)
class LastObserved:
    """By plural and name: when an object was last looked at, and what was there."""

    _at: dict[str, dict[str, float]] = field(default_factory=dict)
    _found: dict[tuple[str, str], ObjectView] = field(default_factory=dict)

    def of(self, plural: str) -> Mapping[str, float]:
        """When the objects of a kind were last looked at (seconds since the epoch), by name, there or not."""
        return self._at.get(plural, {})

    def found(self, plural: str) -> list[ObjectView]:
        """Those of them that were there."""
        return [view for (kind, _), view in self._found.items() if kind == plural]

    def take(self, outcome: ActionResult, now: float) -> bool:
        """Take note of what became of an action at `now`.

        Returns whether the job must be decided on anew: no watch will tell of it.
        """
        action = outcome.action
        if isinstance(action, RemoveFinalizer) or outcome.effect is Effect.SKIPPED:
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
        self._found.pop((plural, name), None)
        if isinstance(action, Get) or (isinstance(action, Delete) and outcome.effect is Effect.APPLIED):
            self._at.setdefault(plural, {})[name] = now
        else:
            # Another object is there than the one that the write was for, or its fate is unknown (rule R12).
            self._at.get(plural, {}).pop(name, None)
        return outcome.effect is not Effect.REFUSED
