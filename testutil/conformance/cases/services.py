"""Services: ports, addresses, families."""

from jobcommon.client.request import STRATEGIC_PATCH
from testutil.conformance.case import Case, Seen
from testutil.conformance.kinds import SERVICES, service
from testutil.conformance.steps import NOBODY, create, patch, put

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
        put(SERVICES, "n", service("n"), 201), put(SERVICES, "m", service("m", uid=NOBODY), 409, reason="Conflict"),
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
)  # fmt: skip
