"""Services, nodes, events, storage, access control and the other plain kinds."""

from typing import Any

from localcluster.apiserver.table.duration import UNKNOWN, age
from localcluster.apiserver.table.printer import (
    NAME,
    NONE,
    UNSET,
    Column,
    Json,
    Printer,
    columns,
    created,
    dig,
    joined,
    name_of,
    selector_text,
)

_ROLE_LABEL = "node-role.kubernetes.io/"


def _service_ports(item: Json) -> str:
    parts = []
    for port in dig(item, "spec", "ports", default=[]):
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        parts.append(f"{port.get('port')}{node}/{port.get('protocol', 'TCP')}")
    return joined(parts)


def _external(item: Json) -> str:
    kind, given = dig(item, "spec", "type", default="ClusterIP"), dig(item, "spec", "externalIPs", default=[])
    if kind == "ExternalName":
        return str(dig(item, "spec", "externalName", default=NONE))
    if kind == "LoadBalancer":
        points = dig(item, "status", "loadBalancer", "ingress", default=[])
        return ",".join([one.get("ip") or one.get("hostname", "") for one in points] + given) or "<pending>"
    return joined(given)


def _service(item: Json, now: float) -> list[Any]:
    kind, address = dig(item, "spec", "type", default="ClusterIP"), dig(item, "spec", "clusterIP", default=NONE)
    selector = selector_text(dig(item, "spec", "selector"))
    return [name_of(item), kind, address or NONE, _external(item), _service_ports(item), created(item, now), selector]


def _node(item: Json, now: float) -> list[Any]:
    ready = next((one for one in dig(item, "status", "conditions", default=[]) if one.get("type") == "Ready"), None)
    status = "Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"
    if dig(item, "spec", "unschedulable"):
        status += ",SchedulingDisabled"
    labels = dig(item, "metadata", "labels", default={})
    roles = sorted(key.removeprefix(_ROLE_LABEL) for key in labels if key.startswith(_ROLE_LABEL))
    addresses = {one.get("type"): one.get("address") for one in dig(item, "status", "addresses", default=[])}
    info = dig(item, "status", "nodeInfo", default={})
    wide = [addresses.get("InternalIP", NONE), addresses.get("ExternalIP", NONE)]
    wide += [info.get(key) or UNKNOWN for key in ("osImage", "kernelVersion", "containerRuntimeVersion")]
    return [name_of(item), status, joined(roles), created(item, now), info.get("kubeletVersion", ""), *wide]


def _event(item: Json, now: float) -> list[Any]:
    first = dig(item, "firstTimestamp") or dig(item, "deprecatedFirstTimestamp") or dig(item, "eventTime")
    last = dig(item, "series", "lastObservedTime") or dig(item, "lastTimestamp") or dig(item, "deprecatedLastTimestamp")
    count = dig(item, "series", "count") or dig(item, "count") or dig(item, "deprecatedCount", default=1)
    target = dig(item, "involvedObject") or dig(item, "regarding", default={})
    source = dig(item, "source") or dig(item, "deprecatedSource", default={})
    component = source.get("component") or dig(item, "reportingComponent") or dig(item, "reportingController", default="")
    where = ", ".join(one for one in (component, source.get("host", "")) if one)
    message = str(dig(item, "message") or dig(item, "note", default="")).strip()
    return [
        age(last or first, now),
        dig(item, "type", default=""),
        dig(item, "reason", default=""),
        f"{str(target.get('kind', '')).lower()}/{target.get('name', '')}",
        target.get("fieldPath", ""),
        where,
        message,
        age(first, now),
        count,
        name_of(item),
    ]


def _endpoints(item: Json, now: float) -> list[Any]:
    found: list[str] = []
    for subset in dig(item, "subsets", default=[]):
        addresses = [one.get("ip", "") for one in subset.get("addresses") or ()]
        ports = subset.get("ports") or ()
        found += [f"{one}:{port.get('port')}" for port in ports for one in addresses] if ports else addresses
    more = f" + {len(found) - 3} more..." if len(found) > 3 else ""
    return [name_of(item), joined(found[:3]) + more, created(item, now)]


def _endpoint_slice(item: Json, now: float) -> list[Any]:
    ports = [str(one.get("port", "*")) for one in dig(item, "ports", default=[])]
    addresses = [address for one in dig(item, "endpoints", default=[]) for address in one.get("addresses", ())]
    more = f" + {len(addresses) - 3} more..." if len(addresses) > 3 else ""
    shown = joined(addresses[:3]) if addresses else UNSET
    return [name_of(item), dig(item, "addressType", default=""), joined(ports[:3]), shown + more, created(item, now)]


_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _modes(values: list[str]) -> str:
    return ",".join(_MODES.get(one, one) for one in values)


def _claim(item: Json, now: float) -> list[Any]:
    phase = "Terminating" if dig(item, "metadata", "deletionTimestamp") else dig(item, "status", "phase", default="")
    bound = dig(item, "spec", "volumeName", default="")
    capacity = dig(item, "status", "capacity", "storage", default="") if bound else ""
    modes = _modes(dig(item, "status", "accessModes", default=[])) if bound else ""
    classes = [
        dig(item, "spec", "storageClassName", default=""),
        dig(item, "spec", "volumeAttributesClassName", default=UNSET),
    ]
    mode = dig(item, "spec", "volumeMode", default=UNSET)
    return [name_of(item), phase, bound, capacity, modes, *classes, created(item, now), mode]


def _volume(item: Json, now: float) -> list[Any]:
    phase = "Terminating" if dig(item, "metadata", "deletionTimestamp") else dig(item, "status", "phase", default="")
    claim = dig(item, "spec", "claimRef")
    owner = f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else ""
    policy = dig(item, "spec", "persistentVolumeReclaimPolicy", default="")
    classes = [
        dig(item, "spec", "storageClassName", default=""),
        dig(item, "spec", "volumeAttributesClassName", default=UNSET),
    ]
    head = [
        name_of(item),
        dig(item, "spec", "capacity", "storage", default=""),
        _modes(dig(item, "spec", "accessModes", default=[])),
    ]
    tail = [
        dig(item, "status", "reason", default=""),
        created(item, now),
        dig(item, "spec", "volumeMode", default=UNSET),
    ]
    return [*head, policy, phase, owner, *classes, *tail]


def _storage_class(item: Json, now: float) -> list[Any]:
    annotations = dig(item, "metadata", "annotations", default={})
    default = " (default)" if annotations.get("storageclass.kubernetes.io/is-default-class") == "true" else ""
    policy, mode = item.get("reclaimPolicy", "Delete"), item.get("volumeBindingMode", "Immediate")
    expand = bool(item.get("allowVolumeExpansion", False))
    return [name_of(item) + default, item.get("provisioner", ""), policy, mode, expand, created(item, now)]


def _quota(item: Json, now: float) -> list[Any]:
    hard = dig(item, "status", "hard") or dig(item, "spec", "hard", default={})
    used = dig(item, "status", "used", default={})
    shown = {key: f"{key}: {used.get(key, 0)}/{value}" for key, value in sorted(hard.items())}
    limits = [text for key, text in shown.items() if key.startswith("limits.")]
    requests = [text for key, text in shown.items() if not key.startswith("limits.")]
    return [name_of(item), ", ".join(requests), ", ".join(limits), created(item, now)]


def _binding(item: Json, now: float) -> list[Any]:
    role = f"{dig(item, 'roleRef', 'kind', default='')}/{dig(item, 'roleRef', 'name', default='')}"
    subjects = dig(item, "subjects", default=[])
    users = [one.get("name", "") for one in subjects if one.get("kind") == "User"]
    groups = [one.get("name", "") for one in subjects if one.get("kind") == "Group"]
    accounts = [f"{one.get('namespace', '')}/{one.get('name', '')}" for one in subjects if one.get("kind") == "ServiceAccount"]
    return [name_of(item), role, created(item, now), ", ".join(users), ", ".join(groups), ", ".join(accounts)]


def _ingress(item: Json, now: float) -> list[Any]:
    rules = dig(item, "spec", "rules", default=[])
    hosts = [one.get("host") or "*" for one in rules]
    points = dig(item, "status", "loadBalancer", "ingress", default=[])
    address = ",".join(one.get("ip") or one.get("hostname", "") for one in points)
    ports = "80, 443" if dig(item, "spec", "tls") else "80"
    kind = dig(item, "spec", "ingressClassName", default=NONE)
    return [name_of(item), kind, ",".join(hosts) or "*", address, ports, created(item, now)]


def _count(item: Json, *keys: str) -> int:
    return sum(len(item.get(key) or ()) for key in keys)


def _priority_class(item: Json, now: float) -> list[Any]:
    policy = item.get("preemptionPolicy", "PreemptLowerPriority")
    return [name_of(item), item.get("value", 0), bool(item.get("globalDefault", False)), created(item, now), policy]


def created_at(item: Json, _now: float) -> list[Any]:
    """Name and creation time, what the server prints for kinds without a printer of their own."""
    return [name_of(item), dig(item, "metadata", "creationTimestamp", default=UNKNOWN)]


CREATED_AT = Printer([NAME, Column("Created At", "date")], created_at)
_INTEGER = {"Data": "integer"}
_BINDING = Printer(columns("Role", "Age", wide=("Users", "Groups", "ServiceAccounts")), _binding)
_EVENT = Printer(
    [
        Column("Last Seen"),
        Column("Type"),
        Column("Reason"),
        Column("Object"),
        Column("Subobject", priority=1),
        Column("Source", priority=1),
        Column("Message"),
        Column("First Seen", priority=1),
        Column("Count", priority=1),
        Column("Name", priority=1, format="name"),
    ],
    _event,
)
_CLASSES = ("StorageClass", "VolumeAttributesClass")

PRINTERS = {
    ("", "Service"): Printer(columns("Type", "Cluster-IP", "External-IP", "Port(s)", "Age", wide=("Selector",)), _service),
    ("", "ConfigMap"): Printer(
        columns("Data", "Age", types=_INTEGER),
        lambda item, now: [name_of(item), _count(item, "data", "binaryData"), created(item, now)],
    ),
    ("", "Secret"): Printer(
        columns("Type", "Data", "Age", types=_INTEGER),
        lambda item, now: [name_of(item), item.get("type", "Opaque"), _count(item, "data"), created(item, now)],
    ),
    ("", "ServiceAccount"): Printer(
        columns("Secrets", "Age", types={"Secrets": "integer"}),
        lambda item, now: [name_of(item), _count(item, "secrets"), created(item, now)],
    ),
    ("", "Namespace"): Printer(
        columns("Status", "Age"),
        lambda item, now: [name_of(item), dig(item, "status", "phase", default=""), created(item, now)],
    ),
    ("", "Node"): Printer(
        columns(
            *("Status", "Roles", "Age", "Version"),
            wide=("Internal-IP", "External-IP", "OS-Image", "Kernel-Version", "Container-Runtime"),
        ),
        _node,
    ),
    ("", "Event"): _EVENT,
    ("events.k8s.io", "Event"): _EVENT,
    ("", "Endpoints"): Printer(columns("Endpoints", "Age"), _endpoints),
    ("discovery.k8s.io", "EndpointSlice"): Printer(columns("AddressType", "Ports", "Endpoints", "Age"), _endpoint_slice),
    ("", "PersistentVolumeClaim"): Printer(
        columns("Status", "Volume", "Capacity", "Access Modes", *_CLASSES, "Age", wide=("VolumeMode",)), _claim
    ),
    ("", "PersistentVolume"): Printer(
        columns(
            *("Capacity", "Access Modes", "Reclaim Policy", "Status", "Claim", *_CLASSES, "Reason", "Age"),
            wide=("VolumeMode",),
        ),
        _volume,
    ),
    ("storage.k8s.io", "StorageClass"): Printer(
        columns("Provisioner", "ReclaimPolicy", "VolumeBindingMode", "AllowVolumeExpansion", "Age"), _storage_class
    ),
    ("", "ResourceQuota"): Printer(columns("Request", "Limit", "Age"), _quota),
    ("coordination.k8s.io", "Lease"): Printer(
        columns("Holder", "Age"),
        lambda item, now: [name_of(item), dig(item, "spec", "holderIdentity", default=""), created(item, now)],
    ),
    ("rbac.authorization.k8s.io", "RoleBinding"): _BINDING,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): _BINDING,
    ("networking.k8s.io", "Ingress"): Printer(columns("Class", "Hosts", "Address", "Ports", "Age"), _ingress),
    ("networking.k8s.io", "NetworkPolicy"): Printer(
        columns("Pod-Selector", "Age"),
        lambda item, now: [name_of(item), selector_text(dig(item, "spec", "podSelector")), created(item, now)],
    ),
    ("scheduling.k8s.io", "PriorityClass"): Printer(
        columns(
            "Value",
            "Global-Default",
            "Age",
            "PreemptionPolicy",
            types={"Value": "integer", "Global-Default": "boolean"},
        ),
        _priority_class,
    ),
}
