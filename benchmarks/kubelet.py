"""A kubelet that runs nothing: it watches all pods, and reports them as running or ended, on command.

It is a process of its own, so that it takes no CPU time from the measured one. `Kubelet` drives it: commands and answers
are lines of JSON. Times are those of the system's monotonic clock, which all processes share.
"""

import asyncio
import itertools
import json
import os
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from time import monotonic
from typing import Any, NamedTuple

import msgspec

from benchmarks.processes import speaking, stop
from benchmarks.sending import send
from benchmarks.watching import watching
from benchmarks.workloads import IMAGE, IMAGE_ID
from jobcommon.api.timestamp import format_time
from jobcommon.client.config import find_cluster
from jobcommon.client.list_watch import WatchedObject
from jobcommon.client.objects import object_path
from jobcommon.client.request import MERGE_PATCH, Request, Transport
from jobcommon.client.transport import HttpTransport

CONCURRENCY = 32
RUNNING, SUCCEEDED = "Running", "Succeeded"
#: When the pods of this cluster run and end.
STARTED = format_time(1_790_000_000.0 - 60)
_UID = "00000000-0000-0000-0000-000000000000"

Times = dict[str, float]


class Pod(NamedTuple):
    """The part of a pod that counts here: it is `held` by a finalizer."""

    namespace: str
    name: str
    uid: str
    held: bool
    container: str


def pod_of(body: dict[str, Any]) -> Pod:
    """The part of a pod that counts here."""
    meta, container = body["metadata"], body["spec"]["containers"][0]
    return Pod(meta["namespace"], meta["name"], meta["uid"], bool(meta.get("finalizers")), container["name"])


@dataclass
class _Space:
    """The pods of one namespace: when each was first seen, those that are there by UID, and how many have a finalizer."""

    seen: Times = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    held: int = 0

    def put(self, pod: Pod) -> None:
        self.pods[pod.uid] = pod
        self.held += pod.held

    def drop(self, uid: str) -> Pod | None:
        old = self.pods.pop(uid, None)
        if old is not None:
            self.held -= old.held
        return old


class Agent:
    """The kubelet's own process. A command is the name of a method, whose first argument is the namespace."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._spaces: dict[str, _Space] = defaultdict(_Space)
        self._turns = asyncio.Semaphore(CONCURRENCY)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._waiting: list[tuple[Callable[[], bool], asyncio.Event]] = []

    def take(self, event: WatchedObject) -> None:
        """Handle a change."""
        pod = pod_of(event.body)
        space = self._spaces[pod.namespace]
        old = space.drop(pod.uid)
        if not event.deleted:
            space.put(pod)
            if old is None:
                space.seen[f"{pod.name}/{pod.uid}"] = monotonic()
        for holds, changed in self._waiting:
            if holds():
                changed.set()

    async def run(self) -> None:
        """Serve commands until the standard input ends."""
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        async with watching(self._transport, "/api/v1/pods", self.take):
            print(json.dumps({"ready": True}), flush=True)
            async for line in reader:
                self._start(self._answer(*json.loads(line)))

    def _start(self, work: Coroutine[Any, Any, object]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            print(f"kubelet: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            os._exit(1)

    async def _answer(self, number: int, command: str, namespace: str, *arguments: Any) -> None:
        answer = await getattr(self, command)(self._spaces[namespace], *arguments)
        print(json.dumps({"number": number, "answer": answer}), flush=True)

    async def until(self, holds: Callable[[], bool]) -> float:
        """When `holds`, asked after each change, first did."""
        if not holds():
            waiting = (holds, asyncio.Event())
            self._waiting.append(waiting)
            await waiting[1].wait()
            self._waiting.remove(waiting)
        return monotonic()

    async def seen(self, space: _Space, count: int) -> Times:
        """When each pod was first seen, by name and UID, once there are `count` pods."""
        await self.until(lambda: len(space.seen) >= count)
        return space.seen

    async def released(self, space: _Space) -> float:
        """When no pod had a finalizer any more."""
        return await self.until(lambda: not space.held)

    async def mark(self, space: _Space, phase: str) -> Times:
        """Bring all pods into that phase; by name, when the server had answered."""
        pods = list(space.pods.values())
        times = await asyncio.gather(*(self._mark_one(pod, phase) for pod in pods))
        return {pod.name: at for pod, at in zip(pods, times, strict=True)}

    async def _mark_one(self, pod: Pod, phase: str) -> float:
        # The UID makes it a conflict when another pod of that name is there meanwhile.
        body = _patch(phase, pod.container).replace(_UID.encode(), pod.uid.encode())
        path = f"{object_path('v1', 'pods', pod.namespace, pod.name)}/status"
        request = Request("PATCH", path, body=body, content_type=MERGE_PATCH)
        async with self._turns:
            await send(self._transport, request, 404, 409)
            return monotonic()


@cache
def _patch(phase: str, container: str) -> bytes:
    """A pod that runs, or whose container has exited with 0."""
    ready = phase == RUNNING
    state: dict[str, Any] = {"running": {"startedAt": STARTED}}
    if not ready:
        state = {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": STARTED, "finishedAt": STARTED}}
    image = {"image": IMAGE, "imageID": IMAGE_ID, "restartCount": 0}
    states = {"PodScheduled": True, "Initialized": True, "ContainersReady": ready, "Ready": ready}
    status = {
        "phase": phase,
        "startTime": STARTED,
        "podIP": "10.0.0.1",
        "podIPs": [{"ip": "10.0.0.1"}],
        "conditions": [{"type": kind, "status": str(holds), "lastTransitionTime": STARTED} for kind, holds in states.items()],
        "containerStatuses": [{"name": container, "ready": ready, "state": state, **image}],
    }
    return msgspec.json.encode({"metadata": {"uid": _UID}, "status": status})


class Kubelet:
    """The kubelet, from the outside: `ask` for a method of `Agent` about a namespace."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._numbers = itertools.count()
        self._answers: dict[int, asyncio.Future[Any]] = {}

    async def ask(self, command: str, namespace: str, *arguments: Any) -> Any:
        """What the method answers. Raises RuntimeError when the process has ended."""
        if self._process.returncode is not None:
            raise RuntimeError("the kubelet's process has ended; its error is above")
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps((number, command, namespace, *arguments)).encode() + b"\n")
        return await answer

    async def listen(self) -> None:
        """Read the answers until the process ends."""
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            told = json.loads(line)
            answer = self._answers.pop(told["number"])
            if not answer.done():
                answer.set_result(told["answer"])
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(RuntimeError("the kubelet's process has ended; its error is above"))


@asynccontextmanager
async def kubelet(kubeconfig: str) -> AsyncIterator[Kubelet]:
    """A kubelet for the cluster that the kubeconfig leads to."""
    process = await speaking("benchmarks.kubelet", kubeconfig)
    try:
        found = Kubelet(process)
        listening = asyncio.create_task(found.listen())
        yield found
        listening.cancel()
    finally:
        await stop(process)


async def _main(path: str) -> None:
    transport = HttpTransport(await find_cluster(path), concurrency=CONCURRENCY + 1, user_agent="benchmarks-kubelet")
    try:
        await Agent(transport).run()
    finally:
        await transport.close()


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1]))
