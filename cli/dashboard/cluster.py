"""What the dashboard reads of the cluster: plain lists, kept for a moment, so that many open pages cost as much as one."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jobcommon.api import labels
from jobcommon.api.status import read_status
from jobcommon.client.errors import ClientError, ForeignAnswerError, StatusError
from jobcommon.client.objects import collection_path, object_path
from jobcommon.client.request import Request, Response, Transport
from jobcommon.client.responses import answered, response_error
from jobcommon.diagnosis import Found
from jobcommon.diagnosis.reading import owned_by, read_found
from jobcommon.framework import Framework

Json = dict[str, Any]
KEPT_SECONDS = 2.0


@dataclass(frozen=True)
class Listing:
    """The objects of some lists. `problems`: in words, which could not be read and why."""

    items: Sequence[Json] = ()
    problems: Sequence[str] = ()


@dataclass
class ClusterReader:
    """Reads jobs, what a diagnosis of one needs, and logs, in `namespace` or in all (None).

    The methods raise `ClientError` unless they say otherwise.
    """

    transport: Transport
    frameworks: Sequence[Framework]
    namespace: str | None = None
    clock: Callable[[], float] = time.monotonic
    _kept: dict[str, tuple[float, asyncio.Task[Response]]] = field(default_factory=dict, init=False)

    def framework(self, plural: str) -> Framework | None:
        """The framework whose jobs have that plural."""
        return next((framework for framework in self.frameworks if framework.plural == plural), None)

    async def jobs(self) -> Listing:
        """The jobs of all frameworks. What cannot be read is among the problems; nothing is raised."""
        found = await asyncio.gather(*(self._jobs_of(framework) for framework in self.frameworks))
        return Listing(
            [item for listing in found for item in listing.items],
            [problem for listing in found for problem in listing.problems],
        )

    async def _jobs_of(self, framework: Framework) -> Listing:
        path = collection_path(framework.api_version, framework.plural, self.namespace)
        try:
            # From the API server's cache, which costs etcd nothing.
            items = _items(await self._read(Request("GET", path, (("resourceVersion", "0"),))))
        except StatusError as error:
            if error.code == 404:
                return Listing(problems=[f"{framework.kind}s are not installed in this cluster: jobcommon crds prints them."])
            hint = "" if self.namespace or error.code != 403 else " Name a namespace that you may read: --namespace."
            return Listing(problems=[f"{framework.kind}s cannot be read: {error}.{hint}"])
        except ClientError as error:
            return Listing(problems=[f"{framework.kind}s cannot be read: {error}"])
        # The items of a list have neither kind nor apiVersion.
        return Listing([{**item, "kind": framework.kind, "apiVersion": framework.api_version} for item in items])

    async def beside(self, jobs: Sequence[Mapping[str, Any]]) -> Sequence[Found]:
        """Those jobs that are not over, each with its pods and, if one of them is pending, the warnings about pods.

        None of them if their pods may not be read.
        """
        unfinished = [job for job in jobs if not read_status(job.get("status")).finished]
        if not unfinished:
            return []
        names = ",".join(sorted({str(job["metadata"].get("name")) for job in unfinished}))
        wanted = (("labelSelector", f"{labels.JOB_NAME} in ({names})"), ("resourceVersion", "0"))
        try:
            pods = _items(await self._read(Request("GET", collection_path("v1", "pods", self.namespace), wanted)))
            pending = any((pod.get("status") or {}).get("phase") == "Pending" for pod in pods)
            warnings = Request("GET", collection_path("v1", "events", self.namespace), (("fieldSelector", "type=Warning"),))
            events = _items(await self._read(warnings)) if pending else []
        except ClientError:
            return []
        frameworks = {framework.kind: framework for framework in self.frameworks}
        return [
            Found(frameworks[job["kind"]], job, owned_by(str(job["metadata"].get("uid")), pods), events) for job in unfinished
        ]

    async def job(self, framework: Framework, namespace: str, name: str) -> Json:
        """One job."""
        return await self._object(object_path(framework.api_version, framework.plural, namespace, name))

    async def found(self, framework: Framework, job: Json) -> Found:
        """The job with its pods, their events and last lines, and what it may wait for."""

        async def send(requests: Sequence[Request]) -> Sequence[Response]:
            return await asyncio.gather(*map(self._answer, requests))

        return await read_found(framework, job, send)

    async def pod(self, namespace: str, name: str) -> Json:
        """One pod."""
        return await self._object(object_path("v1", "pods", namespace, name))

    async def log(self, namespace: str, pod: str, container: str, *, tail: int, previous: bool) -> str:
        """The last lines of a container's log."""
        query = [("tailLines", str(tail)), *([("container", container)] if container else [])]
        query += [("previous", "true")] if previous else []
        path = f"{object_path('v1', 'pods', namespace, pod)}/log"
        response = await self.transport.send(Request("GET", path, tuple(query)))
        if response.status >= 400:
            raise response_error(response)
        return response.body.decode(errors="replace")

    async def _object(self, path: str) -> Json:
        found = await self._read(Request("GET", path))
        if not isinstance(found.get("metadata"), dict):
            raise ForeignAnswerError(f"GET {path}: the answer is not an object of an API server")
        return found

    async def _read(self, request: Request) -> Json:
        return answered(await self._answer(request))

    async def _answer(self, request: Request) -> Response:
        """The answer to a request, at most `KEPT_SECONDS` old. Requests for the same at the same time are one."""
        now = self.clock()
        self._kept = {of: kept for of, kept in self._kept.items() if now - kept[0] <= KEPT_SECONDS or not kept[1].done()}
        _, task = self._kept.get(request.target, (0.0, None))
        if task is None:
            task = asyncio.create_task(self.transport.send(request))
            # The page that asked may be closed by the time it fails.
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
            self._kept[request.target] = now, task
        # A page that is closed must not cancel the read of another.
        return await asyncio.shield(task)


def _items(page: Json) -> list[Json]:
    """The objects of a list that can be shown: each has metadata."""
    items = page.get("items")
    found = items if isinstance(items, list) else []
    return [item for item in found if isinstance(item, dict) and isinstance(item.get("metadata"), dict)]
