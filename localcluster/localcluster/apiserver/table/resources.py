"""Services, nodes, events, storage, access control and the other plain kinds."""

from collections.abc import Callable
from typing import Any

from localcluster.apiserver.table.duration import UNKNOWN, age
from localcluster.apiserver.table.printer import (
    AGE,
    NONE,
    UNSET,
    Column,
    Json,
    Shown,
    column,
    dig,
    joined,
    name_of,
    named,
    printer,
    reference,
    selector_text,
    timed,
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


def _selector(name: str, path: str, *, wide: bool = False) -> Shown:
    return column(name, path, default=None, show=selector_text, wide=wide)


def _node_status(item: Json) -> str:
    ready = next((one for one in dig(item, "status", "conditions", default=[]) if one.get("type") == "Ready"), None)
    status = "Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"
    return f"{status},SchedulingDisabled" if dig(item, "spec", "unschedulable") else status


def _roles(labels: Json) -> str:
    return joined(sorted(key.removeprefix(_ROLE_LABEL) for key in labels if key.startswith(_ROLE_LABEL)))


def _node_address(name: str, kind: str) -> Shown:
    def show(addresses: list[Json]) -> Any:
        return {one.get("type"): one.get("address") for one in addresses}.get(kind, NONE)

    return column(name, "status.addresses", default=[], show=show, wide=True)


def _node_info(name: str, key: str) -> Shown:
    return column(name, f"status.nodeInfo.{key}", default=UNKNOWN, show=lambda value: value or UNKNOWN, wide=True)


def _first(*paths: str, default: Any = "") -> Callable[[Json], Any]:
    """The first of the fields that is set: the two versions of an event have other names for the same."""
    return lambda item: next((found for path in paths if (found := dig(item, *path.split(".")))), default)


_begun = _first("firstTimestamp", "deprecatedFirstTimestamp", "eventTime", default=None)
_seen = _first("series.lastObservedTime", "lastTimestamp", "deprecatedLastTimestamp", default=None)
_target = _first("involvedObject", "regarding", default={})


def _event_source(item: Json) -> str:
    source = _first("source", "deprecatedSource", default={})(item)
    component = source.get("component") or _first("reportingComponent", "reportingController")(item)
    return ", ".join(one for one in (component, source.get("host", "")) if one)


def _event_object(item: Json) -> str:
    target = _target(item)
    return f"{str(target.get('kind', '')).lower()}/{target.get('name', '')}"


def _more(values: list[str]) -> str:
    """The first three of them, and how many there are beyond."""
    return joined(values[:3]) + (f" + {len(values) - 3} more..." if len(values) > 3 else "")


def _endpoints(subsets: list[Json]) -> str:
    found: list[str] = []
    for subset in subsets:
        addresses = [one.get("ip", "") for one in subset.get("addresses") or ()]
        ports = subset.get("ports") or ()
        found += [f"{one}:{port.get('port')}" for port in ports for one in addresses] if ports else addresses
    return _more(found)


def _slice_endpoints(endpoints: list[Json]) -> str:
    addresses = [address for one in endpoints for address in one.get("addresses", ())]
    return _more(addresses) if addresses else UNSET


_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _modes(values: list[str]) -> str:
    return ",".join(_MODES.get(one, one) for one in values)


def _if_bound(find: str, default: Any, show: Callable[[Any], Any]) -> Callable[[Json], Any]:
    path = find.split(".")
    return lambda item: show(dig(item, *path, default=default)) if dig(item, "spec", "volumeName") else ""


def _phase(item: Json) -> Any:
    return "Terminating" if dig(item, "metadata", "deletionTimestamp") else dig(item, "status", "phase", default="")


def _claim(claim: Json) -> str:
    return f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else ""


def _class_name(item: Json) -> str:
    annotations = dig(item, "metadata", "annotations", default={})
    default = " (default)" if annotations.get("storageclass.kubernetes.io/is-default-class") == "true" else ""
    return name_of(item) + default


def _used(limits: bool) -> Callable[[Json], str]:
    """Of a quota, what is used of the limits, or of everything else."""

    def cell(item: Json) -> str:
        hard = dig(item, "status", "hard") or dig(item, "spec", "hard", default={})
        used = dig(item, "status", "used", default={})
        shown = (key for key in sorted(hard) if key.startswith("limits.") is limits)
        return ", ".join(f"{key}: {used.get(key, 0)}/{hard[key]}" for key in shown)

    return cell


def _subjects(name: str, kind: str) -> Shown:
    def show(subjects: list[Json]) -> str:
        found = (one for one in subjects if one.get("kind") == kind)
        spaced = kind == "ServiceAccount"
        return ", ".join((f"{one.get('namespace', '')}/" if spaced else "") + one.get("name", "") for one in found)

    return column(name, "subjects", default=[], show=show, wide=True)


def _hosts(rules: list[Json]) -> str:
    return ",".join(one.get("host") or "*" for one in rules) or "*"


def _addresses(points: list[Json]) -> str:
    return ",".join(one.get("ip") or one.get("hostname", "") for one in points)


def _count(name: str, *keys: str) -> Shown:
    return column(name, lambda item: sum(len(item.get(key) or ()) for key in keys), "integer")


#: What the server prints for kinds without a printer of their own: name and creation time.
CREATED_AT = named(column("Created At", "metadata.creationTimestamp", "date", default=UNKNOWN))
_BINDING = named(
    column("Role", "roleRef", default={}, show=reference), AGE, _subjects("Users", "User"), _subjects("Groups", "Group"),
    _subjects("ServiceAccounts", "ServiceAccount"),
)  # fmt: skip
_EVENT = printer(
    timed("Last Seen", lambda item, now: age(_seen(item) or _begun(item), now)), column("Type", "type"),
    column("Reason", "reason"), column("Object", _event_object),
    column("Subobject", lambda item: _target(item).get("fieldPath", ""), wide=True),
    column("Source", _event_source, wide=True), column("Message", lambda item: str(_first("message", "note")(item)).strip()),
    timed("First Seen", lambda item, now: age(_begun(item), now), wide=True),
    column("Count", _first("series.count", "count", "deprecatedCount", default=1), wide=True),
    (Column("Name", priority=1, format="name"), lambda item, _now: name_of(item)),
)  # fmt: skip
_CLASSES = (
    column("StorageClass", "spec.storageClassName"),
    column("VolumeAttributesClass", "spec.volumeAttributesClassName", default=UNSET),
)
_VOLUME_MODE = column("VolumeMode", "spec.volumeMode", default=UNSET, wide=True)

PRINTERS = {
    ("", "Service"): named(
        column("Type", "spec.type", default="ClusterIP"),
        column("Cluster-IP", "spec.clusterIP", default=NONE, show=lambda address: address or NONE),
        column("External-IP", _external), column("Port(s)", _service_ports), AGE,
        _selector("Selector", "spec.selector", wide=True),
    ),
    ("", "ConfigMap"): named(_count("Data", "data", "binaryData"), AGE),
    ("", "Secret"): named(column("Type", "type", default="Opaque"), _count("Data", "data"), AGE),
    ("", "ServiceAccount"): named(_count("Secrets", "secrets"), AGE),
    ("", "Namespace"): named(column("Status", "status.phase"), AGE),
    ("", "Node"): named(
        column("Status", _node_status), column("Roles", "metadata.labels", default={}, show=_roles), AGE,
        column("Version", "status.nodeInfo.kubeletVersion"), _node_address("Internal-IP", "InternalIP"),
        _node_address("External-IP", "ExternalIP"), _node_info("OS-Image", "osImage"),
        _node_info("Kernel-Version", "kernelVersion"), _node_info("Container-Runtime", "containerRuntimeVersion"),
    ),
    ("", "Event"): _EVENT,
    ("events.k8s.io", "Event"): _EVENT,
    ("", "Endpoints"): named(column("Endpoints", "subsets", default=[], show=_endpoints), AGE),
    ("discovery.k8s.io", "EndpointSlice"): named(
        column("AddressType", "addressType"),
        column("Ports", "ports", default=[], show=lambda ports: joined([str(one.get("port", "*")) for one in ports[:3]])),
        column("Endpoints", "endpoints", default=[], show=_slice_endpoints), AGE,
    ),
    ("", "PersistentVolumeClaim"): named(
        column("Status", _phase), column("Volume", "spec.volumeName"),
        column("Capacity", _if_bound("status.capacity.storage", "", str)),
        column("Access Modes", _if_bound("status.accessModes", [], _modes)), *_CLASSES, AGE, _VOLUME_MODE,
    ),
    ("", "PersistentVolume"): named(
        column("Capacity", "spec.capacity.storage"), column("Access Modes", "spec.accessModes", default=[], show=_modes),
        column("Reclaim Policy", "spec.persistentVolumeReclaimPolicy"), column("Status", _phase),
        column("Claim", "spec.claimRef", default={}, show=_claim), *_CLASSES, column("Reason", "status.reason"), AGE,
        _VOLUME_MODE,
    ),
    ("storage.k8s.io", "StorageClass"): named(
        column("Provisioner", "provisioner"), column("ReclaimPolicy", "reclaimPolicy", default="Delete"),
        column("VolumeBindingMode", "volumeBindingMode", default="Immediate"),
        column("AllowVolumeExpansion", "allowVolumeExpansion", default=False), AGE, name=_class_name,
    ),
    ("", "ResourceQuota"): named(column("Request", _used(limits=False)), column("Limit", _used(limits=True)), AGE),
    ("coordination.k8s.io", "Lease"): named(column("Holder", "spec.holderIdentity"), AGE),
    ("rbac.authorization.k8s.io", "RoleBinding"): _BINDING,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): _BINDING,
    ("networking.k8s.io", "Ingress"): named(
        column("Class", "spec.ingressClassName", default=NONE), column("Hosts", "spec.rules", default=[], show=_hosts),
        column("Address", "status.loadBalancer.ingress", default=[], show=_addresses),
        column("Ports", "spec.tls", show=lambda tls: "80, 443" if tls else "80"), AGE,
    ),
    ("networking.k8s.io", "NetworkPolicy"): named(_selector("Pod-Selector", "spec.podSelector"), AGE),
    ("scheduling.k8s.io", "PriorityClass"): named(
        column("Value", "value", "integer", default=0), column("Global-Default", "globalDefault", "boolean", default=False),
        AGE, column("PreemptionPolicy", "preemptionPolicy", default="PreemptLowerPriority"),
    ),
}  # fmt: skip
