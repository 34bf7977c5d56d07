"""What is emptied before it goes: namespaces and definitions; events, by their age; and what every namespace has."""

from localcluster.apiserver.registry import CRD_TABLE
from localcluster.apiserver.storage import Item
from localcluster.controllers.access import Access
from localcluster.finalizers import CRD_CLEANUP
from localcluster.timestamps import parse_time

TTL_SECONDS = 3600.0
#: Checking more often would cost more than it frees.
_INTERVAL = 60.0
ROOT_CA = "kube-root-ca.crt"
_SERVICE_ACCOUNT = "default"


class NamespaceController:
    """Deletes the content of terminating namespaces, then their finalizer.

    In the others it keeps what every namespace has: the default service account, and the config map with the root CA.
    """

    def __init__(self, access: Access, root_ca: str = "") -> None:
        self._access = access
        self._root_ca = root_ca

    def step(self) -> float | None:
        """Empty or complete every namespace, as far as finalizers allow."""
        for namespace in self._access.items("namespaces"):
            if "deletionTimestamp" not in namespace.obj["metadata"]:
                self._complete(namespace)
            elif namespace.obj.get("spec", {}).get("finalizers"):
                self._empty(namespace)
        return None

    def _complete(self, namespace: Item) -> None:
        root = f"/api/v1/namespaces/{namespace.name}"
        if self._access.get("serviceaccounts", namespace.name, _SERVICE_ACCOUNT) is None:
            self._access.send("POST", f"{root}/serviceaccounts", {"metadata": {"name": _SERVICE_ACCOUNT}})
        if self._access.get("configmaps", namespace.name, ROOT_CA) is None:
            body = {"metadata": {"name": ROOT_CA}, "data": {"ca.crt": self._root_ca}}
            self._access.send("POST", f"{root}/configmaps", body)

    def _empty(self, namespace: Item) -> None:
        for resource in self._access.registry.where(lambda one: one.namespaced):
            for item in self._access.items(resource.storage_key, namespace.name):
                if "deletionTimestamp" not in item.obj["metadata"]:
                    self._access.delete(resource, item)
        # A table may outlive the definition that served it, so the store itself is asked, not the registry.
        if not any(table.spaces.get(namespace.name) for table in self._access.tables()):
            body = {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": namespace.name}, "spec": {}}
            self._access.send("PUT", f"/api/v1/namespaces/{namespace.name}/finalize", body)


class DefinitionController:
    """Deletes the objects of a CustomResourceDefinition that is being deleted, then its finalizer."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def step(self) -> float | None:
        """Delete the objects of every terminating definition, as far as finalizers allow."""
        for definition in self._access.items(CRD_TABLE):
            meta = definition.obj["metadata"]
            finalizers = meta.get("finalizers") or []
            if "deletionTimestamp" in meta and CRD_CLEANUP in finalizers:
                self._clean(definition, [name for name in finalizers if name != CRD_CLEANUP])
        return None

    def _clean(self, definition: Item, kept: list[str]) -> None:
        registry = self._access.registry
        for resource in registry.where(lambda one: one.storage_key == definition.name):
            for item in self._access.items(definition.name):
                if "deletionTimestamp" not in item.obj["metadata"]:
                    self._access.delete(resource, item)
            break
        if not any(self._access.items(definition.name)):
            own = registry.find("apiextensions.k8s.io", "v1", "customresourcedefinitions")
            if own is not None:
                self._access.set_finalizers(own, definition, kept)


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
