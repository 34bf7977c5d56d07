"""Admission that depends on other objects: namespaces, priority classes, service accounts, quota, cluster IPs."""

import hashlib
from typing import Any

from localcluster.apiserver.call import Call
from localcluster.apiserver.errors import forbidden_error, not_found

#: See testutil/sim/assumptions.toml.
ASSUMES = ("quota", "terminating-namespace")
Obj = dict[str, Any]

_SCHEDULING = "scheduling.k8s.io"
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
        _assign_address(obj)


def admit_update(call: Call, new: Obj) -> None:
    """Complete a changed object."""
    if call.resource.gvk == ("", "v1", "Service"):
        _assign_address(new)
    elif call.resource.gvk == ("", "v1", "Pod"):
        _tolerate_lost_nodes(new["spec"])


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
    chosen = spec.get("priorityClassName")
    found = call.storage.table(f"priorityclasses.{_SCHEDULING}").get("", chosen) if chosen else None
    if chosen and found is None:
        raise forbidden_error("pods", "", name, f"no PriorityClass with name {chosen} was found")
    given = {} if found is None else found.obj
    spec["priority"] = int(given.get("value", 0))
    spec["preemptionPolicy"] = given.get("preemptionPolicy", "PreemptLowerPriority")
    _tolerate_lost_nodes(spec)


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


def _assign_address(obj: Obj) -> None:
    """A cluster IP. It is not routed: it only has to be valid and stable."""
    spec = obj["spec"]
    if spec["type"] == "ExternalName" or spec.get("clusterIP"):
        return
    digest = hashlib.sha256(obj["metadata"]["uid"].encode()).digest()
    spec["clusterIP"] = f"10.{96 + digest[0] % 16}.{digest[1]}.{1 + digest[2] % 254}"
    spec["clusterIPs"] = [spec["clusterIP"]]


def check_quota(call: Call, obj: Obj) -> None:
    """Raise 403 "exceeded quota" when the number of objects that a ResourceQuota of the namespace allows is reached.

    Only numbers of objects are counted, of pods those that have not ended.
    """
    if not call.resource.namespaced:
        return
    resource = call.resource
    names = {f"count/{resource.storage_key}", resource.storage_key}
    for quota in call.storage.table("resourcequotas").items(call.namespace):
        hard = (quota.obj.get("spec") or {}).get("hard") or {}
        for name in sorted(names & hard.keys()):
            used = sum(
                (item.obj.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
                for item in call.storage.table(resource.storage_key).items(call.namespace)
            )
            if used + 1 > int(hard[name]):
                told = f"requested: {name}=1, used: {name}={used}, limited: {name}={hard[name]}"
                why = f"exceeded quota: {quota.name}, {told}"
                raise forbidden_error(resource.plural, resource.group, obj["metadata"].get("name", ""), why)
