"""Services, nodes, events and the other plain kinds that a training job has to do with."""

from localcluster.apiserver.table.printer import AGE, NAME, NONE, UNKNOWN, Json, Printer, age, column, defined, dig


def _service_ports(item: Json) -> str:
    ports = [f"{port.get('port')}/{port.get('protocol', 'TCP')}" for port in dig(item, "spec", "ports", default=[])]
    return ",".join(ports) or NONE


def _node_status(item: Json) -> str:
    ready = next((one for one in dig(item, "status", "conditions", default=[]) if one.get("type") == "Ready"), None)
    status = "Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"
    return f"{status},SchedulingDisabled" if dig(item, "spec", "unschedulable") else status


def _event_object(item: Json) -> str:
    return f"{dig(item, 'involvedObject', 'kind', default='').lower()}/{dig(item, 'involvedObject', 'name', default='')}"


def _last_seen(item: Json, now: float) -> str:
    return age(dig(item, "lastTimestamp") or dig(item, "firstTimestamp") or dig(item, "eventTime"), now)


#: What the server prints for kinds without a printer of their own: name and creation time.
CREATED_AT: Printer = (NAME, column("Created At", "metadata.creationTimestamp", default=UNKNOWN))
PRINTERS: dict[tuple[str, str], Printer] = {
    ("", "Service"): (
        NAME, column("Type", "spec.type", default="ClusterIP"), column("Cluster-IP", "spec.clusterIP", default=NONE),
        column("Port(s)", _service_ports), AGE,
    ),
    ("", "ConfigMap"): (
        NAME, column("Data", lambda item: sum(len(item.get(key) or ()) for key in ("data", "binaryData"))), AGE,
    ),
    ("", "Secret"): (NAME, column("Type", "type"), column("Data", lambda item: len(item.get("data") or ())), AGE),
    ("", "Namespace"): (NAME, column("Status", "status.phase"), AGE),
    ("", "Node"): (NAME, column("Status", _node_status), AGE, column("Version", "status.nodeInfo.kubeletVersion")),
    ("", "Event"): (
        defined("Last Seen", _last_seen), column("Type", "type"), column("Reason", "reason"), column("Object", _event_object),
        column("Message", lambda item: dig(item, "message", default="").strip()),
        column("Source", "source.component", wide=True), column("Count", "count", default=1, wide=True),
        column("Name", "metadata.name", wide=True),
    ),
    ("", "PersistentVolumeClaim"): (NAME, column("Status", "status.phase"), AGE),
}  # fmt: skip
