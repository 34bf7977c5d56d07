"""Putting a store back to what it was, as a restore of etcd does."""

from localcluster.model import ADDED, CRD_TABLE, DELETED, MODIFIED, Change, Item, Storage

Snapshot = tuple[int, dict[str, list[Item]]]


def snapshot(storage: Storage) -> Snapshot:
    """The version and the content of a store."""
    return storage.rv, {name: list(table.items()) for name, table in storage.tables.items()}


def restore(storage: Storage, to: Snapshot) -> None:
    """Put a store back to an earlier state; its version goes backwards. Every feed receives the difference."""
    rv, content = to
    storage.rv = rv
    for name, table in storage.tables.items():
        if name == CRD_TABLE:
            continue  # What the server serves follows from the history of definitions, so they stay as they are.
        before = {(item.namespace, item.name): item for item in table.items()}
        after = {(item.namespace, item.name): item for item in content.get(name, ())}
        for key in [key for key in before if key not in after]:
            table.drop(before[key])
            _publish(storage, Change(name, DELETED, rv, before[key], before[key]))
        for key, item in after.items():
            old = before.get(key)
            if old is not None and old.uid != item.uid:
                # Its successor has gone: what is back is another object of that name.
                table.drop(old)
                _publish(storage, Change(name, DELETED, rv, old, old))
                old = None
            if old is not item:
                table.set(item)
                _publish(storage, Change(name, MODIFIED if old else ADDED, rv, item, old))
        history = table.history
        history.compact(max(rv, max((change.rv for change in history.since(history.start)), default=0)))
        history.compacted = rv
        history.retire()
    for listener in tuple(storage.listeners):
        listener()


def _publish(storage: Storage, change: Change) -> None:
    for feed in storage.feeds:
        feed.append(change)
