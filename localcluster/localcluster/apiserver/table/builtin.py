"""The columns of the built-in kinds that a training job has to do with.

STATUS of a pod follows the real server's printer, because people and scripts read it.
"""

from localcluster.apiserver.table.printer import AGE, NAME, NONE, UNKNOWN, Json, Printer, age, column, defined, dig


def _condition(pod: Json, kind: str) -> Json:
    conditions = dig(pod, "status", "conditions", default=[])
    return next((one for one in conditions if one.get("type") == kind), {})


def _ended(prefix: str, terminated: Json) -> str:
    reason = terminated.get("reason")
    if reason:
        return f"{prefix}{reason}"
    if terminated.get("signal"):
        return f"{prefix}Signal:{terminated['signal']}"
    return f"{prefix}ExitCode:{terminated.get('exitCode', 0)}"


def _sidecars(pod: Json) -> set[str]:
    inits = dig(pod, "spec", "initContainers", default=[])
    return {one.get("name", "") for one in inits if one.get("restartPolicy") == "Always"}


def _init_reason(pod: Json, sidecars: set[str]) -> str | None:
    """The STATUS while init containers run, or None when they are done."""
    for index, status in enumerate(dig(pod, "status", "initContainerStatuses", default=[])):
        terminated, waiting = dig(status, "state", "terminated"), dig(status, "state", "waiting", "reason")
        if terminated is not None and terminated.get("exitCode", 0) == 0:
            continue
        if status.get("name") in sidecars and status.get("started"):
            continue
        if terminated is not None:
            return _ended("Init:", terminated)
        if waiting and waiting != "PodInitializing":
            return f"Init:{waiting}"
        return f"Init:{index}/{len(dig(pod, 'spec', 'initContainers', default=[]))}"
    return None


def _main_reason(pod: Json, reason: str) -> str:
    running = False
    for status in reversed(dig(pod, "status", "containerStatuses", default=[])):
        terminated, waiting = dig(status, "state", "terminated"), dig(status, "state", "waiting", "reason")
        if waiting:
            reason = waiting
        elif terminated is not None:
            reason = _ended("", terminated)
        elif status.get("ready") and dig(status, "state", "running") is not None:
            running = True
    if reason == "Completed" and running:
        return "Running" if _condition(pod, "Ready").get("status") == "True" else "NotReady"
    return reason


def pod_status(pod: Json) -> str:
    """The STATUS cell: phase or reason, the state of init and main containers, Terminating."""
    phase = dig(pod, "status", "phase", default="Unknown")
    reason = dig(pod, "status", "reason") or phase
    if _condition(pod, "PodScheduled").get("reason") == "SchedulingGated":
        reason = "SchedulingGated"
    initializing = _init_reason(pod, _sidecars(pod))
    reason = initializing or reason
    if initializing is None or _condition(pod, "Initialized").get("status") == "True":
        reason = _main_reason(pod, reason)
    if dig(pod, "metadata", "deletionTimestamp"):
        if dig(pod, "status", "reason") == "NodeLost":
            return "Unknown"
        if phase not in ("Succeeded", "Failed"):
            return "Terminating"
    return str(reason)


def _initialised(pod: Json) -> bool:
    return _init_reason(pod, _sidecars(pod)) is None or _condition(pod, "Initialized").get("status") == "True"


def _restarts(pod: Json, now: float) -> str:
    sidecars = _sidecars(pod)
    inits = dig(pod, "status", "initContainerStatuses", default=[])
    if _initialised(pod):
        counted = [one for one in inits if one.get("name") in sidecars]
        counted += dig(pod, "status", "containerStatuses", default=[])
    else:
        counted = inits
    total = sum(int(one.get("restartCount", 0)) for one in counted)
    ends = [dig(one, "lastState", "terminated", "finishedAt") for one in counted]
    ends = [one for one in ends if one]
    if total and ends:
        return f"{total} ({age(max(ends), now)} ago)"
    return str(total)


def _ready(pod: Json) -> str:
    sidecars = _sidecars(pod)
    inits = dig(pod, "status", "initContainerStatuses", default=[])
    ready = sum(bool(one.get("ready") and one.get("started")) for one in inits if one.get("name") in sidecars)
    if _initialised(pod):
        mains = dig(pod, "status", "containerStatuses", default=[])
        ready += sum(bool(one.get("ready")) and dig(one, "state", "running") is not None for one in mains)
    return f"{ready}/{len(dig(pod, 'spec', 'containers', default=[])) + len(sidecars)}"


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
    ("", "Pod"): (
        NAME, column("Ready", _ready), column("Status", pod_status), defined("Restarts", _restarts), AGE,
        column("IP", lambda pod: dig(pod, "status", "podIPs", 0, "ip") or dig(pod, "status", "podIP", default=NONE), wide=True),
        column("Node", "spec.nodeName", default=NONE, wide=True),
    ),
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
