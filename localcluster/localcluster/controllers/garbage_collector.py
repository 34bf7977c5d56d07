"""Deletes objects whose owners are gone: owner references by uid; background, foreground and orphan deletion.

Source of the rules: Kubernetes' "Garbage Collection" documentation. An object is deleted if it has owners and all of them
are gone; it loses the references to owners that are gone if others are left. An object with the ``foregroundDeletion``
finalizer waits for its dependents that block it; for one with ``orphan``, first the references of its dependents are removed.
"""

from collections.abc import Iterator
from typing import Any

from localcluster.apiserver.resource import Resource
from localcluster.apiserver.storage import DELETED, Change, Item
from localcluster.controllers.access import Access
from localcluster.finalizers import FOREGROUND, ORPHAN

#: See testutil/sim/assumptions.toml.
ASSUMES = ("owners", "orphans")
Obj = dict[str, Any]
#: Table, namespace, name.
Where = tuple[str, str, str]


def _owners(item: Item) -> list[Obj]:
    return item.obj["metadata"].get("ownerReferences") or []


class GarbageCollector:
    """Keeps an index of owner uid to dependents, updated by every change of the store; a step processes only what changed."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._feed = access.feed()
        self._by_uid: dict[str, Where] = {}
        self._dependents: dict[str, set[Where]] = {}
        self._dirty: dict[Where, None] = {}
        for table in access.tables():
            for item in table.items():
                self._add(table.name, item)

    def step(self) -> float | None:
        """Process everything that changed; no timers."""
        self._absorb()
        while self._dirty:
            where = next(iter(self._dirty))
            del self._dirty[where]
            self._process(where)
            self._absorb()
        return None

    def _absorb(self) -> None:
        while self._feed:
            change: Change = self._feed.popleft()
            old, new = change.old, change.item
            if change.type == DELETED:
                self._remove(change.table, new)
            elif old is None or old.uid != new.uid or _owners(old) != _owners(new):
                if old is not None:
                    self._remove(change.table, old, replaced=old.uid == new.uid)
                self._add(change.table, new)
            elif "deletionTimestamp" in new.obj["metadata"]:
                self._dirty[(change.table, new.namespace, new.name)] = None

    def _add(self, table: str, item: Item) -> None:
        where = (table, item.namespace, item.name)
        meta = item.obj["metadata"]
        if item.uid:
            self._by_uid[item.uid] = where
        for owner in _owners(item):
            self._dependents.setdefault(owner["uid"], set()).add(where)
        if meta.get("ownerReferences") or "deletionTimestamp" in meta:
            self._dirty[where] = None

    def _remove(self, table: str, item: Item, *, replaced: bool = False) -> None:
        where = (table, item.namespace, item.name)
        for owner in _owners(item):
            uid = owner["uid"]
            group = self._dependents.get(uid, set())
            group.discard(where)
            if not group:
                self._dependents.pop(uid, None)
            if uid in self._by_uid:
                # It may be waiting for the deletion of its dependents.
                self._dirty[self._by_uid[uid]] = None
        if replaced:
            return
        if self._by_uid.get(item.uid) == where:
            del self._by_uid[item.uid]
        for dependent in sorted(self._dependents.get(item.uid, ())):
            self._dirty[dependent] = None

    def _item(self, where: Where) -> Item | None:
        return self._access.get(*where)

    def _resource(self, where: Where) -> Resource | None:
        return self._access.registry.stored_as(where[0])

    def _process(self, where: Where) -> None:
        item, resource = self._item(where), self._resource(where)
        if item is None or resource is None:
            return
        meta = item.obj["metadata"]
        if "deletionTimestamp" in meta:
            finalizers = meta.get("finalizers") or []
            if ORPHAN in finalizers:
                self._orphan(where, item, resource)
            elif FOREGROUND in finalizers:
                self._foreground(item, resource)
            return
        self._collect(item, resource)

    def _collect(self, item: Item, resource: Resource) -> None:
        owners = _owners(item)
        if not owners:
            return
        gone = [owner for owner in owners if not self._exists(owner, item)]
        waiting = [owner for owner in owners if owner not in gone and self._deletes_dependents(owner)]
        if len(gone) + len(waiting) == len(owners):
            # A foreground deletion that waits for this object waits for its dependents as well.
            policy = "Foreground" if waiting and self._dependents.get(item.uid) else _policy(item)
            self._access.delete(resource, item, policy)
        elif gone or waiting:
            kept = [owner for owner in owners if owner not in gone and owner not in waiting]
            self._set_owners(item, resource, kept)

    def _exists(self, owner: Obj, item: Item) -> bool:
        where = self._by_uid.get(owner["uid"])
        # An owner in another namespace does not count: references do not cross namespaces.
        return where is not None and where[1] in ("", item.namespace)

    def _deletes_dependents(self, owner: Obj) -> bool:
        where = self._by_uid.get(owner["uid"])
        item = None if where is None else self._item(where)
        if item is None:
            return False
        meta = item.obj["metadata"]
        return "deletionTimestamp" in meta and FOREGROUND in (meta.get("finalizers") or ())

    def _foreground(self, item: Item, resource: Resource) -> None:
        blocking = False
        for where, dependent in self._dependents_of(item):
            self._dirty.setdefault(where, None)
            blocking |= any(owner["uid"] == item.uid and owner.get("blockOwnerDeletion") for owner in _owners(dependent))
        if not blocking:
            kept = [name for name in item.obj["metadata"]["finalizers"] if name != FOREGROUND]
            self._access.set_finalizers(resource, item, kept)

    def _orphan(self, where: Where, item: Item, resource: Resource) -> None:
        for place, dependent in self._dependents_of(item):
            kind = self._resource(place)
            if kind is not None:
                self._set_owners(dependent, kind, [owner for owner in _owners(dependent) if owner["uid"] != item.uid])
        current = self._item(where)
        if current is not None:
            kept = [name for name in current.obj["metadata"]["finalizers"] if name != ORPHAN]
            self._access.set_finalizers(resource, current, kept)

    def _dependents_of(self, item: Item) -> Iterator[tuple[Where, Item]]:
        for where in sorted(self._dependents.get(item.uid, ())):
            dependent = self._item(where)
            if dependent is not None:
                yield where, dependent

    def _set_owners(self, item: Item, resource: Resource, owners: list[Obj]) -> None:
        meta = {"uid": item.uid, "resourceVersion": str(item.rv), "ownerReferences": owners or None}
        path = self._access.path(resource, item.namespace, item.name)
        self._access.send("PATCH", path, {"metadata": meta}, "application/merge-patch+json")


def _policy(item: Item) -> str:
    # The object's own finalizers say how its dependents are to be treated.
    finalizers = item.obj["metadata"].get("finalizers") or ()
    if ORPHAN in finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in finalizers else "Background"
