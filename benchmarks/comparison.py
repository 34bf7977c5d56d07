"""Our operator and another one, each beside the plain client that issues its writes: four in turn on one server.

Their jobs are TFJobs without dynamic workers: to those the reference's operator does not apply its expectations, so that it
tries to create pods twice. Before each turn what the last one made is deleted. Both operators first run a job of one pod to
its end, so that neither pays in its measured time for what it does once.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace

from benchmarks import baseline_client
from benchmarks.apiserver import Server, prepare
from benchmarks.jobs import watched
from benchmarks.kubelet import SUCCEEDED, Kubelet, kubelet
from benchmarks.lifecycle_timings import LifecycleTimings, baseline_lifecycle, operator_lifecycle
from benchmarks.operator_process import Measured, operator
from benchmarks.peer import Peer, peer_process
from benchmarks.record import PeerResult
from benchmarks.scenarios import cluster
from benchmarks.workloads import BASELINE_GROUP, Workload, submissions
from jobcommon.client.objects import collection_path
from jobcommon.client.request import Request
from jobcommon.operators.tf import TF

#: A new leader may wait for the lease of one that ended.
FIRST_JOB_SECONDS = 60.0
_COLLECTIONS = (
    (TF.api_version, TF.plural), (f"{BASELINE_GROUP}/{TF.storage_version}", TF.plural), ("v1", "pods"), ("v1", "services"),
    ("v1", "events"),
)  # fmt: skip


async def peer_result(kind: str, workload: Workload, rounds: int, peer: Peer) -> PeerResult:
    """All four in turn, `rounds` times. Raises RuntimeError if the peer does not do its part."""
    found = PeerResult(str(workload), workload.jobs, workload.replicas, peer.name, peer.services)
    workload = replace(workload, whole=True)
    async with cluster(kind) as server, kubelet(str(server.kubeconfig)) as agent:
        for number in range(rounds):
            async with _turn(server, f"baseline-{number}") as namespace:
                found.baseline.append(await baseline_lifecycle(server, agent, workload, namespace))
            ours = operator(str(server.kubeconfig))
            found.operator.append(await _measured(server, agent, workload, f"operator-{number}", ours))
            async with _turn(server, f"peer-baseline-{number}") as namespace:
                found.peer_baseline.append(await baseline_lifecycle(server, agent, workload, namespace, peer.services))
            theirs = peer_process(peer, server, f"peer-account-{number}")
            found.peer_operator.append(await _measured(server, agent, workload, f"peer-{number}", theirs))
    return found


async def _measured(
    server: Server,
    agent: Kubelet,
    workload: Workload,
    name: str,
    started: AbstractAsyncContextManager[Measured],
) -> LifecycleTimings:
    async with _turn(server, f"{name}-first") as first, _turn(server, name) as namespace, started as process:
        await process.during(_first_job(server, agent, first))
        return await process.during(operator_lifecycle(server, agent, process, workload, namespace))


async def _first_job(server: Server, agent: Kubelet, namespace: str) -> None:
    """A job of one pod, from its POST to its final status. Raises RuntimeError if that takes too long."""
    async with server.connected() as user:
        await prepare(user, namespace)
        async with watched(user, namespace) as jobs:
            await baseline_client.send_all(user, submissions(Workload(1, 1, whole=True), namespace))
            try:
                async with asyncio.timeout(FIRST_JOB_SECONDS):
                    await agent.seen(namespace, 1)
                    await agent.mark(namespace, SUCCEEDED)
                    await jobs.having(SUCCEEDED, 1)
            except TimeoutError:
                raise RuntimeError(f"a first job of one pod did not succeed within {FIRST_JOB_SECONDS:g} s") from None


@asynccontextmanager
async def _turn(server: Server, namespace: str) -> AsyncIterator[str]:
    """A namespace, whose objects are deleted afterwards: the next one is measured without them."""
    yield namespace
    async with server.connected() as user:
        paths = [collection_path(api_version, plural, namespace) for api_version, plural in _COLLECTIONS]
        await baseline_client.send_all(user, [Request("DELETE", path) for path in paths], 1)
