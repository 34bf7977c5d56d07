"""The baseline: a plain client that issues the writes that the operator would, known beforehand.

It creates the same pods and the one Service per job (or one per pod, as the reference's operator does) with as many
requests at once as the operator may have under way. When a job's last pod has ended it writes the job's status, and after
that removes the finalizers of the pods. It plans nothing, keeps no record of what it did, and its requests are encoded
before the clock starts.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from benchmarks.informer_loop import run_informer
from benchmarks.kubelet import FAILED, SUCCEEDED, Pod, pod_of
from benchmarks.seeds import NOW
from benchmarks.workloads import BASELINE_CONTROLLER, BASELINE_GROUP
from jobcommon.api import labels
from jobcommon.api.timestamp import format_time
from jobcommon.cache.informer import Informer
from jobcommon.cache.store import Batch, Store
from jobcommon.client.objects import delete, modify, object_path, replace
from jobcommon.client.request import Request, Transport
from jobcommon.framework import FINALIZER
from jobcommon.operators.tf import TF

#: The operator's default.
CONCURRENCY = 64
_API = f"{BASELINE_GROUP}/{TF.storage_version}"


async def send_all(transport: Transport, requests: Sequence[Request], concurrency: int = CONCURRENCY) -> list[bytes]:
    """Send the requests in order, `concurrency` at a time; returns the bodies of the responses. Raises RuntimeError."""
    bodies = [b""] * len(requests)
    queue = iter(enumerate(requests))

    async def work() -> None:
        for number, request in queue:
            answer = await transport.send(request)
            if answer.status >= 300:
                raise RuntimeError(f"{request.method} {request.path}: {answer.status} {answer.body[:300]!r}")
            bodies[number] = answer.body

    await asyncio.gather(*(work() for _ in range(min(concurrency, len(requests)))))
    return bodies


class Finisher:
    """Ends the baseline's jobs as their pods end: `jobs` are the answers to their creation, each of `replicas` replicas.

    With `held` it removes the finalizers of their pods afterwards.
    """

    def __init__(self, transport: Transport, namespace: str, jobs: Sequence[bytes], replicas: int, *, held: bool) -> None:
        self._transport = transport
        self._held = held
        self._namespace = namespace
        self._replicas = replicas
        raws: list[dict[str, Any]] = [msgspec.json.decode(body) for body in jobs]
        self._writes = {raw["metadata"]["name"]: final_status(raw, replicas) for raw in raws}
        self._ended: dict[str, dict[str, str]] = {name: {} for name in self._writes}
        # A status goes before the removal of finalizers.
        self._queue: asyncio.PriorityQueue[tuple[int, int, Request]] = asyncio.PriorityQueue()
        self._number = 0
        self.calls: Counter[str] = Counter()

    def take(self, batch: Batch[Pod]) -> None:
        """Handle the changes that a line of the watch brought."""
        for change in batch.changes:
            pod = change.new
            if pod is None or pod.phase != SUCCEEDED or pod.namespace != self._namespace:
                continue
            job = pod.name.rpartition("-worker-")[0]
            ended = self._ended[job]
            if pod.name in ended:
                continue
            ended[pod.name] = pod.uid
            if len(ended) == self._replicas:
                self._put(0, self._writes[job])
                for name, uid in ended.items() if self._held else ():
                    self._put(1, release(self._namespace, name, uid))

    def _put(self, rank: int, request: Request) -> None:
        self._number += 1
        self._queue.put_nowait((rank, self._number, request))

    async def work(self) -> None:
        """Send the queued requests, until cancelled."""

        async def one() -> None:
            while True:
                _, _, request = await self._queue.get()
                answer = await self._transport.send(request)
                if answer.status >= 300:
                    raise RuntimeError(f"{request.method} {request.path}: {answer.status} {answer.body[:300]!r}")

        await asyncio.gather(*(one() for _ in range(CONCURRENCY)))


@asynccontextmanager
async def finishing(
    transport: Transport, namespace: str, jobs: Sequence[bytes], replicas: int, *, held: bool = True
) -> AsyncIterator[None]:
    """The plain client finishes its jobs while the context lasts; `held`: their pods have finalizers."""
    finisher = Finisher(transport, namespace, jobs, replicas, held=held)
    selector = ("labelSelector", f"{labels.OPERATOR_NAME}={BASELINE_CONTROLLER}")
    path = f"/api/v1/namespaces/{namespace}/pods"
    informer = Informer(path, pod_of, Store[Pod](), lambda: 0.5, query=(selector,))
    tasks = [asyncio.create_task(run_informer(informer, transport, finisher.take)), asyncio.create_task(finisher.work())]
    try:
        while not informer.synced:  # noqa: ASYNC110  once, at the start
            await asyncio.sleep(0.005)
        yield
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def release(namespace: str, name: str, uid: str) -> Request:
    """The PATCH that removes the finalizer of a pod."""
    operations: list[dict[str, Any]] = [
        {"op": "test", "path": "/metadata/uid", "value": uid},
        {"op": "test", "path": "/metadata/finalizers", "value": [FINALIZER]},
        {"op": "replace", "path": "/metadata/finalizers", "value": []},
    ]
    return modify(object_path("v1", "pods", namespace, name), operations)


def final_status(raw: dict[str, Any], replicas: int) -> Request:
    """The PUT of a status as large as the operator's."""
    metadata, moment = raw["metadata"], format_time(NOW)
    conditions = [
        {
            "type": kind,
            "status": "False" if kind == "Running" else "True",
            "reason": f"TFJob{kind}",
            "message": f"TFJob {metadata['namespace']}/{metadata['name']} is {kind.lower()}.",
            "lastUpdateTime": moment,
            "lastTransitionTime": moment,
        }
        for kind in ("Created", "Running", SUCCEEDED)
    ]
    selector = f"{labels.JOB_NAME}={metadata['name']},{labels.OPERATOR_NAME}={BASELINE_CONTROLLER}"
    worker = {"succeeded": replicas, "succeededIndexes": f"0-{replicas - 1}", "selector": selector}
    status = {
        "conditions": conditions,
        "replicaStatuses": {"Worker": worker},
        "startTime": moment,
        "completionTime": moment,
    }
    path = object_path(_API, TF.plural, metadata["namespace"], metadata["name"])
    return replace(f"{path}/status", {**raw, "status": status})


@asynccontextmanager
async def replacing(transport: Transport, namespace: str, writes: Sequence[Request]) -> AsyncIterator[None]:
    """The plain client replaces every pod that fails: it removes the finalizer, deletes the pod and creates it again."""
    again = {msgspec.json.decode(w.body or b"")["metadata"]["name"]: w for w in writes if w.path.endswith("/pods")}
    turns = asyncio.Semaphore(CONCURRENCY)
    tasks: set[asyncio.Task[None]] = set()
    begun: set[str] = set()

    async def replaced(pod: Pod) -> None:
        path = object_path("v1", "pods", namespace, pod.name)
        async with turns:
            for request in (release(namespace, pod.name, pod.uid), delete(path, pod.uid), again[pod.name]):
                answer = await transport.send(request)
                if answer.status >= 300:
                    raise RuntimeError(f"{request.method} {request.path}: {answer.status} {answer.body[:300]!r}")

    def take(batch: Batch[Pod]) -> None:
        for change in batch.changes:
            pod = change.new
            if pod is not None and pod.phase == FAILED and pod.uid not in begun:
                begun.add(pod.uid)
                tasks.add(asyncio.create_task(replaced(pod)))

    informer = Informer(f"/api/v1/namespaces/{namespace}/pods", pod_of, Store[Pod](), lambda: 0.5)
    following = asyncio.create_task(run_informer(informer, transport, take))
    try:
        yield
        await asyncio.gather(*tasks)
    finally:
        for task in (following, *tasks):
            task.cancel()
        await asyncio.gather(following, *tasks, return_exceptions=True)
