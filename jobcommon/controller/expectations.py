"""Expectations: writes of ours that the cache has not shown yet.

A job is not reconciled while some are outstanding, so that no decision is made twice (rules R4, R5). They are keyed by
the job's UID: those of a deleted job can never block another of the same name (kubernetes#131917). A creation is
known by resource and name, a deletion by the UID of the object. All of them must be met: there is no OR over replica
types or resources (tf-operator#1120).

Raise an expectation before the write; lower it when a watch shows the effect, or when the write turns out to have had
none. A creation whose response has arrived may be lowered too: from then on the barrier (`jobcommon.controller.barrier`) covers
it.
"""

from dataclasses import dataclass, field

import msgspec

TIMEOUT = 300.0


class Creation(msgspec.Struct, frozen=True, gc=False):
    """An object of ours that should appear in the cache."""

    resource: str
    name: str


class Deletion(msgspec.Struct, frozen=True, gc=False):
    """An object that should vanish from the cache, or be seen terminating."""

    uid: str


Expected = Creation | Deletion


@dataclass(slots=True)
class Expectations:
    """The outstanding expectations of all jobs. Each lapses `timeout` seconds after it was raised."""

    timeout: float = TIMEOUT
    _lapse_times: dict[str, dict[Expected, float]] = field(default_factory=dict)

    def __len__(self) -> int:
        """The number of jobs with outstanding expectations."""
        return len(self._lapse_times)

    def expect(self, uid: str, write: Expected, now: float) -> None:
        """Job `uid` is about to create or delete that."""
        self._lapse_times.setdefault(uid, {})[write] = now + self.timeout

    def lower(self, uid: str, write: Expected) -> bool:
        """The cache shows its effect, or it has none: the server refused it, or found nothing to delete. Returns whether it was
        expected. Not for a lost response: the outcome is unknown (rule R12).
        """
        lapse_times = self._lapse_times.get(uid)
        if lapse_times is None:
            return False
        lowered = lapse_times.pop(write, None) is not None
        if not lapse_times:
            del self._lapse_times[uid]
        return lowered

    def next_expiry(self, uid: str) -> float | None:
        """The monotonic time at which the expectations of job `uid` lapse; None if it is satisfied already.

        An unsatisfied job must be queued for this time, since there may be no event that would queue it.
        """
        return max(self._lapse_times.get(uid, {}).values(), default=None)

    def lapsed(self, uid: str, now: float) -> tuple[Expected, ...]:
        """Drop and return the lapsed expectations of job `uid`, to be logged and counted: each is a missed watch event."""
        lapse_times = self._lapse_times.get(uid, {})
        lapsed = [expected for expected, when in lapse_times.items() if when <= now]
        for expected in lapsed:
            self.lower(uid, expected)
        return tuple(sorted(lapsed, key=str))

    def forget(self, uid: str) -> None:
        """Drop everything about job `uid`: it is deleted, or its key now belongs to another UID."""
        self._lapse_times.pop(uid, None)
