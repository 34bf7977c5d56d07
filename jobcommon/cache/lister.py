"""Read-only queries on a store, and the index by controller owner."""

from collections.abc import Hashable, Iterable
from typing import Generic, Protocol, TypeVar

from jobcommon.api.view import Owner
from jobcommon.cache.delta import Cached
from jobcommon.cache.store import Index, Store

OWNER = "owner"


class Owned(Cached, Protocol):
    """A cached object that may have a controller owner."""

    @property
    def owner(self) -> Owner | None: ...


O = TypeVar("O", bound=Owned)  # noqa: E741  the field's letter for an object


def owner_uid(owned: Owned) -> Iterable[Hashable]:
    """Index by the UID of the controller owner."""
    return (owned.owner.uid,) if owned.owner else ()


def owned_indexes() -> dict[str, Index[Owned]]:
    """The indexes for a store of owned objects."""
    return {OWNER: owner_uid}


class Lister(Generic[O]):
    """Queries on a store made with `owned_indexes`. Results are sorted by namespace and name."""

    def __init__(self, store: Store[O]) -> None:
        self._store = store

    @property
    def resource_version(self) -> str:
        """The resourceVersion up to which the store is complete (for the barrier)."""
        return self._store.resource_version

    def get(self, namespace: str, name: str) -> O | None:
        """The object, or None."""
        return self._store.get(namespace, name)

    def all(self, namespace: str | None = None) -> list[O]:
        """All objects, or those of `namespace`."""
        return self._store.all(namespace)

    def owned_by(self, uid: str) -> list[O]:
        """The objects whose controller has this UID."""
        return self._store.indexed(OWNER, uid)
