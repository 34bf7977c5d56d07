"""Admission that depends on other objects: namespaces, priority classes, service accounts, quota."""

from typing import Any

from localcluster.apiserver import allocation
from localcluster.apiserver.call import Call
from localcluster.apiserver.errors import forbidden_error, not_found
from localcluster.apiserver.quota import QUOTA_TABLE, plain, usage, usage_of
from localcluster.apiserver.storage import Item
from localcluster.quantity import parse_quantity

#: See testutil/sim/assumptions.py.
ASSUMES = ("quota", "terminating-namespace")
Obj = dict[str, Any]

_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_SCHEDULING = "scheduling.k8s.io"
_PRIORITY_CLASSES = f"priorityclasses.{_SCHEDULING}"
_BUILTIN_SERVICE_ACCOUNT = "default"
_LOST_NODE_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_LOST_NODE_SECONDS = 300


def check_namespace(call: Call, name: str) -> None:
    """Raise 404 when the namespace is missing, 403 with cause NamespaceTerminating when it is terminating."""
    resource = call.resource
    if not resource.namespaced:
        return
    namespace = call.storage.table("namespaces").get("", call.namespace)
    if namespace is None:
        raise not_found("namespaces", "", call.namespace)
    if "deletionTimestamp" in namespace.obj["metadata"]:
        told = f"namespace {call.namespace} is being terminated"
        cause = {"reason": "NamespaceTerminating", "message": told, "field": "metadata.namespace"}
        why = f"unable to create new content in namespace {call.namespace} because it is being terminated"
        raise forbidden_error(resource.plural, resource.group, name, why, [cause])


def admit_new(call: Call, name: str, obj: Obj) -> None:
    """Complete a new object from other objects, or refuse it with a 403 ApiError. `name` is the requested one."""
    if call.resource.gvk == ("", "v1", "Pod"):
        _admit_pod(call, name, obj)
    elif call.resource.gvk == ("", "v1", "Service"):
        allocation.allocate(call, obj, None)
    elif call.resource.gvk == ("", "v1", "PersistentVolumeClaim"):
        _choose_class(call, obj["spec"])
    elif call.resource.plural == "certificatesigningrequests":
        # Who asks is not for the request to say.
        obj["status"] = {}
        obj["spec"] |= {"username": call.user.name, "groups": list(call.user.all_groups)}
        obj["spec"] |= {"uid": call.user.uid} if call.user.uid else {}


def admit_update(call: Call, new: Obj, old: Obj) -> None:
    """Complete a changed object, or refuse it with a 422 or 500 ApiError."""
    if call.resource.gvk == ("", "v1", "Service"):
        allocation.allocate(call, new, old)
    elif call.resource.gvk == ("", "v1", "Pod"):
        _tolerate_lost_nodes(new["spec"])


def check_workload(call: Call, name: str, obj: Obj) -> None:
    """Raise 403 for a new PodGroup unless it is that of a template of a Workload that exists."""
    if (call.resource.group, call.resource.kind) != (_SCHEDULING, "PodGroup"):
        return
    spec = obj["spec"]
    named = spec.get("workloadRef") or (spec.get("podGroupTemplateRef") or {}).get("workload")
    if named is None:
        return
    workload, template = named["workloadName"], named.get("templateName") or named.get("podGroupTemplateName")
    found = call.storage.table(f"workloads.{_SCHEDULING}").get(call.namespace, workload)
    why = ""
    if found is None:
        why = f'Workload "{workload}" not found'
    elif "deletionTimestamp" in found.obj["metadata"]:
        why = f'Workload "{workload}" is being deleted'
    elif template not in [one["name"] for one in found.obj["spec"]["podGroupTemplates"]]:
        why = f'PodGroupTemplate "{template}" not found in Workload "{workload}"'
    if why:
        raise forbidden_error("podgroups", _SCHEDULING, name, f"PodGroup rejected: {why}")


def _admit_pod(call: Call, name: str, obj: Obj) -> None:
    spec = obj["spec"]
    if not any(call.registry.where(lambda one: (one.group, one.kind) == (_SCHEDULING, "PodGroup"))):
        spec.pop("schedulingGroup", None)
    account = spec.setdefault("serviceAccountName", _BUILTIN_SERVICE_ACCOUNT)
    spec["serviceAccount"] = account
    # A controller creates the default account after its namespace; a pod need not wait for it.
    if account != _BUILTIN_SERVICE_ACCOUNT and call.storage.table("serviceaccounts").get(call.namespace, account) is None:
        why = f'error looking up service account {call.namespace}/{account}: serviceaccount "{account}" not found'
        raise forbidden_error("pods", "", name, why)
    priority, preemption = _priority(call, spec, name)
    for field, what, computed in (
        ("priority", "integer value of priority", priority),
        ("preemptionPolicy", "string value of PreemptionPolicy", preemption),
    ):
        if spec.get(field) not in (None, computed):
            told = f"the {what} ({spec[field]}) must not be provided in pod spec"
            why = f"{told}; priority admission controller computed {computed} from the given PriorityClass name"
            raise forbidden_error("pods", "", name, why)
        spec[field] = computed
    _tolerate_lost_nodes(spec)


def _choose_class(call: Call, spec: Obj) -> None:
    """The plugin DefaultStorageClass: the newest class that is marked as the default."""
    marked = [
        item
        for item in call.storage.table("storageclasses.storage.k8s.io").items()
        if (item.obj["metadata"].get("annotations") or {}).get(_DEFAULT_CLASS) == "true"
    ]
    if marked and "storageClassName" not in spec:
        spec["storageClassName"] = max(marked, key=lambda item: str(item.obj["metadata"]["creationTimestamp"])).name


def _tolerate_lost_nodes(spec: Obj) -> None:
    """The plugin DefaultTolerationSeconds: five minutes on a node that is not ready or not reachable."""
    tolerations = list(spec.get("tolerations") or ())
    missing = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _LOST_NODE_SECONDS}
        for key in _LOST_NODE_TAINTS
        if not any(one.get("key", "") in ("", key) and one.get("effect", "") in ("", "NoExecute") for one in tolerations)
    ]
    if missing:
        spec["tolerations"] = [*tolerations, *missing]


def _priority(call: Call, spec: Obj, pod: str) -> tuple[int, str]:
    """The priority of a pod and its policy of preemption."""
    name = spec.get("priorityClassName")
    found = call.storage.table(_PRIORITY_CLASSES).get("", name) if name else _default_priority_class(call)
    if found is not None:
        spec["priorityClassName"] = found.name
    elif name:
        raise forbidden_error("pods", "", pod, f"no PriorityClass with name {name} was found")
    given = {} if found is None else found.obj
    return int(given.get("value", 0)), given.get("preemptionPolicy", "PreemptLowerPriority")


def check_priority_class(call: Call, new: Obj, old: Obj | None) -> None:
    """Raise 403 for a PriorityClass that is to be the default when there is one."""
    if (call.resource.group, call.resource.kind) != (_SCHEDULING, "PriorityClass") or not new.get("globalDefault"):
        return
    name, default = new["metadata"]["name"], _default_priority_class(call)
    if default is not None and (old is None or default.name != name):
        why = f"PriorityClass {default.name} is already marked as default. Only one default can exist"
        raise forbidden_error("priorityclasses", _SCHEDULING, name, why)


def _default_priority_class(call: Call) -> Item | None:
    return next((item for item in call.storage.table(_PRIORITY_CLASSES).items() if item.obj.get("globalDefault")), None)


def check_overhead(call: Call, obj: Obj) -> None:
    """Raise 403 for a pod with an overhead that no RuntimeClass gives it."""
    if call.resource.gvk == ("", "v1", "Pod") and obj["spec"].get("overhead") and not obj["spec"].get("runtimeClassName"):
        why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
        raise forbidden_error("pods", "", obj["metadata"].get("name", ""), why)


def check_quota(call: Call, obj: Obj) -> None:
    """Raise 403 "exceeded quota" when a ResourceQuota of the namespace would be exceeded by the object."""
    if not call.resource.namespaced:
        return
    quotas = list(call.storage.table(QUOTA_TABLE).items(call.namespace))
    asked = usage_of(call.resource.plural, call.resource.group, obj) if quotas else {}
    for quota in quotas:
        hard = (quota.obj.get("spec") or {}).get("hard") or {}
        touched = {name: hard[name] for name in asked if name in hard}
        if not touched:
            continue
        used = usage(call.storage, call.namespace, list(touched))
        over = [name for name, limit in touched.items() if used[name] + asked[name] > parse_quantity(limit)]
        if over:
            told = [
                ",".join(f"{name}={plain(value[name])}" for name in over) for value in (asked, used)
            ]  # fmt: skip
            limited = ",".join(f"{name}={hard[name]}" for name in over)
            why = f"exceeded quota: {quota.name}, requested: {told[0]}, used: {told[1]}, limited: {limited}"
            raise forbidden_error(call.resource.plural, call.resource.group, obj["metadata"].get("name", ""), why)
