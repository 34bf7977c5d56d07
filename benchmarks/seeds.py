"""Objects to fill a server with beforehand: jobs that run, or that have finished.

Their states are what the library itself decides, so an operator finds nothing to do.
"""

import asyncio
import uuid
from collections.abc import Iterable, Iterator

import msgspec

from benchmarks.sending import CONCURRENCY, send
from benchmarks.workloads import IMAGE, IMAGE_ID, Manifest, job_manifest
from jobcommon.api.observed import Observed
from jobcommon.api.pod import pod_view
from jobcommon.api.timestamp import format_time
from jobcommon.api.view import object_view
from jobcommon.client.objects import collection_path, object_path
from jobcommon.client.request import MERGE_PATCH, Request, Transport
from jobcommon.framework import Framework
from jobcommon.operators.tf import TF
from jobcommon.reconcile import plan, read_job
from jobcommon.reconcile.children import pod_manifest, service_manifests

NAMESPACE = "default"
NOW = 1_790_000_000.0
STARTED = format_time(NOW - 60)


def running_status() -> Manifest:
    """The status of a pod that runs."""
    return {
        "phase": "Running",
        "startTime": STARTED,
        "podIP": "10.0.0.1",
        "podIPs": [{"ip": "10.0.0.1"}],
        "conditions": _conditions(ready=True),
        "containerStatuses": [_container({"running": {"startedAt": STARTED}}, ready=True)],
    }


def ended_status(code: int) -> Manifest:
    """The status of a pod whose container has exited with that code."""
    times = {"startedAt": STARTED, "finishedAt": format_time(NOW)}
    ended = {"exitCode": code, "reason": "Error" if code else "Completed", **times}
    return {
        **running_status(),
        "phase": "Failed" if code else "Succeeded",
        "conditions": _conditions(ready=False),
        "containerStatuses": [_container({"terminated": ended}, ready=False)],
    }


def _conditions(*, ready: bool) -> list[Manifest]:
    states = {"PodScheduled": True, "Initialized": True, "ContainersReady": ready, "Ready": ready}
    return [{"type": kind, "status": str(state), "lastTransitionTime": STARTED} for kind, state in states.items()]


def _container(state: Manifest, *, ready: bool) -> Manifest:
    image = {"image": IMAGE, "imageID": IMAGE_ID, "restartCount": 0}
    return {"name": TF.container, "ready": ready, "state": state, **image}


def life(name: str, replicas: int, status: Manifest) -> Iterator[tuple[str, Manifest]]:
    """A job with its Service and pods, all in that state, and with the status that follows from it."""
    raw = stored(job_manifest(NAMESPACE, name, replicas))
    job = read_job(TF, raw)
    pods = [{**stored(pod_manifest(TF, job, replica)), "status": status} for replica in job.replicas]
    services = [stored(service) for service in service_manifests(TF, job)]
    observed = Observed(
        pods=tuple(pod_view(msgspec.json.encode(pod)) for pod in pods),
        services=tuple(object_view(msgspec.json.encode(service)) for service in services),
    )
    raw["status"] = settled(TF, raw, observed)
    yield TF.plural, raw
    for service in services:
        yield "services", service
    for pod in pods:
        yield "pods", pod


def stored(manifest: Manifest) -> Manifest:
    """The object as a server has it."""
    uid = str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{manifest['kind']}-{manifest['metadata']['name']}"))
    known = {"uid": uid, "resourceVersion": "1", "generation": 1, "creationTimestamp": STARTED}
    return {**manifest, "metadata": {**manifest["metadata"], **known}}


def settled(framework: Framework, raw: Manifest, *observed: Observed) -> Manifest:
    """The status after which the operator has nothing more to do, when it has seen these states of pods and Services."""
    for state in (*observed, observed[-1]):
        for _ in range(3):
            decided = plan(framework, read_job(framework, raw), state, NOW)
            if decided.status is not None:
                raw = {**raw, "status": decided.status.to_json()}
    if decided.status is not None or decided.actions:
        raise AssertionError(f"a {framework.kind} is not at rest: {decided.describe()}")
    status: Manifest = raw["status"]
    return status


async def write(transport: Transport, jobs: Iterable[tuple[str, Manifest]]) -> None:
    """Write the jobs, each with its status. Raises RuntimeError."""

    async def work(queue: Iterator[tuple[str, Manifest]]) -> None:
        for plural, job in queue:
            path = collection_path(job["apiVersion"], plural, NAMESPACE)
            await send(transport, Request("POST", path, body=msgspec.json.encode(job)))
            path = object_path(job["apiVersion"], plural, NAMESPACE, job["metadata"]["name"]) + "/status"
            patch = msgspec.json.encode({"status": job["status"]})
            await send(transport, Request("PATCH", path, body=patch, content_type=MERGE_PATCH))

    queue = iter(jobs)
    await asyncio.gather(*(work(queue) for _ in range(CONCURRENCY)))
