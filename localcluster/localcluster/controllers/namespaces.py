"""Empties terminating namespaces, and creates in the others the objects that every namespace has."""

from localcluster.apiserver.storage import Item
from localcluster.controllers.access import Access

ROOT_CA = "kube-root-ca.crt"
_SERVICE_ACCOUNT = "default"


class NamespaceController:
    """Deletes the content of terminating namespaces, then their finalizer."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def step(self) -> float | None:
        """Empty every terminating namespace, as far as finalizers allow."""
        for namespace in self._access.items("namespaces"):
            if "deletionTimestamp" in namespace.obj["metadata"] and namespace.obj.get("spec", {}).get("finalizers"):
                self._empty(namespace)
        return None

    def _empty(self, namespace: Item) -> None:
        for resource in self._access.registry.where(lambda one: one.namespaced):
            for item in self._access.items(resource.storage_key, namespace.name):
                if "deletionTimestamp" not in item.obj["metadata"]:
                    self._access.delete(resource, item)
        # A table may outlive the definition that served it, so the store itself is asked, not the registry.
        if not any(table.spaces.get(namespace.name) for table in self._access.tables()):
            body = {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": namespace.name}, "spec": {}}
            self._access.send("PUT", f"/api/v1/namespaces/{namespace.name}/finalize", body)


class NamespaceContents:
    """Keeps the default service account and the root CA config map in every namespace."""

    def __init__(self, access: Access, root_ca: str = "") -> None:
        self._access = access
        self._root_ca = root_ca

    def step(self) -> float | None:
        """Create what is missing."""
        for namespace in self._access.items("namespaces"):
            if "deletionTimestamp" in namespace.obj["metadata"]:
                continue
            root = f"/api/v1/namespaces/{namespace.name}"
            if self._access.get("serviceaccounts", namespace.name, _SERVICE_ACCOUNT) is None:
                self._access.send("POST", f"{root}/serviceaccounts", {"metadata": {"name": _SERVICE_ACCOUNT}})
            if self._access.get("configmaps", namespace.name, ROOT_CA) is None:
                body = {"metadata": {"name": ROOT_CA}, "data": {"ca.crt": self._root_ca}}
                self._access.send("POST", f"{root}/configmaps", body)
        return None
