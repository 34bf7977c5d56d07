"""The informer: lists and watches one resource into a store. A state machine without I/O.

It returns the next request, receives the response, and returns the changes of its store. A driver runs it::

    match informer.next(now):
        case Sleep(until): sleep
        case Fetch(request): send it, then `received` or `failed`
        case Stream(request): pass each line to `line`; when the stream ends by itself, `ended` or `failed`;
                              at `deadline`, `timed_out`; once it is no longer `streaming`, close it

Semantics: client-go's, with these differences. Every list is a quorum read, in pages: it must not go back in time, and
every server has them. A lost connection never causes a relist, because the version we watch from stays valid. A watch that
falls silent without bookmarks is detected. And after a 429 with Retry-After the wait does not double: it is what the server
asked for, and up to a second more.
"""

from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Generic

import msgspec

from jobcommon.api.view import identity
from jobcommon.cache import wire
from jobcommon.cache.backoff import Backoff
from jobcommon.cache.step import Fetch, Sleep, Step, Stream
from jobcommon.cache.store import Batch, Key, Relisted, Store, T, Unreadable
from jobcommon.client.errors import ClientError, StatusError
from jobcommon.client.request import Request, Response
from jobcommon.client.responses import response_error, status_error

PAGE_SIZE = 500
MIN_WATCH_SECONDS = 300
# Bookmarks arrive about once a minute. A longer silence (seconds) means that the server no longer serves this watch.
WATCH_SILENCE = 150.0
MAX_SILENT_RECONNECTS = 2
# A watch that ends sooner than this (seconds) without an event counts as a failure; else we would reconnect in a tight loop.
MIN_WATCH_LIFE = 1.0
# At most one request a second goes to a server that asks us to wait.
MIN_RETRY_AFTER = 1.0


class Informer(Generic[T]):
    """Keeps `store` up to date with the objects under `path`, selected by `query`.

    It calls no handlers: changes are returned after they are stored, so that no handler's exception can break it.
    `decode` turns one object's JSON into a value, raising when it cannot; such an object is skipped and counted in
    `unreadable`. `random` gives floats in [0, 1). All times are monotonic seconds.
    """

    def __init__(
        self,
        path: str,
        decode: Callable[[bytes], T],
        store: Store[T],
        random: Callable[[], float],
        *,
        query: tuple[tuple[str, str], ...] = (),
    ) -> None:
        self.store = store
        self.synced = False
        """Whether the store has had its first complete list. No decision may be made before that."""
        self._path = path
        self._decode = decode
        self._random = random
        self._query = query
        self._backoff = Backoff(random)
        self._watching = False
        self._not_before = float("-inf")
        self._watched_from = ""
        self._unpaged = False
        self._list_version = ""
        self._continue = ""
        self._requested_at = 0.0
        self._objects: dict[Key, T] = {}
        self._undecoded: dict[Key, str] = {}
        self.streaming = False
        """Whether the last stream is still wanted."""
        self._heard_at = 0.0
        self._silences = 0
        self.unreadable = 0
        """The number of objects and events skipped since the start."""
        self.last_error: ClientError | None = None
        """The last error; None once a list has succeeded since."""

    @property
    def deadline(self) -> float | None:
        """When to call `timed_out` unless a line arrives before; None if not streaming."""
        return self._heard_at + WATCH_SILENCE if self.streaming else None

    def next(self, now: float) -> Step:
        """The next step. Not to be called while a request is in flight."""
        if now < self._not_before:
            return Sleep(self._not_before)
        if not self._watching:
            if not self._continue:
                self._requested_at = now
            return Fetch(self._list_request())
        self._requested_at = self._heard_at = now
        self.streaming = True
        self._watched_from = self.store.resource_version
        return Stream(self._watch_request())

    def received(self, response: Response, now: float) -> Batch[T]:
        """The response to a `Fetch`, of any status."""
        if response.status >= 400:
            self._list_refused(response_error(response), now)
            return Batch()
        try:
            page = wire.page(response.body)
        except msgspec.DecodeError as error:
            self._list_refused(StatusError(response.status, message=f"not a list: {error}"), now)
            return Batch()
        unreadable = tuple(bad for item in page.items or () if (bad := self._collect(bytes(item))) is not None)
        self._list_version = self._list_version or page.metadata.resource_version or ""
        self._continue = page.metadata.continue_token or ""
        if self._continue:
            return Batch(unreadable=unreadable)
        if not self._list_version:
            self._list_refused(StatusError(response.status, message="the list has no resourceVersion"), now)
            return Batch(unreadable=unreadable)
        return self._complete(unreadable)

    def line(self, data: bytes, now: float) -> Batch[T]:
        """One line of a `Stream`. Afterwards the caller must close the stream unless `streaming`."""
        if not self.streaming:
            return Batch()
        self._silences = 0
        try:
            event = wire.watch_event(data)
            if event.type == "BOOKMARK":
                version = wire.bookmark(event.object).metadata.resource_version or ""
                self._heard_at = now
                self.store.advance(version)
                return Batch()
        except msgspec.DecodeError as error:
            # The content of the line is unknown, so only a relist can recover it.
            self._stream_refused(StatusError(500, message=f"not a watch event: {error}"), now)
            return Batch()
        self._heard_at = now
        if event.type == "ERROR":
            self._stream_refused(status_error(event.object, code=500), now)
            return Batch()
        return self._event(event.type, bytes(event.object))

    def failed(self, error: ClientError, now: float) -> None:
        """The request got no response, its stream was refused, or it broke."""
        if isinstance(error, StatusError):
            if self._watching:
                self._stream_refused(error, now)
            else:
                self._list_refused(error, now)
            return
        self.last_error = error
        if self._watching and self._lived(now):
            self.streaming = False
        else:
            self._start_list()
            self._retry(now)

    def ended(self, now: float) -> None:
        """The server ended the stream."""
        if not self.streaming:
            return
        if self._lived(now):
            self.streaming = False
        else:
            self._relist(now)

    def timed_out(self, now: float) -> None:
        """The `deadline` has passed; no effect if it has not."""
        if self.deadline is None or now < self.deadline:
            return
        self.streaming = False
        self._silences += 1
        if self._silences > MAX_SILENT_RECONNECTS:
            self.relist()

    def relist(self) -> None:
        """Replace the watch, which is known to lag, by a list. No effect while a list is in flight."""
        if not self._watching:
            return
        self._silences = 0
        self.streaming = self._watching = False

    def _list_request(self) -> Request:
        limit = () if self._unpaged else (("limit", str(PAGE_SIZE)),)
        more = (("continue", self._continue),) if self._continue else ()
        return Request("GET", self._path, (*self._query, *limit, *more))

    def _watch_request(self) -> Request:
        seconds = MIN_WATCH_SECONDS + int(MIN_WATCH_SECONDS * self._random())
        watch = (("watch", "true"), ("allowWatchBookmarks", "true"), ("timeoutSeconds", str(seconds)))
        return Request("GET", self._path, (*self._query, *watch, ("resourceVersion", self._watched_from)))

    def _read(self, data: bytes, kind: str = "ADDED") -> T | Unreadable:
        """The object of an event of that type."""
        try:
            if kind not in ("ADDED", "MODIFIED", "DELETED"):
                raise ValueError(f"unknown watch event type {kind!r}")
            return self._decode(data)
        except Exception as error:  # the caller's decoder failed: one object must not stop the others (rule R14)
            self.unreadable += 1
            known = None
            with suppress(msgspec.DecodeError):
                known = identity(data)
            return Unreadable(known, f"{type(error).__name__}: {error}")

    def _collect(self, data: bytes) -> Unreadable | None:
        found = self._read(data)
        if not isinstance(found, Unreadable):
            self._objects[found.namespace, found.name] = found
            return None
        if (known := found.identity) is not None:
            self._undecoded[known.namespace, known.name] = known.uid
        return found

    def _event(self, kind: str, data: bytes) -> Batch[T]:
        found = self._read(data, kind)
        if not isinstance(found, Unreadable):
            return Batch(tuple(self.store.remove(found, found) if kind == "DELETED" else self.store.upsert(found)))
        if (known := found.identity) is None:
            return Batch(unreadable=(found,))
        # A deletion counts even if the final state cannot be read.
        if kind == "DELETED":
            return Batch(tuple(self.store.remove(known, None)))
        self.store.advance(known.resource_version)
        return Batch(unreadable=(found,))

    def _complete(self, unreadable: tuple[Unreadable, ...]) -> Batch[T]:
        version = self._list_version
        changes = self.store.replace(self._objects, version, self._undecoded)
        self.last_error = None
        self.synced = self._watching = True
        self._unpaged = False
        self._silences = 0
        self._start_list()
        return Batch(tuple(changes), unreadable, Relisted(version, self._requested_at))

    def _start_list(self) -> None:
        self._objects, self._undecoded = {}, {}
        self._continue = self._list_version = ""

    def _lived(self, now: float) -> bool:
        return self.store.resource_version != self._watched_from or now - self._requested_at >= MIN_WATCH_LIFE

    def _list_refused(self, error: StatusError, now: float) -> None:
        self.last_error = error
        if error.code == 429:
            self._start_list()
            self._throttled(error, now)
            return
        paging = bool(self._continue)
        self._start_list()
        if paging and not self._unpaged and error.code == HTTPStatus.GONE:
            # Pages this slow would expire again; a single response cannot.
            self._unpaged = True
        else:
            self._retry(now, error.retry_after)

    def _stream_refused(self, error: StatusError, now: float) -> None:
        self.last_error = error
        self.streaming = False
        if error.code == 429:
            self._throttled(error, now)
        else:
            self._relist(now, error.retry_after)

    def _throttled(self, error: StatusError, now: float) -> None:
        if not error.retry_after:
            self._retry(now)
            return
        # A server that warms its caches says when to come back. A back-off that doubles would still wait half a minute when
        # it is ready; the random part keeps the watches apart.
        self.streaming = False
        self._not_before = now + max(error.retry_after, MIN_RETRY_AFTER) + self._random()

    def _relist(self, now: float, retry_after: float | None = None) -> None:
        self._watching = False
        self._retry(now, retry_after)

    def _retry(self, now: float, retry_after: float | None = None) -> None:
        self.streaming = False
        self._not_before = now + max(self._backoff.next(now), retry_after or 0.0)
