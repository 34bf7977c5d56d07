"""Services: defaults, and the rules for ports. Nothing is done for load balancers and node ports."""

from collections.abc import Sequence
from typing import Any

from localcluster.apiserver.errors import Cause, duplicate, invalid, not_supported, required
from localcluster.apiserver.names import check, check_labels, dns1123_label, port_name

Obj = dict[str, Any]

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_PROTOCOLS = ("SCTP", "TCP", "UDP")


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
    """Type, ports and external name."""
    spec = obj["spec"]
    ports = spec.get("ports") or []
    causes = [] if spec["type"] in _TYPES else [not_supported("spec.type", spec["type"], _TYPES)]
    causes += _validate_ports(ports)
    if spec["type"] == "ExternalName":
        if not spec.get("externalName"):
            causes.append(required("spec.externalName"))
    elif not ports and spec.get("clusterIP") != "None":
        causes.append(required("spec.ports"))
    return causes + check_labels(spec.get("selector") or {}, "spec.selector")


def _validate_ports(ports: Sequence[Obj]) -> list[Cause]:
    causes: list[Cause] = []
    names: set[str] = set()
    numbers: set[tuple[int, str]] = set()
    for index, port in enumerate(ports):
        path = f"spec.ports[{index}]"
        name = port.get("name") or ""
        if not name and len(ports) > 1:
            causes.append(required(f"{path}.name"))
        elif name:
            causes += check(dns1123_label, f"{path}.name", name)
            if name in names:
                causes.append(duplicate(f"{path}.name", name))
            names.add(name)
        number = port.get("port", 0)
        causes += _port(number, f"{path}.port")
        if port.get("targetPort") is not None:
            causes += _port(port["targetPort"], f"{path}.targetPort")
        if port["protocol"] not in _PROTOCOLS:
            causes.append(not_supported(f"{path}.protocol", port["protocol"], _PROTOCOLS))
        if (number, port["protocol"]) in numbers:
            causes.append(duplicate(path, {"port": number, "protocol": port["protocol"]}))
        numbers.add((number, port["protocol"]))
    return causes


def _port(value: int | str, path: str) -> list[Cause]:
    if isinstance(value, str):
        return check(port_name, path, value)
    return [] if 1 <= value <= 65535 else [invalid(path, value, "must be between 1 and 65535, inclusive")]


def validate_update(new: Obj, old: Obj) -> Sequence[Cause]:
    """A service keeps its address."""
    before, after = old["spec"].get("clusterIP"), new["spec"].get("clusterIP")
    if before and after != before and new["spec"]["type"] != "ExternalName":
        return [invalid("spec.clusterIPs[0]", [after or ""], "may not change once set")]
    return []
