"""Config maps, secrets, events, namespaces, Services without load balancers and node ports, and roles with their bindings."""

import base64
from collections.abc import Sequence
from typing import Any

from localcluster.apiserver.errors import Cause, invalid, required, too_long
from localcluster.apiserver.kinds.field_rules import SERVICE as SERVICE_RULES
from localcluster.apiserver.names import check, check_labels, config_key, dns1035_label, dns1123_label, path_segment
from localcluster.apiserver.resource import Strategy
from localcluster.apiserver.schema.values import value_causes

Obj = dict[str, Any]

#: Of the values of a config map together.
_SIZE_LIMIT = 1024 * 1024
_NAME_LABEL = "kubernetes.io/metadata.name"
_RBAC = "rbac.authorization.k8s.io"


def _config_map(obj: Obj) -> Sequence[Cause]:
    """Keys are valid file names, each in one of data and binaryData."""
    causes: list[Cause] = []
    for part in ("data", "binaryData"):
        for key in obj.get(part) or {}:
            causes += check(config_key, f"{part}[{key}]", key)
    for key in (obj.get("data") or {}).keys() & (obj.get("binaryData") or {}).keys():
        causes.append(invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
    binary = sum(len(value) * 3 // 4 for value in (obj.get("binaryData") or {}).values())
    if binary + sum(len(value.encode()) for value in (obj.get("data") or {}).values()) > _SIZE_LIMIT:
        causes.append(too_long("[]", _SIZE_LIMIT))
    return causes


def _default_secret(obj: Obj) -> None:
    """`type: Opaque`; stringData becomes data."""
    obj.setdefault("type", "Opaque")
    given = obj.pop("stringData", None)
    if given:
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in given.items()}
        obj["data"] = {**(obj.get("data") or {}), **encoded}


def _secret(obj: Obj) -> Sequence[Cause]:
    """Keys are valid file names."""
    causes: list[Cause] = []
    for key in obj.get("data") or {}:
        causes += check(config_key, f"data[{key}]", key)
    return causes


def _secret_update(new: Obj, old: Obj) -> Sequence[Cause]:
    return [] if new.get("type") == old.get("type") else [invalid("type", new.get("type"), "field is immutable")]


def _event(obj: Obj) -> Sequence[Cause]:
    """An event lives in the namespace of the object it is about (default for cluster-scoped ones)."""
    about = obj.get("involvedObject", {}).get("namespace") or "default"
    if about != obj["metadata"].get("namespace"):
        return [invalid("involvedObject.namespace", about, "does not match event.namespace")]
    return []


def _default_namespace(obj: Obj) -> None:
    """The label with the name, by which selectors find it."""
    meta = obj["metadata"]
    meta["labels"] = {**(meta.get("labels") or {}), _NAME_LABEL: meta.get("name", "")}


def _new_namespace(obj: Obj) -> None:
    """A new namespace is Active and is held by its content's finalizer."""
    obj["spec"] = {"finalizers": ["kubernetes"]}
    obj["status"] = {"phase": "Active"}


def _same_finalizers(new: Obj, old: Obj) -> None:
    """spec.finalizers changes by the finalize subresource alone."""
    new["spec"] = old["spec"]


def _default_binding(obj: Obj) -> None:
    obj.setdefault("roleRef", {}).setdefault("apiGroup", _RBAC)
    for subject in obj.get("subjects") or ():
        if subject.get("kind") != "ServiceAccount":
            subject.setdefault("apiGroup", _RBAC)


def _default_role(obj: Obj) -> None:
    # The one list that the real server sends when there is nothing in it.
    obj["rules"] = obj.get("rules") or None


def _binding(obj: Obj) -> Sequence[Cause]:
    return [] if obj["roleRef"].get("name") else [required("roleRef.name")]


def _same_role(new: Obj, old: Obj) -> Sequence[Cause]:
    if new.get("roleRef") != old.get("roleRef"):
        return [invalid("roleRef", new.get("roleRef"), "cannot change roleRef")]
    return []


def _default_service(obj: Obj) -> None:
    """What the real server fills in, except the address, which is given at admission."""
    spec = obj.setdefault("spec", {})
    spec.setdefault("type", "ClusterIP")
    if not spec.get("clusterIP"):
        spec.pop("clusterIP", None)
    spec.setdefault("sessionAffinity", "None")
    if spec["type"] != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
        # Nothing is allocated for a headless Service without a selector, so it is open to both families.
        both = spec.get("clusterIP") == "None" and not spec.get("selector") and "ipFamilyPolicy" not in spec
        spec.setdefault("ipFamilyPolicy", "RequireDualStack" if both else "SingleStack")
        spec.setdefault("ipFamilies", ["IPv4", "IPv6"] if both else ["IPv4"])
    for port in spec.get("ports") or ():
        # Old Go clients write out the empty values of fields that the user has not set.
        port["protocol"] = port.get("protocol") or "TCP"
        port["targetPort"] = port.get("targetPort") or port.get("port")
    if spec.get("clusterIP") == "None":
        spec.setdefault("clusterIPs", ["None"])
    obj.setdefault("status", {"loadBalancer": {}})


def _keep_address(new: Obj, old: Obj) -> None:
    """The address stays when the update does not name it, as after a ``kubectl replace`` of a plain manifest."""
    spec, before = new.setdefault("spec", {}), old.get("spec", {})
    for name in ("clusterIP", "clusterIPs"):
        if not spec.get(name) and before.get(name):
            spec[name] = before[name]


def _service(obj: Obj) -> Sequence[Cause]:
    """Type and ports."""
    spec = obj["spec"]
    causes = value_causes(SERVICE_RULES, {"spec": spec})
    if not spec.get("ports") and spec.get("clusterIP") != "None" and spec["type"] != "ExternalName":
        causes.append(required("spec.ports"))
    return causes + check_labels(spec.get("selector") or {}, "spec.selector")


CONFIG_MAP = Strategy(validate=_config_map)
SECRET = Strategy(default=_default_secret, validate=_secret, validate_update=_secret_update)
EVENT = Strategy(validate=_event)
NAMESPACE = Strategy(
    default=_default_namespace, on_create=_new_namespace, on_update=_same_finalizers, validate_name=dns1123_label
)  # fmt: skip
ROLE = Strategy(default=_default_role, validate_name=path_segment)
BINDING = Strategy(default=_default_binding, validate=_binding, validate_update=_same_role, validate_name=path_segment)
SERVICE = Strategy(
    default=_default_service, on_update=_keep_address, validate=_service, validate_name=dns1035_label
)  # fmt: skip
