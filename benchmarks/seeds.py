"""Objects to fill a server with beforehand: jobs that run, or that have finished.

A seed is ``running:PODS``, jobs of a hundred replicas that all run, or ``finished:JOBS``, jobs of one replica that have
succeeded and keep its pod. Their states are what the library itself decides, so an operator finds nothing to do.
"""

import asyncio
import uuid
from collections.abc import Iterator

import msgspec

from benchmarks.workloads import IMAGE, Manifest, job_manifest
from jobcommon.api.observed import Observed
from jobcommon.api.pod import pod_view
from jobcommon.api.timestamp import format_time
from jobcommon.api.view import object_view
from jobcommon.client.objects import collection_path, object_path
from jobcommon.client.request import MERGE_PATCH, Request, Transport
from jobcommon.operators.tf import TF
from jobcommon.reconcile import plan, read_job
from jobcommon.reconcile.children import pod_manifest, service_manifests
from localcluster.apiserver import ApiServer

NAMESPACE = "default"
REPLICAS = 100
NOW = 1_790_000_000.0
STARTED = format_time(NOW - 60)
_CONCURRENCY = 64


def running_status() -> Manifest:
    """The status of a pod that runs."""
    return {
        "phase": "Running",
        "startTime": STARTED,
        "podIP": "10.0.0.1",
        "podIPs": [{"ip": "10.0.0.1"}],
        "conditions": [
            {"type": kind, "status": "True", "lastTransitionTime": STARTED}
            for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
        ],
        "containerStatuses": [_container({"running": {"startedAt": STARTED}}, ready=True)],
    }


def ended_status(code: int) -> Manifest:
    """The status of a pod whose container has exited with that code."""
    times = {"startedAt": STARTED, "finishedAt": format_time(NOW)}
    ended = {"exitCode": code, "reason": "Error" if code else "Completed", **times}
    return {
        **running_status(),
        "phase": "Failed" if code else "Succeeded",
        "conditions": [
            {
                "type": kind,
                "status": "True" if kind in ("PodScheduled", "Initialized") else "False",
                "lastTransitionTime": STARTED,
            }
            for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
        ],
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


def _container(state: Manifest, *, ready: bool) -> Manifest:
    digest = f"registry.example.com/train@sha256:{'0' * 64}"
    image = {"image": IMAGE, "imageID": digest, "restartCount": 0}
    return {"name": TF.container, "ready": ready, "state": state, **image}


def objects(seed: str) -> Iterator[tuple[str, Manifest]]:
    """Plural and object, each complete with status, in an order in which owners come first. Raises ValueError."""
    kind, _, count = seed.partition(":")
    if kind == "running":
        for number in range(int(count) // REPLICAS):
            yield from life(f"job-{number}", REPLICAS, running_status(), keeps_service=True)
    elif kind == "finished":
        for number in range(int(count)):
            yield from life(f"job-{number}", 1, ended_status(0), keeps_service=False)
    else:
        raise ValueError(f"no such seed: {seed}; use running:PODS or finished:JOBS")


def life(name: str, replicas: int, status: Manifest, *, keeps_service: bool) -> Iterator[tuple[str, Manifest]]:
    """A job with its Service and pods, all in that state, and with the status that follows from it."""
    raw = job_manifest(NAMESPACE, name, replicas)
    raw["metadata"] |= {"uid": _uid(name), "resourceVersion": "1", "generation": 1, "creationTimestamp": STARTED}
    job = read_job(TF, raw)
    pods = [pod_manifest(TF, job, replica) for replica in job.replicas]
    for pod in pods:
        pod["metadata"] |= {"uid": _uid(pod["metadata"]["name"]), "creationTimestamp": STARTED, "resourceVersion": "1"}
        pod["status"] = status
        if not keeps_service:
            del pod["metadata"]["finalizers"]
    services = service_manifests(TF, job) if keeps_service else []
    for service in services:
        service["metadata"] |= {"uid": _uid(f"{name}-service"), "creationTimestamp": STARTED, "resourceVersion": "1"}
    raw["status"] = _settled(raw, pods, services)
    yield TF.plural, raw
    for service in services:
        yield "services", service
    for pod in pods:
        yield "pods", pod


def _uid(name: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, name))


def _settled(raw: Manifest, pods: list[Manifest], services: list[Manifest]) -> Manifest:
    """The status after which the operator has nothing more to do."""
    observed = Observed(
        pods=tuple(pod_view(msgspec.json.encode(pod)) for pod in pods),
        services=tuple(object_view(msgspec.json.encode(service)) for service in services),
    )
    for _ in range(3):
        decided = plan(TF, read_job(TF, raw), observed, NOW)
        if decided.status is None:
            if decided.actions:
                raise AssertionError(f"the seed is not at rest: {decided.describe()}")
            status: Manifest = raw["status"]
            return status
        raw = {**raw, "status": decided.status.to_json()}
    raise AssertionError("the seed's status does not settle")


def put(server: ApiServer, seed: str) -> None:
    """Put the objects straight into an embedded server's store."""
    for plural, obj in objects(seed):
        table = f"{plural}.{TF.group}" if plural == TF.plural else plural
        bare = {key: value for key, value in obj.items() if key not in ("apiVersion", "kind")}
        server.storage.put(table, NAMESPACE, obj["metadata"]["name"], bare)


async def write(transport: Transport, seed: str) -> None:
    """Write the objects to any server, owners first, each with its status; the UIDs are those that the server gives."""
    found = list(objects(seed))
    uids: dict[str, str] = {}
    turns = asyncio.Semaphore(_CONCURRENCY)

    async def one(plural: str, obj: Manifest) -> None:
        metadata = {key: value for key, value in obj["metadata"].items() if key not in ("uid", "resourceVersion")}
        for owner in metadata.get("ownerReferences", ()):
            owner["uid"] = uids[owner["uid"]]
        path = collection_path(obj["apiVersion"], plural, NAMESPACE)
        body = {**obj, "metadata": metadata}
        async with turns:
            answer = await transport.send(Request("POST", path, body=msgspec.json.encode(body)))
            if answer.status != 201:
                raise RuntimeError(f"{path}: {answer.status} {answer.body[:200]!r}")
            if plural == TF.plural:
                uids[obj["metadata"]["uid"]] = msgspec.json.decode(answer.body)["metadata"]["uid"]
            if "status" in obj:
                status = object_path(obj["apiVersion"], plural, NAMESPACE, obj["metadata"]["name"]) + "/status"
                patch = msgspec.json.encode({"status": obj["status"]})
                await transport.send(Request("PATCH", status, body=patch, content_type=MERGE_PATCH))

    await asyncio.gather(*(one(plural, obj) for plural, obj in found if plural == TF.plural))
    await asyncio.gather(*(one(plural, obj) for plural, obj in found if plural != TF.plural))
