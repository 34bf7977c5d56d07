"""The asynchronous client of jobs, on a `Transport`. `jobcommon.sdk.sync_client` runs the same code on a blocking one."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any, NamedTuple

from jobcommon.api.status import ConditionType
from jobcommon.api.terminal import clean
from jobcommon.client.container_log import ContainerLogs, LogOptions
from jobcommon.client.errors import StatusError, TransportError
from jobcommon.client.list_watch import INTERRUPTED, Limit, watch
from jobcommon.client.objects import collection_path, create, merge, object_path
from jobcommon.client.request import Request, Response, Transport
from jobcommon.client.status import answered
from jobcommon.diagnosis import diagnose
from jobcommon.diagnosis.reading import read_found
from jobcommon.framework import Framework, Job
from jobcommon.reconcile import read_job
from jobcommon.sdk.build import KIND, framework_of
from jobcommon.sdk.failure import JobFailed
from jobcommon.sdk.progress import Progress, described
from jobcommon.sdk.shown import ShownJob

Object = dict[str, Any]
Objects = list[Object]
JobOrName = str | Mapping[str, Any]
Pause = Callable[[float], Awaitable[None]]
# Between two reads of a job when there is no watch.
RETRY_SECONDS = 2.0


class _Target(NamedTuple):
    """A job: which one, its path, and how messages name it."""

    framework: Framework
    namespace: str
    name: str
    path: str
    title: str


class AsyncJobClient:
    """As `JobClient`, with coroutines: ``async with AsyncJobClient.connect() as client``, or on a transport of yours."""

    def __init__(
        self, transport: Transport, namespace: str = "default", *, kind: str = KIND, pause: Pause = asyncio.sleep,
        limit: Limit = asyncio.timeout,
    ) -> None:  # fmt: skip
        self.namespace, self._transport, self._framework = namespace, transport, framework_of(kind)
        self._pause, self._limit = pause, limit

    @classmethod
    @asynccontextmanager
    async def connect(
        cls, kubeconfig: str | None = None, context: str | None = None, *, namespace: str | None = None, kind: str = KIND
    ) -> "AsyncIterator[AsyncJobClient]":
        """A client of the configured cluster, found as by `find_cluster`. Raises ConfigError."""
        from jobcommon.client.config import find_cluster
        from jobcommon.client.transport import HttpTransport

        cluster = await find_cluster(kubeconfig, context)
        transport = HttpTransport(cluster)
        try:
            yield cls(transport, namespace or cluster.namespace, kind=kind)
        finally:
            await transport.close()

    async def submit(self, job: Mapping[str, Any]) -> Object:
        """See `JobClient.submit`."""
        target = self._target(job)
        path = collection_path(target.framework.api_version, target.framework.plural, target.namespace)
        return ShownJob(await self._send(create(path, job)))

    async def get(self, job: JobOrName) -> Object:
        """See `JobClient.get`."""
        return ShownJob(await self._send(Request("GET", self._target(job).path)))

    async def list(self, *, kind: str | None = None, selector: str = "") -> Objects:
        """See `JobClient.list`."""
        framework = framework_of(kind) if kind else self._framework
        path = collection_path(framework.api_version, framework.plural, self.namespace)
        found = await self._send(Request("GET", path, (("labelSelector", selector),) if selector else ()))
        return [ShownJob({"apiVersion": framework.api_version, "kind": framework.kind, **item}) for item in found["items"]]

    async def suspend(self, job: JobOrName) -> Object:
        """See `JobClient.suspend`."""
        return ShownJob(await self._send(merge(self._target(job).path, {"spec": {"runPolicy": {"suspend": True}}})))

    async def resume(self, job: JobOrName) -> Object:
        """See `JobClient.resume`."""
        return ShownJob(await self._send(merge(self._target(job).path, {"spec": {"runPolicy": {"suspend": False}}})))

    async def delete(self, job: JobOrName) -> None:
        """See `JobClient.delete`."""
        await self._send(Request("DELETE", self._target(job).path, (("propagationPolicy", "Background"),)))

    async def wait(
        self, job: JobOrName, *, timeout: float | None = None, progress: bool = True, interval: float = 10.0  # noqa: ASYNC109
    ) -> Object:  # fmt: skip
        """See `JobClient.wait`."""
        target, shown, begin = self._target(job), Progress(on=progress), time.monotonic()
        uid = "" if isinstance(job, str) else str((job.get("metadata") or {}).get("uid") or "")
        try:
            while True:
                elapsed = time.monotonic() - begin
                late = timeout is not None and elapsed >= timeout
                seconds = interval if timeout is None else min(interval, timeout - elapsed)
                try:
                    async with aclosing(self._states(target, seconds)) as states:
                        async for body in states:
                            now = read_job(target.framework, body)
                            if uid not in ("", now.uid):
                                raise JobFailed(target.title, "Deleted", "it was deleted; another one has its name now")
                            uid, text = now.uid, described(now)
                            shown.show(target.title, time.monotonic() - begin, text)
                            if now.status.has(ConditionType.SUCCEEDED):
                                return ShownJob(body)
                            if late or now.status.has(ConditionType.FAILED):
                                why = diagnose(await read_found(target.framework, body, self._send_all), time.time())
                                if now.status.finished:
                                    told = str(why.reason), why.sentence, why.advice, why.lines, now.status.failures
                                    raise JobFailed(target.title, *told, why.exit_code, why.evidence)
                                text = "; ".join(filter(None, (f"{why.reason}: {why.sentence}", why.advice)))
                except (TransportError, StatusError) as error:
                    if uid and isinstance(error, StatusError) and error.code == 404:
                        raise JobFailed(target.title, "Deleted", "it was deleted before it was over") from None
                    if isinstance(error, StatusError) and error.code < 500 and error.code != 429:
                        raise
                    text = f"the API server does not answer: {error}"
                    shown.show(target.title, time.monotonic() - begin, text)
                if late:
                    raise TimeoutError(clean(f"{target.title} is not over after {timeout:g} s, and goes on: {text}"))
                await self._pause(max(0.0, min(elapsed + seconds - (time.monotonic() - begin), RETRY_SECONDS)))
        finally:
            shown.end()

    async def _states(self, target: _Target, seconds: float) -> AsyncGenerator[Object, None]:
        """The job as it is, and as it becomes within about that time. It ends sooner where the job may not be watched."""
        yield (found := await self._send(Request("GET", target.path)))
        if seconds < 1:
            return  # which is the shortest watch
        path, query = target.path.rpartition("/")[0], (("fieldSelector", f"metadata.name={target.name}"),)
        changes = watch(self._transport, path, query, found["metadata"]["resourceVersion"], int(seconds), self._limit)
        deleted = False
        # Whatever ends a watch, the next read says how it is with the server and the job.
        with suppress(*INTERRUPTED):
            async with aclosing(changes):
                async for change in changes:
                    if deleted := change.deleted:
                        break
                    yield change.body
        if deleted:
            yield await self._send(Request("GET", target.path))

    async def logs(
        self, job: JobOrName, *, replica: str | None = None, follow: bool = False, tail: int | None = None
    ) -> AsyncGenerator[str, None]:
        """See `JobClient.logs`."""
        target, logs = self._target(job), ContainerLogs(self._transport, self._pause)
        while True:
            now = read_job(target.framework, await self.get(job))
            path, container = _pod(target, now, replica)
            complete = now.status.finished or not follow
            try:
                pod = await self._send(Request("GET", path))
                async with aclosing(logs.lines(pod, LogOptions(container, follow=follow, tail=tail))) as lines:
                    async for line in lines:
                        yield line
            except (StatusError, TransportError) as error:
                # No pod yet, or no more (404); its container has not started (400); or the stream has broken off.
                if not follow or (isinstance(error, StatusError) and error.code not in (400, 404)):
                    raise
                complete = complete and isinstance(error, StatusError)
            if complete:
                return
            await self._pause(1.0)

    def _target(self, job: JobOrName) -> _Target:
        if isinstance(job, str):
            kind, _, name = job.rpartition("/")
            namespace, framework = self.namespace, framework_of(kind) if kind else self._framework
        else:
            metadata, framework = job.get("metadata") or {}, framework_of(str(job.get("kind")))
            name, namespace = str(metadata.get("name") or ""), str(metadata.get("namespace") or self.namespace)
        path = object_path(framework.api_version, framework.plural, namespace, name)
        return _Target(framework, namespace, name, path, f"{framework.singular}/{name}")

    async def _send(self, request: Request) -> Object:
        return answered(await self._transport.send(request))

    async def _send_all(self, requests: Sequence[Request]) -> Sequence[Response]:
        return [await self._transport.send(request) for request in requests]


def _pod(target: _Target, job: Job, replica: str | None) -> tuple[str, str]:
    """The path of a replica's pod, and its main container. Raises ValueError for a replica that the job does not have."""
    replicas = {str(one).lower(): one for one in job.replicas}
    masters = (one for one in replicas.values() if target.framework.is_master(job, one))
    chosen = next(masters, next(iter(job.replicas), None)) if replica is None else replicas.get(replica.lower())
    if chosen is None:
        known = ", ".join(map(str, [*replicas.values()][:8]))
        raise ValueError(f"replica {replica}: {target.title} has no such replica; it has {known}")
    container = target.framework.main_container(job.replica_specs[chosen.type], chosen.index)
    return object_path("v1", "pods", target.namespace, job.pod_name(chosen)), container
