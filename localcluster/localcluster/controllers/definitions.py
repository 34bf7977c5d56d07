"""Deletes the custom objects of a CustomResourceDefinition before it is removed."""

from localcluster.apiserver.registry import CRD_TABLE
from localcluster.apiserver.storage import Item
from localcluster.controllers.access import Access
from localcluster.finalizers import CRD_CLEANUP


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
