"""Services: ports, addresses, families."""

from typing import Any

from localcluster.conformance.case import Case, Json, Seen, Step
from localcluster.conformance.kinds import SERVICES, service
from localcluster.conformance.steps import UNKNOWN_UID, apply, create, get, patch, put
from localcluster.request import STRATEGIC_PATCH


def _node_ports(name: str, *ports: tuple[str, int, int] | tuple[str, int, int, str]) -> Json:
    """A Service of type NodePort; each port is a name, a number, its port of the nodes (0: any) and its protocol."""
    listed = [{"name": port[0], "port": port[1]} | ({"nodePort": port[2]} if port[2] else {}) for port in ports]
    for made, port in zip(listed, ports, strict=True):
        made.update({"protocol": port[3]} if len(port) > 3 else {})
    return service(name, {"clusterIP": "", "type": "NodePort", "ports": listed})


def _given(*ports: tuple[str, int, int], code: int = 200, **expect: Any) -> Step:
    """A patch of the ports of a Service."""
    return patch(SERVICES, "n", {"spec": {"ports": _node_ports("n", *ports)["spec"]["ports"]}}, code, **expect)


CASES = (
    Case("headless service without ports", (create(SERVICES, service("n", {"ports": []}), fields={"spec.ports": None}),)),
    Case("service with an address and no ports", (
        create(SERVICES, service("n", {"clusterIP": "", "ports": []}), 422, causes=("FieldValueRequired spec.ports",)),
    )),
    Case("service with duplicate or unnamed ports", (
        create(SERVICES, service("n", {"ports": [{"port": 1}, {"port": 2}]}), 422, reason="Invalid",
               causes=("FieldValueRequired spec.ports[0].name", "FieldValueRequired spec.ports[1].name")),
        create(SERVICES, service("n", {"ports": [{"name": "a", "port": 1}, {"name": "a", "port": 2}]}), 422,
               causes=("FieldValueDuplicate spec.ports[1].name",)),
        create(SERVICES, service("n", {"ports": [{"name": "a", "port": 1}, {"name": "b", "port": 1}]}), 422,
               causes=("FieldValueDuplicate spec.ports[1]",)),
        create(SERVICES, service("n", {"ports": [{"port": 0}]}), 422,
               causes=("FieldValueInvalid spec.ports[0].port", "FieldValueInvalid spec.ports[0].targetPort")),
    )),
    Case("service with the empty values of a port written out", (
        create(SERVICES, service("n", {"ports": [{"port": 80, "protocol": "", "targetPort": 0}]}),
            fields={"spec.ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}]}),
        create(SERVICES, service("m", {"ports": [{"port": 80, "targetPort": ""}]}),
            fields={"spec.ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}]}),
    )),
    Case("headless service without and with a selector", (
        create(SERVICES, service("n"), fields={"spec.ipFamilyPolicy": "RequireDualStack", "spec.ipFamilies": ["IPv4", "IPv6"]}),
        create(SERVICES, service("m", {"selector": {"a": "b"}}),
            fields={"spec.ipFamilyPolicy": "SingleStack", "spec.ipFamilies": ["IPv4"]}),
    )),
    Case("service with an address keeps it", (
        create(SERVICES, service("n", {"clusterIP": ""}), fields={"spec.type": "ClusterIP", "spec.sessionAffinity": "None"}),
        put(SERVICES, "n", Seen("services/a/n", {"spec": {"clusterIP": None, "clusterIPs": None, "selector": {"a": "b"}}})),
        patch(SERVICES, "n", {"spec": {"clusterIP": "None", "clusterIPs": ["None"]}}, 422, reason="Invalid",
              causes=("FieldValueInvalid spec.clusterIPs[0]",)),
    )),
    Case("service whose addresses contradict each other", (
        create(SERVICES, service("n", {"clusterIP": "10.97.1.1", "clusterIPs": ["None"], "ipFamilies": ["IPv4", "IPv6"],
            "ipFamilyPolicy": "RequireDualStack"}), 422, causes=("FieldValueInvalid spec.clusterIPs",)),
        create(SERVICES, service("n", {"clusterIP": "10.97.1.1", "clusterIPs": ["None"], "ports": []}), 422,
            causes=("FieldValueInvalid spec.clusterIPs",)),
    )),
    Case("session affinity that is given up takes its settings along", (
        create(SERVICES, service("n")), apply(SERVICES, "n", {"spec": {"sessionAffinity": "ClientIP"}}, force=True,
            fields={"spec.sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}}}),
        apply(SERVICES, "n", {}, fields={"spec.sessionAffinity": "None", "spec.sessionAffinityConfig": None}),
    )),
    Case("node port", (
        create(SERVICES, service("n", {"clusterIP": "", "type": "NodePort"}), fields={"spec.externalTrafficPolicy": "Cluster"}),
        patch(SERVICES, "n", {"spec": {"selector": {"a": "b"}}}),
        put(SERVICES, "n", service("n", {"clusterIP": "", "type": "NodePort"})),
        patch(SERVICES, "n", {"spec": {"type": "ClusterIP"}}, fields={"spec.externalTrafficPolicy": None}),
    )),
    Case("a strategic merge puts what it adds first", (
        create(SERVICES, service("n", {"ports": [{"name": "a", "port": 1}, {"name": "b", "port": 2}]},
            finalizers=["example.com/x"])),
        patch(SERVICES, "n", {"spec": {"ports": [{"name": "c", "port": 3}, {"name": "bb", "port": 2}]},
                              "metadata": {"finalizers": ["example.com/y"]}}, media=STRATEGIC_PATCH),
        patch(SERVICES, "n", {"spec": {"ports": [{"$patch": "delete", "port": 3}]}}, media=STRATEGIC_PATCH),
    )),
    Case("a headless service open to both families gets a selector", (
        create(SERVICES, service("n")),
        patch(SERVICES, "n", {"spec": {"selector": {"a": "b"}}}, 422,
              causes=("FieldValueInvalid spec.ipFamilyPolicy", "FieldValueInvalid spec.ipFamilies[1]")),
    )),
    Case("service with an address that is none", (
        create(SERVICES, service("n", {"clusterIP": "not-an-ip"}), 422, causes=("FieldValueInvalid spec.clusterIPs[0]",)),
    )),
    Case("update of a missing service creates it", (
        put(SERVICES, "n", service("n"), 201), put(SERVICES, "m", service("m", uid=UNKNOWN_UID), 409, reason="Conflict"),
        put(SERVICES, "m", service("m", resourceVersion="1"), 201),
    )),
    Case("session affinity", (
        create(SERVICES, service("n", {"sessionAffinity": "ClientIP"}),
               fields={"spec.sessionAffinityConfig.clientIP.timeoutSeconds": 10800}),
        create(SERVICES, service("m", {"sessionAffinity": "Odd"}), 422,
            causes=("FieldValueNotSupported spec.sessionAffinity",)),
    )),
    Case("external name", (
        create(SERVICES, service("n", {"type": "ExternalName", "externalName": "example.com", "clusterIP": "", "ports": []}),
               fields={"spec.clusterIP": None}),
        create(SERVICES, service("m", {"type": "ExternalName", "clusterIP": "", "ports": []}), 422,
               causes=("FieldValueRequired spec.externalName",)),
    )),
    Case("ports of the nodes of a new service", (
        create(SERVICES, _node_ports("n", ("a", 1, 0), ("b", 1, 0, "UDP"))),
        create(SERVICES, _node_ports("m", ("a", 1, 31201), ("b", 1, 31202, "UDP"), ("c", 2, 31203))),
        create(SERVICES, _node_ports("o", ("a", 1, 31203)), 422, causes=("FieldValueInvalid spec.ports[0].nodePort",)),
        create(SERVICES, _node_ports("o", ("a", 1, 5)), 422, causes=("FieldValueInvalid spec.ports[0].nodePort",)),
        create(SERVICES, _node_ports("o", ("a", 1, 31204), ("b", 2, 31204), ("c", 3, 31204)), 422,
            causes=("FieldValueInvalid spec.ports[1].nodePort",)),
        create(SERVICES, _node_ports("o", ("a", 1, 31204), ("b", 2, 31204, "UDP")), 422,
            causes=("FieldValueInvalid spec.ports[1].nodePort",)),
        create(SERVICES, _node_ports("o", ("a", 1, 0), ("b", 1, 0)), 422,
            causes=("FieldValueDuplicate spec.ports[1].nodePort", "FieldValueDuplicate spec.ports[1]")),
        create(SERVICES, service("o", {"ports": [{"port": 1, "nodePort": 31204}]}), 422,
            causes=("FieldValueForbidden spec.ports[0].nodePort",)),
        create(SERVICES, service("o", {"type": "NodePort"}), 422, causes=("FieldValueInvalid spec.clusterIPs[0]",)),
    )),
    Case("ports of the nodes that an update gives", (
        create(SERVICES, _node_ports("m", ("a", 1, 31211))), create(SERVICES, _node_ports("n", ("a", 1, 0), ("b", 2, 0))),
        _given(("a", 1, 0), ("b", 1, 0), code=422, causes=("FieldValueDuplicate spec.ports[1]",)),
        _given(("a", 1, 31211), code=422, causes=("FieldValueInvalid spec.ports[0].nodePort",)),
        _given(("a", 1, 5), code=422, causes=("FieldValueInvalid spec.ports[0].nodePort",)),
        _given(("a", 1, 31212), ("b", 2, 31212), code=500), _given(("a", 1, 31212), ("b", 2, 0)),
        _given(("a", 3, 0), ("c", 4, 0), fields={"spec.ports.0.nodePort": 31212}), _given(("a", 3, 31212)),
        _given(("a", 3, 0), fields={"spec.ports.0.nodePort": 31212}), get(SERVICES, "n"),
        patch(SERVICES, "n", {"spec": {"type": "ClusterIP"}}, fields={"spec.ports.0.nodePort": None}),
        patch(SERVICES, "n", {"spec": {"type": "NodePort"}}),
        patch(SERVICES, "n", {"spec": {"clusterIP": "10.97.1.1"}}, 422, causes=("FieldValueInvalid spec.clusterIPs[0]",)),
    )),
    Case("a load balancer has ports of the nodes unless it says otherwise", (
        create(SERVICES, service("n", {"clusterIP": "", "type": "LoadBalancer"}),
            fields={"spec.allocateLoadBalancerNodePorts": True}),
        patch(SERVICES, "n", {"spec": {"type": "ClusterIP"}}, fields={"spec.allocateLoadBalancerNodePorts": None}),
        create(SERVICES, service("m", {"clusterIP": "", "type": "LoadBalancer", "allocateLoadBalancerNodePorts": False}),
            fields={"spec.ports.0.nodePort": None}),
    )),
    Case("a policy for traffic from outside wants a way in", (
        create(SERVICES, service("n", {"externalTrafficPolicy": "Cluster"}), 422,
            causes=("FieldValueInvalid spec.externalTrafficPolicy",)),
        create(SERVICES, service("n", {"clusterIP": "", "externalTrafficPolicy": "Local", "externalIPs": ["192.0.2.1"]})),
        create(SERVICES, service("m", {"clusterIP": "", "type": "NodePort", "externalTrafficPolicy": "Local"})),
        put(SERVICES, "m", Seen("services/a/m", {"spec": {"type": "ClusterIP"}})),
    )),
)  # fmt: skip
