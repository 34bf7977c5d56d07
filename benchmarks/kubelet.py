"""A kubelet that runs nothing: it watches all pods, and reports them as running or ended, on command or as their fate says.

It is a process of its own, so that it takes no CPU time from the measured one. `Kubelet` drives it: commands and answers
are lines of JSON. Times are those of the system's monotonic clock, which all processes share.

It also deletes for good what is only marked as deleted. The API server deletes a pod in two steps, and does not take the
second one if the client is killed after the first.
"""

import asyncio
import itertools
import json
import os
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from functools import cache
from time import monotonic
from typing import Any, NamedTuple

import msgspec

from benchmarks.processes import speaking, stop
from benchmarks.sending import send
from benchmarks.watching import watching
from benchmarks.workloads import IMAGE, IMAGE_ID
from jobcommon.api.labels import JOB_NAME
from jobcommon.api.timestamp import format_time
from jobcommon.client.config import find_cluster
from jobcommon.client.list_watch import WatchedObject
from jobcommon.client.objects import object_path
from jobcommon.client.request import MERGE_PATCH, Request, Transport
from jobcommon.client.transport import HttpTransport

CONCURRENCY = 32
RUNNING, SUCCEEDED, FAILED, PERMANENT = "Running", "Succeeded", "Failed", "Permanent"
#: When the pods of this cluster run and end.
STARTED = format_time(1_790_000_000.0 - 60)
#: The annotation of a pod that ends by itself: how the first of its job that has it ends, how the second one, and so on as the
#: last, by commas. One that is empty does not end.
FATE = "benchmark.example.com/fate"
RUN_SECONDS = 0.5
#: A pod that is terminating for longer, without a finalizer, is deleted for good.
TERMINATION_SECONDS = 2.0
_UID = "00000000-0000-0000-0000-000000000000"

Times = dict[str, float]


class Pod(NamedTuple):
    """The part of a pod that counts here. Nothing but the second step of its deletion is left of one that is `released`."""

    namespace: str
    name: str
    uid: str
    job: str
    held: bool
    released: bool
    container: str
    fate: str | None


def pod_of(body: dict[str, Any]) -> Pod:
    """The part of a pod that counts here."""
    meta, container = body["metadata"], body["spec"]["containers"][0]
    held = bool(meta.get("finalizers"))
    released = "deletionTimestamp" in meta and not held
    fate = meta.get("annotations", {}).get(FATE)
    about = (meta["namespace"], meta["name"], meta["uid"], meta.get("labels", {}).get(JOB_NAME, ""))
    return Pod(*about, held, released, container["name"], fate)


@dataclass
class JobPods:
    """The pods of a job: when each appeared, how many had a fate, when the last of these ended, and how many are there."""

    appeared: list[float] = field(default_factory=list)
    fated: int = 0
    ended: float | None = None
    present: int = 0


@dataclass
class _Space:
    """The pods of one namespace: when each was first seen, those that are there by UID, and how many have a finalizer."""

    seen: Times = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    jobs: defaultdict[str, JobPods] = field(default_factory=lambda: defaultdict(JobPods))
    held: int = 0
    auto: str = ""

    def put(self, pod: Pod) -> None:
        self.pods[pod.uid] = pod
        self.held += pod.held
        self.jobs[pod.job].present += 1

    def drop(self, uid: str) -> Pod | None:
        old = self.pods.pop(uid, None)
        if old is not None:
            self.held -= old.held
            self.jobs[old.job].present -= 1
        return old

    def appeared(self, pod: Pod) -> int:
        """The number of pods of its job so far that had a fate."""
        job, now = self.jobs[pod.job], monotonic()
        self.seen[f"{pod.name}/{pod.uid}"] = now
        job.appeared.append(now)
        job.fated += pod.fate is not None
        return job.fated


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
                number = space.appeared(pod)
                if space.auto and not pod.released:
                    self._start(self._life(space, pod, number))
            if pod.released and not (old and old.released):
                self._start(self._delete(space, pod))
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

    async def auto(self, space: _Space, phase: str) -> None:
        """From now on bring every new pod into that phase as soon as it appears, and then to its fate."""
        space.auto = phase

    async def mark(self, space: _Space, phase: str) -> Times:
        """Bring all pods into that phase; by name, when the server had answered."""
        pods = list(space.pods.values())
        times = await asyncio.gather(*(self._mark_one(pod, phase) for pod in pods))
        return {pod.name: at for pod, at in zip(pods, times, strict=True)}

    async def job_pods(self, space: _Space, job: str, over: bool = True) -> dict[str, Any]:
        """What was seen of the job's pods, for the last time; with `over`, once none is there."""
        if over:
            await self.until(lambda: not space.jobs[job].present)
        return asdict(space.jobs.pop(job, JobPods()))

    # -- what it does by itself

    async def _life(self, space: _Space, pod: Pod, number: int) -> None:
        await self._mark_one(pod, space.auto)
        if pod.fate:
            await asyncio.sleep(RUN_SECONDS)
            ends = pod.fate.split(",")
            space.jobs[pod.job].ended = await self._mark_one(pod, ends[min(number, len(ends)) - 1])

    async def _delete(self, space: _Space, pod: Pod) -> None:
        await asyncio.sleep(TERMINATION_SECONDS)
        if pod.uid in space.pods:
            body = msgspec.json.encode({"gracePeriodSeconds": 0, "preconditions": {"uid": pod.uid}})
            await send(self._transport, Request("DELETE", _path(pod), body=body), 404, 409, insist=True)

    async def _mark_one(self, pod: Pod, phase: str) -> float:
        # The UID makes it a conflict when another pod of that name is there meanwhile.
        body = _patch(phase, pod.container).replace(_UID.encode(), pod.uid.encode())
        request = Request("PATCH", f"{_path(pod)}/status", body=body, content_type=MERGE_PATCH)
        async with self._turns:
            await send(self._transport, request, 404, 409, insist=True)
            return monotonic()


def _path(pod: Pod) -> str:
    return object_path("v1", "pods", pod.namespace, pod.name)


@cache
def _patch(phase: str, container: str) -> bytes:
    """A pod that runs, or whose container has exited: for good with 1, else with 137."""
    code = {RUNNING: None, SUCCEEDED: 0, FAILED: 137, PERMANENT: 1}[phase]
    ready = code is None
    state: dict[str, Any] = {"running": {"startedAt": STARTED}}
    if code is not None:
        times = {"startedAt": STARTED, "finishedAt": STARTED}
        state = {"terminated": {"exitCode": code, "reason": "Error" if code else "Completed", **times}}
    image = {"image": IMAGE, "imageID": IMAGE_ID, "restartCount": 0}
    states = {"PodScheduled": True, "Initialized": True, "ContainersReady": ready, "Ready": ready}
    status = {
        "phase": FAILED if code else phase,
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
