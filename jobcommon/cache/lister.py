"""Read-only queries on a store, and the indexes that make them cheap."""

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Generic, Protocol, TypeVar

from jobcommon.api.view import Owner
from jobcommon.cache.delta import Cached
from jobcommon.cache.store import Index, Store

OWNER = "owner"


class Owned(Cached, Protocol):
    """A cached object with a controller owner and labels."""

    @property
    def owner(self) -> Owner | None: ...
    @property
    def labels(self) -> Mapping[str, str]: ...


O = TypeVar("O", bound=Owned)  # noqa: E741  the field's letter for an object


def owner_uid(owned: Owned) -> Iterable[Hashable]:
    """Index by the UID of the controller owner."""
    return (owned.owner.uid,) if owned.owner else ()


def label_value(label: str) -> Callable[[Owned], Iterable[Hashable]]:
    """Index by namespace and the value of `label`."""

    def index(owned: Owned) -> Iterable[Hashable]:
        value = owned.labels.get(label)
        return () if value is None else ((owned.namespace, value),)

    return index


def owned_indexes(*labels: str) -> dict[str, Index[Owned]]:
    """The indexes for a store of owned objects: by owner, and by each of `labels`."""
    return {OWNER: owner_uid, **{label: label_value(label) for label in labels}}


class Lister(Generic[O]):
    """Queries on a store made with `owned_indexes`. Results are sorted by namespace and name."""

    def __init__(self, store: Store[O]) -> None:
        self._store = store

    @property
    def resource_version(self) -> str:
        """Up to which version the answers are complete (for the barrier)."""
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

    def labelled(self, namespace: str, label: str, value: str) -> list[O]:
        """The objects of `namespace` with this label, whoever owns them. Raises KeyError when `label` has no index."""
        return self._store.indexed(label, (namespace, value))
