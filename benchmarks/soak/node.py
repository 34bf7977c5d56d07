"""A kubelet that runs nothing: every pod runs as soon as it appears, and ends after a moment as its fate says.

It also deletes for good what is only marked as deleted. The API server deletes a pod in two steps, and does not take the
second one if the client is killed after the first.
"""

import asyncio
import sys
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from copy import deepcopy
from time import monotonic
from typing import Any

import msgspec

from benchmarks.informer_loop import run_informer
from benchmarks.seeds import ended_status, running_status
from benchmarks.soak.insistent import insist
from benchmarks.soak.jobs import FATE, NAMESPACE, PERMANENT, RETRYABLE, Fate
from benchmarks.workloads import Manifest
from jobcommon.api import labels
from jobcommon.cache.informer import Informer
from jobcommon.cache.store import Batch, Store
from jobcommon.client.objects import object_path
from jobcommon.client.request import MERGE_PATCH, Request, Transport

RUN_SECONDS = 0.5
#: A pod that is terminating for longer, without a finalizer, is deleted for good.
TERMINATION_SECONDS = 2.0


class Pod(msgspec.Struct, frozen=True):
    """The part of a pod that the kubelet needs."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    job: str
    fate: str
    container: str
    released: bool
    """Whether it is terminating without a finalizer."""


class _Metadata(msgspec.Struct, rename="camel"):
    namespace: str
    name: str
    uid: str
    resource_version: str
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    deletion_timestamp: str | None = None
    finalizers: list[str] = []


class _Container(msgspec.Struct):
    name: str


class _Spec(msgspec.Struct):
    containers: list[_Container]


class _Object(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec


_decode = msgspec.json.Decoder(_Object).decode


def _pod(data: bytes) -> Pod:
    found = _decode(data)
    meta = found.metadata
    job, fate = meta.labels.get(labels.JOB_NAME, ""), meta.annotations.get(FATE, "")
    container, released = found.spec.containers[0].name, meta.deletion_timestamp is not None and not meta.finalizers
    return Pod(meta.namespace, meta.name, meta.uid, meta.resource_version, job, fate, container, released)


class Node:
    """The kubelet. By job: when its pods appeared, how often the one with a fate did, when it ended for the last time."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._tasks: set[asyncio.Task[None]] = set()
        self._released: set[str] = set()
        self._changed = asyncio.Event()
        self.appeared: dict[str, list[float]] = defaultdict(list)
        self.deciders: Counter[str] = Counter()
        self.ended: dict[str, float] = {}
        self.present: Counter[str] = Counter()

    def take(self, batch: Batch[Pod]) -> None:
        """Handle the changes that a line of the watch brought."""
        for change in batch.changes:
            old, new = change.old, change.new
            if new is not None and new.released and new.uid not in self._released:
                self._released.add(new.uid)
                self._start(self._delete(new))
            if new is not None and old is not None and new.uid == old.uid:
                continue
            if old is not None:
                self.present[old.job] -= 1
                self._released.discard(old.uid)
            if new is not None:
                self.present[new.job] += 1
                self.appeared[new.job].append(monotonic())
                self.deciders[new.job] += bool(new.fate)
                if not new.released:
                    self._start(self._life(new, self.deciders[new.job]))
        self._notify()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Return once `holds`, asked after each change."""
        while not holds():
            await self._changed.wait()

    def forget(self, job: str) -> None:
        """The job is over."""
        for found in (self.appeared, self.deciders, self.ended, self.present):
            found.pop(job, None)

    async def _life(self, pod: Pod, number: int) -> None:
        await self._set(pod, running_status())
        if pod.fate in ("", Fate.DELETED.name):
            return
        await asyncio.sleep(RUN_SECONDS)
        again = pod.fate == Fate.RESTARTS.name and number == 1
        code = PERMANENT if pod.fate == Fate.FAILS.name else RETRYABLE if again else 0
        await self._set(pod, ended_status(code))
        self.ended[pod.job] = monotonic()
        self._notify()

    async def _delete(self, pod: Pod) -> None:
        await asyncio.sleep(TERMINATION_SECONDS)
        if pod.uid in self._released:
            body = msgspec.json.encode({"gracePeriodSeconds": 0, "preconditions": {"uid": pod.uid}})
            path = object_path("v1", "pods", pod.namespace, pod.name)
            await insist(self._transport, Request("DELETE", path, body=body), 404, 409)

    async def _set(self, pod: Pod, status: Manifest) -> None:
        status = deepcopy(status)
        status["containerStatuses"][0]["name"] = pod.container
        # The UID makes it a conflict when another pod of that name is there meanwhile.
        body = msgspec.json.encode({"metadata": {"uid": pod.uid}, "status": status})
        path = object_path("v1", "pods", pod.namespace, pod.name) + "/status"
        await insist(self._transport, Request("PATCH", path, body=body, content_type=MERGE_PATCH), 404, 409)

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._over)

    def _over(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            print(f"kubelet: {type(error).__name__}: {error}", file=sys.stderr, flush=True)


@asynccontextmanager
async def node(transport: Transport) -> AsyncIterator[Node]:
    """The kubelet, for as long as the context lasts."""
    found = Node(transport)
    informer = Informer(f"/api/v1/namespaces/{NAMESPACE}/pods", _pod, Store[Pod](), lambda: 0.5)
    task = asyncio.create_task(run_informer(informer, transport, found.take))
    try:
        while not informer.synced:  # noqa: ASYNC110  once, at the start
            await asyncio.sleep(0.005)
        yield found
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
