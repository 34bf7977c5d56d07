"""Watches: a reader of one table's history.

A stream holds a position, not a queue: changes are encoded and filtered when the stream is drained, so that a slow watcher
costs no memory, and one that falls behind the history gets the ERROR 410 that the real server sends.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from localcluster.apiserver.errors import expired
from localcluster.apiserver.resource import Resource
from localcluster.apiserver.selectors import Selector
from localcluster.apiserver.storage import ADDED, DELETED, MODIFIED, Change, Item, Table

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
BOOKMARK_INTERVAL = 60.0


@dataclass(frozen=True, slots=True)
class Scope:
    """Which objects a list or watch is about. An empty `namespace` means all; `name` is that of an equality in `fields`."""

    namespace: str = ""
    labels: Selector = ()
    fields: Selector = ()
    name: str | None = None

    @property
    def selective(self) -> bool:
        """Whether there is a label or field selector."""
        return bool(self.labels or self.fields)

    def matches(self, item: Item) -> bool:
        """Whether the object is in scope."""
        if self.namespace and item.namespace != self.namespace:
            return False
        if self.labels:
            labels = item.obj["metadata"].get("labels") or {}
            if not all(holds(labels) for holds in self.labels):
                return False
        return not self.fields or all(holds(item.obj) for holds in self.fields)


#: How an object is encoded inside an event.
Encode = Callable[[Item], bytes]


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """The query of a watch: `start` None means from the current state.

    `initial_events` asks for a synthetic ADDED per object first, `mark_end` for the bookmark that ends them (WatchList).
    """

    start: int | None
    bookmarks: bool
    initial_events: bool
    mark_end: bool
    deadline: float


class WatchStream:
    """An open watch. `wake` is called whenever `drain` may return something.

    `drain` and `tick` never block. After `closed` turns true the stream has ended as the real server ends it (its time is
    up, or the last line was an ERROR event) and holds no resources.
    """

    def __init__(
        self, table: Table, resource: Resource, scope: Scope, options: WatchOptions, encode: Encode,
        clock: Callable[[], float], version: Callable[[], int], wake: Callable[[], None],
    ) -> None:  # fmt: skip
        self._table = table
        self._resource = resource
        self._scope = scope
        self._options = options
        self._encode = encode
        self._clock = clock
        self._version = version
        self._ready: list[bytes] = []
        self._after = 0
        self.wake = wake
        self.closed = False
        self._next_bookmark = clock() + BOOKMARK_INTERVAL
        history = table.history
        self._epoch = history.epoch
        history.listeners.add(self._notify)
        if options.start is None:
            self._start_now()
        elif options.start < history.compacted:
            self._position = history.end
            self._fail(f"too old resource version: {options.start} ({history.compacted})")
        else:
            self._after = options.start
            self._position = history.position_after(options.start)

    def _notify(self) -> None:
        self.wake()

    def _start_now(self) -> None:
        self._position = self._table.history.end
        self._after = self._version()
        if not self._options.initial_events:
            return
        for item in self._table.sorted(self._scope.namespace or None):
            if self._scope.matches(item):
                self._ready.append(_line(ADDED, self._encode(item)))
        if self._options.mark_end:
            self._ready.append(self._bookmark({"annotations": {INITIAL_EVENTS_END: "true"}}))

    @property
    def next_at(self) -> float:
        """When `tick` is next due, in Unix seconds."""
        return min(self._options.deadline, self._next_bookmark) if self._options.bookmarks else self._options.deadline

    def tick(self) -> None:
        """Queue a bookmark if one is due, end the stream at its deadline."""
        now = self._clock()
        if self.closed:
            return
        if now >= self._options.deadline:
            self._ready.append(self._pending())
            self.close()
            return
        if self._options.bookmarks and now >= self._next_bookmark:
            # A bookmark promises that everything up to its version has been sent. A watch from the future gets none.
            if self._version() >= self._after:
                self._ready += [self._pending(), self._bookmark({})]
            self._next_bookmark = now + BOOKMARK_INTERVAL

    def drain(self) -> bytes:
        """The event lines that are available, each with its newline; empty when there are none."""
        if not self.closed:
            pending = self._pending()
            if pending:
                self._ready.append(pending)
            if self._epoch != self._table.history.epoch:
                self.close()
        lines = b"".join(self._ready)
        self._ready.clear()
        return lines

    def close(self) -> None:
        """Stop listening. What was queued can still be drained."""
        self.closed = True
        self._table.history.listeners.discard(self._notify)

    def _pending(self) -> bytes:
        history = self._table.history
        if self._position < history.start:
            self._fail(f"too old resource version: {self._after} ({history.compacted})")
            return b""
        changes = history.since(self._position)
        self._position = history.end
        return b"".join([self._event(change) for change in changes if change.rv > self._after])

    def _event(self, change: Change) -> bytes:
        scope = self._scope
        if scope.namespace and change.item.namespace != scope.namespace:
            return b""
        before = change.old is not None and scope.matches(change.old)
        after = change.type != DELETED and scope.matches(change.item)
        if after:
            return _line(MODIFIED if before else ADDED, self._encode(change.item))
        if not before or change.old is None:
            return b""
        if change.type == DELETED:
            return _line(DELETED, self._encode(change.item))
        # The object no longer matches: the watcher gets its last matching state with the version of this change.
        obj = {**change.old.obj, "metadata": {**change.old.obj["metadata"], "resourceVersion": str(change.rv)}}
        return _line(DELETED, self._encode(Item(change.item.namespace, change.item.name, change.rv, obj)))

    def _bookmark(self, metadata: Mapping[str, Any]) -> bytes:
        meta = {"resourceVersion": str(self._version()), "creationTimestamp": None, **metadata}
        shown = {"kind": self._resource.kind, "apiVersion": self._resource.api_version, "metadata": meta}
        return _line("BOOKMARK", msgspec.json.encode(shown))

    def _fail(self, message: str) -> None:
        self._ready.append(_line("ERROR", msgspec.json.encode(expired(message).status())))
        self.close()


def _line(kind: str, encoded: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (kind.encode(), encoded)
