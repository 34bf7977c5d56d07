"""Services: defaults, and the rules for ports. Nothing is done for load balancers and node ports."""

from collections.abc import Sequence
from typing import Any

from localcluster.apiserver.errors import Cause, required
from localcluster.apiserver.kinds.field_rules import SERVICE
from localcluster.apiserver.names import check_labels
from localcluster.apiserver.schema.values import value_causes

Obj = dict[str, Any]


def default(obj: Obj) -> None:
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


def on_update(new: Obj, old: Obj) -> None:
    """The address stays when the update does not name it, as after a ``kubectl replace`` of a plain manifest."""
    spec, before = new.setdefault("spec", {}), old.get("spec", {})
    for name in ("clusterIP", "clusterIPs"):
        if not spec.get(name) and before.get(name):
            spec[name] = before[name]


def validate(obj: Obj) -> Sequence[Cause]:
    """Type and ports."""
    spec = obj["spec"]
    causes = value_causes(SERVICE, {"spec": spec})
    if not spec.get("ports") and spec.get("clusterIP") != "None" and spec["type"] != "ExternalName":
        causes.append(required("spec.ports"))
    return causes + check_labels(spec.get("selector") or {}, "spec.selector")
