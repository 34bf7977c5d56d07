"""A queue with priority levels and round-robin over flows: a flow with many items cannot starve one with few."""

from collections import OrderedDict, deque
from collections.abc import Hashable, Iterable, Sequence, Set
from typing import Generic, TypeVar

T = TypeVar("T")

MAX_OVERTAKES = 7
"""A non-empty level is served after at most this many items of other levels."""


class FairQueue(Generic[T]):
    """Items by level. Level 0 goes first; every other non-empty level gets at least one turn in eight."""

    def __init__(self, levels: int) -> None:
        self._levels: list[RoundRobin[T]] = [RoundRobin() for _ in range(levels)]
        self._overtaken = [0] * levels
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def append(self, flow: Sequence[Hashable], item: T, level: int = 0) -> None:
        """Append `item` to its flow in a level."""
        self._levels[level].append(flow, item)
        self._length += 1

    def has(self, level: int, without: Set[Hashable] = frozenset()) -> bool:
        """Whether a level has items that are not of the flows `without`."""
        return self._levels[level].has(without)

    def pop(self, levels: Iterable[int] | None = None, without: Set[Hashable] = frozenset()) -> T:
        """Remove and return the next item, of one of `levels` if given, and not of the flows `without`: of the first part of a
        flow. Raises StopIteration if there is none.
        """
        if len(self._levels[0]) == self._length:
            item = self._levels[0].pop(without)
            self._length -= 1
            return item
        waiting = [n for n in (range(len(self._levels)) if levels is None else levels) if self._levels[n]]
        overdue = (n for n in waiting[1:] if self._overtaken[n] >= MAX_OVERTAKES)
        chosen = next(overdue, waiting[0] if waiting else 0)
        item = self._levels[chosen].pop(without)
        self._length -= 1
        for n in waiting:
            self._overtaken[n] = 0 if n == chosen else self._overtaken[n] + 1
        return item

    def remove(self, flow: Sequence[Hashable], item: T) -> bool:
        """Remove an item. Returns whether it was in the queue."""
        found = any(level.remove(flow, item) for level in self._levels)
        self._length -= found
        return found

    def clear(self) -> None:
        """Drop everything."""
        for level in self._levels:
            level.clear()
        self._length = 0


class RoundRobin(Generic[T]):
    """Items under a flow of one or more parts, such as (namespace, job): at each part the flows take turns.

    Items of one flow come in the order of arrival. All flows have the same number of parts, at least 1. Every call is O(1) but
    `remove`, which is linear in the items of the flow.
    """

    def __init__(self) -> None:
        # The first key of a plain dict is found in time linear in the keys removed before it.
        self._flows: OrderedDict[Hashable, deque[T] | RoundRobin[T]] = OrderedDict()
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def append(self, flow: Sequence[Hashable], item: T) -> None:
        """Append `item` to its flow. A flow that was empty starts behind the others."""
        items = self._flows.get(flow[0])
        if items is None:
            items = self._flows[flow[0]] = RoundRobin() if len(flow) > 1 else deque()
        if isinstance(items, RoundRobin):
            items.append(flow[1:], item)
        else:
            items.append(item)
        self._length += 1

    def has(self, without: Set[Hashable] = frozenset()) -> bool:
        """Whether there are items that are not of the flows `without`."""
        return not self._flows.keys() <= without

    def pop(self, without: Set[Hashable] = frozenset()) -> T:
        """Remove and return the next item, not of the flows `without`; its flow moves behind the others.

        Raises StopIteration if there is none.
        """
        flows = self._flows.items()
        name, items = next(iter(flows)) if not without else next(flow for flow in flows if flow[0] not in without)
        item = items.pop() if isinstance(items, RoundRobin) else items.popleft()
        if items:
            self._flows.move_to_end(name)
        else:
            del self._flows[name]
        self._length -= 1
        return item

    def remove(self, flow: Sequence[Hashable], item: T) -> bool:
        """Remove an item from its flow. Returns whether it was in the queue."""
        items = self._flows.get(flow[0])
        if items is None:
            return False
        if isinstance(items, RoundRobin):
            if not items.remove(flow[1:], item):
                return False
        elif item in items:
            items.remove(item)
        else:
            return False
        if not items:
            del self._flows[flow[0]]
        self._length -= 1
        return True

    def clear(self) -> None:
        """Drop everything."""
        self._flows.clear()
        self._length = 0
