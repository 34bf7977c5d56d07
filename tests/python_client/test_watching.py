"""`wait` on the embedded cluster: what it watches, and what it makes of missing rights."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from jobcommon import AsyncJobClient, HttpTransport, JobFailed
from jobcommon.client.request import MERGE_PATCH, Request, Response
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.sdk.following import Timing
from jobcommon.testutil.cluster import cluster_for, failed
from tests.cli.jobs import shell_job
from tests.cli.train_cluster import endpoint, reader

pytestmark = pytest.mark.cluster


async def it_polls(_seconds: float) -> None:
    raise AssertionError("it polls")


class Seen(HttpTransport):
    """A transport that says when a watch begins, and counts the reads of the job."""

    reads = 0

    async def send(self, request: Request) -> Response:
        self.reads += request.path.endswith("/pytorchjobs/demo") and request.method == "GET"
        return await super().send(request)

    async def stream(self, request: Request) -> AsyncIterator[bytes]:
        self.watching.set()
        async with aclosing(super().stream(request)) as lines:  # type: ignore[type-var]
            async for line in lines:
                yield line


async def test_the_end_of_a_job_is_seen_in_a_watch() -> None:
    async with cluster_for(PYTORCH) as cluster:
        transport = Seen(endpoint(cluster.cluster))
        transport.watching = asyncio.Event()
        job = await cluster.create(PYTORCH, shell_job("exit 0", suspend=True))
        waiting = asyncio.create_task(
            AsyncJobClient(transport, timing=Timing(it_polls)).wait(job, progress=False, interval=3600)
        )
        await transport.watching.wait()
        resume = {"spec": {"runPolicy": {"suspend": False}}}
        await cluster.send("PATCH", cluster.path(PYTORCH, "demo"), resume, MERGE_PATCH)
        done = await waiting
        assert done["status"]["conditions"][-1]["type"] == "Succeeded"
        assert transport.reads == 1
        await transport.close()


async def test_without_the_rights_to_watch_and_to_see_pods_the_job_is_read_and_its_failure_told() -> None:
    async with cluster_for(PYTORCH) as cluster:
        transport = HttpTransport(endpoint(cluster.cluster, await reader(cluster, "get")))
        await cluster.create(PYTORCH, shell_job("exit 3", suspend=True))
        pauses: list[float] = []

        async def pause(seconds: float) -> None:
            if not pauses:
                resume = {"spec": {"runPolicy": {"suspend": False}}}
                await cluster.send("PATCH", cluster.path(PYTORCH, "demo"), resume, MERGE_PATCH)
                await cluster.until(PYTORCH, "demo", failed)
            pauses.append(seconds)

        with pytest.raises(JobFailed) as failure:
            await AsyncJobClient(transport, timing=Timing(pause)).wait("demo", progress=False)
        await transport.close()
    assert pauses == [2.0]
    assert failure.value.exit_code == 3
    (unread,) = (fact for fact in failure.value.evidence if fact.startswith("pods could not be read: "))
    assert "system:serviceaccount:default:reader may not list pods in namespace default; ask for a Role" in unread
