"""Services, nodes, events and the other plain kinds that a training job has to do with."""

from collections.abc import Callable
from typing import Any

from localcluster.apiserver.table.duration import UNKNOWN, age
from localcluster.apiserver.table.printer import (
    AGE,
    NONE,
    Column,
    Json,
    Shown,
    column,
    dig,
    joined,
    name_of,
    named,
    printer,
    selector_text,
    timed,
)

_ROLE_LABEL = "node-role.kubernetes.io/"


def _service_ports(item: Json) -> str:
    return joined([f"{port.get('port')}/{port.get('protocol', 'TCP')}" for port in dig(item, "spec", "ports", default=[])])


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
    """The first of the fields that is set."""
    return lambda item: next((found for path in paths if (found := dig(item, *path.split(".")))), default)


_begun = _first("firstTimestamp", "eventTime", default=None)
_seen = _first("series.lastObservedTime", "lastTimestamp", default=None)
_target = _first("involvedObject", default={})


def _event_source(item: Json) -> str:
    source = _first("source", default={})(item)
    component = source.get("component") or _first("reportingComponent")(item)
    return ", ".join(one for one in (component, source.get("host", "")) if one)


def _event_object(item: Json) -> str:
    target = _target(item)
    return f"{str(target.get('kind', '')).lower()}/{target.get('name', '')}"


def _count(name: str, *keys: str) -> Shown:
    return column(name, lambda item: sum(len(item.get(key) or ()) for key in keys), "integer")


#: What the server prints for kinds without a printer of their own: name and creation time.
CREATED_AT = named(column("Created At", "metadata.creationTimestamp", "date", default=UNKNOWN))
_EVENT = printer(
    timed("Last Seen", lambda item, now: age(_seen(item) or _begun(item), now)), column("Type", "type"),
    column("Reason", "reason"), column("Object", _event_object),
    column("Subobject", lambda item: _target(item).get("fieldPath", ""), wide=True),
    column("Source", _event_source, wide=True), column("Message", lambda item: str(_first("message")(item)).strip()),
    timed("First Seen", lambda item, now: age(_begun(item), now), wide=True),
    column("Count", _first("series.count", "count", default=1), wide=True),
    (Column("Name", priority=1, format="name"), lambda item, _now: name_of(item)),
)  # fmt: skip
PRINTERS = {
    ("", "Service"): named(
        column("Type", "spec.type", default="ClusterIP"),
        column("Cluster-IP", "spec.clusterIP", default=NONE, show=lambda address: address or NONE),
        column("External-IP", "spec.externalIPs", default=[], show=joined), column("Port(s)", _service_ports), AGE,
        _selector("Selector", "spec.selector", wide=True),
    ),
    ("", "ConfigMap"): named(_count("Data", "data", "binaryData"), AGE),
    ("", "Secret"): named(column("Type", "type", default="Opaque"), _count("Data", "data"), AGE),
    ("", "Namespace"): named(column("Status", "status.phase"), AGE),
    ("", "Node"): named(
        column("Status", _node_status), column("Roles", "metadata.labels", default={}, show=_roles), AGE,
        column("Version", "status.nodeInfo.kubeletVersion"), _node_address("Internal-IP", "InternalIP"),
        _node_address("External-IP", "ExternalIP"), _node_info("OS-Image", "osImage"),
        _node_info("Kernel-Version", "kernelVersion"), _node_info("Container-Runtime", "containerRuntimeVersion"),
    ),
    ("", "Event"): _EVENT,
    ("", "PersistentVolumeClaim"): named(column("Status", "status.phase"), AGE),
}  # fmt: skip
