"""The cluster IP and the node ports of a Service, which the real server's allocators assign."""

import hashlib
from typing import Any

from localcluster.apiserver.call import Call
from localcluster.apiserver.errors import ApiError, Cause, invalid, invalid_object
from localcluster.apiserver.kinds.services import needs_node_ports, node_ports
from localcluster.apiserver.names import is_address

Obj = dict[str, Any]

_NODE_PORTS = range(30000, 32768)


def allocate(call: Call, new: Obj, old: Obj | None) -> None:
    """Complete a Service, before its rules are checked. Raises 422 and 500 ApiErrors, only for the first invalid port."""
    _allocate_address(new)
    if needs_node_ports(new["spec"]):
        _allocate_node_ports(call, new, old)


def _allocate_address(obj: Obj) -> None:
    spec = obj["spec"]
    if spec["type"] != "ExternalName":
        _check_address(obj["metadata"].get("name", ""), spec)
    if spec["type"] == "ExternalName" or spec.get("clusterIP"):
        return
    # The address is not routed here: it only has to be valid and stable.
    digest = _digest(obj)
    spec["clusterIP"] = f"10.{96 + digest[0] % 16}.{digest[1]}.{1 + digest[2] % 254}"
    spec["clusterIPs"] = [spec["clusterIP"]]


def _digest(obj: Obj) -> bytes:
    """A random generator seeded by the object."""
    return hashlib.sha256(obj["metadata"]["uid"].encode()).digest()


def _check_address(name: str, spec: Obj) -> None:
    address, addresses = spec.get("clusterIP", ""), spec.get("clusterIPs")
    if addresses and addresses[0] != address:
        # A contradictory spec is not checked further.
        raise invalid_object("Service", "", name, [invalid("spec.clusterIPs", addresses, "first value must match `clusterIP`")])
    causes: list[Cause] = []
    open_to_both = address == "None" and not spec.get("selector")
    if not open_to_both and spec.get("ipFamilyPolicy") == "RequireDualStack":
        detail = "this cluster is not configured for dual-stack services"
        causes.append(invalid("spec.ipFamilyPolicy", "RequireDualStack", detail))
    if not open_to_both and "IPv6" in spec.get("ipFamilies", ()):
        index = spec["ipFamilies"].index("IPv6")
        causes.append(invalid(f"spec.ipFamilies[{index}]", "IPv6", "not configured on this cluster"))
    if address not in ("", "None") and not is_address(address):
        causes.append(invalid("spec.clusterIPs[0]", address, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"))
    if causes:
        raise invalid_object("Service", "", name, causes)


def _allocate_node_ports(call: Call, new: Obj, old: Obj | None) -> None:
    spec, me = new["spec"], new["metadata"]["uid"]
    others = (item.obj["spec"] for item in call.storage.table("services").items() if item.uid != me)
    taken = {number for other in others for number in node_ports(other)}
    held = set() if old is None else node_ports(old["spec"])
    # At random, as the real server: a port that was just freed is unlikely to be assigned again at once.
    start = int.from_bytes(_digest(new)[:4])
    anywhere = (_NODE_PORTS[(start + offset) % len(_NODE_PORTS)] for offset in range(len(_NODE_PORTS)))
    free = (number for number in anywhere if number not in taken and number not in held)
    shared: dict[int, int] = {}
    seen = set()
    for index, port in enumerate(spec.get("ports") or ()):
        # In a new Service, a port in two protocols is one port of the node.
        same = shared.get(port["port"]) if old is None else None
        number = port.get("nodePort")
        if number and old is not None and (port["protocol"], number) in seen:
            raise ApiError(500, "", f"duplicate nodePort: {{{port['protocol']} {number}}}")
        if number and number not in held and number != same:
            _check_node_port(new["metadata"].get("name", ""), f"spec.ports[{index}].nodePort", number, taken)
        elif not number and spec.get("allocateLoadBalancerNodePorts", True):
            number = port["nodePort"] = same or next(free, None)
            if number is None:
                raise ApiError(500, "InternalError", "failed to allocate a nodePort: range is full")
        if number:
            taken.add(number)
            seen.add((port["protocol"], number))
            shared.setdefault(port["port"], number)


def _check_node_port(name: str, path: str, number: int, taken: set[int]) -> None:
    if number not in _NODE_PORTS:
        detail = "provided port is not in the valid range. The range of valid ports is 30000-32767"
    elif number in taken:
        detail = "provided port is already allocated"
    else:
        return
    raise invalid_object("Service", "", name, [invalid(path, number, detail)])
