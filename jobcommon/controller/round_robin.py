"""Lines of items that take turns, so that who has many cannot keep out who has few."""

from collections import deque
from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class RoundRobin(Generic[T]):
    """Items under a path of shares, such as (namespace, job): at each level the shares take turns.

    Items of the same path come in the order of arrival. All paths are of one length, of at least 1. Every call is O(1) but
    `remove`, which is linear in the items of the path.
    """

    def __init__(self) -> None:
        self._lines: dict[Hashable, deque[T] | RoundRobin[T]] = {}
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def append(self, path: Sequence[Hashable], item: T) -> None:
        """Put `item` at the end of its line. A share that had none begins behind the others."""
        line = self._lines.get(path[0])
        if line is None:
            line = self._lines[path[0]] = RoundRobin() if len(path) > 1 else deque()
        if isinstance(line, RoundRobin):
            line.append(path[1:], item)
        else:
            line.append(item)
        self._length += 1

    def pop(self) -> T:
        """The next item; its share goes behind the others. Raises StopIteration when there is none."""
        share, line = next(iter(self._lines.items()))
        item = line.pop() if isinstance(line, RoundRobin) else line.popleft()
        del self._lines[share]
        if line:
            self._lines[share] = line
        self._length -= 1
        return item

    def remove(self, path: Sequence[Hashable], item: T) -> bool:
        """Take an item out of its line; whether it was there."""
        line = self._lines.get(path[0])
        if line is None:
            return False
        if isinstance(line, RoundRobin):
            if not line.remove(path[1:], item):
                return False
        elif item in line:
            line.remove(item)
        else:
            return False
        if not line:
            del self._lines[path[0]]
        self._length -= 1
        return True

    def clear(self) -> None:
        """Drop everything."""
        self._lines.clear()
        self._length = 0
