"""Two lanes: what somebody waits for, and what can wait."""

from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

from jobcommon.round_robin import RoundRobin

T = TypeVar("T")

# What can wait is not left to wait for ever: this many others may go before it.
PATIENCE = 7


class Lanes(Generic[T]):
    """A `RoundRobin` for what somebody waits for, and one for what can wait, which gets each eighth turn and idle ones."""

    def __init__(self) -> None:
        self._first: RoundRobin[T] = RoundRobin()
        self._later: RoundRobin[T] = RoundRobin()
        self._passed = 0

    def __len__(self) -> int:
        return len(self._first) + len(self._later)

    def append(self, path: Sequence[Hashable], item: T, *, later: bool = False) -> None:
        """Put `item` at the end of its line."""
        (self._later if later else self._first).append(path, item)

    def pop(self) -> T:
        """The next item. Raises StopIteration when there is none."""
        if self._first and (not self._later or self._passed < PATIENCE):
            self._passed += bool(self._later)
            return self._first.pop()
        self._passed = 0
        return self._later.pop()

    def remove(self, path: Sequence[Hashable], item: T) -> bool:
        """Take an item out of its line; whether it was there."""
        return self._first.remove(path, item) or self._later.remove(path, item)

    def clear(self) -> None:
        """Drop everything."""
        self._first.clear()
        self._later.clear()
