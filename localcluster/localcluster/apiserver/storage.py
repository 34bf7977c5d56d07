"""The store: objects, one global resourceVersion, and each table's recent history.

A stored object is a dict without ``apiVersion`` and ``kind`` (these belong to the version it is read through) and is never
mutated; a write replaces it. Every write takes the next resourceVersion and is appended to its table's `History`,
from which watches and lists at an older resourceVersion are served.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from localcluster.apiserver.errors import expired, too_large_version

Obj = dict[str, Any]
Key = tuple[str, str]

ADDED: Final = "ADDED"
MODIFIED: Final = "MODIFIED"
DELETED: Final = "DELETED"

_encoder = msgspec.json.Encoder()


@dataclass(slots=True, eq=False)
class Item:
    """One version of one object, with its encoding made at most once."""

    namespace: str
    name: str
    rv: int
    obj: Obj
    _body: bytes | None = field(default=None, init=False, repr=False)

    @property
    def body(self) -> bytes:
        """The JSON after the opening brace: put ``{"kind":…,"apiVersion":…,`` in front to get the object in a version."""
        if self._body is None:
            self._body = _encoder.encode(self.obj)[1:]
        return self._body

    @property
    def uid(self) -> str:
        """metadata.uid."""
        return str(self.obj["metadata"].get("uid", ""))


@dataclass(slots=True, eq=False)
class Change:
    """One step of a table's history. For DELETED, `item` is the last state carrying the resourceVersion of the deletion."""

    table: str
    type: str
    rv: int
    item: Item
    old: Item | None


class Listeners(dict[Callable[[], None], None]):
    """Listeners in registration order (a dict, not a set, so that simulations are deterministic)."""

    def add(self, listener: Callable[[], None]) -> None:
        """Call it on every change from now on."""
        self[listener] = None

    def discard(self, listener: Callable[[], None]) -> None:
        """Stop calling it."""
        self.pop(listener, None)


class History:
    """A window on a table's changes, addressed by absolute position; older positions are compacted away."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._changes: list[Change] = []
        self._start = 0
        self.compacted = 0
        #: Incremented when the table stops being served; watches end then.
        self.epoch = 0
        self.listeners = Listeners()

    @property
    def start(self) -> int:
        """The first position still held."""
        return self._start

    @property
    def end(self) -> int:
        """The position after the last change."""
        return self._start + len(self._changes)

    def append(self, change: Change) -> None:
        """Add a change; drop the older half when the window is full, so that dropping costs O(1) per append."""
        self._changes.append(change)
        if len(self._changes) > 2 * self._capacity:
            self._drop(self._capacity)
        for listener in tuple(self.listeners):
            listener()

    def retire(self) -> None:
        """End every watch: the resource is no longer served."""
        self.epoch += 1
        for listener in tuple(self.listeners):
            listener()

    def compact(self, rv: int) -> None:
        """Forget everything up to and including `rv`."""
        self._drop(bisect_right(self._changes, rv, key=lambda change: change.rv))
        self.compacted = max(self.compacted, rv)

    def _drop(self, count: int) -> None:
        if count:
            self.compacted = max(self.compacted, self._changes[count - 1].rv)
            del self._changes[:count]
            self._start += count

    def position_after(self, rv: int) -> int:
        """The position of the first change newer than `rv`."""
        return self._start + bisect_right(self._changes, rv, key=lambda change: change.rv)

    def since(self, position: int) -> list[Change]:
        """The changes from `position` on."""
        return self._changes[position - self._start :]


class Table:
    """All objects of one resource, by namespace and name."""

    def __init__(self, name: str, capacity: int) -> None:
        self.name = name
        self.spaces: dict[str, dict[str, Item]] = {}
        self.history = History(capacity)

    def get(self, namespace: str, name: str) -> Item | None:
        """The current version, or None."""
        space = self.spaces.get(namespace)
        return space.get(name) if space else None

    def set(self, item: Item) -> None:
        """Make `item` the current version."""
        self.spaces.setdefault(item.namespace, {})[item.name] = item

    def drop(self, item: Item) -> None:
        """Remove the object."""
        space = self.spaces[item.namespace]
        del space[item.name]
        if not space:
            del self.spaces[item.namespace]

    def items(self, namespace: str | None = None) -> Iterator[Item]:
        """Current versions in no particular order."""
        if namespace is not None:
            yield from tuple(self.spaces.get(namespace, {}).values())
            return
        for space in tuple(self.spaces.values()):
            yield from tuple(space.values())

    def sorted(self, namespace: str | None = None) -> list[Item]:
        """Current versions in key order, as etcd returns them."""
        return sorted(self.items(namespace), key=_key)

    def snapshot(self, rv: int, namespace: str | None = None) -> list[Item]:
        """The table as it was at `rv`, in key order. Raises a 410 ApiError when that history is gone."""
        if rv < self.history.compacted:
            raise expired("The provided resource version is too old: the requested history has been compacted")
        state = {_key(item): item for item in self.items(namespace)}
        for change in reversed(self.history.since(self.history.position_after(rv))):
            if namespace is not None and change.item.namespace != namespace:
                continue
            if change.old is None:
                state.pop(_key(change.item), None)
            else:
                state[_key(change.item)] = change.old
        return sorted(state.values(), key=_key)


def _key(item: Item) -> Key:
    return item.namespace, item.name


class Storage:
    """Every table of a server under one resourceVersion.

    `history` is the least number of changes kept per table for watches and old lists.
    """

    def __init__(self, history: int = 4096) -> None:
        self._capacity = history
        self.tables: dict[str, Table] = {}
        self.feeds: list[deque[Change]] = []
        self.listeners = Listeners()
        self.rv = 0

    def table(self, name: str) -> Table:
        """The table of a resource, made on first use."""
        table = self.tables.get(name)
        if table is None:
            table = self.tables[name] = Table(name, self._capacity)
        return table

    def check_version(self, rv: int) -> None:
        """Raise a 504 ApiError when `rv` is from the future."""
        if rv > self.rv:
            raise too_large_version(rv, self.rv)

    def put(self, table_name: str, namespace: str, name: str, obj: Obj) -> Item:
        """Store `obj` under the next resourceVersion, which is set in a copy of its metadata."""
        table = self.table(table_name)
        old = table.get(namespace, name)
        item = Item(namespace, name, self.rv + 1, _versioned(obj, self.rv + 1))
        self.rv = item.rv
        table.set(item)
        self._publish(table, Change(table_name, MODIFIED if old else ADDED, self.rv, item, old))
        return item

    def remove(self, table_name: str, namespace: str, name: str) -> Item:
        """Delete an object; the result is its last state with the resourceVersion of the deletion. Raises KeyError."""
        table = self.table(table_name)
        old = table.get(namespace, name)
        if old is None:
            raise KeyError(name)
        item = Item(namespace, name, self.rv + 1, _versioned(old.obj, self.rv + 1))
        self.rv = item.rv
        table.drop(old)
        self._publish(table, Change(table_name, DELETED, self.rv, item, old))
        return item

    def _publish(self, table: Table, change: Change) -> None:
        for feed in self.feeds:
            feed.append(change)
        table.history.append(change)
        for listener in tuple(self.listeners):
            listener()

    def compact(self, rv: int) -> None:
        """Forget history up to `rv` in every table, as the real server's store does every five minutes."""
        for table in self.tables.values():
            table.history.compact(rv)

    def feed(self) -> deque[Change]:
        """A queue that receives every change of every table from now on; its owner drains it."""
        queue: deque[Change] = deque()
        self.feeds.append(queue)
        return queue


def _versioned(obj: Obj, rv: int) -> Obj:
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(rv)}}
