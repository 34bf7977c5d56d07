"""A kubelet that runs nothing: it watches all pods and, on command, reports them as running or ended.

It is a process of its own, so that it takes no CPU time from the measured one. `Kubelet` drives it: commands and answers
are lines of JSON. Times are those of the system's monotonic clock, which all processes share.
"""

import asyncio
import itertools
import json
import os
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import msgspec

from benchmarks import seeds
from benchmarks.informer_loop import run_informer
from benchmarks.processes import child, stop
from benchmarks.workloads import IMAGE
from jobcommon.api.pod import STOPPED as GATE
from jobcommon.cache.informer import Informer
from jobcommon.cache.store import Batch, Store
from jobcommon.client.config import find_cluster
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


class Pod(msgspec.Struct, frozen=True):
    """The part of a pod that the kubelet needs."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    phase: str
    held: bool
    image: str


class _Metadata(msgspec.Struct, rename="camel"):
    namespace: str
    name: str
    uid: str
    resource_version: str
    finalizers: list[str] = []
    deletion_timestamp: str | None = None


class _ContainerStatus(msgspec.Struct, rename={"restarts": "restartCount"}):
    restarts: int = 0


class _Status(msgspec.Struct, rename={"containers": "containerStatuses"}):
    phase: str = ""
    containers: list[_ContainerStatus] = []


class _Container(msgspec.Struct):
    image: str


class _Spec(msgspec.Struct):
    containers: list[_Container]


class _Object(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec
    status: _Status = msgspec.field(default_factory=_Status)


_decode = msgspec.json.Decoder(_Object).decode


def pod_of(data: bytes) -> Pod:
    """The part of a pod that counts here."""
    found = _decode(data)
    meta = found.metadata
    again = any(container.restarts == _AGAIN for container in found.status.containers)
    phase, image = AGAIN if again else found.status.phase, found.spec.containers[0].image
    return Pod(meta.namespace, meta.name, meta.uid, meta.resource_version, phase, bool(meta.finalizers), image)


@dataclass
class _Space:
    """The pods of one namespace: when each was first seen, those that are there by UID, and how many are in what state."""

    seen: Times = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    phases: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    held: int = 0
    auto: str = ""

    def put(self, pod: Pod) -> None:
        self.drop(pod.uid)
        self.pods[pod.uid] = pod
        self.phases[pod.phase] += 1
        self.held += pod.held

    def drop(self, uid: str) -> None:
        old = self.pods.pop(uid, None)
        if old is not None:
            self.phases[old.phase] -= 1
            self.held -= old.held


class Agent:
    """The kubelet's own process."""

    def __init__(self, transport: HttpTransport) -> None:
        self._transport = transport
        self._spaces: dict[str, _Space] = defaultdict(_Space)
        self._turns = asyncio.Semaphore(CONCURRENCY)
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting: list[tuple[Callable[[], bool], asyncio.Event]] = []
        self.writes = 0

    def take(self, batch: Batch[Pod]) -> None:
        """Handle the changes that a line of the watch brought."""
        now = monotonic()
        for change in batch.changes:
            pod = change.new or change.old
            assert pod is not None
            space = self._spaces[pod.namespace]
            if change.new is None:
                space.drop(pod.uid)
                continue
            if change.old is None:
                space.seen[f"{pod.name}/{pod.uid}"] = now
                if space.auto:
                    self._start(self._mark_one(pod, space.auto, {}))
            elif change.new.image != change.old.image:
                self._start(self._mark_one(pod, STOPPED if GATE in pod.image else AGAIN, {}))
            space.put(pod)
        for holds, event in self._waiting:
            if holds():
                event.set()

    async def run(self) -> None:
        """Serve commands until the standard input ends."""
        informer = Informer("/api/v1/pods", pod_of, Store[Pod](), lambda: 0.5)
        following = asyncio.create_task(run_informer(informer, self._transport, self.take))
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while not informer.synced:  # noqa: ASYNC110  once, at the start
            await asyncio.sleep(0.01)
        print(json.dumps({"ready": True}), flush=True)
        async for line in reader:
            command = json.loads(line)
            self._start(self._answer(command))
        following.cancel()

    def _start(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            print(f"kubelet: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            os._exit(1)

    async def _answer(self, command: dict[str, Any]) -> None:
        space = self._spaces[command["namespace"]]
        actions: dict[str, Callable[[], Awaitable[Any]]] = {
            "seen": lambda: self._seen(space, command["count"]),
            "mark": lambda: self._mark(space, command["phase"]),
            "kill": lambda: self._mark_one(next(iter(space.pods.values())), KILLED, {}),
            "auto": lambda: self._auto(space, command["phase"]),
            "phase": lambda: self._until(lambda: space.phases[command["phase"]] >= command["count"]),
            "released": lambda: self._until(lambda: not space.held),
            "known": lambda: self._known(space),
        }
        print(json.dumps({"number": command["number"], "answer": await actions[command["do"]]()}), flush=True)

    async def _until(self, holds: Callable[[], bool]) -> float:
        event = asyncio.Event()
        if not holds():
            waiting = (holds, event)
            self._waiting.append(waiting)
            await event.wait()
            self._waiting.remove(waiting)
        return monotonic()

    async def _seen(self, space: _Space, count: int) -> Times:
        await self._until(lambda: len(space.seen) >= count)
        return space.seen

    async def _known(self, space: _Space) -> Times:
        return space.seen

    async def _auto(self, space: _Space, phase: str) -> None:
        space.auto = phase
        for pod in list(space.pods.values()):
            self._start(self._mark_one(pod, phase, {}))

    async def _mark(self, space: _Space, phase: str) -> Times:
        """Job by job and replica by replica, as the names sort."""
        done: Times = {}
        await asyncio.gather(*(self._mark_one(pod, phase, done) for pod in list(space.pods.values())))
        return done

    async def _mark_one(self, pod: Pod, phase: str, done: Times) -> None:
        path = object_path("v1", "pods", pod.namespace, pod.name) + "/status"
        async with self._turns:
            answer = await self._transport.send(Request("PATCH", path, body=_PATCHES[phase], content_type=MERGE_PATCH))
            self.writes += 1
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
        return dict(await self._ask("seen", namespace, count=count))

    async def known(self, namespace: str) -> Times:
        """The pods seen so far."""
        return dict(await self._ask("known", namespace))

    async def mark(self, namespace: str, phase: str) -> Times:
        """Bring all pods of the namespace into that phase; by name, when the server had answered."""
        return dict(await self._ask("mark", namespace, phase=phase))

    async def kill_one(self, namespace: str) -> None:
        """The program of one pod of the namespace is killed, and its container starts again in place."""
        await self._ask("kill", namespace)

    async def auto(self, namespace: str, phase: str) -> None:
        """From now on bring every pod of the namespace into that phase as soon as it appears."""
        await self._ask("auto", namespace, phase=phase)

    async def in_phase(self, namespace: str, phase: str, count: int) -> float:
        """When `count` pods were in that phase."""
        return float(await self._ask("phase", namespace, phase=phase, count=count))

    async def released(self, namespace: str) -> float:
        """When no pod had a finalizer any more."""
        return float(await self._ask("released", namespace))

    async def _ask(self, do: str, namespace: str, **more: Any) -> Any:
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"number": number, "do": do, "namespace": namespace, **more}).encode() + b"\n")
        return await answer

    async def listen(self) -> None:
        """Read the answers until the process ends."""
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            told = json.loads(line)
            if "number" in told:
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
