"""The resources the suite is about, with the smallest objects of them that a server takes."""

from collections.abc import Callable
from functools import partial
from typing import Any

from localcluster.conformance.case import TABLE, Case, Json, Kind, Steps

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
"""Custom, with a status."""

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


def widget_crd() -> Json:
    """The definition of `WIDGETS`."""
    spec: Json = {"type": "object", "properties": {"size": {"type": "integer"}}}
    status = {"type": "object", "properties": {"phase": {"type": "string"}}}
    version: Json = {
        "name": "v1", "served": True, "storage": True, "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}},
    }  # fmt: skip
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    spec = {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]}
    return obj(CRDS, f"widgets.{GROUP}", {"spec": spec})


#: Kinds of each sort, with what makes one.
MAKERS: tuple[tuple[Kind, Callable[..., Json]], ...] = (
    (PODS, pod), (SERVICES, service), (CONFIG_MAPS, config_map), (WIDGETS, widget),
)  # fmt: skip


def each(name: str) -> Callable[[Callable[[Kind, Json], Steps]], None]:
    """Put the steps into the table for each of `MAKERS`: they get the kind, and an object of it named ``n``."""

    def added(steps: Callable[[Kind, Json], Steps]) -> None:
        for kind, make in MAKERS:
            TABLE.append(Case(f"{name}: {kind.plural}", partial(steps, kind, make("n"))))

    return added
