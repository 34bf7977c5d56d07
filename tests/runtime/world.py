"""An API server in process, a user, and a model of the kubelet and the garbage collector."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from random import Random
from typing import Any

import msgspec

from jobcommon.cli.embedded import InProcessTransport
from jobcommon.client.request import MERGE_PATCH, Request, Response
from jobcommon.framework import Framework
from jobcommon.runtime.logging import Log
from jobcommon.runtime.manager import Env as RuntimeEnv
from jobcommon.runtime.manager import Manager
from jobcommon.runtime.settings import Settings
from localcluster import ApiServer, Env
from localcluster.client import ADMIN
from tests.runtime.fakes import TESTJOB, FakeClock, crd, quiet_log
from tests.runtime.tap import Tap

Json = dict[str, Any]
SETTINGS = Settings(metrics_port=None)
ELECTING = replace(SETTINGS, leader_elect=True)
JOBS = "/apis/kubeflow.org/v1/namespaces/default/testjobs"
PODS = "/api/v1/namespaces/default/pods"


class World:
    """An API server, a user, and a model of the kubelet."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.server = ApiServer(Env.seeded(7, self.clock.wall))
        self.transport = InProcessTransport(self.server)
        self.writes: list[tuple[str, str]] = []

    def call(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Response:
        data = None if body is None else msgspec.json.encode(body)
        return self.server.handle(Request(method, path, body=data, content_type=content_type), ADMIN)

    def ok(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Json:
        response = self.call(method, path, body, content_type)
        assert response.status < 300, response.body
        return msgspec.json.decode(response.body)

    def job(self, name: str = "train") -> Json:
        return self.ok("GET", f"{JOBS}/{name}")

    def conditions(self, name: str = "train") -> list[str]:
        return [c["type"] for c in self.job(name).get("status", {}).get("conditions", []) if c["status"] == "True"]

    def pods(self) -> list[Json]:
        return self.ok("GET", PODS)["items"]

    def pod(self, name: str) -> Json:
        return self.ok("GET", f"{PODS}/{name}")

    def events(self) -> list[str]:
        return [event["reason"] for event in self.ok("GET", "/api/v1/namespaces/default/events")["items"]]

    def play(self, name: str, phase: str, exit_code: int | None = None) -> None:
        """The pod gets to `phase`, its first container ending with `exit_code`; without one it is ready."""
        runs, main = exit_code is None, self.pod(name)["spec"]["containers"][0]["name"]
        state: Json = (
            {"running": {}} if runs else {"terminated": {"exitCode": exit_code, "reason": "Error", "containerID": name}}
        )
        container = {"name": main, "state": state, "ready": runs, "restartCount": 0, "image": "", "imageID": ""}
        conditions = [{"type": "Ready", "status": str(runs)}]
        status = {"phase": phase, "containerStatuses": [container], "conditions": conditions}
        self.ok("PATCH", f"{PODS}/{name}/status", {"status": status}, MERGE_PATCH)

    def play_all(self, phase: str, exit_code: int | None = None) -> None:
        for pod in self.pods():
            self.play(pod["metadata"]["name"], phase, exit_code)


class Process:
    """The operators of some frameworks at work, as a process of that name; its writes are kept, and can be held up."""

    def __init__(
        self, world: World, name: str = "a", settings: Settings = SETTINGS, *frameworks: Framework, log: Log | None = None
    ) -> None:
        self.tap = Tap(world.transport)
        env, log = RuntimeEnv(world.clock, Random(name).random, name), log or quiet_log()
        self.manager = Manager(
            self.tap, frameworks or (TESTJOB,), settings, election_transport=world.transport, env=env, log=log
        )
        self.task = asyncio.create_task(self.manager.run())

    def sample(self, name: str, **labels: str) -> float | None:
        """A metric of the framework."""
        return self.manager.metrics.registry.get_sample_value(name, {"framework": TESTJOB.name, **labels})


@asynccontextmanager
async def processes(world: World, *started: Process, step: float = 0.1) -> AsyncIterator[None]:
    try:
        yield
    finally:
        for process in started:
            process.tap.open.set()
            process.manager.stop()
        for process in started:
            await world.clock.until(process.task.done, step=step)
            process.task.result()


@asynccontextmanager
async def operating(
    world: World, framework: Framework = TESTJOB, settings: Settings = SETTINGS, name: str = "host_1", log: Log | None = None
) -> AsyncIterator[Process]:
    process = Process(world, name, settings, framework, log=log)
    async with processes(world, process, step=0.01):
        yield process


def world_with_testjobs() -> World:
    """A world in which TestJob is installed."""
    world = World()
    world.ok("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd())
    return world
