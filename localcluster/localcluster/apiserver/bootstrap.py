"""The objects of a new cluster."""

from typing import Any

from localcluster.apiserver.env import Env
from localcluster.apiserver.storage import Storage

Obj = dict[str, Any]

SYSTEM_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
#: Served by no resource: the key that signs service-account tokens outlives a restart with the data it belongs to.
KEY_TABLE = "-keys"
KEY_NAME = "service-account"

_RBAC = "rbac.authorization.k8s.io"
_CLUSTER_ROLES: dict[str, list[Obj]] = {
    "cluster-admin": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}, {"nonResourceURLs": ["*"], "verbs": ["*"]}],
    "system:service-account-issuer-discovery": [
        {"verbs": ["get"], "nonResourceURLs": ["/.well-known/openid-configuration", "/openid/v1/jwks"]}
    ],
}
_GROUPS = {"cluster-admin": "system:masters", "system:service-account-issuer-discovery": "system:serviceaccounts"}
_SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_CLASS = {"preemptionPolicy": "PreemptLowerPriority"}


def ensure(env: Env, storage: Storage) -> None:
    """Create what is missing; safe on a store that already has it."""
    for name in SYSTEM_NAMESPACES:
        _create(env, storage, "namespaces", "", name, _namespace(name))
    for name, rules in _CLUSTER_ROLES.items():
        _create(env, storage, f"clusterroles.{_RBAC}", "", name, {"rules": rules})
    for role, group in _GROUPS.items():
        binding = {
            "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": _RBAC, "kind": "Group", "name": group}],
        }
        _create(env, storage, f"clusterrolebindings.{_RBAC}", "", role, binding)
    for name, value in _SYSTEM_CLASSES.items():
        _create(env, storage, "priorityclasses.scheduling.k8s.io", "", name, {"value": value, **_CLASS})
    _create(env, storage, "services", "default", "kubernetes", _api_service())
    if storage.table(KEY_TABLE).get("", KEY_NAME) is None:
        secret = env.random.getrandbits(256).to_bytes(32, "big").hex()
        storage.put(KEY_TABLE, "", KEY_NAME, {"metadata": {"name": KEY_NAME}, "key": secret})


def _create(env: Env, storage: Storage, table: str, namespace: str, name: str, body: Obj) -> None:
    if storage.table(table).get(namespace, name) is not None:
        return
    meta: Obj = {"name": name, "uid": env.uuid(), "creationTimestamp": env.timestamp(), **body.pop("metadata", {})}
    if namespace:
        meta["namespace"] = namespace
    storage.put(table, namespace, name, {"metadata": meta, **body})


def _namespace(name: str) -> Obj:
    return {
        "metadata": {"labels": {"kubernetes.io/metadata.name": name}},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }


def _api_service() -> Obj:
    return {
        "metadata": {"labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {
            "type": "ClusterIP", "clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1"], "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack", "internalTrafficPolicy": "Cluster", "sessionAffinity": "None",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
        },
        "status": {"loadBalancer": {}},
    }  # fmt: skip
