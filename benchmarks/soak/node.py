"""A kubelet that runs nothing: every pod runs as soon as it appears, and ends after a moment as its fate says.

It also deletes for good what is only marked as deleted. The API server deletes a pod in two steps, and does not take the
second one if the client is killed after the first.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from copy import deepcopy
from time import monotonic
from typing import Any

import msgspec

from benchmarks.seeds import ended_status, running_status
from benchmarks.soak.insistent import insist
from benchmarks.soak.jobs import FATE, NAMESPACE, PERMANENT, RETRYABLE, Fate
from benchmarks.watching import watching
from benchmarks.workloads import Manifest
from jobcommon.api import labels
from jobcommon.client.list_watch import WatchedObject
from jobcommon.client.objects import object_path
from jobcommon.client.request import MERGE_PATCH, Request, Transport

RUN_SECONDS = 0.5
#: A pod that is terminating for longer, without a finalizer, is deleted for good.
TERMINATION_SECONDS = 2.0

Pod = dict[str, Any]


class Node:
    """The kubelet. By job: when its pods appeared, how often the one with a fate did, when it ended for the last time."""

    def __init__(self, transport: Transport, tasks: asyncio.TaskGroup) -> None:
        self._transport = transport
        self._tasks = tasks
        self._known: set[str] = set()
        self._released: set[str] = set()
        self._changed = asyncio.Event()
        self.appeared: dict[str, list[float]] = defaultdict(list)
        self.deciders: Counter[str] = Counter()
        self.ended: dict[str, float] = {}
        self.present: Counter[str] = Counter()

    def take(self, event: WatchedObject) -> None:
        """Handle a change."""
        metadata = event.body["metadata"]
        job, uid = metadata["labels"][labels.JOB_NAME], metadata["uid"]
        released = "deletionTimestamp" in metadata and not metadata.get("finalizers")
        if event.deleted:
            self.present[job] -= uid in self._known
            self._known.discard(uid)
            self._released.discard(uid)
        elif uid not in self._known:
            self._known.add(uid)
            self.present[job] += 1
            self.appeared[job].append(monotonic())
            self.deciders[job] += FATE in metadata.get("annotations", {})
            if not released:
                self._tasks.create_task(self._life(event.body, job, self.deciders[job]))
        if released and not event.deleted and uid not in self._released:
            self._released.add(uid)
            self._tasks.create_task(self._delete(event.body))
        self._notify()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Return once `holds`, asked after each change."""
        while not holds():
            await self._changed.wait()

    def forget(self, job: str) -> None:
        """The job is over."""
        for found in (self.appeared, self.deciders, self.ended, self.present):
            found.pop(job, None)

    async def _life(self, pod: Pod, job: str, number: int) -> None:
        fate = pod["metadata"].get("annotations", {}).get(FATE, "")
        await self._set(pod, running_status())
        if fate in ("", Fate.DELETED.name):
            return
        await asyncio.sleep(RUN_SECONDS)
        again = fate == Fate.RESTARTS.name and number == 1
        await self._set(pod, ended_status(PERMANENT if fate == Fate.FAILS.name else RETRYABLE if again else 0))
        self.ended[job] = monotonic()
        self._notify()

    async def _delete(self, pod: Pod) -> None:
        await asyncio.sleep(TERMINATION_SECONDS)
        if (uid := pod["metadata"]["uid"]) in self._released:
            body = msgspec.json.encode({"gracePeriodSeconds": 0, "preconditions": {"uid": uid}})
            await insist(self._transport, Request("DELETE", _path(pod), body=body), 404, 409)

    async def _set(self, pod: Pod, status: Manifest) -> None:
        status = deepcopy(status)
        status["containerStatuses"][0]["name"] = pod["spec"]["containers"][0]["name"]
        # The UID makes it a conflict when another pod of that name is there meanwhile.
        body = msgspec.json.encode({"metadata": {"uid": pod["metadata"]["uid"]}, "status": status})
        await insist(self._transport, Request("PATCH", f"{_path(pod)}/status", body=body, content_type=MERGE_PATCH), 404, 409)

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def _path(pod: Pod) -> str:
    return object_path("v1", "pods", NAMESPACE, pod["metadata"]["name"])


@asynccontextmanager
async def node(transport: Transport) -> AsyncIterator[Node]:
    """The kubelet, for as long as the context lasts, and until what it has begun is done."""
    async with asyncio.TaskGroup() as tasks:
        found = Node(transport, tasks)
        async with watching(transport, f"/api/v1/namespaces/{NAMESPACE}/pods", found.take):
            yield found
