"""Workload and PodGroup of scheduling.k8s.io as definitions: what the API server checks of them, for the embedded cluster.

The limits, unions and immutable fields are those of Kubernetes 1.36 (v1alpha2) and 1.37 (v1beta1); kube-apiserver has the types
built in.
"""

from collections.abc import Mapping
from typing import Any

from jobcommon.api.workload import MAX_TEMPLATES, V1ALPHA2

Obj = dict[str, Any]
_LABEL = {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "maxLength": 63}
_NAME = {"type": "string", "minLength": 1, "maxLength": 253}
_FROZEN = {"rule": "self == oldSelf", "message": "field is immutable"}
_ONCE = ("controllerRef", "podGroupTemplateRef", "workloadRef", "schedulingConstraints", "disruptionMode", "priorityClassName")
_ONE = {"rule": "has(self.basic) != has(self.gang)", "message": "must specify one of: `basic`, `gang`"}
_SAME_VARIANT = {"rule": "has(self.gang) == has(oldSelf.gang)", "message": "field is immutable"}


def definitions(api_version: str) -> list[Obj]:
    """The definitions of both kinds, in one version."""
    alpha = api_version == V1ALPHA2
    frozen = {"x-kubernetes-validations": [_FROZEN]}
    group = _group(alpha=alpha)
    template = _set_once(_object({"name": _LABEL, **group}, "name", "schedulingPolicy"))
    templates: Obj = {
        "type": "array",
        "items": template,
        "minItems": 1,
        "maxItems": MAX_TEMPLATES,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        **(frozen if alpha else {}),
    }
    controller = {**_object({"apiGroup": _NAME, "kind": _NAME, "name": _NAME}, "kind", "name"), **frozen}
    workload = _set_once(_object({"controllerRef": controller, "podGroupTemplates": templates}, "podGroupTemplates"))
    if alpha:
        names = _object({"workloadName": _NAME, "podGroupTemplateName": _LABEL}, "workloadName", "podGroupTemplateName")
        reference = {"podGroupTemplateRef": {**_object({"workload": names}, "workload"), **frozen}}
    else:
        names = _object({"workloadName": _NAME, "templateName": _LABEL}, "workloadName", "templateName")
        reference = {"workloadRef": {**names, **frozen}}
    pod_group = _set_once(_object({**reference, **group}, "schedulingPolicy"))
    return [
        _definition(api_version, "Workload", {"spec": workload}),
        _definition(api_version, "PodGroup", {"spec": pod_group, "status": _any()}),
    ]


def _group(*, alpha: bool) -> Obj:
    gang = _object({"minCount": {"type": "integer", "format": "int32", "minimum": 1}}, "minCount")
    rules = [_ONE, _FROZEN if alpha else _SAME_VARIANT]
    policy = {**_object({"basic": _object({}), "gang": gang}), "x-kubernetes-validations": rules}
    key = _object({"key": {"type": "string", "maxLength": 317}}, "key")
    mode = {"type": "string", "enum": ["Pod", "PodGroup"]} if alpha else _object({"single": _object({}), "all": _object({})})
    frozen = {"x-kubernetes-validations": [_FROZEN]}
    return {
        "schedulingPolicy": policy,
        "schedulingConstraints": {**_object({"topology": {"type": "array", "items": key, "maxItems": 1}}), **frozen},
        "disruptionMode": {**mode, **frozen},
        "priorityClassName": {"type": "string", **frozen},
    }


def _object(properties: Mapping[str, Any], *required: str) -> Obj:
    return {"type": "object", "properties": dict(properties), **({"required": list(required)} if required else {})}


def _set_once(schema: Obj) -> Obj:
    """The schema, in which the optional immutable fields can be neither added nor removed."""
    fields = [name for name in _ONCE if name in schema["properties"]]
    rules = [{"rule": f"has(self.{name}) == has(oldSelf.{name})", "message": "field is immutable"} for name in fields]
    return {**schema, "x-kubernetes-validations": rules}


def _any() -> Obj:
    return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def _definition(api_version: str, kind: str, properties: Mapping[str, Any]) -> Obj:
    group, _, version = api_version.partition("/")
    plural = f"{kind.lower()}s"
    served: Obj = {
        "name": version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": _object(properties, "spec")},
        **({"subresources": {"status": {}}} if "status" in properties else {}),
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{group}",
            "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes/enhancements/issues/4671"},
        },
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
            "versions": [served],
        },
    }
