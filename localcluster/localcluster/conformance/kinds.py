"""The resources the suite is about, with the smallest objects of them that a server takes."""

from typing import Any

from localcluster.conformance.case import Json, Kind

CONFIG_MAPS = Kind("/api/v1", "configmaps", "ConfigMap")
PODS = Kind("/api/v1", "pods", "Pod")
SERVICES = Kind("/api/v1", "services", "Service")
SECRETS = Kind("/api/v1", "secrets", "Secret")
QUOTAS = Kind("/api/v1", "resourcequotas", "ResourceQuota")
ACCOUNTS = Kind("/api/v1", "serviceaccounts", "ServiceAccount")
NAMESPACES = Kind("/api/v1", "namespaces", "Namespace", namespaced=False)
CRDS = Kind("/apis/apiextensions.k8s.io/v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False)

GROUP = "conformance.jobcommon.dev"
WIDGETS = Kind(f"/apis/{GROUP}/v1", "widgets", "Widget")
"""Custom: schema, defaults, CEL rules, status and scale."""

NODE = "node-1"


def obj(kind: Kind, name: str, content: Json | None = None, **meta: Any) -> Json:
    """An object of `kind`: its metadata from `meta`, everything else from `content`."""
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name, **meta}, **(content or {})}


def config_map(name: str, data: Json | None = None, **meta: Any) -> Json:
    """A ConfigMap."""
    return obj(CONFIG_MAPS, name, {"data": data or {"k": "v"}}, **meta)


def account() -> Json:
    """The account of pods that name none; it has no token mounted, which the embedded server never does."""
    return obj(ACCOUNTS, "default", {"automountServiceAccountToken": False})


def pod(name: str, spec: Json | None = None, container: Json | None = None, **meta: Any) -> Json:
    """A pod of one container; unscheduled unless `spec` has a nodeName."""
    containers = [{"name": "main", "image": "example.com/image:1", **(container or {})}]
    return obj(PODS, name, {"spec": {"containers": containers, **(spec or {})}}, **meta)


def bound(name: str, spec: Json | None = None, **meta: Any) -> Json:
    """A pod that is on a node."""
    return pod(name, {"nodeName": NODE, **(spec or {})}, **meta)


def service(name: str, spec: Json | None = None, **meta: Any) -> Json:
    """A headless Service with one port."""
    return obj(SERVICES, name, {"spec": {"clusterIP": "None", "ports": [{"port": 80}], **(spec or {})}}, **meta)


def widget(name: str, spec: Json | None = None, **meta: Any) -> Json:
    """A custom object that its schema accepts."""
    return obj(WIDGETS, name, {"spec": {"size": 1, **(spec or {})}}, **meta)


def _widget_schema() -> Json:
    integer, text = {"type": "integer"}, {"type": "string"}
    fixed = {"rule": "self == oldSelf", "message": "owner is immutable"}
    bound = {"rule": "self.replicas <= self.size * 10", "message": "replicas must not exceed ten times size"}
    part = {"type": "object", "required": ["name"], "properties": {"name": text, "weight": {**integer, "default": 5}}}
    nested = {"depth": {**integer, "default": 3}, "note": {**text, "nullable": True}}
    fields = {
        "size": {**integer, "minimum": 0, "maximum": 100}, "replicas": {**integer, "minimum": 0, "default": 1},
        "mode": {**text, "enum": ["Fast", "Slow"], "default": "Fast"},
        "owner": {**text, "maxLength": 20, "x-kubernetes-validations": [fixed]},
        "tags": {"type": "array", "items": text, "x-kubernetes-list-type": "set", "maxItems": 5},
        "parts": {"type": "array", "items": part, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                  "maxItems": 5},
        "limit": {"x-kubernetes-int-or-string": True}, "level": integer,
        "extra": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "nested": {"type": "object", "default": {}, "properties": nested},
    }  # fmt: skip
    spec = {"type": "object", "required": ["size"], "properties": fields, "x-kubernetes-validations": [bound]}
    phase = {**text, "enum": ["New", "Done"]}
    status = {"type": "object", "properties": {"replicas": integer, "selector": text, "phase": phase}}
    rule = {
        "rule": "!has(self.spec.level) || self.spec.level <= 5 || oldSelf.?spec.?level.orValue(0) >= self.spec.level",
        "message": "level is at most 5, or what it was",
        "optionalOldSelf": True,
    }
    properties = {"spec": spec, "status": status}
    return {"type": "object", "properties": properties, "required": ["spec"], "x-kubernetes-validations": [rule]}


def widget_crd() -> Json:
    """The definition of `WIDGETS`."""
    version = {
        "name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": _widget_schema()},
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
                    "labelSelectorPath": ".status.selector",
            },
        },
    }  # fmt: skip
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    spec = {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]}
    return obj(CRDS, f"widgets.{GROUP}", {"spec": spec})
