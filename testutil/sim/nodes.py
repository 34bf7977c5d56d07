"""Nodes and their controllers: registration, the node life-cycle controller and the pod garbage collector.

All level-triggered: each step reads the store and does what is due. Times are those of a cluster with its defaults.
"""

from typing import Any

from jobcommon.client.request import MERGE_PATCH, STRATEGIC_PATCH
from jobcommon.testutil.sim.kubelet import STATE
from jobcommon.testutil.sim.scenario import Scenario
from localcluster import ApiServer
from localcluster.model import Access, Item, format_time, parse_time

Obj = dict[str, Any]
#: node-monitor-grace-period. What follows is up to the embedded cluster's controller of taints.
GRACE_SECONDS = 50.0
UNREACHABLE, OUT_OF_SERVICE = "node.kubernetes.io/unreachable", "node.kubernetes.io/out-of-service"
#: The interval of the pod garbage collector, and the lag of its cache.
COLLECT_SECONDS = 20.0
COLLECTOR_LAG = 2.0
_TERMINAL = ("Succeeded", "Failed")


def node_name(number: int) -> str:
    """The name of the n-th node."""
    return f"node-{number}"


class Nodes:
    """Registers the scenario's nodes once, and says of each whether it is ready."""

    ASSUMES = ("node-taint",)

    def __init__(self, server: ApiServer, scenario: Scenario) -> None:
        self._access = Access(server, "node-controller")
        for number in range(scenario.nodes):
            self._register(node_name(number))

    def _register(self, name: str) -> None:
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}}
        self._access.send("POST", "/api/v1/nodes", body)
        self._access.send("PATCH", f"/api/v1/nodes/{name}/status", {"status": {"conditions": [self._ready(True)]}}, MERGE_PATCH)

    def _ready(self, ready: bool) -> Obj:
        moment = format_time(self._access.now)
        status, reason = ("True", "KubeletReady") if ready else ("Unknown", "NodeStatusUnknown")
        return {"type": "Ready", "status": status, "reason": reason, "lastTransitionTime": moment, "lastHeartbeatTime": moment}

    def step(self) -> float | None:
        """Mark and taint the silent nodes as not ready when they have been silent for long."""
        now, due = self._access.now, []
        for item in self._access.items("nodes"):
            annotations = item.obj["metadata"].get("annotations") or {}
            silent = bool(annotations.get(STATE))
            since = annotations.get(f"{STATE}-since")
            if silent and since is None:
                self._annotate(item, format_time(now))
                due.append(now + GRACE_SECONDS)
            elif not silent and since is not None:
                self._annotate(item, None)
            if ready_of(item) is silent and not silent:
                self._mark(item, ready=True)
            elif silent and since is not None:
                lost = parse_time(since) + GRACE_SECONDS
                if now < lost:
                    due.append(lost)
                    continue
                if ready_of(item):
                    self._mark(item, ready=False)
        return min(due, default=None)

    def _annotate(self, item: Item, since: str | None) -> None:
        body = {"metadata": {"annotations": {f"{STATE}-since": since}}}
        self._access.send("PATCH", f"/api/v1/nodes/{item.name}", body, MERGE_PATCH)

    def _mark(self, item: Item, *, ready: bool) -> None:
        body = {"status": {"conditions": [self._ready(ready)]}}
        self._access.send("PATCH", f"/api/v1/nodes/{item.name}/status", body, STRATEGIC_PATCH)
        others = [taint for taint in item.obj["spec"].get("taints") or () if taint["key"] != UNREACHABLE]
        taints = others if ready else [*others, {"key": UNREACHABLE, "effect": "NoExecute"}]
        self._access.send("PATCH", f"/api/v1/nodes/{item.name}", {"spec": {"taints": taints or None}}, MERGE_PATCH)


class PodCollector:
    """The pod garbage collector: pods of nodes that are gone or out of service, and finished pods beyond the number kept."""

    ASSUMES = ("node-gone", "node-out-of-service")

    def __init__(self, server: ApiServer, scenario: Scenario) -> None:
        self._access = Access(server, "pod-garbage-collector")
        self.keep = scenario.keep_finished
        self._next = server.env.now()
        self._seen: dict[str, float] = {}

    def step(self) -> float | None:
        """Collect what is due."""
        pods = list(self._access.items("pods"))
        nodes = {item.name: item for item in self._access.items("nodes")}
        for pod in pods:
            node, meta = pod.obj["spec"].get("nodeName"), pod.obj["metadata"]
            if not node or meta.get("deletionGracePeriodSeconds") == 0:
                continue
            if node not in nodes or ("deletionTimestamp" in meta and _out_of_service(nodes[node])):
                if pod.obj.get("status", {}).get("phase") not in _TERMINAL:
                    reason = "" if node in nodes else "DeletionByPodGC"
                    disrupt(self._access, pod, reason, "PodGC: node no longer exists", failed=True)
                delete_pod(self._access, pod, 0)
        return self._collect_finished(pods) if self.keep is not None else None

    def _collect_finished(self, pods: list[Item]) -> float | None:
        now = self._access.now
        over = [pod for pod in pods if pod.obj.get("status", {}).get("phase") in _TERMINAL]
        over = [pod for pod in over if "deletionTimestamp" not in pod.obj["metadata"]]
        over.sort(key=lambda pod: (pod.obj["metadata"]["creationTimestamp"], pod.name))
        surplus = over[: max(len(over) - (self.keep or 0), 0)]
        if not surplus:
            return None
        ripe = [pod for pod in surplus if now >= self._seen.setdefault(pod.uid, now) + COLLECTOR_LAG]
        if now < self._next:
            return self._next
        self._next = (now // COLLECT_SECONDS + 1) * COLLECT_SECONDS
        for pod in ripe:
            delete_pod(self._access, pod, 0)
        return self._next


def _out_of_service(node: Item) -> bool:
    return not ready_of(node) and any(taint["key"] == OUT_OF_SERVICE for taint in node.obj["spec"].get("taints") or ())


def ready_of(node: Item) -> bool:
    """Whether the node's Ready condition is True."""
    conditions = (node.obj.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


def disrupt(access: Access, pod: Item, reason: str, message: str, *, failed: bool = False) -> None:
    """Say in the pod's status that the platform is about to end it; with `failed`, that it has, without a reason as before."""
    known = (pod.obj.get("status") or {}).get("conditions") or ()
    if any(one["type"] == "DisruptionTarget" for one in known) and not failed:
        return
    condition = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}
    status: Obj = {"conditions": [{**condition, "lastTransitionTime": format_time(access.now)}]} if reason else {}
    if failed:
        status["phase"] = "Failed"
    path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/status"
    access.send("PATCH", path, {"metadata": {"uid": pod.uid}, "status": status}, STRATEGIC_PATCH)


def delete_pod(access: Access, pod: Item, grace: int | None) -> None:
    """Delete this pod; its own grace period holds unless another is given."""
    options: Obj = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": pod.uid}}
    if grace is not None:
        options["gracePeriodSeconds"] = grace
    access.send("DELETE", f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}", options)
