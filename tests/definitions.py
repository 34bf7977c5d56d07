"""CustomResourceDefinitions of kinds that other projects serve, as far as the operators meet their schemas."""

from collections.abc import Mapping, Sequence
from typing import Any

from jobcommon.api.gang import COSCHEDULING, VOLCANO, GangScheduler
from jobcommon.api.kueue import KUEUE_API
from jobcommon.testutil.kueue import plural_of

Json = dict[str, Any]
ANY = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_CONDITION = {
    "type": "object",
    "required": ["type", "status", "reason", "message", "lastTransitionTime"],
    "properties": {
        **{name: {"type": "string", "minLength": 1} for name in ("type", "reason")},
        "message": {"type": "string", "maxLength": 32768},
        "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
        "lastTransitionTime": {"type": "string", "format": "date-time"},
        "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
    },
}
_POD_SET = {**ANY, "required": ["name"], "properties": {"name": {"type": "string", "maxLength": 63}}}


def _by_key(key: str, item: Json, **bounds: int) -> Json:
    """A list whose items have a key."""
    keys = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}
    return {"type": "array", "items": item, **bounds, **keys}


_WORKLOAD = {
    "spec": {
        **ANY,
        "properties": {
            "active": {"type": "boolean", "default": True},
            "podSets": _by_key("name", _POD_SET, minItems=1, maxItems=18),
        },
    },
    "status": {**ANY, "properties": {"conditions": _by_key("type", _CONDITION, maxItems=16)}},
}
QUANTITIES = {
    "type": "object",
    "additionalProperties": {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True},
}
INT = {"type": "integer", "format": "int32"}
POD_GROUPS: dict[GangScheduler, Json] = {
    VOLCANO: {
        "minMember": INT,
        "minResources": QUANTITIES,
        "queue": {"type": "string", "default": "default"},
        "priorityClassName": {"type": "string"},
        "minTaskMember": {"type": "object", "additionalProperties": INT},
    },
    COSCHEDULING: {"minMember": {**INT, "minimum": 1}, "minResources": QUANTITIES, "scheduleTimeoutSeconds": INT},
}


def definition(group: str, kind: str, schemas: Mapping[str, Json], stored: str, scope: str = "Namespaced") -> Json:
    """A CustomResourceDefinition whose versions have these properties."""
    plural = plural_of(kind)
    versions = [
        {
            "name": version,
            "served": True,
            "storage": version == stored,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
            **({"subresources": {"status": {}}} if "status" in properties else {}),
        }
        for version, properties in schemas.items()
    ]
    names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        # kube-apiserver wants the annotation for groups of *.k8s.io.
        "metadata": {"name": f"{plural}.{group}", "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"}},
        "spec": {"group": group, "scope": scope, "names": names, "versions": versions},
    }


def of_kueue() -> Sequence[Json]:
    """Those that the operator reads and writes."""
    group, version = KUEUE_API.split("/")
    return [
        definition(group, "Workload", {version: _WORKLOAD}, version),
        definition(group, "ResourceFlavor", {version: {"spec": ANY}}, version, "Cluster"),
        definition(group, "WorkloadPriorityClass", {version: {"value": {"type": "integer"}}}, version, "Cluster"),
    ]


def of_scheduler(scheduler: GangScheduler) -> Sequence[Json]:
    """Those that come with a gang scheduler; Kubernetes' own are for a server that has them not built in."""
    group, version = scheduler.api_version.split("/")
    if scheduler.native:
        schemas: Mapping[str, Json] = {"Workload": {"spec": ANY}, "PodGroup": {"spec": ANY, "status": ANY}}
    else:
        status = {"type": "object", "properties": {"phase": {"type": "string"}}}
        schemas = {"PodGroup": {"spec": {"type": "object", "properties": POD_GROUPS[scheduler]}, "status": status}}
    return [definition(group, kind, {version: schema}, version) for kind, schema in schemas.items()]
