"""The objects of one job as plain data, and the numbers that stand for their versions.

A state of the model is compared by value, so nothing in it may depend on how it was reached. A UID is the object's name and
the number of its generation, and time stands still (`testutil.builders.START`) but while a timer fires. resourceVersions are
not kept: they follow from the place of an object. Of each resource (job, pods, Services) the cached objects have the lowest
versions, by name, then come the events that the watch has yet to deliver, in their order. This keeps all that
resourceVersions are used for: whether two of them are equal, and which of two of one resource is older.
"""

import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Generic, TypeVar

import msgspec

from jobcommon.localcluster.apiserver.storage import DELETED, Item
from jobcommon.testutil.sim.job_templates import TORCH

Obj = dict[str, Any]
T = TypeVar("T", bound=Hashable)

FRAMEWORK: Final = TORCH.framework
TABLES: Final = (f"{FRAMEWORK.plural}.{FRAMEWORK.group}", "pods", "services")
RESOURCES: Final = (FRAMEWORK.plural, "pods", "services")
JOB, PODS = 0, 1
NAMESPACE = "default"
VERSION = re.compile(rb'"resourceVersion":"(\d+)"')

_HEADS = (
    {"apiVersion": FRAMEWORK.api_version, "kind": FRAMEWORK.kind},
    {"apiVersion": "v1", "kind": "Pod"},
    {"apiVersion": "v1", "kind": "Service"},
)
_NO_VERSION = b'"resourceVersion":"0"'


def cached_version(resource: int, index: int) -> int:
    """The version of a cached object."""
    return 1100 + 100 * resource + index


def pending_version(resource: int, index: int) -> int:
    """The version of an event that is yet to be delivered, or of the next write; -1: up to which the cache has everything."""
    return 1150 + 100 * resource + index


class Interned(Generic[T]):
    """Equal values as one small number, so that states are short and quickly compared."""

    def __init__(self) -> None:
        self._ids: dict[T, int] = {}
        self._values: list[T] = []

    def id(self, value: T) -> int:
        """The number of a value."""
        found = self._ids.get(value)
        if found is None:
            found = self._ids[value] = len(self._values)
            self._values.append(value)
        return found

    def __getitem__(self, number: int) -> T:
        return self._values[number]

    def __len__(self) -> int:
        return len(self._values)


@dataclass(frozen=True, eq=False)
class Content:
    """An object without its version and its managed fields; `encoded` is its whole JSON with the version 0.

    Equal contents are the same object, so that they are compared quickly.
    """

    resource: int
    name: str
    encoded: bytes

    @classmethod
    def of(cls, resource: int, item: Item) -> "Content":
        """The content of a stored object."""
        metadata = {key: value for key, value in item.obj["metadata"].items() if key != "managedFields"}
        obj = {**item.obj, "metadata": {**metadata, "resourceVersion": "0"}}
        encoded = msgspec.json.encode({**_HEADS[resource], **obj})
        return _contents.setdefault((resource, encoded), cls(resource, item.name, encoded))

    @cached_property
    def obj(self) -> Obj:
        """The object, not to be changed."""
        found: Obj = msgspec.json.decode(self.encoded)
        return found

    def item(self, version: int) -> Item:
        """The object as the server stores it."""
        fields = {key: value for key, value in self.obj.items() if key not in ("apiVersion", "kind")}
        fields["metadata"] = {**fields["metadata"], "resourceVersion": str(version)}
        return Item(NAMESPACE, self.name, version, fields)

    def at(self, version: int) -> bytes:
        """Its JSON with a version."""
        return self.encoded.replace(_NO_VERSION, b'"resourceVersion":"%d"' % version, 1)


_contents: dict[tuple[int, bytes], Content] = {}


@dataclass(frozen=True)
class View:
    """One resource: the objects in the operator's cache by name, and the events that its watch has yet to deliver.

    While no operator runs there are no such events, and what is cached is what the server has.
    """

    resource: int
    cached: tuple[Content, ...] = ()
    pending: tuple[tuple[str, Content], ...] = ()

    @cached_property
    def versioned(self) -> tuple[tuple[Content, int], ...]:
        """The cached objects with their versions."""
        return tuple((content, cached_version(self.resource, i)) for i, content in enumerate(self.cached))

    @cached_property
    def stored(self) -> tuple[tuple[Content, int], ...]:
        """The objects that the server has, with their versions, by name."""
        found = {content.name: (content, version) for content, version in self.versioned}
        for index, (kind, content) in enumerate(self.pending):
            if kind == DELETED:
                del found[content.name]
            else:
                found[content.name] = (content, pending_version(self.resource, index))
        return tuple(found[name] for name in sorted(found))

    def written(self, kind: str, content: Content, *, observed: bool) -> "View":
        """After a write; the cache has it at once unless it is `observed` by a watch."""
        late = View(self.resource, self.cached, (*self.pending, (kind, content)))
        return late if observed else late.relisted

    @cached_property
    def relisted(self) -> "View":
        """After a complete list."""
        return View(self.resource, tuple(content for content, _ in self.stored))

    @cached_property
    def delivered(self) -> tuple["View", Mapping[int, int]]:
        """After the next event of the watch, and the new numbers of the versions that are still in use."""
        first = View(self.resource, self.cached, self.pending[:1])
        view = View(self.resource, tuple(content for content, _ in first.stored), self.pending[1:])
        renamed = {version: cached_version(self.resource, i) for i, (_, version) in enumerate(first.stored)}
        renamed.update(
            (pending_version(self.resource, i + 1), pending_version(self.resource, i)) for i in range(len(view.pending))
        )
        return view, renamed
