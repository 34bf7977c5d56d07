"""A kubelet that runs nothing: it watches all pods and, on command, reports them as running or ended.

It is a process of its own, so that it takes no CPU time from the measured one. `Kubelet` drives it: commands and answers
are lines of JSON. Times are those of the system's monotonic clock, which all processes share.
"""

import asyncio
import itertools
import json
import os
import sys
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, NamedTuple

import msgspec

from benchmarks import seeds
from benchmarks.processes import child, stop
from benchmarks.watching import watching
from benchmarks.workloads import IMAGE
from jobcommon.api.pod import STOPPING_TAG as GATE
from jobcommon.client.config import find_cluster
from jobcommon.client.list_watch import WatchedObject
from jobcommon.client.objects import object_path
from jobcommon.client.request import MERGE_PATCH, Request
from jobcommon.client.transport import HttpTransport

CONCURRENCY = 32
RUNNING, SUCCEEDED, FAILED = "Running", "Succeeded", "Failed"
#: In place: one has failed and runs again, the image keeps it stopped, and it runs from the next image.
KILLED, STOPPED, AGAIN = "Killed", "Stopped", "Again"
_KILLED, _TERMINATED, _AGAIN = 137, 143, 2
_STATUSES = {
    RUNNING: seeds.running_status(),
    SUCCEEDED: seeds.ended_status(0),
    FAILED: seeds.ended_status(_KILLED),
    KILLED: seeds.restarted_status(_KILLED, 1),
    STOPPED: seeds.restarted_status(_TERMINATED, 1, f"{IMAGE}{GATE}1"),
    AGAIN: seeds.restarted_status(_TERMINATED, _AGAIN),
}
_PATCHES = {phase: msgspec.json.encode({"status": status}) for phase, status in _STATUSES.items()}

Times = dict[str, float]


class Pod(NamedTuple):
    """The part of a pod that counts here."""

    namespace: str
    name: str
    uid: str
    phase: str
    held: bool
    image: str


def pod_of(body: dict[str, Any]) -> Pod:
    """The part of a pod that counts here."""
    meta, status = body["metadata"], body.get("status", {})
    phase = status.get("phase", "")
    for container in status.get("containerStatuses", ()):
        phase = AGAIN if container["restartCount"] == _AGAIN else STOPPED if "waiting" in container["state"] else phase
    image = body["spec"]["containers"][0]["image"]
    return Pod(meta["namespace"], meta["name"], meta["uid"], phase, bool(meta.get("finalizers")), image)


@dataclass
class _Space:
    """The pods of one namespace: when each was first seen, those that are there by UID, and how many are in what state."""

    seen: Times = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    phases: Counter[str] = field(default_factory=Counter)
    held: int = 0
    auto: str = ""

    def put(self, pod: Pod) -> None:
        self.pods[pod.uid] = pod
        self.phases[pod.phase] += 1
        self.held += pod.held

    def drop(self, uid: str) -> Pod | None:
        old = self.pods.pop(uid, None)
        if old is not None:
            self.phases[old.phase] -= 1
            self.held -= old.held
        return old


class Agent:
    """The kubelet's own process. A command is the name of a method, whose first argument is the namespace."""

    def __init__(self, transport: HttpTransport) -> None:
        self._transport = transport
        self._spaces: dict[str, _Space] = defaultdict(_Space)
        self._turns = asyncio.Semaphore(CONCURRENCY)
        self._tasks: set[asyncio.Task[None]] = set()
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
                if space.auto:
                    self._start(self._mark_one(pod, space.auto, {}))
            elif pod.image != old.image:
                self._start(self._mark_one(pod, STOPPED if GATE in pod.image else AGAIN, {}))
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

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            print(f"kubelet: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            os._exit(1)

    async def _answer(self, number: int, command: str, namespace: str, *arguments: Any) -> None:
        answer = await getattr(self, command)(self._spaces[namespace], *arguments)
        print(json.dumps({"number": number, "answer": answer}), flush=True)

    async def _until(self, holds: Callable[[], bool]) -> float:
        if not holds():
            waiting = (holds, asyncio.Event())
            self._waiting.append(waiting)
            await waiting[1].wait()
            self._waiting.remove(waiting)
        return monotonic()

    async def seen(self, space: _Space, count: int) -> Times:
        await self._until(lambda: len(space.seen) >= count)
        return space.seen

    async def in_phase(self, space: _Space, phase: str, count: int) -> float:
        return await self._until(lambda: space.phases[phase] >= count)

    async def released(self, space: _Space) -> float:
        return await self._until(lambda: not space.held)

    async def auto(self, space: _Space, phase: str) -> None:
        space.auto = phase

    async def kill_one(self, space: _Space) -> None:
        await self._mark_one(next(iter(space.pods.values())), KILLED, {})

    async def mark(self, space: _Space, phase: str) -> Times:
        done: Times = {}
        await asyncio.gather(*(self._mark_one(pod, phase, done) for pod in list(space.pods.values())))
        return done

    async def _mark_one(self, pod: Pod, phase: str, done: Times) -> None:
        path = object_path("v1", "pods", pod.namespace, pod.name) + "/status"
        async with self._turns:
            answer = await self._transport.send(Request("PATCH", path, body=_PATCHES[phase], content_type=MERGE_PATCH))
            if answer.status not in (200, 404):
                raise RuntimeError(f"{path}: {answer.status} {answer.body[:200]!r}")
            done[pod.name] = monotonic()


class Kubelet:
    """The kubelet, from the outside. Every method raises RuntimeError when its process has ended."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._numbers = itertools.count()
        self._answers: dict[int, asyncio.Future[Any]] = {}

    async def seen(self, namespace: str, count: int) -> Times:
        """When each pod was first seen, by name and UID, once there are `count` pods."""
        return dict(await self._ask("seen", namespace, count))

    async def mark(self, namespace: str, phase: str) -> Times:
        """Bring all pods of the namespace into that phase; by name, when the server had answered."""
        return dict(await self._ask("mark", namespace, phase))

    async def kill_one(self, namespace: str) -> None:
        """The program of one pod of the namespace is killed, and its container starts again in place."""
        await self._ask("kill_one", namespace)

    async def auto(self, namespace: str, phase: str) -> None:
        """From now on bring every new pod of the namespace into that phase as soon as it appears."""
        await self._ask("auto", namespace, phase)

    async def in_phase(self, namespace: str, phase: str, count: int) -> float:
        """When `count` pods were in that phase."""
        return float(await self._ask("in_phase", namespace, phase, count))

    async def released(self, namespace: str) -> float:
        """When no pod had a finalizer any more."""
        return float(await self._ask("released", namespace))

    async def _ask(self, *command: Any) -> Any:
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps((number, *command)).encode() + b"\n")
        return await answer

    async def listen(self) -> None:
        """Read the answers until the process ends."""
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            told = json.loads(line)
            self._answers.pop(told["number"]).set_result(told["answer"])
        for answer in self._answers.values():
            answer.set_exception(RuntimeError("the kubelet's process has ended; its error is above"))


@asynccontextmanager
async def kubelet(kubeconfig: str) -> AsyncIterator[Kubelet]:
    """A kubelet for the cluster that the kubeconfig leads to."""
    process = await child("benchmarks.kubelet", kubeconfig, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout is not None
        if not await process.stdout.readline():
            raise RuntimeError("the kubelet's process did not start; its error is above")
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
