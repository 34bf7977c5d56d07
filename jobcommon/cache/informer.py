"""The informer: a reflector that feeds a store, and returns the changes."""

from dataclasses import dataclass
from typing import Generic

from jobcommon.cache.delta import Delta, Replaced, T, Unreadable
from jobcommon.cache.reflector import Reflector, Step
from jobcommon.cache.store import Change, Store
from jobcommon.client.errors import ClientError
from jobcommon.client.request import Response


@dataclass(frozen=True, slots=True)
class Relisted:
    """A complete list has been stored. If `quorum`, call `Barrier.reset`."""

    resource_version: str
    requested_at: float
    quorum: bool


@dataclass(frozen=True, slots=True)
class Batch(Generic[T]):
    """The effects of one input: changes in order, objects skipped, and the list if one was completed."""

    changes: tuple[Change[T], ...] = ()
    unreadable: tuple[Unreadable, ...] = ()
    relisted: Relisted | None = None


class Informer(Generic[T]):
    """Keeps `store` up to date through `reflector`, and is driven like it.

    It calls no handlers: changes are returned after they are stored, so that no handler's exception can break it.
    """

    def __init__(self, reflector: Reflector[T], store: Store[T]) -> None:
        self.reflector = reflector
        self.store = store
        self._synced = False

    @property
    def synced(self) -> bool:
        """Whether the store has had its first complete list. No decision may be made before that."""
        return self._synced

    @property
    def streaming(self) -> bool:
        """See `Reflector.streaming`."""
        return self.reflector.streaming

    @property
    def deadline(self) -> float | None:
        """See `Reflector.deadline`."""
        return self.reflector.deadline

    def next(self, now: float) -> Step:
        """See `Reflector.next`."""
        return self.reflector.next(now)

    def received(self, response: Response, now: float) -> Batch[T]:
        """The response to a `Fetch`, of any status."""
        return self._take(self.reflector.received(response, now))

    def line(self, data: bytes, now: float) -> Batch[T]:
        """One line of a `Stream`. Afterwards the caller must close the stream unless `streaming`."""
        return self._take(self.reflector.line(data, now))

    def failed(self, error: ClientError, now: float) -> None:
        """See `Reflector.failed`."""
        self.reflector.failed(error, now)

    def ended(self, now: float) -> None:
        """See `Reflector.ended`."""
        self.reflector.ended(now)

    def timed_out(self, now: float) -> None:
        """See `Reflector.timed_out`."""
        self.reflector.timed_out(now)

    def relist(self) -> None:
        """See `Reflector.relist`."""
        self.reflector.relist()

    def _take(self, deltas: list[Delta[T]]) -> Batch[T]:
        changes: list[Change[T]] = []
        unreadable: list[Unreadable] = []
        relisted: Relisted | None = None
        for delta in deltas:
            changes += self.store.apply(delta)
            if isinstance(delta, Unreadable):
                unreadable.append(delta)
            elif isinstance(delta, Replaced):
                self._synced = True
                relisted = Relisted(delta.resource_version, delta.requested_at, delta.quorum)
        return Batch(tuple(changes), tuple(unreadable), relisted)
