"""What the tests of the runtime drive it with: a clock that stands still, a scripted API server, a tiny framework."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from heapq import heappop, heappush
from io import StringIO
from itertools import count
from typing import Any

import msgspec

from jobcommon.client.errors import ClientError, StatusError
from jobcommon.client.request import Request, Response
from jobcommon.framework import EnvVar, Framework, Job, Replica, ReplicaType
from jobcommon.runtime import logging
from jobcommon.runtime.clock import Clock, Timer
from tests.definitions import definition

PATIENCE = 100.0


class FakeTimer:
    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        self.callback = None


class FakeClock(Clock):
    """Time that passes only when told to."""

    def __init__(self, wall: float = 1_760_000_000.0) -> None:
        self.now = 1000.0
        self._offset = wall - self.now
        self._timers: list[tuple[float, int, FakeTimer]] = []
        self._numbers = count()

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return self.now + self._offset

    def call_at(self, when: float, callback: Callable[[], object]) -> Timer:
        timer = FakeTimer(callback)
        heappush(self._timers, (when, next(self._numbers), timer))
        return timer

    async def advance(self, seconds: float) -> None:
        """Let `seconds` pass, timers in their order, each with time for what it sets off."""
        await turns()
        end = self.now + seconds
        while self._timers and self._timers[0][0] <= end:
            when, _, timer = heappop(self._timers)
            self.now = max(self.now, when)
            if timer.callback is not None:
                timer.callback()
                await turns()
        self.now = end
        await turns()

    async def until(self, condition: Callable[[], object], *, step: float = 0.01) -> None:
        """Let time pass in small steps until `condition` holds; fails after some seconds of real time."""
        give_up = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < give_up, "the condition did not come true"
            await self.advance(step)


async def turns(number: int = 20) -> None:
    """Let the other tasks run."""
    for _ in range(number):
        await asyncio.sleep(0)


Answer = Response | ClientError | Callable[[Request], Response | ClientError] | Sequence[bytes | ClientError]


class ScriptedTransport:
    """Answers by `rules`: the first whose method and start of the path fit. Keeps what was sent."""

    def __init__(self) -> None:
        self.sent: list[Request] = []
        self.rules: list[tuple[str, str, list[Answer]]] = []
        self.hold = asyncio.Event()
        self.hold.set()
        self.under_way = 0
        self.most_under_way = 0

    def on(self, method: str, path: str, *answers: Answer) -> "ScriptedTransport":
        """Answer such requests with `answers` in turn, with the last for good; a later rule goes before an earlier one.

        The method of a stream is STREAM, and its answer the lines; an error among them is raised at its place.
        """
        self.rules.insert(0, (method, path, [*answers]))
        return self

    def made(self, method: str, path: str = "") -> list[Request]:
        """The requests of that kind that were sent."""
        return [r for r in self.sent if r.method == method and path in r.path]

    async def send(self, request: Request) -> Response:
        self.sent.append(request)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            await asyncio.sleep(0)
            await self.hold.wait()
        finally:
            self.under_way -= 1
        found = self._answer(request.method, request)
        assert isinstance(found, Response)
        return found

    async def stream(self, request: Request) -> AsyncGenerator[bytes, None]:
        self.sent.append(request)
        lines = self._answer("STREAM", request)
        assert isinstance(lines, Sequence)
        for line in lines:
            if isinstance(line, ClientError):
                raise line
            yield line

    def _answer(self, wanted: str, request: Request) -> Response | Sequence[bytes | ClientError]:
        for method, path, answers in self.rules:
            if method == wanted and request.path.startswith(path):
                answer = answers.pop(0) if len(answers) > 1 else answers[0]
                found = answer(request) if callable(answer) else answer
                if isinstance(found, ClientError):
                    raise found
                return found
        if wanted == "STREAM":
            raise StatusError(404, "NotFound", "no streams here")
        raise AssertionError(f"unexpected request {request.method} {request.path}")

    async def close(self) -> None:
        pass


def reply(body: Any = None, status: int = 200, **headers: str) -> Response:
    """A response with a JSON body; without one, with the least that is an object."""
    return Response(
        status,
        msgspec.json.encode(body or {"metadata": {"resourceVersion": "1"}}),
        {k.replace("_", "-"): v for k, v in headers.items()},
    )


def refusal(code: int, reason: str = "", message: str = "no", **headers: str) -> Response:
    """A response with a Status."""
    return reply({"kind": "Status", "code": code, "reason": reason, "message": message}, code, **headers)


def quiet_log() -> logging.Log:
    """A logger whose lines are discarded."""
    return logging.setup("json", "debug", StringIO())


def env(job: Job, replica: Replica) -> list[EnvVar]:
    """Where the first worker is."""
    return [EnvVar("LEADER", job.address(Replica("Worker", 0))), EnvVar("RANK", str(replica.index))]


TESTJOB = Framework(
    kind="TestJob",
    plural="testjobs",
    name="test",
    replica_specs="testReplicaSpecs",
    replica_types=(ReplicaType("Worker"),),
    container="test",
    port_name="test-port",
    port=2222,
    env=env,
)


def crd(framework: Framework = TESTJOB, status: Any = None) -> dict[str, Any]:
    """A definition of the kind that takes anything, but for a status that has a schema."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schemas = {version.name: {"spec": anything, "status": status or anything} for version in framework.versions}
    return definition(framework.group, framework.kind, schemas, framework.storage_version)


def a_job(name: str = "train", workers: int = 2, *, restart: str = "Never", **run_policy: Any) -> dict[str, Any]:
    """A manifest of a TestJob."""
    template = {"spec": {"containers": [{"name": "test", "image": "test"}]}}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TestJob",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "runPolicy": run_policy,
            "testReplicaSpecs": {"Worker": {"replicas": workers, "restartPolicy": restart, "template": template}},
        },
    }
