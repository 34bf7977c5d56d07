"""The asynchronous client of jobs, on a `Transport`. `jobcommon.sdk.sync_client` runs it in a thread."""

import math
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import Any

from jobcommon.api.status import ConditionType
from jobcommon.api.text import clean
from jobcommon.client.container_log import ContainerLogs, LogOptions
from jobcommon.client.errors import ClientError, StatusError, TransportError
from jobcommon.client.objects import collection_path, create, merge, object_path
from jobcommon.client.request import Request, Response, Transport
from jobcommon.client.responses import answered
from jobcommon.diagnosis import Diagnosis, diagnose
from jobcommon.diagnosis.reading import read_found
from jobcommon.framework import Job
from jobcommon.sdk.build import KIND, check, framework_of
from jobcommon.sdk.failure import JobFailed
from jobcommon.sdk.following import RETRY_SECONDS, SYSTEM, Target, Timing, states
from jobcommon.sdk.progress import Progress, described
from jobcommon.spec import read_job

Object = dict[str, Any]
Objects = list[Object]
JobOrName = str | Mapping[str, Any]


class AsyncJobClient:
    """As `JobClient`, with coroutines: ``async with AsyncJobClient.connect() as client``, or on a transport of yours."""

    def __init__(
        self, transport: Transport, namespace: str = "default", *, kind: str = KIND, timing: Timing = SYSTEM
    ) -> None:  # fmt: skip
        self.namespace, self._transport, self._timing = namespace, transport, timing
        self._framework = framework_of(kind)

    @classmethod
    @asynccontextmanager
    async def connect(
        cls, kubeconfig: str | None = None, context: str | None = None, *, namespace: str | None = None,
        kind: str = KIND, api_client: Any = None,
    ) -> "AsyncIterator[AsyncJobClient]":  # fmt: skip
        """A client of the cluster of `api_client`, or of the configured one, as by `find_cluster`. Raises ConfigError."""
        from jobcommon.client.config import Cluster, find_cluster
        from jobcommon.client.transport import HttpTransport
        from jobcommon.sdk import official

        if api_client is None:
            cluster = await find_cluster(kubeconfig, context)
        else:
            cluster = Cluster(partial(official.load, api_client), await official.load(api_client))
        transport = HttpTransport(cluster)
        try:
            yield cls(transport, namespace or cluster.namespace, kind=kind)
        finally:
            await transport.close()

    async def submit(self, job: Mapping[str, Any]) -> Object:
        """See `JobClient.submit`."""
        target = self._target(job)
        check(target.framework, job)
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
        kind_of = {"apiVersion": framework.api_version, "kind": framework.kind}
        return [{**kind_of, **item} for item in found["items"]]

    async def suspend(self, job: JobOrName) -> Object:
        """See `JobClient.suspend`."""
        return await self._send(merge(self._target(job).path, self._target(job).framework.with_suspend(True)))

    async def resume(self, job: JobOrName) -> Object:
        """See `JobClient.resume`."""
        return await self._send(merge(self._target(job).path, self._target(job).framework.with_suspend(False)))

    async def delete(self, job: JobOrName) -> None:
        """See `JobClient.delete`."""
        await self._send(Request("DELETE", self._target(job).path, (("propagationPolicy", "Background"),)))

    async def wait(
        self, job: JobOrName, *, timeout: float | None = None, progress: bool = True, interval: float = 10.0  # noqa: ASYNC109
    ) -> Object:  # fmt: skip
        """See `JobClient.wait`."""
        target, shown, clock = self._target(job), Progress(on=progress), self._timing.monotonic
        uid, begin = "" if isinstance(job, str) else str((job.get("metadata") or {}).get("uid") or ""), clock()
        until, text, why = begin + (math.inf if timeout is None else timeout), "", None
        following = states(self._transport, target, every=interval, until=until, timing=self._timing)
        try:
            async with aclosing(following) as seen:
                async for state in seen:
                    if isinstance(state, ClientError):
                        text, why = f"the API server does not answer: {state}", None
                        shown.show(target.title, clock() - begin, text)
                        continue
                    now = read_job(target.framework, state)
                    if uid not in ("", now.uid):
                        raise JobFailed(target.title, "Deleted", "it was deleted, and another job has its name now")
                    uid, text = now.uid, described(now)
                    shown.show(target.title, clock() - begin, text, now.status.reported_progress)
                    if now.status.has(ConditionType.SUCCEEDED):
                        return state
                    failed = now.status.has(ConditionType.FAILED)
                    why = await self._why(target, state, until) if failed or clock() >= until else None
                    if failed and why is not None:
                        told = str(why.reason), why.sentence, why.advice, why.lines, now.status.failures
                        raise JobFailed(target.title, *told, why.exit_code, why.evidence)
        except StatusError as error:
            if uid and error.code == 404:
                raise JobFailed(target.title, "Deleted", "it was deleted before it had finished") from None
            raise
        finally:
            shown.end()
        text = "; ".join(filter(None, (f"{why.reason}: {why.sentence}", why.advice))) if why is not None else text
        raise TimeoutError(clean(f"{target.title} has not finished after {timeout:g} s, and continues: {text}"))

    async def _why(self, target: Target, job: Object, until: float) -> Diagnosis | None:
        """Why the job is as it is; None if the API server does not answer until then (monotonic seconds)."""
        while True:
            try:
                return diagnose(await read_found(target.framework, job, self._send_all), self._timing.wall())
            except TransportError:
                if self._timing.monotonic() >= until:
                    return None
                await self._timing.pause(RETRY_SECONDS)

    async def logs(
        self, job: JobOrName, *, replica: str | None = None, follow: bool = False, tail: int | None = None
    ) -> AsyncGenerator[str, None]:
        """See `JobClient.logs`."""
        target, logs = self._target(job), ContainerLogs(self._transport, self._timing.pause)
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
            await self._timing.pause(1.0)

    def _target(self, job: JobOrName) -> Target:
        if isinstance(job, str):
            kind, _, name = job.rpartition("/")
            namespace, framework = self.namespace, framework_of(kind) if kind else self._framework
        else:
            metadata, framework = job.get("metadata") or {}, framework_of(str(job.get("kind")))
            name, namespace = str(metadata.get("name") or ""), str(metadata.get("namespace") or self.namespace)
        return Target(framework, namespace, name)

    async def _send(self, request: Request) -> Object:
        return answered(await self._transport.send(request))

    async def _send_all(self, requests: Sequence[Request]) -> Sequence[Response]:
        return [await self._transport.send(request) for request in requests]


def _pod(target: Target, job: Job, replica: str | None) -> tuple[str, str]:
    """The path of a replica's pod, and its main container. Raises ValueError for a replica that the job does not have."""
    replicas = {str(one).lower(): one for one in job.replicas}
    masters = (one for one in replicas.values() if target.framework.is_master(job, one))
    chosen = next(masters, next(iter(job.replicas), None)) if replica is None else replicas.get(replica.lower())
    if chosen is None:
        known = ", ".join(map(str, [*replicas.values()][:8]))
        raise ValueError(f"replica {replica}: {target.title} has no such replica; it has {known}")
    container = target.framework.main_container(job.replica_specs[chosen.type], chosen.index)
    return object_path("v1", "pods", target.namespace, job.pod_name(chosen)), container
