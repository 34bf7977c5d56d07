"""Lanes: what somebody waits for goes before what can wait."""

from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

from jobcommon.controller.round_robin import RoundRobin

T = TypeVar("T")

# What can wait is not left to wait for ever: this many others may go before it.
PATIENCE = 7


class Lanes(Generic[T]):
    """A `RoundRobin` for each lane. The first goes first; each other one gets each eighth turn and those left over."""

    def __init__(self, count: int) -> None:
        self._lanes: list[RoundRobin[T]] = [RoundRobin() for _ in range(count)]
        self._passed = [0] * count
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def append(self, path: Sequence[Hashable], item: T, lane: int = 0) -> None:
        """Put `item` at the end of its line in a lane."""
        self._lanes[lane].append(path, item)
        self._length += 1

    def count(self, but: int | None = None) -> int:
        """How many items wait in all lanes but `but`."""
        return self._length - (0 if but is None else len(self._lanes[but]))

    def pop(self, but: int | None = None) -> T:
        """The next item, of any lane but `but`, which is not the first. Raises StopIteration when there is none."""
        if len(self._lanes[0]) == self._length:
            item = self._lanes[0].pop()
            self._length -= 1
            return item
        waiting = [number for number, lane in enumerate(self._lanes) if lane and number != but]
        overdue = (number for number in waiting[1:] if self._passed[number] >= PATIENCE)
        chosen = next(overdue, waiting[0] if waiting else 0)
        item = self._lanes[chosen].pop()
        self._length -= 1
        for number in waiting:
            self._passed[number] = 0 if number == chosen else self._passed[number] + 1
        return item

    def remove(self, path: Sequence[Hashable], item: T) -> bool:
        """Take an item out of its line; whether it was there."""
        found = any(lane.remove(path, item) for lane in self._lanes)
        self._length -= found
        return found

    def clear(self) -> None:
        """Drop everything."""
        for lane in self._lanes:
            lane.clear()
        self._length = 0
