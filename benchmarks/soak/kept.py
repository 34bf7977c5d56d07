"""The finished jobs beside which a long run takes place: written by a client, complete with their final status."""

import asyncio
from collections.abc import Iterator

import msgspec

from benchmarks.seeds import NOW, STARTED, ended_status, running_status
from benchmarks.soak.jobs import FRAMEWORKS, KEPT, NAMESPACE, REPLICAS, manifest
from benchmarks.workloads import Manifest
from jobcommon.api.observed import Observed
from jobcommon.api.pod import pod_view
from jobcommon.client.objects import collection_path, object_path
from jobcommon.client.request import MERGE_PATCH, Request, Transport
from jobcommon.framework import Framework
from jobcommon.reconcile import plan, read_job
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
                answer = await transport.send(request)
                if answer.status >= 300:
                    raise RuntimeError(f"{request.method} {request.path}: {answer.status} {answer.body[:300]!r}")

    await asyncio.gather(*(work() for _ in range(_CONCURRENCY)))


def _bodies(framework: Framework) -> tuple[bytes, bytes]:
    """A job and its final status, with a name that is to be replaced."""
    job = manifest(framework, _NAME, KEPT)
    return msgspec.json.encode(job), msgspec.json.encode({"status": final_status(framework, job)})


def final_status(framework: Framework, job: Manifest) -> Manifest:
    """The status after whose write the operator has nothing more to do: its pods have ended and were deleted."""
    metadata = {**job["metadata"], "uid": "uid", "resourceVersion": "1", "generation": 1, "creationTimestamp": STARTED}
    raw: Manifest = {**job, "metadata": metadata}
    found = read_job(framework, raw)
    decider = REPLICAS[framework.kind][0]
    pods = []
    for replica in found.replicas:
        pod = pod_manifest(framework, found, replica)
        pod["metadata"] |= {"uid": pod["metadata"]["name"], "creationTimestamp": STARTED, "resourceVersion": "1"}
        state = ended_status(0) if replica.type == decider else running_status()
        state["containerStatuses"][0]["name"] = pod["spec"]["containers"][0]["name"]
        pods.append(pod_view(msgspec.json.encode({**pod, "status": state})))
    for observed in (Observed(pods=tuple(pods)), Observed()):
        for _ in range(3):
            decided = plan(framework, read_job(framework, raw), observed, NOW)
            if decided.status is not None:
                raw = {**raw, "status": decided.status.to_json()}
    decided = plan(framework, read_job(framework, raw), Observed(), NOW)
    if decided.status is not None or decided.actions:
        raise AssertionError(f"a finished {framework.kind} is not at rest: {decided.describe()}")
    status: Manifest = raw["status"]
    return status
