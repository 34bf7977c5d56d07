"""Services: defaults, the cluster IP as a name for "has one", and the rules for ports."""

from collections.abc import Sequence
from typing import Any

from localcluster.apiserver.errors import Cause, duplicate, forbidden, invalid, required
from localcluster.apiserver.kinds.rules import port_causes
from localcluster.apiserver.kinds.tables import one_of
from localcluster.apiserver.names import check, check_labels, dns1123_label

Obj = dict[str, Any]

#: What the real server's allocators fill in.
ASSIGNED = (("clusterIP",), ("clusterIPs",), ("ipFamilies",), ("ipFamilyPolicy",))
ASSIGNED_IN = {"ports": "nodePort"}
_TYPE = one_of("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_NODE_PORT_TYPES = ("NodePort", "LoadBalancer")
_AFFINITY = one_of("ClientIP", "None")
_AFFINITY_SECONDS = 10800
_PROTOCOL = one_of("SCTP", "TCP", "UDP")


def default(obj: Obj) -> None:
    """What the real server fills in, except the address, which needs the store (`admission`)."""
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
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP":
        spec.setdefault("sessionAffinityConfig", {"clientIP": {"timeoutSeconds": _AFFINITY_SECONDS}})
    if needs_node_ports(spec):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if spec["type"] == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
    for port in spec.get("ports") or ():
        # Old Go clients write out the empty values of fields that the user has not set.
        port["protocol"] = port.get("protocol") or "TCP"
        port["targetPort"] = port.get("targetPort") or port.get("port")
    if spec.get("clusterIP") == "None":
        spec.setdefault("clusterIPs", ["None"])
    obj.setdefault("status", {"loadBalancer": {}})


def _drop_address(spec: Obj, before: Obj) -> None:
    """Drop the fields that only a Service with an address has, unless the update sets them."""
    if not spec.get("clusterIP"):
        spec.pop("clusterIP", None)
    _drop_unchanged(
        spec, before, "clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy",
        "externalTrafficPolicy", "allocateLoadBalancerNodePorts",
    )  # fmt: skip
    held = {_port_key(port): port.get("nodePort") for port in before.get("ports") or ()}
    for port in spec.get("ports") or ():
        if port.get("nodePort") == held.get(_port_key(port)):
            port.pop("nodePort", None)


def _drop_unchanged(spec: Obj, before: Obj, *names: str) -> None:
    for name in names:
        if name in spec and spec[name] == before.get(name):
            del spec[name]


def on_update(new: Obj, old: Obj) -> None:
    """The address stays when the update does not name it, as after a ``kubectl replace`` of a plain manifest."""
    spec, before = new.setdefault("spec", {}), old.get("spec", {})
    if spec.get("type", "ClusterIP") == "ExternalName":
        if before.get("type") != "ExternalName":
            _drop_address(spec, before)
        return
    for name in ("clusterIP", "clusterIPs"):
        if not spec.get(name) and before.get(name):
            spec[name] = before[name]
    if spec.get("clusterIP") != before.get("clusterIP") and spec.get("clusterIPs") == before.get("clusterIPs"):
        # Of two fields for one thing, the one that changed counts.
        spec["clusterIPs"] = [spec.get("clusterIP", "")]
    if before.get("type") == "LoadBalancer" and spec.get("type") != "LoadBalancer":
        _drop_unchanged(spec, before, "allocateLoadBalancerNodePorts")
    if needs_node_ports(spec) and needs_node_ports(before):
        _keep_node_ports(spec, before)
    elif needs_node_ports(before):
        # The fields that only the old type has are dropped, unless the update sets them.
        if spec.get("externalTrafficPolicy") == before.get("externalTrafficPolicy"):
            spec.pop("externalTrafficPolicy", None)
        if node_ports(spec) == node_ports(before):
            for port in spec.get("ports") or ():
                port.pop("nodePort", None)


def needs_node_ports(spec: Obj) -> bool:
    """Whether its type has ports of the nodes."""
    return spec.get("type") in _NODE_PORT_TYPES


def node_ports(spec: Obj) -> set[int]:
    """The ports of the nodes that it names."""
    return {port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort")}


def _keep_node_ports(spec: Obj, before: Obj) -> None:
    """A port of the same name keeps its port of the nodes, unless the update gave that to another."""
    given = node_ports(spec)
    held = {port.get("name", ""): port.get("nodePort") for port in before.get("ports") or ()}
    for port in spec.get("ports") or ():
        kept = held.get(port.get("name", ""))
        if kept and kept not in given and not port.get("nodePort"):
            port["nodePort"] = kept


def _port_key(port: Obj) -> tuple[str, Any]:
    return port.get("protocol", "TCP"), port.get("port")


def validate(obj: Obj) -> Sequence[Cause]:
    """Type, ports and external name."""
    spec = obj["spec"]
    ports = spec.get("ports") or []
    causes: list[Cause] = []
    causes += _TYPE("spec.type", spec["type"], spec)
    if spec["type"] == "ExternalName":
        if not spec.get("externalName"):
            causes.append(required("spec.externalName"))
        if spec.get("clusterIP"):
            causes.append(forbidden("spec.clusterIPs", "may not be set when `type` is 'ExternalName'"))
    elif not ports and spec.get("clusterIP") != "None":
        causes.append(required("spec.ports"))
    if needs_node_ports(spec) and spec.get("clusterIP") == "None":
        causes.append(invalid("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {spec['type']} services"))
    causes += _validate_ports(ports)
    causes += _validate_node_ports(spec["type"], ports)
    causes += check_labels(spec.get("selector") or {}, "spec.selector")
    causes += _AFFINITY("spec.sessionAffinity", spec["sessionAffinity"], spec)
    policy = spec.get("externalTrafficPolicy")
    if policy and not (needs_node_ports(spec) or (spec["type"] == "ClusterIP" and spec.get("externalIPs"))):
        detail = "may only be set for externally-accessible services"
        causes.append(invalid("spec.externalTrafficPolicy", policy, detail))
    return causes


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
        causes += port_causes(number, f"{path}.port")
        if port.get("targetPort") is not None:
            causes += port_causes(port["targetPort"], f"{path}.targetPort")
        causes += _PROTOCOL(f"{path}.protocol", port["protocol"], port)
        if (number, port["protocol"]) in numbers:
            causes.append(duplicate(path, {"port": number, "protocol": port["protocol"]}))
        numbers.add((number, port["protocol"]))
    return causes


def _validate_node_ports(kind: str, ports: Sequence[Obj]) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        path, number = f"spec.ports[{index}].nodePort", port.get("nodePort")
        if number and kind == "ClusterIP":
            causes.append(forbidden(path, "may not be used when `type` is 'ClusterIP'"))
        elif number and (port["protocol"], number) in seen:
            causes.append(duplicate(path, number))
        if number:
            seen.add((port["protocol"], number))
    return causes


def validate_update(new: Obj, old: Obj) -> Sequence[Cause]:
    """A service keeps its address."""
    before, after = old["spec"].get("clusterIP"), new["spec"].get("clusterIP")
    if before and after != before and new["spec"]["type"] != "ExternalName":
        return [invalid("spec.clusterIPs[0]", [after or ""], "may not change once set")]
    return []
