"""What a reflector learns from the API server, as values for a store."""

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from jobcommon.api.view import Identity

Key = tuple[str, str]
"""Namespace and name. Not an identity: an object deleted and created anew keeps its key and changes its UID."""


class Cached(Protocol):
    """What every cached object has. Objects are frozen values; nobody changes one that is in a store (rule R17)."""

    @property
    def namespace(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def uid(self) -> str: ...
    @property
    def resource_version(self) -> str: ...


T = TypeVar("T", bound=Cached)


@dataclass(frozen=True, slots=True)
class Replaced(Generic[T]):
    """A complete list. What it lacks is gone, except `unreadable`: those exist, but could not be decoded.

    `quorum` tells a list that was at least as new as anything written before `requested_at`, from one that only was not
    older than what we had.
    """

    objects: tuple[T, ...]
    resource_version: str
    requested_at: float
    quorum: bool
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
    """All changes up to `resource_version` have been seen, and none concerned us (a bookmark)."""

    resource_version: str


@dataclass(frozen=True, slots=True)
class Unreadable:
    """An object that could not be decoded and was skipped; `identity` is None when it has no name either."""

    identity: Identity | None
    resource_version: str
    error: str


Delta = Replaced[T] | Upserted[T] | Removed[T] | Advanced | Unreadable
