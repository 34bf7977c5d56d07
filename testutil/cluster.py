"""A cluster for tests: the embedded one, in the test's own process and event loop, with the operators asked for.

::

    async with cluster_for(PYTORCH) as cluster:
        await cluster.create(job)
        job = await cluster.until(PYTORCH, "demo", succeeded)
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

from jobcommon.api.status import ConditionType, read_status
from jobcommon.cli.embedded import ServerTransport, TrainingCluster, training_cluster
from jobcommon.client.list_watch import WatchedObject, list_and_watch
from jobcommon.framework import Framework
from jobcommon.testutil.frameworks import path_of
from jobcommon.testutil.polling import polled
from localcluster.client import Api

Manifest = dict[str, Any]


class TestCluster(Api):
    """What a test does to the cluster and reads from it, all in the namespace default."""

    __test__ = False
    path = staticmethod(path_of)

    def __init__(self, cluster: TrainingCluster) -> None:
        super().__init__(ServerTransport(cluster.client))
        self.cluster = cluster

    async def create(self, of: Framework | str, body: Manifest) -> Manifest:
        """Create an object."""
        metadata = {key: value for key, value in body["metadata"].items() if key not in ("uid", "resourceVersion")}
        return await self.call("POST", self.path(of), {**body, "metadata": metadata})

    async def pods(self) -> list[Manifest]:
        """All pods."""
        return list((await self.call("GET", self.path("pods")))["items"])

    async def until(
        self, of: Framework | str, name: str, holds: Callable[[WatchedObject], bool], seconds: float = 120.0
    ) -> Manifest:
        """The object once `holds` says so of it. Raises AssertionError after `seconds`."""
        last: Manifest = {}
        try:
            async with asyncio.timeout(seconds), aclosing(list_and_watch(self.cluster.client, self.path(of))) as states:
                async for seen in states:
                    if seen.body["metadata"]["name"] == name:
                        last = seen.body
                        if holds(seen):
                            return last
        except TimeoutError:
            pass
        raise AssertionError(f"{name} is not so after {seconds} s: {json.dumps(last.get('status'), indent=1)}")

    async def until_gone(self, of: Framework | str, name: str) -> None:
        """Return once the object does not exist: what is not there has no watch event."""
        await polled(lambda: self.get(self.path(of, name)), lambda found: found is None)


def has(kind: ConditionType) -> Callable[[WatchedObject], bool]:
    """Whether a job has that condition. Raises AssertionError for one that has come to another end and never will."""

    def holds(seen: WatchedObject) -> bool:
        status = read_status(seen.body.get("status"))
        if status.finished and kind in (ConditionType.SUCCEEDED, ConditionType.FAILED):
            assert status.has(kind), status.conditions[-1].message
        return status.has(kind) and not seen.deleted

    return holds


succeeded = has(ConditionType.SUCCEEDED)
failed = has(ConditionType.FAILED)


@asynccontextmanager
async def cluster_for(*frameworks: Framework, operators: bool = True) -> AsyncIterator[TestCluster]:
    """An embedded cluster with the kinds of `frameworks` and their operators, for as long as the context lasts."""
    async with training_cluster(frameworks, stop_grace=1.0, operators=operators) as cluster:
        yield TestCluster(cluster)
