"""The store: the last known state of one resource, with indexes."""

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, Protocol, TypeVar

from jobcommon.api.version import is_older
from jobcommon.api.view import Identity

Key = tuple[str, str]
"""Namespace and name. Not an identity: an object deleted and recreated keeps its key and changes its UID."""


class Cached(Protocol):
    """The attributes of every cached object. Objects are frozen values: one in a store is never changed (rule R17)."""

    @property
    def namespace(self) -> str:
        """Its namespace; "" for what has none."""
        ...

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def uid(self) -> str:
        """Its UID."""
        ...

    @property
    def resource_version(self) -> str:
        """Its resourceVersion."""
        ...


T = TypeVar("T", bound=Cached)
Index = Callable[[T], Iterable[Hashable]]
"""The values under which an object is found. Total: it raises for no object."""


class ChangeKind(StrEnum):
    """What happened to an object."""

    ADDED = "added"
    UPDATED = "updated"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """A change of one object, of one UID: an object deleted and recreated is a deletion and an addition (rule R13).

    `old` is None for an addition, `new` for a deletion. The `old` of a deletion is the final state if the watch sent it,
    otherwise the last known one, which may be older than the final state.
    """

    kind: ChangeKind
    old: T | None
    new: T | None


@dataclass(frozen=True, slots=True)
class Unreadable:
    """An object that could not be decoded and was skipped; `identity` is None when it has no name either."""

    identity: Identity | None
    error: str


@dataclass(frozen=True, slots=True)
class Relisted:
    """A complete list has been stored: call `Barrier.reset`."""

    resource_version: str
    requested_at: float


@dataclass(frozen=True, slots=True)
class Batch(Generic[T]):
    """The effects of one input: changes in order, objects skipped, and the list if one was completed."""

    changes: tuple[Change[T], ...] = ()
    unreadable: tuple[Unreadable, ...] = ()
    relisted: Relisted | None = None


class Store(Generic[T]):
    """Objects by namespace and name, found also through `indexes`. Readers get the frozen objects themselves."""

    def __init__(self, indexes: Mapping[str, Index[T]] | None = None) -> None:
        self._objects: dict[Key, T] = {}
        self._indexes = dict(indexes or {})
        # Inner dicts serve as ordered sets: iteration over a set would depend on the hash seed.
        self._indexed: dict[str, dict[Hashable, dict[Key, None]]] = {name: {} for name in self._indexes}
        self._resource_version = ""

    def __len__(self) -> int:
        return len(self._objects)

    @property
    def resource_version(self) -> str:
        """The version up to which all changes are stored; "" before the first list. Only a list lowers it (etcd restored)."""
        return self._resource_version

    def get(self, namespace: str, name: str) -> T | None:
        """The object, or None."""
        return self._objects.get((namespace, name))

    def all(self, namespace: str | None = None) -> list[T]:
        """All objects, or those of `namespace`, sorted by key."""
        return [self._objects[key] for key in sorted(self._objects) if namespace is None or key[0] == namespace]

    def indexed(self, index: str, value: Hashable) -> list[T]:
        """The objects under `value` in `index`, sorted by key, in time linear in their number but for the sorting.

        Raises KeyError when there is no such index.
        """
        return [self._objects[key] for key in sorted(self._indexed[index].get(value, ()))]

    def advance(self, version: str) -> None:
        """All changes up to `version` have been sent, as a bookmark says. An older one has no effect."""
        if version and not is_older(version, self._resource_version):
            self._resource_version = version

    def upsert(self, new: T) -> list[Change[T]]:
        """An object was created or changed. Returns the changes, in order."""
        self.advance(new.resource_version)
        old = self._objects.get((new.namespace, new.name))
        # A watch does not go backwards; but if a proxy or a fake repeats an event, an older state must not win.
        if old is not None and is_older(new.resource_version, old.resource_version):
            return []
        return self._put(new)

    def remove(self, known: Cached, final: T | None) -> list[Change[T]]:
        """An object was deleted, whose final state is `final`, None when that could not be decoded. Returns the change."""
        self.advance(known.resource_version)
        key = (known.namespace, known.name)
        old = self._objects.get(key)
        if old is None:
            return []
        if known.uid != old.uid:
            # A late event about a predecessor does not concern the object we have; a newer one means it is deleted, too.
            if is_older(known.resource_version, old.resource_version):
                return []
            return self._drop(key, old)
        return self._drop(key, final if final is not None else old)

    def replace(self, objects: Mapping[Key, T], version: str, unreadable: Mapping[Key, str]) -> list[Change[T]]:
        """A complete list. Objects missing from it are deleted, except those that are `unreadable`, by their UID: they exist,
        but could not be decoded. Returns the changes, deletions first.
        """
        self._resource_version = version
        gone = [(key, old) for key, old in self._objects.items() if key not in objects and unreadable.get(key) != old.uid]
        changes = [change for key, old in gone for change in self._drop(key, old)]
        for new in objects.values():
            changes += self._put(new)
        return changes

    def _put(self, new: T) -> list[Change[T]]:
        key = (new.namespace, new.name)
        old = self._objects.get(key)
        if old is not None and old.uid != new.uid:
            return self._drop(key, old) + self._put(new)
        if old is not None and new.resource_version and old.resource_version == new.resource_version:
            return []
        self._objects[key] = new
        for name, index in self._indexes.items():
            values = tuple(index(new))
            # An update rarely changes index values; an unchanged value is not stored again under an equal key.
            if old is None or values != (before := tuple(index(old))):
                self._unindex(name, key, () if old is None else before)
                for value in values:
                    self._indexed[name].setdefault(value, {})[key] = None
        return [Change(ChangeKind.ADDED if old is None else ChangeKind.UPDATED, old, new)]

    def _drop(self, key: Key, final: T) -> list[Change[T]]:
        old = self._objects.pop(key)
        for name, index in self._indexes.items():
            self._unindex(name, key, index(old))
        return [Change(ChangeKind.DELETED, final, None)]

    def _unindex(self, name: str, key: Key, values: Iterable[Hashable]) -> None:
        entries = self._indexed[name]
        for value in values:
            keys = entries.get(value, {})
            keys.pop(key, None)
            if not keys:
                entries.pop(value, None)
