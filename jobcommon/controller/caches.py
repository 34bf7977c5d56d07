"""What the controller of one framework caches of the cluster: its jobs, and what is made for them."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Any

from jobcommon.api import labels
from jobcommon.api.definition import Watch
from jobcommon.api.observed import Observed
from jobcommon.api.pod import PodView, pod_view
from jobcommon.api.view import ObjectView, object_view
from jobcommon.cache.informer import Informer
from jobcommon.cache.store import Store
from jobcommon.client.errors import StatusError
from jobcommon.client.objects import collection_path
from jobcommon.controller.orphans import job_keys, owner_keys
from jobcommon.framework import Framework, ObjectKey
from jobcommon.reconcile.features import features_of

PODS = "pods"
SERVICES = "services"
_BY_JOB, _BY_OWNER, _BY_REFERENCE, _BY_NAMESPACE = "job", "owner", "reference", "namespace"


def selector_of(framework: Framework) -> str:
    """The label selector of what the operator of the framework has made, also under a former name."""
    names = [framework.operator_name, *framework.former_controllers]
    return f"{labels.OPERATOR_NAME}={names[0]}" if len(names) == 1 else f"{labels.OPERATOR_NAME} in ({','.join(names)})"


def watched(framework: Framework) -> Mapping[str, Watch]:
    """By the name of its cache, which most often is the plural: the jobs, what is made for them, and what is read beside."""
    found = {
        # Without the definition there are no jobs, but there may be pods of theirs with our finalizer.
        framework.plural: Watch(framework.api_version, framework.plural, optional=(404,)),
        **{plural: Watch("v1", plural, owned=True, optional=()) for plural in (PODS, SERVICES)},
    }
    for kind in framework.companion_kinds:
        if kind.watched:
            without = () if kind.required else (403, 404)
            found[kind.plural] = Watch(kind.api_version, kind.plural, owned=True, optional=without)
    for related in framework.related:
        # Without it the jobs that refer to its objects wait. A Role cannot grant access to cluster-scoped ones.
        found[related.plural] = Watch(related.api_version, related.plural, namespaced=related.namespaced)
    return {**found, **watches_of(framework)}


def watches_of(framework: Framework) -> Mapping[str, Watch]:
    """What its features watch, by the name of the cache: that of namespaced objects of others has the feature's in it."""
    return {
        one.plural if one.owned or not one.namespaced else f"{one.plural}/{feature.name}": one
        for feature in features_of(framework)
        for one in feature.access(framework.options)
        if isinstance(one, Watch)
    }


class Caches:
    """The caches of one framework's controller, in one `namespace` or in all (None). `random` gives floats in [0, 1)."""

    def __init__(self, framework: Framework, namespace: str | None, random: Callable[[], float]) -> None:
        self._framework = framework
        self.resources = watched(framework)
        by_reference = {_BY_REFERENCE: lambda view: framework.references(view.raw)} if framework.related else {}
        self.jobs: Store[ObjectView] = Store(by_reference)
        self._pods: Store[PodView] = Store({_BY_JOB: job_keys})
        named = (framework.plural, PODS)
        indexes = {_BY_OWNER: owner_keys}
        self._others = {name: Store[ObjectView](indexes) for name in self.resources if name not in named}
        self.watches = watches_of(framework)
        for name, one in self.watches.items():
            by_job = {**indexes, _BY_JOB: job_keys} if one.adopted else indexes
            self._others[name] = Store(by_job if one.owned else {_BY_NAMESPACE: lambda view: [view.namespace]})
        stores: Mapping[str, Store[Any]] = {**self._others, framework.plural: self.jobs, PODS: self._pods}
        self.informers = {
            name: _informer(one, selector_of(framework), namespace, stores[name], random)
            for name, one in self.resources.items()
        }

    @property
    def synced(self) -> bool:
        """Whether every available cache has had its first complete list."""
        return all(informer.synced or self.is_missing(name) for name, informer in self.informers.items())

    @property
    def versions(self) -> Mapping[str, str]:
        """The resourceVersions that the available caches have reached."""
        return {n: informer.store.resource_version for n, informer in self.informers.items() if not self.is_missing(n)}

    @property
    def missing(self) -> Mapping[str, str]:
        """What its features watch and cannot read now, by plural, and why."""
        off = {name: one for name, one in self.watches.items() if self.is_missing(name)}
        codes = {name: getattr(self.informers[name].last_error, "code", 0) for name in off}
        return {one.plural: one.forbidden if codes[name] == HTTPStatus.FORBIDDEN else one.unserved for name, one in off.items()}

    def is_missing(self, name: str) -> bool:
        """Whether the API server does not serve an optional resource. Its informer keeps retrying."""
        error = self.informers[name].last_error
        return isinstance(error, StatusError) and error.code in self.resources[name].optional

    def pods_of(self, key: tuple[str, str]) -> list[PodView]:
        """The pods whose owner has the name of that job, of whatever UID."""
        return self._pods.indexed(_BY_JOB, key)

    def related_to(self, job: Mapping[str, Any]) -> Mapping[ObjectKey, ObjectView]:
        """The objects that the job refers to, as far as they exist."""
        found = {one: self._others[one.plural].get(one.namespace, one.name) for one in self._framework.references(job)}
        return {key: view for key, view in found.items() if view is not None}

    def referring(self, plural: str, view: ObjectView) -> list[tuple[str, str]]:
        """The keys of the jobs that refer to that object."""
        jobs = self.jobs.indexed(_BY_REFERENCE, ObjectKey(plural, view.namespace, view.name))
        return [(job.namespace, job.name) for job in jobs]

    def observed(self, cached: ObjectView, known: Observed, **more: Any) -> Observed:
        """`known`, which has the job's pods, with its other objects and the cluster as cached, and `more`."""
        owner = cached.namespace, cached.uid
        owned = [name for name, one in self.resources.items() if one.owned and name not in (PODS, SERVICES)]
        companions = {(plural, v.name): v for plural in owned for v in self._others[plural].indexed(_BY_OWNER, owner)}
        for plural in [one.plural for one in self.watches.values() if one.adopted]:
            # Those that others have made for it.
            named = self._others[plural].indexed(_BY_JOB, (cached.namespace, cached.name))
            companions |= {(plural, view.name): view for view in named}
        cluster: dict[tuple[str, str], ObjectView] = {}
        for name, one in self.watches.items():
            if not one.owned:
                there = self._others[name].indexed(_BY_NAMESPACE, cached.namespace if one.namespaced else "")
                cluster |= {(one.plural, view.name): view for view in there}
        return replace(
            known,
            services=tuple(self._others[SERVICES].indexed(_BY_OWNER, owner)),
            companions={**companions, **known.companions},
            cluster=cluster,
            missing=self.missing,
            **more,
        )


def _informer(watch: Watch, ours: str, namespace: str | None, store: Store[Any], random: Callable[[], float]) -> Informer[Any]:
    selector = ours if watch.owned else watch.selector
    path = collection_path(watch.api_version, watch.plural, namespace or None if watch.namespaced else None)
    decode: Callable[[bytes], Any] = pod_view if watch.plural == PODS else object_view
    return Informer(path, decode, store, random, query=(("labelSelector", selector),) if selector else ())
