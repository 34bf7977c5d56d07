"""A kubelet without processes: every pod starts after a while, runs for a while and succeeds."""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

import msgspec

from jobcommon.api.timestamp import format_time
from localcluster.apiserver import ADMIN, ApiServer
from localcluster.apiserver.storage import DELETED, Item
from localcluster.request import MERGE_PATCH, Request

ENDED = ("Succeeded", "Failed")


class FakeKubelet:
    """A controller of the embedded server (`localcluster.controllers.Controller`), level-triggered: what it does next is read
    off the pod. `runs` counts the starts by namespace and pod name.
    """

    def __init__(self, server: ApiServer, now: Callable[[], float], *, start_after: float, run_for: float) -> None:
        self._server = server
        self._now = now
        self._pause = {"Pending": start_after, "Running": run_for}
        self._feed = server.storage.feed()
        self._due: list[tuple[float, str, str, int]] = []
        self.runs: dict[tuple[str, str], int] = {}

    def step(self) -> float | None:
        """Start and end the pods whose time has come."""
        while self._feed:
            change = self._feed.popleft()
            if change.table == "pods" and change.type != DELETED:
                phase = _phase(change.item)
                if phase not in ENDED and (change.old is None or _phase(change.old) != phase):
                    heappush(self._due, (self._now() + self._pause[phase], change.item.namespace, change.item.name, change.rv))
        while self._due and self._due[0][0] <= self._now():
            _, namespace, name, _ = heappop(self._due)
            pod = self._server.storage.table("pods").get(namespace, name)
            if pod is not None:
                self._proceed(pod)
        return self._due[0][0] if self._due else None

    def _proceed(self, pod: Item) -> None:
        phase = _phase(pod)
        moment = format_time(self._now())
        if phase == "Pending":
            self.runs[pod.namespace, pod.name] = self.runs.get((pod.namespace, pod.name), 0) + 1
            self._report(pod, "Running", {"running": {"startedAt": moment}}, ready=True)
        elif phase == "Running":
            run = {"exitCode": 0, "reason": "Completed", "startedAt": moment, "finishedAt": moment}
            self._report(pod, "Succeeded", {"terminated": run}, ready=False)

    def _report(self, pod: Item, phase: str, state: dict[str, Any], *, ready: bool) -> None:
        containers = [
            {"name": c["name"], "image": c["image"], "imageID": "", "restartCount": 0, "ready": ready, "state": state}
            for c in pod.obj["spec"]["containers"]
        ]
        conditions = [{"type": "Ready", "status": str(ready)}]
        status = {"phase": phase, "containerStatuses": containers, "conditions": conditions}
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/status"
        body = msgspec.json.encode({"metadata": {"uid": pod.uid}, "status": status})
        answer = self._server.handle(Request("PATCH", path, body=body, content_type=MERGE_PATCH), ADMIN)
        if answer.status not in (200, 404, 409):
            raise AssertionError(f"the kubelet may not report {pod.name}: {answer.body.decode()}")


def _phase(pod: Item) -> str:
    return str(pod.obj.get("status", {}).get("phase", "Pending"))
