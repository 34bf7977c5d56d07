"""Which resources are served: the built-in ones and those of the stored CustomResourceDefinitions."""

from collections.abc import Callable, Iterator

from localcluster.apiserver.builtin import BUILTIN
from localcluster.apiserver.discovery import version_priority
from localcluster.apiserver.resource import Resource, Scale, field_table
from localcluster.apiserver.schema import CompiledSchema
from localcluster.apiserver.storage import Change, Obj, Storage


def resources_of(definition: Obj) -> list[Resource]:
    """The served versions of a stored (so: valid) definition, the preferred one first."""
    spec = definition["spec"]
    served = [entry for entry in spec["versions"] if entry["served"]]
    return [_resource(spec, entry) for entry in sorted(served, key=lambda entry: version_priority(entry["name"]))]


def _resource(spec: Obj, entry: Obj) -> Resource:
    names, group, subresources = spec["names"], spec["group"], entry.get("subresources") or {}
    selectable = [one["jsonPath"].removeprefix(".") for one in entry.get("selectableFields") or ()]
    warning = entry.get("deprecationWarning") or f"{group}/{entry['name']} {names['kind']} is deprecated"
    return Resource(
        group, entry["name"], names["plural"], names["kind"], spec["scope"] == "Namespaced", names["singular"],
        tuple(names.get("shortNames") or ()), tuple(names.get("categories") or ()), status="status" in subresources,
        scale=_scale(subresources["scale"]) if subresources.get("scale") is not None else None,
        table=f"{names['plural']}.{group}", list_kind=names["listKind"], generation=True, unconditional_update=False,
        fields=field_table(*selectable), schema=CompiledSchema(entry), crd_version=entry,
        deprecation=warning if entry.get("deprecated") else "",
    )  # fmt: skip


def _scale(scale: Obj) -> Scale:
    return Scale(
        scale["specReplicasPath"].removeprefix("."),
        scale["statusReplicasPath"].removeprefix("."),
        (scale.get("labelSelectorPath") or "").removeprefix("."),
    )


CRD_TABLE = "customresourcedefinitions.apiextensions.k8s.io"


class Registry:
    """Follows the CRD table; a definition is compiled once per stored version of it.

    `compiled` returns the resources of a definition. Compiling is slow; a caller may pass a function that caches.
    """

    def __init__(self, storage: Storage, compiled: Callable[[Obj], list[Resource]] = resources_of) -> None:
        self._storage = storage
        self._compiled = compiled
        self._custom: dict[str, list[Resource]] = {}
        self._index: dict[tuple[str, str, str], Resource] = dict(BUILTIN)
        self._by_table: dict[str, Resource] = {}
        self._position = 0
        #: Counts changes, so that documents derived from the registry can be cached.
        self.version = 0
        storage.table(CRD_TABLE).history.listeners.add(self._follow)

    def _follow(self) -> None:
        history = self._storage.table(CRD_TABLE).history
        changes: list[Change] = history.since(max(self._position, history.start))
        self._position = history.end
        for change in changes:
            if change.type == "DELETED":
                self._custom.pop(change.item.name, None)
                self._storage.table(change.item.name).history.retire()
            elif change.old is None or change.old.obj["spec"] != change.item.obj["spec"]:
                self._custom[change.item.name] = self._compiled(change.item.obj)
        self._reindex()

    def _reindex(self) -> None:
        self._index = dict(BUILTIN)
        self._by_table.clear()
        for resources in self._custom.values():
            for resource in resources:
                self._index[(resource.group, resource.version, resource.plural)] = resource
        self.version += 1

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """The resource that a path names."""
        return self._index.get((group, version, plural))

    def stored_as(self, table: str) -> Resource | None:
        """The resource of a table's objects, in one of its versions."""
        if not self._by_table:
            self._by_table = {one.storage_key: one for one in self._index.values()}
        return self._by_table.get(table)

    def all(self) -> Iterator[Resource]:
        """Every served resource, built-in ones first."""
        return iter(tuple(self._index.values()))

    def where(self, condition: Callable[[Resource], bool]) -> Iterator[Resource]:
        """The served resources that fulfil a condition."""
        return filter(condition, self.all())
