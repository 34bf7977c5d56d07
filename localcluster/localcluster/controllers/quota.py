"""Keeps the usage in the status of ResourceQuotas; admission enforces the limits."""

from typing import Any

from localcluster.apiserver.quota import QUOTA_TABLE, plain, usage
from localcluster.apiserver.storage import Item
from localcluster.controllers.access import Access

Obj = dict[str, Any]


class QuotaController:
    """Recomputes the quotas of namespaces in which an object was created or deleted, or a pod finished."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._feed = access.feed()
        self._dirty = {item.namespace for item in self._access.items(QUOTA_TABLE)}

    def step(self) -> float | None:
        """Bring every touched quota's status up to date."""
        while self._feed:
            change = self._feed.popleft()
            if change.type != "MODIFIED" or change.table in ("pods", QUOTA_TABLE):
                self._dirty.add(change.item.namespace)
        for namespace in sorted(self._dirty):
            for quota in self._access.items(QUOTA_TABLE, namespace):
                self._publish(quota)
        self._dirty.clear()
        return None

    def _publish(self, quota: Item) -> None:
        hard: Obj = (quota.obj.get("spec") or {}).get("hard") or {}
        used = usage(self._access.storage, quota.namespace, list(hard))
        status = {"hard": hard, "used": {name: plain(amount) for name, amount in used.items()}}
        if quota.obj.get("status") != status:
            path = f"/api/v1/namespaces/{quota.namespace}/resourcequotas/{quota.name}/status"
            body = {"kind": "ResourceQuota", "apiVersion": "v1", "metadata": quota.obj["metadata"], "status": status}
            self._access.send("PUT", path, body)
