"""When each job got which condition, as a client of the API server observes it."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic

import msgspec

from benchmarks.informer_loop import run_informer
from jobcommon.cache.informer import Informer
from jobcommon.cache.store import Batch, Store
from jobcommon.client.request import Transport
from jobcommon.operators.tf import TF

WAIT_SECONDS = 900.0


class ObservedJob(msgspec.Struct, frozen=True):
    """A job and the conditions that hold for it."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    conditions: tuple[str, ...]


class _Metadata(msgspec.Struct, rename="camel"):
    namespace: str
    name: str
    uid: str
    resource_version: str


class _Condition(msgspec.Struct):
    type: str
    status: str


class _Status(msgspec.Struct):
    conditions: list[_Condition] = []


class _Object(msgspec.Struct):
    metadata: _Metadata
    status: _Status = msgspec.field(default_factory=_Status)


_decode = msgspec.json.Decoder(_Object).decode


def observed(data: bytes) -> ObservedJob:
    found = _decode(data)
    meta = found.metadata
    holding = tuple(c.type for c in found.status.conditions if c.status == "True")
    return ObservedJob(meta.namespace, meta.name, meta.uid, meta.resource_version, holding)


class Jobs:
    """When each job of a namespace was first seen with each condition."""

    def __init__(self) -> None:
        self._times: dict[str, dict[str, float]] = defaultdict(dict)
        self._changed = asyncio.Event()

    def take(self, batch: Batch[ObservedJob]) -> None:
        """Handle the changes that a line of the watch brought."""
        now = monotonic()
        for change in batch.changes:
            for condition in change.new.conditions if change.new is not None else ():
                assert change.new is not None
                self._times[condition].setdefault(change.new.name, now)
        self._changed.set()

    async def having(self, condition: str, count: int) -> dict[str, float]:
        """When each job got the condition, once `count` jobs have it. Raises TimeoutError."""
        async with asyncio.timeout(WAIT_SECONDS):
            while len(self._times[condition]) < count:
                self._changed.clear()
                await self._changed.wait()
        return dict(self._times[condition])


@asynccontextmanager
async def watched(transport: Transport, namespace: str, group: str = TF.group) -> AsyncIterator[Jobs]:
    """The jobs of a namespace, for as long as the context lasts."""
    jobs = Jobs()
    path = f"/apis/{group}/{TF.storage_version}/namespaces/{namespace}/{TF.plural}"
    informer = Informer(path, observed, Store[ObservedJob](), lambda: 0.5)
    task = asyncio.create_task(run_informer(informer, transport, jobs.take))
    try:
        while not informer.synced:  # noqa: ASYNC110  once, at the start
            await asyncio.sleep(0.005)
        yield jobs
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
