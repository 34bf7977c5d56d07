"""The final state of the cluster, in a canonical form: equivalent states are equal.

Masked is what depends on chance and timing: uids, versions, times, addresses, nodes, keys, and conditions that have passed.
Left out is what lifecycles do not depend on: events, leases, nodes, and what every namespace has.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from jobcommon.api import labels
from jobcommon.reconcile.ending import STOPPED
from localcluster import ApiServer

Obj = dict[str, Any]

_SYSTEM = frozenset({"kube-system", "kube-public", "kube-node-lease"})
_LEFT_OUT = frozenset({
    "-keys", "events", "events.events.k8s.io", "leases.coordination.k8s.io", "nodes", "namespaces",
    "customresourcedefinitions.apiextensions.k8s.io", "resourcequotas", "clusterroles.rbac.authorization.k8s.io",
    "clusterrolebindings.rbac.authorization.k8s.io", "priorityclasses.scheduling.k8s.io",
})  # fmt: skip
_OF_EVERY_NAMESPACE = frozenset({
    ("serviceaccounts", "default"), ("configmaps", "kube-root-ca.crt"), ("services", "kubernetes"),
})  # fmt: skip
_DROPPED = frozenset({
    "uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "observedGeneration", "lastTransitionTime",
    "lastUpdateTime", "lastProbeTime", "startedAt", "finishedAt", "containerID", "podIP", "podIPs", "hostIP", "hostIPs",
    "nodeName", "countedPods", "stoppedPods", "lastReconcileTime", "time", "node", "lastState", "deletionGracePeriodSeconds",
    "timeSpent", labels.STOP_ORDERED,
})  # fmt: skip
_PRESENCE = frozenset({"startTime", "completionTime", "deletionTimestamp", "lastRestartTime", "lastResizeTime"})
_HOSTS = "discover_hosts.sh"
_NODE = re.compile(r"\bnode-\d+\b")


def end_state(server: ApiServer) -> bytes:
    """The canonical dump: one JSON object a line, in order of table, namespace and name."""
    lines = [
        msgspec.json.encode({"table": table, **canonical(table, item.obj)}, order="deterministic")
        for table in sorted(server.storage.tables)
        if table not in _LEFT_OUT
        for item in server.storage.table(table).sorted()
        if item.namespace not in _SYSTEM and (table, item.name) not in _OF_EVERY_NAMESPACE
    ]
    return b"\n".join(lines)


def canonical(table: str, obj: Mapping[str, Any]) -> Obj:
    """One object with everything masked that may differ between equal ends."""
    masked: Obj = _mask(obj)
    if table == "configmaps" and _HOSTS in (obj.get("data") or {}):
        # It lists the pods that ran at the last reconcile before the job's end.
        masked["data"][_HOSTS] = "set"
    if table == "secrets":
        masked["data"] = sorted(obj.get("data") or {})
    status = masked.get("status")
    if isinstance(status, dict) and "conditions" in status:
        status["conditions"] = _conditions(status["conditions"], pod=table == "pods")
    if isinstance(status, dict) and isinstance(status.get("failures"), list):
        # How the others end that were stopped with a failed job depends on when they began.
        own = [failure for failure in status["failures"] if failure.get("reason") != STOPPED]
        status["failures"] = sorted(own, key=lambda failure: msgspec.json.encode(failure, order="deterministic"))
    return masked


def _conditions(conditions: list[Obj], *, pod: bool) -> Any:
    """Of a pod all, by type; of a job those that hold: whether one that has passed was ever seen is a matter of timing."""
    if pod:
        return {one["type"]: [one["status"], one.get("reason")] for one in conditions}
    return [one for one in conditions if one.get("status") == "True"]


def _mask(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: "set" if k in _PRESENCE else _mask(v) for k, v in value.items() if k not in _DROPPED and v is not None}
    if isinstance(value, list | tuple):
        return [_mask(entry) for entry in value]
    return _NODE.sub("node-x", value) if isinstance(value, str) else value


def objects_in(end: bytes, tables: frozenset[str]) -> list[Obj]:
    """The objects of some tables in a canonical dump."""
    return [obj for line in end.splitlines() if (obj := msgspec.json.decode(line, type=Obj))["table"] in tables]


def difference(reference: bytes, end: bytes) -> list[str]:
    """Where two dumps differ: the objects that only one of them has, and the paths at which others differ."""
    before, after = _by_name(reference), _by_name(end)
    found = [f"{name}: missing" for name in before if name not in after]
    found += [f"{name}: not in the reference" for name in after if name not in before]
    for name in before:
        if name in after and before[name] != after[name]:
            found += [f"{name}{path}" for path in _paths("", before[name], after[name])]
    return found


def _by_name(dump: bytes) -> dict[str, Obj]:
    objects = [msgspec.json.decode(line, type=Obj) for line in dump.splitlines()]
    return {f"{o['table']}/{o['metadata'].get('namespace', '')}/{o['metadata']['name']}": o for o in objects}


def _paths(path: str, before: Any, after: Any) -> list[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        keys = sorted({*before, *after})
        return [line for key in keys for line in _paths(f"{path}.{key}", before.get(key), after.get(key))]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return [line for i, (b, a) in enumerate(zip(before, after, strict=True)) for line in _paths(f"{path}[{i}]", b, a)]
    return [] if before == after else [f"{path}: {str(before)[:200]} became {str(after)[:200]}"]
