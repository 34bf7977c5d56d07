"""Kueue where operators own the Workloads: it admits them, takes evicted ones back, and an oracle watches over the quota."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from jobcommon.api import kueue as kueue_names
from jobcommon.client.request import MERGE_PATCH
from jobcommon.framework import Framework
from jobcommon.testutil import kueue
from jobcommon.testutil.sim import user
from jobcommon.testutil.sim.faults import Fault
from jobcommon.testutil.sim.kubelet import Draw
from jobcommon.testutil.sim.scenario import Scenario
from localcluster import ApiServer
from localcluster.model import ADDED, DELETED, Access, Change, Item, parse_time

Obj = dict[str, Any]
WORKLOADS = kueue_names.KUEUE_WORKLOADS
API = kueue_names.KUEUE_API
ROOT = f"/apis/{API}"
FLAVOR = {
    "apiVersion": API,
    "kind": "ResourceFlavor",
    "metadata": {"name": "default"},
    "spec": {"nodeLabels": {}},
}
OBJECTS = (*((user.DEFINITIONS, one) for one in kueue.definitions()), (f"{ROOT}/resourceflavors", FLAVOR))
"""What a cluster has where Kueue is installed."""
#: What Kueue takes to reserve quota for a new Workload, and its admission checks after that.
RESERVATION_SECONDS, CHECK_SECONDS = 3.0, 1.0
#: For how long an operator may not have seen that a Workload is gone.
LAG_SECONDS = 60.0
#: It crashes after a quarter of its writes, and is away for up to so many seconds.
CRASHES, AWAY_SECONDS = 0.25, 20.0
_URGENT = {"metadata": {"name": "urgent"}, "value": 1000}
PRIORITIES = ((f"{ROOT}/workloadpriorityclasses", {"apiVersion": API, "kind": "WorkloadPriorityClass", **_URGENT}),)


class Kueue:
    """It gives quota to a limited number of active Workloads: of the highest priority, the oldest first, and then admits them.

    Those that are set inactive, and those of a lower priority than one that waits, are evicted.
    """

    def __init__(self, server: ApiServer, scenario: Scenario, draw: Draw) -> None:
        self._access = Access(server, "kueue")
        self._admits, self._draw = scenario.admits, draw
        self._writes, self._away_until = 0, float("-inf")

    def step(self) -> float | None:
        """Do what is due, up to the next crash."""
        now, due = self._access.now, []
        if now < self._away_until:
            return self._away_until
        for item, at, change in self._changes():
            if now < at:
                due.append(at)
                continue
            body = {"apiVersion": API, "kind": "Workload", **change(item.obj, now)}
            self._access.send("PUT", f"{ROOT}/namespaces/{item.namespace}/workloads/{item.name}/status", body)
            self._writes += 1
            if self._draw(f"kueue-crash/{self._writes}", 0.0, 1.0) < CRASHES:
                self._away_until = now + self._draw(f"kueue-away/{self._writes}", 1.0, AWAY_SECONDS)
                return self._away_until
        return min(due, default=None)

    def _changes(self) -> Iterator[tuple[Item, float, Callable[[Obj, float], Obj]]]:
        """What to write to which Workload, and when."""
        open_ = [item for item in self._access.items(WORKLOADS) if not holds(item.obj, "Finished")]
        inactive = [item for item in open_ if item.obj["spec"].get("active") is False]
        for item in inactive:
            if not holds(item.obj, "Evicted"):
                yield item, 0.0, lambda obj, now: kueue.evicted(obj, "Deactivated", now)
        holding = [item for item in open_ if holds(item.obj, "QuotaReserved")]
        stay = [item for item in holding if item not in inactive and not holds(item.obj, "Evicted")]
        for item in stay:
            if not holds(item.obj, "Admitted"):
                yield item, _since(item, "QuotaReserved") + CHECK_SECONDS, lambda obj, now: kueue.admitted(obj, at=now)
        waiting = sorted((item for item in open_ if item not in holding and item not in inactive), key=_rank)
        free = self._admits - len(holding)
        for item in waiting[: max(free, 0)]:
            at = parse_time(item.obj["metadata"]["creationTimestamp"]) + RESERVATION_SECONDS
            yield item, at, lambda obj, now: kueue.reserved(obj, at=now)
        if waiting and free <= 0 and len(stay) == len(holding):
            last = max(stay, key=_rank)
            if _priority(last) < _priority(waiting[0]):
                yield last, 0.0, lambda obj, now: kueue.evicted(obj, at=now)


def _priority(workload: Item) -> int:
    return int(workload.obj["spec"].get("priority") or 0)


def _rank(workload: Item) -> tuple[int, str, str]:
    return -_priority(workload), workload.obj["metadata"]["creationTimestamp"], workload.name


def _since(workload: Item, kind: str) -> float:
    return next(parse_time(one["lastTransitionTime"]) for one in workload.obj["status"]["conditions"] if one["type"] == kind)


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


def copied(framework: Framework, name: str) -> user.Do:
    """MultiKueue copies the end of the job from the cluster in which it ran."""
    ended = {"type": "Succeeded", "status": "True", "reason": f"{framework.kind}Succeeded", "message": "done elsewhere"}
    return user.merge(framework, name, {"status": {"conditions": [ended], "replicaStatuses": {}}}, "status")


def released(server: ApiServer) -> bool:
    """Whether no Workload has quota."""
    return not any(holds(item.obj, "QuotaReserved") for item in server.storage.table(WORKLOADS).items(None))


def admitted(server: ApiServer) -> bool:
    """Whether a Workload is admitted."""
    return any(holds(item.obj, "Admitted") for item in server.storage.table(WORKLOADS).items(None))


def reclaimed(server: ApiServer) -> bool:
    """Whether quota of pods that have succeeded was given back."""
    return any(
        item.obj["status"].get("reclaimablePods")
        for item in server.storage.table(WORKLOADS).items(None)
        if "status" in item.obj
    )


class WithinQuota:
    """Of a queued job no pod is created without admission, and in no podSet may more pods run than have quota."""

    def __init__(self, scenario: Scenario, faults: Sequence[Fault], say: Callable[[float, str, str], None]) -> None:
        self._on, self._say = bool(scenario.settings.kueue), say
        # A create may take effect after its operator has given it up, which no client can see.
        self._prompt = not any(fault.kind == "slow-writes" for fault in faults)
        self._pods: dict[str, Item] = {}
        self._workloads: dict[str, Item] = {}
        """Those with quota, by UID."""
        self._deleted: dict[str, float] = {}
        """By the UID of a job, when its Workload was deleted by others."""
        self.stopped: set[str] = set()
        """The UIDs of the jobs whose Workload is not admitted."""

    def see(self, at: float, change: Change, *, ours: bool) -> str:
        """Judge one change. Returns the UID of the job whose Workload has changed, "" for none."""
        if not self._on or change.table not in ("pods", WORKLOADS):
            return ""
        item, owner = change.item, _owner(change.item)
        if change.table == "pods":
            self._pods.pop(item.uid, None)
            if change.type != DELETED:
                self._pods[item.uid] = item
            if self._prompt and change.type == ADDED and ours:
                has_quota = any(_owner(one) == owner and holds(one.obj, "Admitted") for one in self._workloads.values())
                if not has_quota and at > self._deleted.get(owner, -LAG_SECONDS) + LAG_SECONDS:
                    self._say(at, "outside-quota", f"pods/{item.name} is created")
                self._count(at, owner)
            return ""
        had = self._workloads.pop(item.uid, None)
        if change.type != DELETED and "admission" in (item.obj.get("status") or {}):
            self._workloads[item.uid] = item
            if ours:
                self._count(at, owner)
        elif (
            had and ours and (left := [pod.name for pod in self._pods.values() if _owner(pod) == _owner(had) and _may_run(pod)])
        ):
            self._say(at, "outside-quota", f"{item.name} gives its quota back, and {', '.join(left)} may still run")
        if change.type == DELETED and not ours:
            self._deleted[owner] = at
        runs = change.type != DELETED and holds(item.obj, "Admitted") and not holds(item.obj, "Evicted")
        self.stopped = (
            self.stopped - {owner} if runs and item.obj["spec"].get("active") is not False else self.stopped | {owner}
        )
        return owner

    def _count(self, at: float, owner: str) -> None:
        """More pods of a podSet may run than it has quota for, less what was given back."""
        may_run = [pod for pod in self._pods.values() if _owner(pod) == owner and _may_run(pod)]
        counts = Counter(pod.obj["metadata"]["labels"].get(kueue_names.POD_SET_LABEL) for pod in may_run)
        for status in (one.obj["status"] for one in self._workloads.values() if _owner(one) == owner):
            back = {one["name"]: one["count"] for one in status.get("reclaimablePods") or ()}
            for one in status["admission"]["podSetAssignments"]:
                if counts[one["name"]] > one["count"] - back.get(one["name"], 0):
                    self._say(at, "outside-quota", f"{counts[one['name']]} pods of podSet {one['name']} may run")


def holds(workload: Obj, kind: str) -> bool:
    """Whether the condition is True."""
    conditions = (workload.get("status") or {}).get("conditions") or ()
    return any(one["type"] == kind and one["status"] == "True" for one in conditions)


def _owner(item: Item) -> str:
    return next((str(one["uid"]) for one in item.obj["metadata"].get("ownerReferences") or () if one.get("controller")), "")


def _may_run(pod: Item) -> bool:
    return (pod.obj.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
