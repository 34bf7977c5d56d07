"""The baseline: a plain client that issues the writes that the operator would, known beforehand.

It creates the same pods and the one Service per job with as many requests at once as the operator may have under way. When a
job's last pod has ended it writes the job's status, and after that removes the finalizers of the pods. It plans nothing,
keeps no record of what it did, and its requests are encoded before the clock starts.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from benchmarks.kubelet import SUCCEEDED, pod_of
from benchmarks.seeds import NOW
from benchmarks.sending import CONCURRENCY, send
from benchmarks.watching import watching
from benchmarks.workloads import BASELINE_CONTROLLER
from jobcommon.api import labels
from jobcommon.api.timestamp import format_time
from jobcommon.client.list_watch import WatchedObject
from jobcommon.client.request import Request, Transport
from jobcommon.framework import FINALIZER
from jobcommon.operators.tf import TF
from jobcommon.reconcile.plan import RemoveFinalizer
from jobcommon.runtime.writes import request_for, status_write


class Finisher:
    """Ends the baseline's jobs as their pods end: `jobs` are the answers to their creation, each of `replicas` replicas."""

    def __init__(self, transport: Transport, namespace: str, jobs: Sequence[bytes], replicas: int) -> None:
        self._transport = transport
        self._namespace = namespace
        self._replicas = replicas
        raws: list[dict[str, Any]] = [msgspec.json.decode(body) for body in jobs]
        self._writes = {raw["metadata"]["name"]: final_status(raw, replicas) for raw in raws}
        self._ended: dict[str, dict[str, str]] = {name: {} for name in self._writes}
        # A status goes before the removal of finalizers.
        self._queue: asyncio.PriorityQueue[tuple[int, int, Request]] = asyncio.PriorityQueue()
        self._number = 0

    def take(self, event: WatchedObject) -> None:
        """Handle a change."""
        pod = pod_of(event.body)
        ended = self._ended[job := pod.name.rpartition("-worker-")[0]]
        if event.deleted or pod.phase != SUCCEEDED or pod.name in ended:
            return
        ended[pod.name] = pod.uid
        if len(ended) == self._replicas:
            self._put(0, self._writes[job])
            for name, uid in ended.items():
                self._put(1, request_for(RemoveFinalizer(name, uid, (FINALIZER,)), self._namespace))

    def _put(self, rank: int, request: Request) -> None:
        self._number += 1
        self._queue.put_nowait((rank, self._number, request))

    async def work(self) -> None:
        """Send the queued requests, until cancelled."""

        async def one() -> None:
            while True:
                await send(self._transport, (await self._queue.get())[2])

        await asyncio.gather(*(one() for _ in range(CONCURRENCY)))


@asynccontextmanager
async def finishing(transport: Transport, namespace: str, jobs: Sequence[bytes], replicas: int) -> AsyncIterator[None]:
    """The plain client finishes its jobs while the context lasts."""
    finisher = Finisher(transport, namespace, jobs, replicas)
    query = (("labelSelector", f"{labels.OPERATOR_NAME}={BASELINE_CONTROLLER}"),)
    async with watching(transport, f"/api/v1/namespaces/{namespace}/pods", finisher.take, query):
        task = asyncio.create_task(finisher.work())
        try:
            yield
            if task.done():
                task.result()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


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
    times = {"startTime": moment, "completionTime": moment}
    status = {"conditions": conditions, "replicaStatuses": {"Worker": worker}, **times}
    return status_write(raw, TF.plural, status)
