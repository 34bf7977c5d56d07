"""The changes that an informer reads from the API server, as values for a store."""

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

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


@dataclass(frozen=True, slots=True)
class Replaced(Generic[T]):
    """A complete list. Objects missing from it are deleted, except `unreadable`: those exist, but could not be decoded. It is
    at least as new as any write before `requested_at` (monotonic seconds).
    """

    objects: tuple[T, ...]
    resource_version: str
    requested_at: float
    unreadable: tuple[Identity, ...] = ()


@dataclass(frozen=True, slots=True)
class Upserted(Generic[T]):
    """An object was created or changed."""

    object: T


@dataclass(frozen=True, slots=True)
class Removed(Generic[T]):
    """An object was deleted. `object` is its final state, None when that could not be decoded."""

    identity: Identity
    object: T | None


@dataclass(frozen=True, slots=True)
class Advanced:
    """A bookmark: all changes up to `resource_version` have been sent, and none concerned our objects."""

    resource_version: str


@dataclass(frozen=True, slots=True)
class Unreadable:
    """An object that could not be decoded and was skipped; `identity` is None when it has no name either."""

    identity: Identity | None
    resource_version: str
    error: str


Delta = Replaced[T] | Upserted[T] | Removed[T] | Advanced | Unreadable
