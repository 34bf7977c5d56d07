"""Pods: defaults of spec and template, validation, QoS class and what may change."""

from collections.abc import Sequence
from typing import Any

from jobcommon.localcluster.apiserver.errors import Cause, forbidden, invalid, not_supported, required
from jobcommon.localcluster.apiserver.kinds.containers import default_container, validate_containers
from jobcommon.localcluster.apiserver.names import check, check_entry_name, dns1035_label, dns1123_label
from jobcommon.localcluster.quantity import parse_quantity

Obj = dict[str, Any]

#: What the real server's admission fills in.
ASSIGNED = (("serviceAccountName", "serviceAccount"), ("preemptionPolicy",), ("priority",))
RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
#: Fields of a pod's spec that an update may change; everything else needs a new pod.
_MUTABLE_SPEC = ("activeDeadlineSeconds", "tolerations")
_IMMUTABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def default_spec(spec: Obj) -> None:
    """The defaults that pods and pod templates share."""
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        default_container(container)
    for volume in spec.get("volumes") or ():
        if set(volume) == {"name"}:
            volume["emptyDir"] = {}
        for source in ("configMap", "secret"):
            if source in volume:
                volume[source].setdefault("defaultMode", 420)
        if "hostPath" in volume:
            volume["hostPath"].setdefault("type", "")
    if spec.get("serviceAccount") and not spec.get("serviceAccountName"):
        spec["serviceAccountName"] = spec["serviceAccount"]
    if spec.get("serviceAccountName"):
        spec["serviceAccount"] = spec["serviceAccountName"]


def default(obj: Obj) -> None:
    """A pod's defaults; its account, and the priority, which needs a lookup, are admission's."""
    spec = obj.setdefault("spec", {})
    default_spec(spec)
    # A negative period means the shortest one.
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    spec.setdefault("enableServiceLinks", True)
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        resources = container["resources"]
        for name, limit in (resources.get("limits") or {}).items():
            resources.setdefault("requests", {}).setdefault(name, limit)


def on_create(obj: Obj) -> None:
    """A new pod is Pending; its QoS class never changes."""
    obj["status"] = {"phase": "Pending", "qosClass": qos_class(obj["spec"])}
    if obj["spec"].get("schedulingGates"):
        obj["status"]["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": obj["metadata"]["creationTimestamp"],
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ]


def on_update(new: Obj, old: Obj) -> None:
    """What the server computed at creation is kept where a write leaves it out, as nothing else would restore it."""
    # An apply may have taken it all.
    new.setdefault("spec", {})
    for condition in new.get("status", {}).get("conditions") or ():
        # The only times that are sent when they are not set.
        condition.setdefault("lastProbeTime", None)
        condition.setdefault("lastTransitionTime", None)
    for container in new.get("status", {}).get("containerStatuses") or ():
        container.setdefault("state", {})
        container.setdefault("lastState", {})
    for name in ("priority", "preemptionPolicy"):
        if name in old["spec"]:
            new["spec"].setdefault(name, old["spec"][name])
    if "qosClass" in old.get("status", {}):
        new.setdefault("status", {}).setdefault("qosClass", old["status"]["qosClass"])


def qos_class(spec: Obj) -> str:
    """Guaranteed: every container has equal, non-zero limits and requests of cpu and memory. BestEffort: none has any."""
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    resources = [container.get("resources") or {} for container in containers]
    if not any(part.get("requests") or part.get("limits") for part in resources):
        return "BestEffort"
    for part in resources:
        requests, limits = part.get("requests") or {}, part.get("limits") or {}
        for name in ("cpu", "memory"):
            try:
                if name not in limits or parse_quantity(limits[name]) != parse_quantity(requests.get(name, limits[name])):
                    return "Burstable"
            except ValueError:
                return "Burstable"
    return "Guaranteed"


def validate(obj: Obj) -> Sequence[Cause]:
    """The rules of a pod's spec."""
    return validate_spec(obj["spec"], "spec")


def validate_spec(spec: Obj, path: str) -> list[Cause]:
    """The rules that pods and pod templates share."""
    volumes = spec.get("volumes") or []
    causes = _validate_volumes(volumes, f"{path}.volumes")
    causes += validate_containers(spec, path, {volume.get("name", "") for volume in volumes})
    if spec.get("restartPolicy") not in RESTART_POLICIES:
        causes.append(not_supported(f"{path}.restartPolicy", spec.get("restartPolicy", ""), RESTART_POLICIES))
    if spec.get("dnsPolicy") not in _DNS_POLICIES:
        causes.append(not_supported(f"{path}.dnsPolicy", spec.get("dnsPolicy", ""), _DNS_POLICIES))
    if spec.get("hostname"):
        causes += check(dns1123_label, f"{path}.hostname", spec["hostname"])
    if spec.get("subdomain"):
        # DNS-1035 for every release, although 1.36 relaxes it: a manifest that works here works on an older cluster.
        causes += check(dns1035_label, f"{path}.subdomain", spec["subdomain"])
    if spec.get("activeDeadlineSeconds") is not None and spec["activeDeadlineSeconds"] < 1:
        detail = "must be between 1 and 2147483647, inclusive"
        causes.append(invalid(f"{path}.activeDeadlineSeconds", spec["activeDeadlineSeconds"], detail))
    return causes


def _validate_volumes(volumes: Sequence[Obj], path: str) -> list[Cause]:
    causes: list[Cause] = []
    names: set[str] = set()
    for index, volume in enumerate(volumes):
        where = f"{path}[{index}]"
        causes += check_entry_name(volume, where, names)
        sources = [key for key in volume if key != "name"]
        if not sources:
            causes.append(required(where, "must specify a volume type"))
        causes += [forbidden(f"{where}.{extra}", "may not specify more than 1 volume type") for extra in sources[1:]]
        causes += _validate_source(volume, where)
    return causes


def _validate_source(volume: Obj, path: str) -> list[Cause]:
    needed = (("secret", "secretName"), ("configMap", "name"), ("hostPath", "path"), ("persistentVolumeClaim", "claimName"))
    return [required(f"{path}.{source}.{name}") for source, name in needed if source in volume and not volume[source].get(name)]


def validate_update(new: Obj, old: Obj) -> Sequence[Cause]:
    """Images, the deadline and a few more may change; binding (an empty nodeName) is the binding subresource's."""
    if new["spec"] == old["spec"]:
        return []
    for part in ("containers", "initContainers"):
        if len(new["spec"].get(part) or ()) != len(old["spec"].get(part) or ()):
            return [forbidden(f"spec.{part}", "pod updates may not add or remove containers")]
    causes: list[Cause] = []
    before, after = old["spec"].get("activeDeadlineSeconds"), new["spec"].get("activeDeadlineSeconds")
    if before is not None and after is None:
        causes.append(invalid("spec.activeDeadlineSeconds", None, "must not update from a positive integer to nil value"))
    elif before is not None and after > before:
        return [invalid("spec.activeDeadlineSeconds", after, "must be less than or equal to previous value")]
    gates = [gate["name"] for gate in old["spec"].get("schedulingGates") or []]
    for index, gate in enumerate(new["spec"].get("schedulingGates") or []):
        if gate["name"] not in gates:
            text = f"only deletion is allowed, but found new scheduling gate '{gate['name']}'"
            causes.append(forbidden(f"spec.schedulingGates[{index}].name", text))
    kept = [_without_seconds(one) for one in new["spec"].get("tolerations") or ()]
    if not all(_without_seconds(one) in kept for one in old["spec"].get("tolerations") or ()):
        causes.append(forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds"))
    if _comparable(new["spec"]) != _comparable(old["spec"]):
        causes.append(forbidden("spec", _IMMUTABLE))
    return causes


def _without_seconds(toleration: Obj) -> Obj:
    return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}


def _comparable(spec: Obj) -> Obj:
    kept = {key: value for key, value in spec.items() if key not in _MUTABLE_SPEC}
    for part in ("containers", "initContainers"):
        if part in kept:
            kept[part] = [{**container, "image": ""} for container in kept[part]]
    kept.pop("schedulingGates", None)
    return kept
