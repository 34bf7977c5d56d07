"""A kubelet that runs nothing: it watches all pods, and reports them as running or ended, on command.

It is a process of its own, so that it takes no CPU time from the measured one. `Kubelet` drives it: commands and answers
are lines of JSON, one after another. Times are those of the system's monotonic clock, which all processes share.
"""

import asyncio
import json
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from time import monotonic
from typing import Any, NamedTuple

import msgspec

from benchmarks.processes import speaking, stop
from benchmarks.requests import send, watching
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


@dataclass
class _Space:
    """The pods of one namespace: when each was first seen, those that are there by UID, and how many have a finalizer."""

    seen: Times = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    held: int = 0


class Agent:
    """The kubelet's own process. A command is the name of a method, whose first argument is the namespace."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._spaces: dict[str, _Space] = defaultdict(_Space)
        self._turns = asyncio.Semaphore(CONCURRENCY)
        self._changed = asyncio.Event()

    def take(self, event: WatchedObject) -> None:
        """Handle a change."""
        meta, container = event.body["metadata"], event.body["spec"]["containers"][0]
        pod = Pod(meta["namespace"], meta["name"], meta["uid"], bool(meta.get("finalizers")), container["name"])
        space = self._spaces[pod.namespace]
        old = space.pods.pop(pod.uid, None)
        space.held -= bool(old and old.held)
        if not event.deleted:
            space.pods[pod.uid] = pod
            space.held += pod.held
            space.seen.setdefault(f"{pod.name}/{pod.uid}", monotonic())
        self._changed.set()

    async def run(self) -> None:
        """Serve commands until the standard input ends."""
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        async with watching(self._transport, "/api/v1/pods", self.take):
            print(json.dumps({"ready": True}), flush=True)
            async for line in reader:
                command, namespace, *arguments = json.loads(line)
                print(json.dumps(await getattr(self, command)(self._spaces[namespace], *arguments)), flush=True)

    async def _until(self, holds: Callable[[], bool]) -> float:
        """When `holds`, asked after each change, first did."""
        while not holds():
            self._changed.clear()
            await self._changed.wait()
        return monotonic()

    async def seen(self, space: _Space, count: int) -> Times:
        """When each pod was first seen, by name and UID, once there are `count` pods."""
        await self._until(lambda: len(space.seen) >= count)
        return space.seen

    async def released(self, space: _Space) -> float:
        """When no pod had a finalizer any more."""
        return await self._until(lambda: not space.held)

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

    async def ask(self, *command: Any) -> Any:
        """What the method answers. Raises RuntimeError when the process has ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(command).encode() + b"\n")
        if not (line := await self._process.stdout.readline()):
            raise RuntimeError("the kubelet's process has ended; its error is above")
        return json.loads(line)


@asynccontextmanager
async def kubelet(kubeconfig: str) -> AsyncIterator[Kubelet]:
    """A kubelet for the cluster that the kubeconfig leads to."""
    process = await speaking("benchmarks.kubelet", kubeconfig)
    try:
        yield Kubelet(process)
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
