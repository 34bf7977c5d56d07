"""Deletes the pods of a node that do not tolerate its NoExecute taints, when their toleration ends."""

from typing import Any

from localcluster.apiserver.storage import Item
from localcluster.controllers.access import Access
from localcluster.request import STRATEGIC_PATCH
from localcluster.taints import patience
from localcluster.timestamps import format_time

Obj = dict[str, Any]


class TaintEviction:
    """Level-triggered: a toleration's seconds count from when the pod was first seen under the taints."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._since: dict[str, float] = {}

    def step(self) -> float | None:
        """Delete the pods that are due; returns the time of the next one."""
        now, due, seen = self._access.now, list[float](), set[str]()
        for node in self._access.items("nodes"):
            taints = [taint for taint in node.obj["spec"].get("taints") or () if taint.get("effect") == "NoExecute"]
            for pod in self._access.items("pods") if taints else ():
                if pod.obj["spec"].get("nodeName") != node.name or "deletionTimestamp" in pod.obj["metadata"]:
                    continue
                seconds = patience(pod.obj, taints)
                if seconds is None:
                    continue
                seen.add(pod.uid)
                ends = self._since.setdefault(pod.uid, now) + seconds
                if ends > now:
                    due.append(ends)
                else:
                    self._evict(pod)
        self._since = {uid: since for uid, since in self._since.items() if uid in seen}
        return min(due, default=None)

    def _evict(self, pod: Item) -> None:
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
        condition = {
            "type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager",
            "message": "Taint manager: deleting due to NoExecute taint",
            "lastProbeTime": None, "lastTransitionTime": format_time(self._access.now),
        }  # fmt: skip
        body: Obj = {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}
        self._access.send("PATCH", f"{path}/status", body, STRATEGIC_PATCH)
        self._access.send("DELETE", path, {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": pod.uid}})
