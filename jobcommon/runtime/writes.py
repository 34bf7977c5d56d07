"""The requests by which a plan is carried out, beside each other, with live reads of its job in between."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any, TypeVar

from jobcommon.api import labels
from jobcommon.client import objects
from jobcommon.client.errors import ClientError
from jobcommon.client.objects import collection_path, object_path
from jobcommon.client.request import Request
from jobcommon.framework import FINALIZER, Framework, Job
from jobcommon.manifests.children import CORE, job_selector, owned
from jobcommon.reconcile.failed_logs import config_map_name
from jobcommon.reconcile.plan import Action, Create, Delete, Get, RemoveFinalizer, SetImage, Update
from jobcommon.runtime.clock import Clock


def path_of(action: Action, namespace: str) -> str:
    """The path of the object that the action is about."""
    return object_path(action.api_version, action.plural, namespace, action.name)


def request_for(action: Action, namespace: str) -> Request:
    """The one request of an action."""
    path = path_of(action, namespace)
    match action:
        case Create():
            return objects.create(collection_path(action.api_version, action.plural, namespace), action.manifest)
        case Update():
            return objects.merge(f"{path}/{action.subresource}" if action.subresource else path, action.patch)
        case Delete():
            return objects.delete(path, action.uid, action.resource_version, grace=0 if action.force else None)
        case Get():
            return objects.get(path)
        case RemoveFinalizer():
            return objects.modify(path, _without_finalizer(action))
        case SetImage():
            return objects.modify(path, _with_image(action))


def _without_finalizer(action: RemoveFinalizer) -> list[dict[str, Any]]:
    """The patch that removes our finalizer.

    A JSON patch with tests instead of a resourceVersion: the kubelet writes the pod's status all the time, and those
    writes must not cause conflicts. The list is replaced as a whole because an index could have shifted.
    """
    return [
        {"op": "test", "path": "/metadata/uid", "value": action.uid},
        {"op": "test", "path": "/metadata/finalizers", "value": list(action.finalizers)},
        {"op": "replace", "path": "/metadata/finalizers", "value": [f for f in action.finalizers if f != FINALIZER]},
    ]


def _with_image(action: SetImage) -> list[dict[str, Any]]:
    """The patch that changes the images of the pod's containers, if it is as it was when that was decided."""
    images = [(action.path, action.container, action.before, action.image), *action.others]
    tests = {"/metadata/uid": action.uid, _path_of(labels.ATTEMPT): action.attempt}
    for path, name, before, _ in images:
        tests |= {f"{path}/name": name, f"{path}/image": before}
    return [
        *({"op": "test", "path": path, "value": value} for path, value in tests.items()),
        *({"op": "replace", "path": f"{path}/image", "value": image} for path, _, _, image in images),
        *({"op": "add", "path": _path_of(name), "value": value} for name, value in action.annotations),
    ]


def _path_of(annotation: str) -> str:
    return f"/metadata/annotations/{annotation.replace('/', '~1')}"


def status_write(raw: Mapping[str, Any], plural: str, status: Mapping[str, Any]) -> Request:
    """The PUT of a status, with the uid and resourceVersion of the object on which the decision is based (rule R2)."""
    metadata = raw["metadata"]
    path = object_path(raw["apiVersion"], plural, metadata["namespace"], metadata["name"])
    return objects.replace(f"{path}/status", {**raw, "status": status})


def addition_of_logs(job: Job, kept: Mapping[str, str]) -> Request:
    """The PATCH that adds logs to the job's ConfigMap. It is refused (422) if the ConfigMap belongs to another."""
    own = {"op": "test", "path": "/metadata/ownerReferences/0/uid", "value": job.uid}
    added = [{"op": "add", "path": f"/data/{key}", "value": text} for key, text in kept.items()]
    return objects.modify(object_path(CORE, "configmaps", job.namespace, config_map_name(job.name)), [own, *added])


def creation_with_logs(framework: Framework, job: Job, kept: Mapping[str, str]) -> Request:
    """The POST of the job's ConfigMap of logs."""
    metadata = owned(job, config_map_name(job.name), job_selector(framework, job))
    manifest = {"apiVersion": CORE, "kind": "ConfigMap", "metadata": metadata, "data": kept}
    return objects.create(collection_path(CORE, "configmaps", job.namespace), manifest)


T = TypeVar("T")


async def together(parts: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run all parts concurrently and return their results, or raise the first exception when all of them have ended.

    They are not cancelled, as a TaskGroup would do: the server may carry out a write whose answer is not awaited.
    """
    coroutines = list(parts)
    if len(coroutines) == 1:  # as in most plans; it needs no task of its own
        return [await coroutines[0]]
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    await asyncio.gather(*tasks, return_exceptions=True)
    return [task.result() for task in tasks]


async def slow_start(things: Iterable[T], carry_out: Callable[[T], Awaitable[bool]], cap: int) -> tuple[T, ...]:
    """Carry out `things` in order: one at first, then one more concurrently for each success, at most `cap`.

    The concurrency doubles with each round trip, as with the Job controller's batches of 1, 2, 4, …, but without waiting for
    the slowest of a batch. When `carry_out` returns False, no more is started. Returns what was not started.
    """
    waiting = deque(things)
    hands = 1
    stopped = False
    failures: list[Exception] = []

    async def work() -> None:
        nonlocal hands, stopped
        while waiting and not stopped:
            try:
                goes_on = await carry_out(waiting.popleft())
            except Exception as error:
                failures.append(error)
                goes_on = False
            if not goes_on:
                stopped = True
            elif not stopped and len(waiting) > 1 and hands < cap:
                hands += 1
                group.create_task(work())

    async with asyncio.TaskGroup() as group:
        await work()
    if failures:
        raise failures[0]
    return tuple(waiting)


#: If the last live read of the job is older, the job may have finished meanwhile: it is read again before the next create.
RECHECK_SECONDS = 5.0


class Recheck:
    """Whether a job is still the one a plan was made for, by a live read if the last one is too old.

    `read` makes the live read and returns whether the job is unchanged, or raises ClientError. Concurrent callers share one
    read. Once the job has changed, the answer stays False.
    """

    def __init__(self, read: Callable[[], Awaitable[bool]], clock: Clock) -> None:
        self._read = read
        self._clock = clock
        self._reading = asyncio.Lock()
        self._read_at = clock.monotonic()
        self.changed = False
        """Whether a live read has shown the job changed or deleted, or has failed."""

    async def recent(self) -> bool:
        """Whether the job is unchanged, by a live read at most `RECHECK_SECONDS` old."""
        return await self._since(self._clock.monotonic() - RECHECK_SECONDS)

    async def now(self) -> bool:
        """Whether the job is unchanged, by a live read that begins now or later."""
        return await self._since(self._clock.monotonic())

    async def _since(self, moment: float) -> bool:
        if self._is_due(moment):
            async with self._reading:
                # Another caller may have read the job meanwhile.
                if self._is_due(moment):
                    now = self._clock.monotonic()
                    try:
                        self.changed = not await self._read()
                    except ClientError:
                        self.changed = True
                    self._read_at = now
        return not self.changed

    def _is_due(self, moment: float) -> bool:
        return self._read_at <= moment and not self.changed
