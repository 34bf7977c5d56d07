"""The objects that a job wants beside its pods, and the one comparison of them with what is observed.

These are its Services, the framework's own (ConfigMaps, autoscalers, …) and those of its features. What is missing is
created; what differs in our fields is corrected by one JSON merge patch of the version that was compared; what must not be
there is deleted. Nothing is written where nothing differs.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from jobcommon.api import labels
from jobcommon.api.merge_patch import difference
from jobcommon.api.observed import Observed
from jobcommon.api.view import ObjectView
from jobcommon.framework import Companion, Framework, Job
from jobcommon.manifests.children import CORE, job_selector, other_service_name, owned, service_manifests
from jobcommon.reconcile.plan import Action, Create, Delete, Get, Update


@dataclass(frozen=True, slots=True)
class Wanted:
    """One object. `manifest` is what is created if it is missing; None: it must not exist, and `why`.

    `corrected` is the part that is put right where it differs, and `status` that of the status, once nothing else differs. None
    in them stands for a field that must not be there. `exact`: a list that has more in its elements than wanted differs, too.
    A create that was refused for good is `retried` if not the job's spec alone decides on it. For the others see `Create`.
    """

    api_version: str
    plural: str
    name: str
    manifest: Mapping[str, Any] | None
    corrected: Mapping[str, Any] | None = None
    status: Mapping[str, Any] | None = None
    exact: bool = False
    required: bool = True
    retried: bool = False
    generate: Callable[[], Mapping[str, Any]] | None = None
    after: tuple[str, str] | None = None
    kept: bool = False
    otherwise: str = ""
    why: str = "no longer wanted"


def changes(job: Job, observed: Observed, wanted: Iterable[Wanted], since: float = -inf) -> list[Action]:
    """What makes the objects of the job what is wanted.

    Those of unwatched kinds are read if they have never been, or not since `since` (seconds since the epoch).
    """
    if not (wanted := tuple(wanted)):
        return []
    there = {("services", service.name): service for service in observed.services} | dict(observed.companions)
    actions: list[Action] = []
    for one in wanted:
        found = there.get((one.plural, one.name))
        read = _due_read(job, observed, one, found, since)
        actions += [read] if read is not None else []
        if found is None:
            refused = (one.plural, one.name) in observed.rejections and not one.retried
            if one.manifest is not None and read is None and not refused:
                options = one.required, one.generate, "", one.after, one.otherwise
                actions.append(Create(one.api_version, one.plural, one.name, one.manifest, *options, kept=one.kept))
        elif found.deleting:
            pass  # Its name is free, or its successor is created, once it is gone.
        elif one.manifest is None:
            actions.append(Delete(one.api_version, one.plural, one.name, found.uid, one.why))
        elif one.corrected or one.status:
            actions += _correction(one, found.raw)
    return actions


def _correction(one: Wanted, found: Mapping[str, Any]) -> list[Action]:
    if patch := difference(found, one.corrected or {}, exact=one.exact):
        return [Update(one.api_version, one.plural, one.name, found, patch)]
    patch = difference(found.get("status") or {}, one.status or {})
    return [Update(one.api_version, one.plural, one.name, found, {"status": patch}, "status")] if patch else []


def _due_read(job: Job, observed: Observed, one: Wanted, found: ObjectView | None, since: float) -> Get | None:
    """The read of an object, if one is due. A new job's are created without a read: they cannot exist yet."""
    read_at = observed.last_observed.get(one.plural)
    if read_at is None:
        return None
    at = read_at.get(one.name)
    due = at < since and found is not None if at is not None else job.status.since() is not None or one.manifest is None
    fields = tuple(one.manifest or ())
    options = one.required, found is not None, one.kept
    return Get(one.api_version, one.plural, one.name, fields, *options) if due else None


# An unwatched companion is read again if its last read is at least this many seconds old and pods are about to need it.
RECHECK_PERIOD = 30.0


def wanted_services(framework: Framework, job: Job, observed: Observed) -> Iterator[Wanted]:
    """The job's Services, and those of replicas that no longer exist."""
    # Once there is a pod, the name is part of its address.
    other = other_service_name(job) if not observed.pods and not job.service else ""
    manifests = {manifest["metadata"]["name"]: manifest for manifest in service_manifests(framework, job)}
    for name, manifest in manifests.items():
        yield Wanted(CORE, "services", name, manifest, otherwise=other if name == job.service_name else "")
    for service in observed.services:
        if service.name not in manifests and labels.REPLICA_INDEX in service.labels:
            yield Wanted(CORE, "services", service.name, None)


def wanted_companions(framework: Framework, job: Job, observed: Observed) -> Iterator[Wanted]:
    """The framework's own objects."""
    for one in framework.companions(job, observed.pods):
        manifest = _manifest(framework, job, one)
        corrected = {name: one.manifest[name] for name in one.owned_fields if name in one.manifest} if one.manifest else {}
        options: dict[str, Any] = {"required": one.required, "generate": one.generate, "after": one.after, "kept": one.kept}
        yield Wanted(one.api_version, one.plural, one.name, manifest, corrected, **options)


def with_clean_up(framework: Framework, job: Job, observed: Observed, pods: Sequence[Action], why: str) -> list[Action]:
    """The actions for the `pods` of a stopped job, with the deletion of its Services (unless `why` is "") and companions.

    Services are found by owner, not through pods (the reference leaked those without a pod). Companions that must not outlive
    the job are deleted first; until they are gone, only pods that still run are deleted. Hence "nothing left to clean up"
    implies "no companions left", and a restarted operator need not read them.
    """
    services = (Wanted(CORE, "services", service.name, None, why=why) for service in observed.services if why)
    clean_up = [*pods, *changes(job, observed, services)]
    unwanted = changes(job, observed, wanted_companions(framework, job, observed))
    companions = [a for a in unwanted if isinstance(a, Delete | Get)]
    if not clean_up:
        return [a for a in companions if isinstance(a, Delete)]
    if not any(a.plural in observed.last_observed for a in companions):
        return [*clean_up, *companions]
    return [*companions, *(a for a in clean_up if isinstance(a, Delete) and a.plural == "pods")]


def _manifest(framework: Framework, job: Job, companion: Companion) -> dict[str, Any] | None:
    if companion.manifest is None:
        return None
    metadata = companion.manifest.get("metadata") or {}
    own_labels = {**(metadata.get("labels") or {}), **job_selector(framework, job)}
    metadata = {**metadata, **owned(job, companion.name, own_labels)}
    if companion.kept:
        del metadata["ownerReferences"]
    return {"apiVersion": companion.api_version, "kind": companion.kind, **companion.manifest, "metadata": metadata}
