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
REPLICAS = 100
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


def restarted_status(code: int, restarts: int, stopped: str = "") -> Manifest:
    """The status of a pod whose container ended with that code, and runs again or is kept stopped by that image."""
    state = {"running": {"startedAt": STARTED}}
    if stopped:
        message = f'Failed to apply default image tag "{stopped}": couldn\'t parse image name'
        state = {"waiting": {"reason": "InvalidImageName", "message": message}}
    ended = {"exitCode": code, "reason": "Error", "startedAt": STARTED, "finishedAt": format_time(NOW)}
    container = _container(state, ready=not stopped) | {"restartCount": restarts, "lastState": {"terminated": ended}}
    return {**running_status(), "containerStatuses": [container]}


def _conditions(*, ready: bool) -> list[Manifest]:
    states = {"PodScheduled": True, "Initialized": True, "ContainersReady": ready, "Ready": ready}
    return [{"type": kind, "status": str(state), "lastTransitionTime": STARTED} for kind, state in states.items()]


def _container(state: Manifest, *, ready: bool) -> Manifest:
    image = {"image": IMAGE, "imageID": IMAGE_ID, "restartCount": 0}
    return {"name": TF.container, "ready": ready, "state": state, **image}


def running(pods: int) -> Iterator[tuple[str, Manifest]]:
    """Plural and object: jobs of a hundred replicas that all run, each complete with status, owners first."""
    for number in range(pods // REPLICAS):
        yield from life(f"job-{number}", REPLICAS, running_status(), keeps_service=True)


def finished(jobs: int) -> Iterator[tuple[str, Manifest]]:
    """The same for jobs of one replica that have succeeded and keep its pod."""
    for number in range(jobs):
        yield from life(f"job-{number}", 1, ended_status(0), keeps_service=False)


def life(name: str, replicas: int, status: Manifest, *, keeps_service: bool) -> Iterator[tuple[str, Manifest]]:
    """A job with its Service and pods, all in that state, and with the status that follows from it."""
    raw = stored(job_manifest(NAMESPACE, name, replicas))
    job = read_job(TF, raw)
    pods = [{**stored(pod_manifest(TF, job, replica)), "status": status} for replica in job.replicas]
    for pod in () if keeps_service else pods:
        del pod["metadata"]["finalizers"]
    services = [stored(service) for service in service_manifests(TF, job)] if keeps_service else []
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


async def write(transport: Transport, found: Iterable[tuple[str, Manifest]]) -> None:
    """Write the objects, owners first, each with its status; the UIDs are those that the server gives. Raises RuntimeError."""
    uids: dict[str, str] = {}
    owners: list[tuple[str, Manifest]] = []
    owned: list[tuple[str, Manifest]] = []
    for plural, obj in found:
        (owned if "ownerReferences" in obj["metadata"] else owners).append((plural, obj))

    async def work(queue: Iterator[tuple[str, Manifest]]) -> None:
        for plural, obj in queue:
            metadata = {key: value for key, value in obj["metadata"].items() if key not in ("uid", "resourceVersion")}
            for owner in metadata.get("ownerReferences", ()):
                owner["uid"] = uids[owner["uid"]]
            path = collection_path(obj["apiVersion"], plural, NAMESPACE)
            body = await send(transport, Request("POST", path, body=msgspec.json.encode({**obj, "metadata": metadata})))
            if obj["metadata"].get("uid"):
                uids[obj["metadata"]["uid"]] = msgspec.json.decode(body)["metadata"]["uid"]
            if "status" in obj:
                path = object_path(obj["apiVersion"], plural, NAMESPACE, metadata["name"]) + "/status"
                patch = msgspec.json.encode({"status": obj["status"]})
                await send(transport, Request("PATCH", path, body=patch, content_type=MERGE_PATCH))

    for part in (owners, owned):
        queue = iter(part)
        await asyncio.gather(*(work(queue) for _ in range(CONCURRENCY)))
