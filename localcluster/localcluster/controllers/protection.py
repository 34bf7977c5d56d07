"""Lets volumes and claims of them go that are being deleted and no longer used."""

from localcluster.apiserver.storage import Item
from localcluster.controllers.access import Access
from localcluster.finalizers import CLAIM_PROTECTION, VOLUME_PROTECTION


class ProtectionController:
    """Removes the finalizers that keep a claim while a pod uses it, and a volume while it is bound."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def step(self) -> float | None:
        """Release what is being deleted and not in use."""
        for table, finalizer in (("persistentvolumeclaims", CLAIM_PROTECTION), ("persistentvolumes", VOLUME_PROTECTION)):
            resource = self._access.registry.find("", "v1", table)
            for item in self._access.items(table):
                meta = item.obj["metadata"]
                finalizers = meta.get("finalizers") or []
                if resource and "deletionTimestamp" in meta and finalizer in finalizers and not self._used(table, item):
                    self._access.set_finalizers(resource, item, [name for name in finalizers if name != finalizer])
        return None

    def _used(self, table: str, item: Item) -> bool:
        if table == "persistentvolumes":
            return (item.obj.get("status") or {}).get("phase") == "Bound"
        return any(
            (volume.get("persistentVolumeClaim") or {}).get("claimName") == item.name
            for pod in self._access.items("pods", item.namespace)
            if (pod.obj.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
            for volume in pod.obj["spec"].get("volumes") or ()
        )
