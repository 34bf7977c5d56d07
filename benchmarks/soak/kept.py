"""The finished jobs beside which a long run takes place: written by a client, complete with their final status."""

import asyncio
from collections.abc import Iterator
from copy import deepcopy

import msgspec

from benchmarks.seeds import ended_status, running_status, send, settled, stored
from benchmarks.soak.jobs import FRAMEWORKS, KEPT, NAMESPACE, REPLICAS, manifest
from benchmarks.workloads import Manifest
from jobcommon.api.observed import Observed
from jobcommon.api.pod import pod_view
from jobcommon.client.objects import collection_path, object_path
from jobcommon.client.request import MERGE_PATCH, Request, Transport
from jobcommon.framework import Framework
from jobcommon.reconcile import read_job
from jobcommon.reconcile.children import pod_manifest

_CONCURRENCY = 48
_NAME = "kept-NUMBER"


def names(count: int) -> Iterator[tuple[Framework, str]]:
    """The jobs, of all kinds in turn."""
    for number in range(count):
        yield FRAMEWORKS[number % len(FRAMEWORKS)], _NAME.replace("NUMBER", str(number))


async def fill(transport: Transport, count: int) -> None:
    """Write `count` finished jobs. Raises RuntimeError."""
    bodies = {framework.kind: _bodies(framework) for framework in FRAMEWORKS}
    queue = names(count)

    async def work() -> None:
        for framework, name in queue:
            job, status = (body.replace(_NAME.encode(), name.encode()) for body in bodies[framework.kind])
            path = object_path(framework.api_version, framework.plural, NAMESPACE, name) + "/status"
            for request in (
                Request("POST", collection_path(framework.api_version, framework.plural, NAMESPACE), body=job),
                Request("PATCH", path, body=status, content_type=MERGE_PATCH),
            ):
                await send(transport, request)

    await asyncio.gather(*(work() for _ in range(_CONCURRENCY)))


def _bodies(framework: Framework) -> tuple[bytes, bytes]:
    """A job and its final status, with a name that is to be replaced."""
    job = manifest(framework, _NAME, KEPT)
    return msgspec.json.encode(job), msgspec.json.encode({"status": final_status(framework, job)})


def final_status(framework: Framework, job: Manifest) -> Manifest:
    """The status after whose write the operator has nothing more to do: its pods have ended and were deleted."""
    raw = stored(job)
    found = read_job(framework, raw)
    decider = REPLICAS[framework.kind][0]
    pods = []
    for replica in found.replicas:
        pod = stored(pod_manifest(framework, found, replica))
        pod["status"] = deepcopy(ended_status(0) if replica.type == decider else running_status())
        pod["status"]["containerStatuses"][0]["name"] = pod["spec"]["containers"][0]["name"]
        pods.append(pod_view(msgspec.json.encode(pod)))
    return settled(framework, raw, Observed(pods=tuple(pods)), Observed())
