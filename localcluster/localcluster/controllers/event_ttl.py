"""Deletes events an hour after they were last seen, as the real server does."""

from localcluster.apiserver.storage import Item
from localcluster.controllers.access import Access
from localcluster.timestamps import parse_time

TTL_SECONDS = 3600.0
#: Checking more often would cost more than it frees.
_INTERVAL = 60.0


class EventTtl:
    """Checks once a minute."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._next = access.now

    def step(self) -> float | None:
        """Delete what is due."""
        now = self._access.now
        if now < self._next:
            return self._next
        self._next = now + _INTERVAL
        resource = self._access.registry.find("", "v1", "events")
        if resource is not None:
            for item in self._access.items("events"):
                if _last_seen(item) + TTL_SECONDS <= now:
                    self._access.delete(resource, item)
        return self._next


def _last_seen(item: Item) -> float:
    series = item.obj.get("series") or {}
    for text in (series.get("lastObservedTime"), item.obj.get("lastTimestamp"), item.obj["metadata"].get("creationTimestamp")):
        try:
            return parse_time(text or "")
        except ValueError:
            continue
    return 0.0
