"""Cleans up behind CustomResourceDefinitions."""

from jobcommon.localcluster.apiserver.kinds.crds import CLEANUP_FINALIZER
from jobcommon.localcluster.apiserver.registry import CRD_TABLE
from jobcommon.localcluster.apiserver.server import ApiServer
from jobcommon.localcluster.apiserver.storage import Item
from jobcommon.localcluster.controllers.access import Access


class DefinitionController:
    """Deletes the objects of a CustomResourceDefinition that is being deleted, then its finalizer."""

    def __init__(self, server: ApiServer) -> None:
        self._access = Access(server, "crd-finalizer")

    def step(self) -> float | None:
        """Clean up behind every terminating definition as far as finalizers let it."""
        for definition in self._access.items(CRD_TABLE):
            meta = definition.obj["metadata"]
            finalizers = meta.get("finalizers") or []
            if "deletionTimestamp" in meta and CLEANUP_FINALIZER in finalizers:
                self._clean(definition, [name for name in finalizers if name != CLEANUP_FINALIZER])
        return None

    def _clean(self, definition: Item, kept: list[str]) -> None:
        registry = self._access.server.registry
        for resource in registry.where(lambda one: one.storage_key == definition.name):
            for item in self._access.items(definition.name):
                if "deletionTimestamp" not in item.obj["metadata"]:
                    self._access.delete(resource, item)
            break
        if not any(self._access.items(definition.name)):
            own = registry.find("apiextensions.k8s.io", "v1", "customresourcedefinitions")
            if own is not None:
                self._access.set_finalizers(own, definition, kept)
