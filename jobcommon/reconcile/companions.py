"""The objects of a job beside its pods: its Services, and the framework's own (ConfigMaps, autoscalers, …)."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from math import inf
from typing import Any

from jobcommon.api import labels
from jobcommon.api.observed import Observed
from jobcommon.framework import SERVICE_PER_REPLICA, Companion, Framework, Job
from jobcommon.reconcile.children import CORE, MAX_LABEL, job_selector, owned, service_manifests
from jobcommon.reconcile.plan import Action, Delete, Get
from jobcommon.reconcile.wanted import Wanted, changes

# An unwatched companion is read again if its last read is at least this many seconds old and pods are about to need it.
RECHECK_PERIOD = 30.0


def other_service_name(job: Job) -> str:
    """The name of the job's headless Service where the job's own name is taken."""
    return f"{job.name[: MAX_LABEL - 9].rstrip('-.')}-{sha256(job.uid.encode()).hexdigest()[:8]}"


def as_addressed(job: Job, observed: Observed) -> Job:
    """The job with the names by which its pods know each other.

    Its headless Service has another name than the job if that is on record or exists, or if the job's own is taken and no pod
    has an address with it. And a job with one Service per replica asks for these: the reference's jobs have them, and as their
    pods have no hostname and subdomain, no other name resolves to them.
    """
    other = other_service_name(job)
    recorded = job.status.service_name == other or any(service.name == other for service in observed.services)
    if recorded or (job.name in observed.taken_services and not observed.pods):
        job = replace(job, service=other)
    inherited = any(labels.REPLICA_INDEX in s.labels and not s.deleting for s in observed.services)
    if not inherited or job.service_per_replica:
        return job
    return replace(job, annotations={**job.annotations, SERVICE_PER_REPLICA: "true"})


def wanted_services(framework: Framework, job: Job, observed: Observed) -> Iterator[Wanted]:
    """The job's Services, and those of replicas that no longer exist."""
    # Once there is a pod, the name is part of its address.
    other = other_service_name(job) if not observed.pods and not job.service else ""
    manifests = {manifest["metadata"]["name"]: manifest for manifest in service_manifests(framework, job)}
    for name, manifest in manifests.items():
        yield Wanted(CORE, "services", name, manifest, otherwise=other if name == job.name else "")
    for service in observed.services:
        if service.name not in manifests and labels.REPLICA_INDEX in service.labels:
            yield Wanted(CORE, "services", service.name, None)


def wanted_companions(framework: Framework, job: Job, observed: Observed) -> Iterator[Wanted]:
    """The framework's own objects."""
    for one in framework.companions(job, observed.pods):
        manifest = _manifest(framework, job, one)
        corrected = {name: one.manifest[name] for name in one.owned_fields if name in one.manifest} if one.manifest else {}
        options: dict[str, Any] = {"required": one.required, "generate": one.generate, "after": one.after}
        yield Wanted(one.api_version, one.plural, one.name, manifest, corrected, **options)


def reconcile_services(framework: Framework, job: Job, observed: Observed) -> list[Action]:
    """Create the Services that are missing; delete those of replicas that no longer exist."""
    return changes(job, observed, wanted_services(framework, job, observed))


def reconcile_companions(framework: Framework, job: Job, observed: Observed, since: float = -inf) -> list[Action]:
    """Create missing companions, correct differences in the fields we own, delete companions that must not exist."""
    return changes(job, observed, wanted_companions(framework, job, observed), since)


def delete_services(observed: Observed, why: str) -> list[Action]:
    """Delete the job's Services, found by owner, not through pods (the reference leaked those without a pod)."""
    return [Delete(CORE, "services", service.name, service.uid, why) for service in observed.services if not service.deleting]


def with_companions_deleted(framework: Framework, job: Job, observed: Observed, clean_up: Sequence[Action]) -> list[Action]:
    """The `clean_up` of a stopped job, with the deletion of the companions that must not outlive it.

    Companions are deleted first; until they are gone, only pods that still run are deleted. Hence "nothing left to clean up"
    implies "no companions left", and a restarted operator need not read them.
    """
    companions = [a for a in reconcile_companions(framework, job, observed) if isinstance(a, Delete | Get)]
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
    return {"apiVersion": companion.api_version, "kind": companion.kind, **companion.manifest, "metadata": metadata}
