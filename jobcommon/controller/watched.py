"""The resources that the controller of a framework caches."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from jobcommon.api import kueue, labels
from jobcommon.api.gang import PRIORITY_CLASS_API, PRIORITY_CLASSES
from jobcommon.api.pod import pod_view
from jobcommon.api.view import object_view
from jobcommon.cache.informer import Informer
from jobcommon.cache.store import Store
from jobcommon.client.objects import collection_path
from jobcommon.framework import Framework

PODS = "pods"
SERVICES = "services"


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of object the controller caches: group and version, plural, and the labels that select ours.

    `optional`: the HTTP codes after which the controller works without the resource.
    """

    api_version: str
    plural: str
    selector: str = ""
    namespaced: bool = True
    optional: tuple[int, ...] = ()

    def path(self, namespace: str | None) -> str:
        """The collection's path, over all namespaces without one."""
        return collection_path(self.api_version, self.plural, namespace or None if self.namespaced else None)


def watched(framework: Framework) -> Mapping[str, Resource]:
    """By plural: the jobs, and what is made for them."""
    names = (framework.operator_name, *framework.former_controllers)
    ours = f"{labels.OPERATOR_NAME}={names[0]}" if len(names) == 1 else f"{labels.OPERATOR_NAME} in ({','.join(names)})"
    found = {
        # Without the definition there are no jobs, but there may be pods of theirs with our finalizer.
        framework.plural: Resource(framework.api_version, framework.plural, optional=(404,)),
        PODS: Resource("v1", PODS, ours),
        SERVICES: Resource("v1", SERVICES, ours),
    }
    for kind in framework.companion_kinds:
        if kind.watched:
            without = () if kind.required else (403, 404)
            found[kind.plural] = Resource(kind.api_version, kind.plural, ours, optional=without)
    if (gang := framework.options.gang) is not None:
        for plural in gang.resources:
            found[plural] = Resource(gang.api_version, plural, ours, optional=(404,))
    if framework.options.kueue:
        found[kueue.WORKLOADS] = Resource(kueue.KUEUE_API, kueue.WORKLOADS, ours, optional=(403, 404))
        for plural in (kueue.FLAVORS, kueue.WORKLOAD_PRIORITIES):
            found[plural] = Resource(kueue.KUEUE_API, plural, namespaced=False, optional=(403, 404))
    if gang is not None or framework.options.kueue:
        # A Role cannot grant access to cluster-scoped objects; without priorities all pods are equal.
        found[PRIORITY_CLASSES] = Resource(PRIORITY_CLASS_API, PRIORITY_CLASSES, namespaced=False, optional=(403, 404))
    return found


def informers_of(
    resources: Mapping[str, Resource], namespace: str | None, stores: Mapping[str, Store[Any]], random: Callable[[], float]
) -> dict[str, Informer[Any]]:
    """One for each resource, by plural; see `informer_of`."""
    return {name: informer_of(found, namespace, stores[name], random) for name, found in resources.items()}


def informer_of(resource: Resource, namespace: str | None, store: Store[Any], random: Callable[[], float]) -> Informer[Any]:
    """Keeps `store` up to date with a resource; `random` gives floats in [0, 1)."""
    query = (("labelSelector", resource.selector),) if resource.selector else ()
    decode: Callable[[bytes], Any] = pod_view if resource.plural == PODS else object_view
    return Informer(resource.path(namespace), decode, store, random, query=query)
