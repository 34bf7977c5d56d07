"""Kueue as tests play it: what it writes into the status of a Workload (apis/kueue/v1beta2, pkg/workload of Kueue 0.19)."""

from collections.abc import Mapping
from hashlib import sha1
from typing import Any

from jobcommon.api.kueue import JOB_UID_LABEL, KUEUE_API, KUEUE_WORKLOAD, QUEUE_LABEL
from jobcommon.api.timestamp import format_time
from jobcommon.client.errors import StatusError
from jobcommon.testutil.builders import START, Manifest


def made_by_kueue(job: Manifest, pod_sets: Mapping[str, Any]) -> Manifest:
    """The Workload that Kueue's own integration makes of a job, which nothing marks as ours; `pod_sets`: by type, its replicas.

    Its name is `GenerateWorkloadName` in pkg/controller/jobframework/workload_names.go, its metadata `NewWorkload` in utils.go
    and `ConstructWorkload` in reconciler.go, its podSets `PodSets` in pkg/controller/jobs/kubeflow/kubeflowjob.
    """
    metadata, kind = job["metadata"], job["kind"]
    group, prefix = job["apiVersion"].partition("/")[0], f"{kind.lower()}-{metadata['name']}"
    digest = sha1("\n".join((kind, group, metadata["name"], metadata["uid"])).encode(), usedforsecurity=False).hexdigest()[:5]
    owner = {
        "apiVersion": job["apiVersion"],
        "kind": kind,
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
    }
    sets = [
        {"name": name.lower(), "count": spec.get("replicas", 1), "template": spec["template"]}
        for name, spec in pod_sets.items()
    ]
    return {
        "apiVersion": KUEUE_API,
        "kind": KUEUE_WORKLOAD,
        "metadata": {
            "name": f"{prefix[:57]}-{digest}",
            "namespace": metadata["namespace"],
            "labels": {JOB_UID_LABEL: metadata["uid"]},
            "finalizers": ["kueue.x-k8s.io/resource-in-use"],
            "ownerReferences": [owner],
        },
        "spec": {"queueName": metadata["labels"][QUEUE_LABEL], "podSets": sets, "priority": 0, "active": True},
    }


def admitted(workload: Manifest, flavor: str = "default", at: float = START, **assignment: Any) -> Manifest:
    """The Workload whose job may run, with quota in `flavor` for all its podSets; `assignment` is added to each."""
    assigned = [
        {"name": one["name"], "count": one["count"], "flavors": {"cpu": flavor}, **assignment}
        for one in workload["spec"]["podSets"]
    ]
    found = with_condition(workload, "QuotaReserved", True, "QuotaReserved", "Quota reserved in ClusterQueue team", at)
    if any(one["type"] == "Evicted" for one in found["status"]["conditions"]):
        found = with_condition(found, "Evicted", False, "QuotaReserved", "Previously: preempted", at)
    found = _with_status(found, admission={"clusterQueue": "team", "podSetAssignments": assigned})
    return with_condition(found, "Admitted", True, "Admitted", "The workload is admitted", at)


def evicted(workload: Manifest, reason: str = "Preempted", at: float = START) -> Manifest:
    """The Workload that is to give its quota back."""
    return with_condition(workload, "Evicted", True, reason, "Preempted to accommodate a workload (UID: u)", at)


def waiting(workload: Manifest, reason: str = "WaitingForQuota", message: str = "insufficient quota for cpu") -> Manifest:
    """The Workload for which there is no quota."""
    return with_condition(workload, "QuotaReserved", False, reason, message, START)


def with_condition(workload: Manifest, kind: str, holds: bool, reason: str, message: str, at: float) -> Manifest:
    """The Workload with one condition set."""
    status: Mapping[str, Any] = workload.get("status") or {}
    new = {"type": kind, "status": str(holds), "reason": reason, "message": message, "lastTransitionTime": format_time(at)}
    others = [one for one in status.get("conditions") or () if one["type"] != kind]
    return _with_status(workload, conditions=[*others, new])


def _with_status(workload: Manifest, **changes: Any) -> Manifest:
    return {**workload, "status": {**(workload.get("status") or {}), **changes}}


OWNER_UNREAD = (
    StatusError(
        500,
        "InternalError",
        'Internal error occurred: failed calling webhook "mpod.kb.io": failed to call webhook: Post '
        '"https://kueue-webhook-service.kueue-system.svc:443/mutate--v1-pod?timeout=10s": context deadline exceeded',
    ),
    StatusError(
        500,
        "",
        'admission webhook "mpod.kb.io" denied the request: workload owner not found\nTimeout: failed waiting for '
        "*v1.PartialObjectMetadata Informer to sync",
    ),
)
"""What the API server answers to the create of a pod whose owner Kueue may not list: whichever of both gives up first.

`FindAncestorJobManagedByKueue` in pkg/controller/jobframework/reconciler.go reads the owner through a cache, which waits for
its list as long as the request lasts.
"""

ANY = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_NEEDED = ("type", "status", "reason", "message", "lastTransitionTime")
_CONDITION = {
    "type": "object",
    "required": [*_NEEDED],
    "properties": {
        **{name: {"type": "string", "minLength": 1} for name in ("type", "reason")},
        "message": {"type": "string", "maxLength": 32768},
        "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
        "lastTransitionTime": {"type": "string", "format": "date-time"},
        "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
    },
}
_WORKLOAD = {
    "spec": {
        **ANY,
        "properties": {
            "active": {"type": "boolean", "default": True},
            "podSets": {
                "type": "array",
                "minItems": 1,
                "maxItems": 18,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": {**ANY, "required": ["name"], "properties": {"name": {"type": "string", "maxLength": 63}}},
            },
        },
    },
    "status": {
        **ANY,
        "properties": {
            "conditions": {
                "type": "array",
                "maxItems": 16,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
                "items": _CONDITION,
            }
        },
    },
}


def definitions() -> list[Manifest]:
    """CustomResourceDefinitions of what the operator reads and writes, with the part of Kueue's schema that its writes meet."""
    return [
        definition(KUEUE_API, "Workload", _WORKLOAD),
        definition(KUEUE_API, "ResourceFlavor", {"spec": ANY}, scope="Cluster"),
        definition(KUEUE_API, "WorkloadPriorityClass", {"value": {"type": "integer"}}, scope="Cluster"),
    ]


def gang_definitions(api_version: str) -> list[Manifest]:
    """Those of Kubernetes' own gangs, for a server that has them not built in."""
    return [
        definition(api_version, "Workload", {"spec": ANY}),
        definition(api_version, "PodGroup", {"spec": ANY, "status": ANY}),
    ]


def definition(api_version: str, kind: str, properties: Manifest, *, scope: str = "Namespaced") -> Manifest:
    """The CustomResourceDefinition of a kind that another project serves."""
    group, _, version = api_version.partition("/")
    plural = f"{kind.lower()}{'es' if kind.endswith('s') else 's'}"
    schema = {"openAPIV3Schema": {"type": "object", "properties": properties}}
    status: Manifest = {"subresources": {"status": {}}} if "status" in properties else {}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        # kube-apiserver wants the annotation for groups of *.k8s.io.
        "metadata": {"name": f"{plural}.{group}", "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"}},
        "spec": {
            "group": group,
            "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
            "scope": scope,
            "versions": [{"name": version, "served": True, "storage": True, "schema": schema, **status}],
        },
    }
