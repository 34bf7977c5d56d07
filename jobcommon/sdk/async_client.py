"""The asynchronous client of jobs, on a `Transport`. `jobcommon.sdk.sync_client` runs the same code on a blocking one."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any, NamedTuple

import msgspec

from jobcommon.api import labels
from jobcommon.api.status import ConditionType
from jobcommon.client.errors import StatusError, TransportError
from jobcommon.client.objects import collection_path, create, merge, object_path
from jobcommon.client.request import Request, Transport
from jobcommon.client.status import response_error
from jobcommon.diagnosis import Diagnosis, Found, diagnose
from jobcommon.diagnosis.found import belongs_to, failed_container
from jobcommon.framework import Framework, Job
from jobcommon.reconcile import read_job
from jobcommon.sdk.build import KIND, framework_of
from jobcommon.sdk.failure import JobFailed
from jobcommon.sdk.progress import Progress, described

Object = dict[str, Any]
Objects = list[Object]
JobOrName = str | Mapping[str, Any]
Pause = Callable[[float], Awaitable[None]]
MAX_PODS = 8


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
        self, transport: Transport, namespace: str = "default", *, kind: str = KIND, pause: Pause = asyncio.sleep
    ) -> None:
        self.namespace, self._transport, self._framework, self._pause = namespace, transport, framework_of(kind), pause

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
        return await self._send(create(path, job))

    async def get(self, job: JobOrName) -> Object:
        """See `JobClient.get`."""
        return await self._send(Request("GET", self._target(job).path))

    async def list(self, *, kind: str | None = None, selector: str = "") -> Objects:
        """See `JobClient.list`."""
        framework = framework_of(kind) if kind else self._framework
        path = collection_path(framework.api_version, framework.plural, self.namespace)
        found = await self._send(Request("GET", path, (("labelSelector", selector),) if selector else ()))
        return [{"apiVersion": framework.api_version, "kind": framework.kind, **item} for item in found["items"]]

    async def suspend(self, job: JobOrName) -> Object:
        """See `JobClient.suspend`."""
        return await self._send(merge(self._target(job).path, {"spec": {"runPolicy": {"suspend": True}}}))

    async def resume(self, job: JobOrName) -> Object:
        """See `JobClient.resume`."""
        return await self._send(merge(self._target(job).path, {"spec": {"runPolicy": {"suspend": False}}}))

    async def delete(self, job: JobOrName) -> None:
        """See `JobClient.delete`."""
        await self._send(Request("DELETE", self._target(job).path, (("propagationPolicy", "Background"),)))

    async def wait(
        self, job: JobOrName, *, timeout: float | None = None, progress: bool = True, interval: float = 2.0  # noqa: ASYNC109
    ) -> Object:  # fmt: skip
        """See `JobClient.wait`."""
        target, shown, begin = self._target(job), Progress(), time.monotonic()
        uid = "" if isinstance(job, str) else str((job.get("metadata") or {}).get("uid") or "")
        try:
            while True:
                elapsed = time.monotonic() - begin
                late = timeout is not None and elapsed >= timeout
                try:
                    body = await self.get(job)
                    now = read_job(target.framework, body)
                    if uid not in ("", now.uid):
                        raise JobFailed(target.title, "Deleted", "it was deleted; another one has its name now")
                    uid, text = now.uid, described(now)
                    if progress:
                        shown.show(target.title, elapsed, text)
                    if now.status.has(ConditionType.SUCCEEDED):
                        return body
                    if late or now.status.has(ConditionType.FAILED):
                        why = await self._diagnosis(target, body)
                        text = "; ".join(filter(None, (f"{why.reason}: {why.sentence}", why.advice)))
                        if now.status.finished:
                            cause = str(why.reason), why.sentence, why.advice
                            raise JobFailed(target.title, *cause, why.lines, now.status.failures, why.exit_code)
                except (TransportError, StatusError) as error:
                    if isinstance(error, StatusError) and error.code < 500 and error.code != 429:
                        if uid and error.code == 404:
                            raise JobFailed(target.title, "Deleted", "it was deleted before it was over") from None
                        raise
                    text = f"the API server does not answer: {error}"
                    if progress:
                        shown.show(target.title, elapsed, text)
                if late:
                    raise TimeoutError(f"{target.title} is not over after {timeout:g} s, and goes on: {text}")
                await self._pause(interval if timeout is None else min(interval, timeout - elapsed))
        finally:
            shown.end()

    async def logs(
        self, job: JobOrName, *, replica: str | None = None, follow: bool = False, tail: int | None = None
    ) -> AsyncGenerator[str, None]:
        """See `JobClient.logs`."""
        target, uid, last = self._target(job), "", ""
        while True:
            now = read_job(target.framework, await self.get(job))
            path, container = _pod(target, now, replica)
            complete = now.status.finished or not follow
            try:
                pod = await self._send(Request("GET", path))
                # The times of lines say which ones came already when a stream is opened again.
                uid, until = pod["metadata"]["uid"], last if pod["metadata"]["uid"] == uid else ""
                query = [("container", container)] if container else []
                query += [("timestamps", "true"), *([("follow", "true")] if follow else [])]
                query += [("sinceTime", until)] if until else [("tailLines", str(tail))] if tail is not None else []
                async with aclosing(self._transport.stream(Request("GET", f"{path}/log", tuple(query)))) as lines:  # type: ignore[type-var]
                    async for line in lines:
                        at, _, text = line.decode(errors="replace").partition(" ")
                        if at > until:
                            last = at
                            yield text
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
        response = await self._transport.send(request)
        if response.status >= 400:
            raise response_error(response)
        try:
            return msgspec.json.decode(response.body, type=dict[str, Any])
        except msgspec.DecodeError:
            raise StatusError(response.status, message="the answer does not come from an API server") from None

    async def _diagnosis(self, target: _Target, body: Object) -> Diagnosis:
        """Why the job is as it is, from what may be read."""
        unread: dict[str, str] = {}

        async def items(resource: str, *query: tuple[str, str]) -> Objects:
            response = await self._transport.send(Request("GET", collection_path("v1", resource, target.namespace), query))
            if response.status >= 400:
                unread[resource] = response_error(response).message
            return [] if response.status >= 400 else list(msgspec.json.decode(response.body)["items"])

        named = await items("pods", ("labelSelector", f"{labels.JOB_NAME}={target.name}"))
        pods = [pod for pod in named if belongs_to(pod, str(body["metadata"]["uid"]))]
        troubled = [pod for pod in pods if (pod.get("status") or {}).get("phase") not in ("Running", "Succeeded")]
        fields = [f"involvedObject.uid={about['metadata']['uid']}" for about in (body, *troubled[:MAX_PODS])]
        events = [event for field in fields for event in await items("events", ("fieldSelector", field))]
        logs: dict[str, list[str]] = {}
        failed = [(pod["metadata"]["name"], *run) for pod in pods if (run := failed_container(pod))[0]]
        for name, container, previous in failed[:MAX_PODS]:
            path = f"{object_path('v1', 'pods', target.namespace, name)}/log"
            query = ("container", container), ("tailLines", "60"), ("previous", str(previous).lower())
            response = await self._transport.send(Request("GET", path, query))
            logs[name] = response.body.decode(errors="replace").splitlines() if response.status < 400 else []
        return diagnose(Found(target.framework, body, pods, events, logs, unread=unread), time.time())


def _pod(target: _Target, job: Job, replica: str | None) -> tuple[str, str]:
    """The path of a replica's pod, and its main container. Raises ValueError for a replica that the job does not have."""
    replicas = {str(one).lower(): one for one in job.replicas}
    masters = (one for one in replicas.values() if target.framework.is_master(job, one))
    chosen = next(masters, next(iter(job.replicas), None)) if replica is None else replicas.get(replica.lower())
    if chosen is None:
        known = ", ".join(map(str, [*replicas.values()][:MAX_PODS]))
        raise ValueError(f"replica {replica}: {target.title} has no such replica; it has {known}")
    container = target.framework.main_container(job.replica_specs[chosen.type], chosen.index)
    return object_path("v1", "pods", target.namespace, job.pod_name(chosen)), container
