"""Kueue where operators own the Workloads: it admits them, takes evicted ones back, and an oracle watches over the quota."""

from collections.abc import Callable, Sequence
from typing import Any

from jobcommon.client.request import MERGE_PATCH
from jobcommon.localcluster.apiserver.server import ApiServer
from jobcommon.localcluster.apiserver.storage import ADDED, DELETED, Change, Item
from jobcommon.localcluster.controllers.access import Access
from jobcommon.localcluster.timestamps import parse_time
from jobcommon.testutil import kueue
from jobcommon.testutil.sim import user
from jobcommon.testutil.sim.faults import Fault
from jobcommon.testutil.sim.scenario import Scenario

Obj = dict[str, Any]
WORKLOADS = "workloads.kueue.x-k8s.io"
ROOT = "/apis/kueue.x-k8s.io/v1beta2"
FLAVOR = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "ResourceFlavor",
    "metadata": {"name": "default"},
    "spec": {"nodeLabels": {}},
}
OBJECTS = (*((user.DEFINITIONS, one) for one in kueue.definitions()), (f"{ROOT}/resourceflavors", FLAVOR))
"""What a cluster has where Kueue is installed."""
#: What Kueue takes to admit a new Workload.
ADMISSION_SECONDS = 3.0


class Kueue:
    """Of the active Workloads it admits a limited number, the oldest first, and evicts those that are set inactive."""

    def __init__(self, server: ApiServer, scenario: Scenario) -> None:
        self._access = Access(server, "kueue")
        self._admits = scenario.admits

    def step(self) -> float | None:
        """Evict and admit."""
        now, due = self._access.now, []
        open_ = [item for item in self._access.items(WORKLOADS) if not holds(item.obj, "Finished")]
        for item in open_:
            if item.obj["spec"].get("active") is False and not holds(item.obj, "Evicted"):
                self._write(item, kueue.evicted(item.obj, "Deactivated", now))
        free = self._admits - sum(holds(item.obj, "QuotaReserved") for item in open_)
        active = (item for item in open_ if item.obj["spec"].get("active") is not False)
        waiting = [item for item in active if not holds(item.obj, "QuotaReserved")]
        for item in sorted(waiting, key=lambda item: (item.obj["metadata"]["creationTimestamp"], item.name))[: max(free, 0)]:
            at = parse_time(item.obj["metadata"]["creationTimestamp"]) + ADMISSION_SECONDS
            if now < at:
                due.append(at)
            else:
                self._write(item, kueue.admitted(item.obj, at=now))
        return min(due, default=None)

    def _write(self, item: Item, changed: Obj) -> None:
        body = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", **changed}
        self._access.send("PUT", f"{ROOT}/namespaces/{item.namespace}/workloads/{item.name}/status", body)


def preempt(server: ApiServer) -> None:
    """Kueue preempts every Workload."""
    for item in list(server.storage.table(WORKLOADS).items(None)):
        path = f"{ROOT}/namespaces/{item.namespace}/workloads/{item.name}"
        if holds(item.obj, "Admitted") and not holds(item.obj, "Evicted"):
            user.ask(server, "PUT", f"{path}/status", {**user.ask(server, "GET", path), **kueue.evicted(item.obj)})


def set_active(active: bool) -> user.Do:
    """A user takes every Workload out of the queue, or puts it back."""

    def do(server: ApiServer) -> None:
        for item in list(server.storage.table(WORKLOADS).items(None)):
            path = f"{ROOT}/namespaces/{item.namespace}/workloads/{item.name}"
            user.ask(server, "PATCH", path, {"spec": {"active": active}}, MERGE_PATCH)

    return do


def released(server: ApiServer) -> bool:
    """Whether no Workload has quota."""
    return not any(holds(item.obj, "QuotaReserved") for item in server.storage.table(WORKLOADS).items(None))


class WithinQuota:
    """Sees pods and Workloads: of a queued job no pod comes without quota, and no quota goes while one of its pods may run."""

    def __init__(self, scenario: Scenario, faults: Sequence[Fault], say: Callable[[float, str, str], None]) -> None:
        self._on, self._say = bool(scenario.settings.kueue), say
        # A create may take effect after its operator has given it up, which no client can see.
        self._prompt = not any(fault.kind == "slow-writes" for fault in faults)
        self._pods: dict[str, Item] = {}
        self._reserved: dict[str, str] = {}
        """By the UID of a Workload with quota, that of its job."""

    def see(self, at: float, change: Change, *, ours: bool) -> str:
        """Judge one change. Returns the UID of the job whose Workload it leaves without admission, "" for none."""
        if not self._on or change.table not in ("pods", WORKLOADS):
            return ""
        item, owner = change.item, _owner(change.item)
        if change.table == "pods":
            if self._prompt and change.type == ADDED and ours and owner not in self._reserved.values():
                self._say(at, "outside-quota", f"pods/{item.name} is created")
            self._pods.pop(item.uid, None)
            if change.type != DELETED:
                self._pods[item.uid] = item
            return ""
        had = self._reserved.pop(item.uid, None)
        if change.type != DELETED and "admission" in (item.obj.get("status") or {}):
            self._reserved[item.uid] = owner
        elif had and ours and (left := [pod.name for pod in self._pods.values() if _owner(pod) == had and _may_run(pod)]):
            self._say(at, "outside-quota", f"{item.name} gives its quota back, and {', '.join(left)} may still run")
        runs = change.type != DELETED and holds(item.obj, "Admitted") and not holds(item.obj, "Evicted")
        return "" if runs and item.obj["spec"].get("active") is not False else owner


def holds(workload: Obj, kind: str) -> bool:
    """Whether the condition is True."""
    conditions = (workload.get("status") or {}).get("conditions") or ()
    return any(one["type"] == kind and one["status"] == "True" for one in conditions)


def _owner(item: Item) -> str:
    return next((str(one["uid"]) for one in item.obj["metadata"].get("ownerReferences") or () if one.get("controller")), "")


def _may_run(pod: Item) -> bool:
    return (pod.obj.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
