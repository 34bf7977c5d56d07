"""The objects of a job beside its pods: its Services, and the framework's own (ConfigMaps, autoscalers, …)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from math import inf
from typing import Any

from jobcommon.api import labels
from jobcommon.api.observed import Observed
from jobcommon.api.view import ObjectView
from jobcommon.framework import SERVICE_PER_REPLICA, Companion, Framework, Job
from jobcommon.reconcile.children import CORE, MAX_LABEL, job_selector, owned, service_manifests
from jobcommon.reconcile.plan import Action, Create, Delete, Get, Update

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


def reconcile_services(framework: Framework, job: Job, observed: Observed) -> list[Action]:
    """Create the Services that are missing; delete those of replicas that no longer exist."""
    wanted = {manifest["metadata"]["name"]: manifest for manifest in service_manifests(framework, job)}
    there = {service.name for service in observed.services}
    surplus = [
        service
        for service in observed.services
        if service.name not in wanted and labels.REPLICA_INDEX in service.labels and not service.deleting
    ]
    # Once there is a pod, the name is part of its address.
    other = other_service_name(job) if not observed.pods and not job.service else ""
    return [
        *(
            Create(CORE, "services", name, manifest, otherwise=other if name == job.name else "")
            for name, manifest in wanted.items()
            if name not in there
        ),
        *(Delete(CORE, "services", service.name, service.uid, "no longer wanted") for service in surplus),
    ]


def reconcile_companions(framework: Framework, job: Job, observed: Observed, since: float = -inf) -> list[Action]:
    """Create missing companions, correct differences in the fields we own, delete companions that must not exist.

    Companions of unwatched kinds are read if they have never been, or not since `since` (seconds since the epoch).
    """
    actions: list[Action] = []
    for companion in framework.companions(job, observed.pods):
        found = observed.companions.get((companion.plural, companion.name))
        read = _due_read(job, observed, companion, found, since)
        if read is not None:
            actions.append(read)
        if found is None:
            unknown = read is not None or (companion.plural, companion.name) in observed.rejections
            if companion.manifest is not None and not unknown:
                manifest = _manifest(framework, job, companion, companion.manifest)
                actions.append(
                    Create(
                        companion.api_version,
                        companion.plural,
                        companion.name,
                        manifest,
                        companion.required,
                        companion.generate,
                        after=companion.after,
                    )
                )
        elif companion.manifest is None:
            if not found.deleting:
                actions.append(Delete(companion.api_version, companion.plural, companion.name, found.uid, "no longer wanted"))
        elif not found.deleting:
            actions += _repair(companion, companion.manifest, found.raw)
    return actions


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


def _due_read(job: Job, observed: Observed, companion: Companion, found: ObjectView | None, since: float) -> Get | None:
    """The read of a companion, if one is due. A new job's are created without a read: they cannot exist yet."""
    read_at = observed.last_observed.get(companion.plural)
    if read_at is None:
        return None
    at = read_at.get(companion.name)
    due = at < since and found is not None if at is not None else job.status.since() is not None or companion.manifest is None
    if not due:
        return None
    return Get(
        companion.api_version,
        companion.plural,
        companion.name,
        tuple(companion.manifest or ()),
        companion.required,
        known=found is not None,
    )


def _manifest(framework: Framework, job: Job, companion: Companion, wanted: Mapping[str, Any]) -> dict[str, Any]:
    metadata = wanted.get("metadata") or {}
    own_labels = {**(metadata.get("labels") or {}), **job_selector(framework, job)}
    metadata = {**metadata, **owned(job, companion.name, own_labels)}
    return {"apiVersion": companion.api_version, "kind": companion.kind, **wanted, "metadata": metadata}


def _repair(companion: Companion, wanted: Mapping[str, Any], found: dict[str, Any]) -> list[Action]:
    """An update of the fields we own, if one differs.

    Only what we ask for is compared: the API server's defaults and other controllers' fields are not differences, which
    made the reference update PodGroups in every pass.
    """
    differing = [f for f in companion.owned_fields if f in wanted and not _covers(found.get(f), wanted[f])]
    if not differing:
        return []
    manifest = {**found, **{name: wanted[name] for name in differing}}
    return [Update(companion.api_version, companion.plural, companion.name, manifest)]


def _covers(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        return isinstance(found, Mapping) and all(_covers(found.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list | tuple):
        return (
            isinstance(found, list)
            and len(found) == len(wanted)
            and all(_covers(f, w) for f, w in zip(found, wanted, strict=True))
        )
    return bool(found == wanted)
