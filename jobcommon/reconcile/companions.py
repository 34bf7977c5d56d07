"""The objects of a job beside its pods: its Services, and what else the framework wants (ConfigMaps, autoscalers, …)."""

from collections.abc import Mapping
from typing import Any

from jobcommon.api import labels
from jobcommon.framework import Companion, Framework, Job, Observed
from jobcommon.reconcile.children import CORE, job_selector, owner_reference, service_manifests
from jobcommon.reconcile.plan import Action, Create, Delete, Update


def tend_services(framework: Framework, job: Job, observed: Observed) -> list[Action]:
    """Create the Services that are missing; delete those of replicas that are no more."""
    wanted = {manifest["metadata"]["name"]: manifest for manifest in service_manifests(framework, job)}
    there = {service.name for service in observed.services}
    surplus = [
        service
        for service in observed.services
        if service.name not in wanted and labels.REPLICA_INDEX in service.labels and service.deletion_time is None
    ]
    return [
        *(Create(CORE, "services", name, manifest) for name, manifest in wanted.items() if name not in there),
        *(Delete(CORE, "services", service.name, service.uid, "no longer wanted") for service in surplus),
    ]


def tend_companions(framework: Framework, job: Job, observed: Observed) -> list[Action]:
    """Create what is missing, put right what differs in the fields we own, delete what must not be there."""
    actions: list[Action] = []
    for companion in framework.companions(job, observed.pods):
        found = observed.companions.get((companion.kind, companion.name))
        if found is None:
            if companion.manifest is not None and (companion.plural, companion.name) not in observed.rejections:
                manifest = _manifest(framework, job, companion, companion.manifest)
                actions.append(
                    Create(
                        companion.api_version,
                        companion.plural,
                        companion.name,
                        manifest,
                        companion.required,
                        companion.generate,
                    )
                )
        elif companion.manifest is None:
            if found.deletion_time is None:
                actions.append(Delete(companion.api_version, companion.plural, companion.name, found.uid, "no longer wanted"))
        elif found.deletion_time is None:
            actions += _repair(companion, companion.manifest, found.raw)
    return actions


def _manifest(framework: Framework, job: Job, companion: Companion, wanted: Mapping[str, Any]) -> dict[str, Any]:
    metadata = wanted.get("metadata") or {}
    metadata = {
        **metadata,
        "labels": {**(metadata.get("labels") or {}), **job_selector(framework, job)},
        "name": companion.name,
        "namespace": job.namespace,
        "ownerReferences": [owner_reference(job)],
    }
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
