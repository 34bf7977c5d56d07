"""Watching jobs until they end: their conditions, their pods, the pods' logs, and warnings."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from http import HTTPStatus
from typing import Any

import msgspec

from jobcommon.api import labels
from jobcommon.api.pod import STOPPING_TAG, PodView, Running, pod_view
from jobcommon.api.status import read_status
from jobcommon.cli.display import Display
from jobcommon.cli.followed import FollowedJob, FollowedPod
from jobcommon.cli.pod_state import describe, why
from jobcommon.cli.stalls import Stall, State
from jobcommon.client.container_log import ContainerLogs, LogOptions
from jobcommon.client.errors import ClientError, StatusError
from jobcommon.client.list_watch import WatchedObject, list_and_watch
from jobcommon.client.objects import collection_path
from jobcommon.client.request import Request, Transport
from jobcommon.client.responses import answered
from jobcommon.reconcile.slots import is_spare
from jobcommon.sdk.following import states

# When a job has ended, the logs of its running containers are shown except for what is still in the pipes. Those of ended ones
# are shown to their end, which a server that does not answer must not put off for ever.
DRAIN_SECONDS, LAST_SECONDS = 5.0, 120.0


class Follower:
    """Watches `jobs`, their pods and the events about them; prints what happens to `display`.

    `tail`: so many of the lines that a log has already.
    """

    def __init__(
        self,
        transport: Transport,
        jobs: Sequence[FollowedJob],
        display: Display,
        *,
        stuck_after: float = 0.0,
        tail: int | None = None,
    ) -> None:
        self.jobs = list(jobs)
        self._stuck_after = stuck_after
        self._stalls = {job.key: Stall(time.monotonic()) for job in jobs}
        self.pods: dict[str, FollowedPod] = {}
        self._tail = tail
        self._transport = transport
        self._logs = ContainerLogs(transport)
        self._display = display
        self._reading: dict[tuple[str, str, int], asyncio.Task[None]] = {}
        self._ended: set[tuple[str, str, int]] = set()
        self._warned: set[tuple[str, str]] = set()
        self._moved = asyncio.Event()

    async def run(self, until: Callable[[], bool]) -> None:
        """Watch until `until` is true and the pods' last lines are shown."""
        async with asyncio.TaskGroup() as self._tasks:
            watching = [self._tasks.create_task(watch) for watch in (*map(self._follow, self.jobs), *self._watches())]
            try:
                while not until():
                    self._moved.clear()
                    with suppress(TimeoutError):
                        async with asyncio.timeout(self._stuck_in()):
                            await self._moved.wait()
                for task in watching:
                    task.cancel()
                await self._show_the_rest()
            finally:
                for task in (*watching, *self._reading.values()):
                    task.cancel()

    async def _show_the_rest(self) -> None:
        """Show the logs to their end. The watch of a job may tell of that before the one of its pods tells that they began."""
        for job in self.jobs:
            with suppress(ClientError):
                for body in answered(await self._transport.send(Request("GET", *_pods(job))))["items"]:
                    self._saw_pod(WatchedObject(body))
        for logs, seconds in ((self._ended, LAST_SECONDS), (self._reading.keys(), DRAIN_SECONDS)):
            if logs:
                await asyncio.wait([self._reading[log] for log in logs], timeout=seconds)

    def stuck(self, job: FollowedJob) -> bool:
        """Whether the job cannot make progress by itself. A suspended one is not stuck."""
        at = self._stuck_at(job)
        return at is not None and time.monotonic() >= at

    def _stuck_at(self, job: FollowedJob) -> float | None:
        return None if job.over or job.suspended else self._stalls[job.key].stuck_at(self._stuck_after)

    def _stuck_in(self) -> float | None:
        """The seconds until the next job becomes stuck if nothing happens before."""
        now = time.monotonic()
        times = [at for job in self.jobs if (at := self._stuck_at(job)) is not None and at > now]
        return min(times, default=now) - now or None

    def _watches(self) -> Iterator[Coroutine[Any, Any, None]]:
        for job in self.jobs:
            path, query = _pods(job)
            yield self._watch(path, self._saw_pod, *query)
        for namespace in {job.target.namespace for job in self.jobs}:
            yield self._watch_events(namespace)

    async def _watch_events(self, namespace: str) -> None:
        """The events of a namespace, if they may be read: they only add causes that nothing else shows."""
        with suppress(StatusError):
            await self._watch(collection_path("v1", "events", namespace), self._saw_event)

    async def _watch(self, path: str, saw: Callable[[WatchedObject], None], *query: tuple[str, str]) -> None:
        async for seen in list_and_watch(self._transport, path, query):
            saw(seen)
            self._moved.set()

    async def _follow(self, job: FollowedJob) -> None:
        try:
            async with aclosing(states(self._transport, job.target)) as seen:
                async for state in seen:
                    if not isinstance(state, ClientError):
                        self._saw_job(job, state)
                        self._moved.set()
        except StatusError as error:
            if error.code != HTTPStatus.NOT_FOUND:
                raise
            job.gone = True
            self._moved.set()

    def _saw_job(self, job: FollowedJob, body: Mapping[str, Any]) -> None:
        job.status, job.uid = read_status(body.get("status")), str(body["metadata"].get("uid") or "")
        was_suspended, job.suspended = job.suspended, job.target.framework.is_suspended(body)
        if was_suspended or job.suspended:
            self._stalls[job.key].suspended(time.monotonic())
        if job.current is not None:
            self._display.condition(job, job.current)

    def _saw_pod(self, seen: WatchedObject) -> None:
        metadata, status = seen.body["metadata"], seen.body.get("status") or {}
        owners = metadata.get("ownerReferences") or ()
        owner: Mapping[str, Any] = next((o for o in owners if o.get("controller")), {})
        key = owner.get("kind", ""), metadata["namespace"], owner.get("name", "")
        pod = self.pods.setdefault(metadata["uid"], FollowedPod(metadata["name"], key))
        containers = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
        before = pod.state, pod.cause, pod.restarts, pod.gone
        view = pod_view(msgspec.json.encode(seen.body))
        pod.state, pod.cause = describe(seen.body), why(view)
        pod.restarts = sum(c.get("restartCount", 0) for c in containers)
        pod.gone = seen.deleted
        pod.progress = State.GONE if seen.deleted else progress(view)
        if key in self._stalls:
            states = {other.progress for other in self.pods.values() if other.job == key}
            self._stalls[key].pods(states, time.monotonic())
        if (pod.state, pod.cause, pod.restarts, pod.gone) != before:
            self._display.pod(pod)
        for container in () if seen.deleted else containers:
            # Each run once, also one that was over before we saw it run.
            for run, previous in runs_with_logs(container):
                log = metadata["uid"], container["name"], run
                if previous or "running" not in container["state"]:
                    self._ended.add(log)
                if log not in self._reading:
                    options = LogOptions(log[1], follow=not previous, previous=previous, tail=self._tail, live=True)
                    self._reading[log] = self._tasks.create_task(self._read_log(seen.body, pod, options))

    async def _read_log(self, body: Mapping[str, Any], pod: FollowedPod, options: LogOptions) -> None:
        # A log that cannot be read belongs to a pod that was deleted before; its state explains the rest.
        with suppress(StatusError):
            async with aclosing(self._logs.lines(body, options)) as lines:
                async for text in lines:
                    if pod.progress is State.RUNS and pod.job in self._stalls:
                        self._stalls[pod.job].line(time.monotonic())
                    if text.endswith("\r"):
                        self._display.frame(pod.name, text)
                        continue
                    pod.tail.append(text)
                    self._display.line(pod.name, text)

    def _saw_event(self, seen: WatchedObject) -> None:
        event, about = seen.body, seen.body.get("involvedObject", {})
        if about.get("uid") not in self.pods and all(job.uid != about.get("uid") for job in self.jobs):
            return
        name, message = about.get("name", ""), f"{event.get('reason', '')}: {event.get('message', '')}"
        text = str(event.get("message") or "")
        told = [pod.cause for pod in self.pods.values() if pod.cause]
        told += [job.current.message for job in self.jobs if job.current]
        told += [warning for job in self.jobs for warning in job.warnings]
        known = event.get("reason") == "BackOff" or any(one in text or text in one for one in told)
        known = known or STOPPING_TAG in text  # by the operator, for a restart
        if event.get("type") == "Warning" and not (seen.deleted or known or (name, message) in self._warned):
            self._warned.add((name, message))
            self._display.warning(name, message)


def _pods(job: FollowedJob) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Where they are, and the query that selects them."""
    return collection_path("v1", "pods", job.target.namespace), (("labelSelector", f"{labels.JOB_NAME}={job.target.name}"),)


def runs_with_logs(container: Mapping[str, Any]) -> Iterator[tuple[int, bool]]:
    """The runs whose logs can be read, by number, and whether as those of the previous run."""
    count, state = container.get("restartCount", 0), container.get("state") or {}
    current = not {"running", "terminated"}.isdisjoint(state)
    last = (container.get("lastState") or {}).get("terminated")
    if last and last == state.get("terminated"):
        # It stands in both until the next run begins, and by then its log is that of the previous one.
        yield count, True
        return
    if last:
        # While the next run is awaited the count is still that of the last one.
        yield count - current, True
    if current:
        yield count, False


def progress(pod: PodView) -> State:
    """What the pod is to the progress of its job."""
    # A spare pod starts nothing until it joins an attempt, which need not come.
    if pod.phase == "Succeeded" or is_spare(pod):
        return State.DONE
    runs = pod.phase == "Running" and all(isinstance(container.state, Running) for container in pod.containers)
    return State.RUNS if runs and pod.deletion_time is None else State.WAITS
