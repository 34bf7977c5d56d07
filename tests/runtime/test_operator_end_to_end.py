"""The whole operator in one process against the embedded API server; the test plays the kubelet, and time is its own."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import msgspec
import pytest

from jobcommon.client.request import MERGE_PATCH, Request, Response
from jobcommon.framework import FINALIZER, Framework
from jobcommon.runtime.manager import Env as RuntimeEnv
from jobcommon.runtime.manager import run_operators
from jobcommon.runtime.settings import Settings
from localcluster.apiserver import ApiServer, Env
from localcluster.apiserver.inprocess import InProcessTransport
from localcluster.apiserver.users import ADMIN
from tests.runtime.fakes import TESTJOB, FakeClock, a_job, crd, quiet_log

Json = dict[str, Any]
SETTINGS = Settings(metrics_port=None)
JOBS = "/apis/kubeflow.org/v1/namespaces/default/testjobs"
PODS = "/api/v1/namespaces/default/pods"


class World:
    """An API server, a user, and somebody who plays the kubelet."""

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
        """The pod gets to `phase`, its container ending with `exit_code`."""
        state: Json = {"running": {}} if exit_code is None else {"terminated": {"exitCode": exit_code, "reason": "Error"}}
        container = {"name": "test", "state": state, "ready": exit_code is None, "restartCount": 0, "image": "", "imageID": ""}
        self.ok("PATCH", f"{PODS}/{name}/status", {"status": {"phase": phase, "containerStatuses": [container]}}, MERGE_PATCH)

    def play_all(self, phase: str, exit_code: int | None = None) -> None:
        for pod in self.pods():
            self.play(pod["metadata"]["name"], phase, exit_code)

    def collect_garbage(self) -> None:
        """Delete what belongs to a job that is gone."""
        for path in (PODS, "/api/v1/namespaces/default/services"):
            for found in self.ok("GET", path)["items"]:
                owners = found["metadata"].get("ownerReferences", ())
                if any(self.call("GET", f"{JOBS}/{owner['name']}").status == 404 for owner in owners):
                    self.call("DELETE", f"{path}/{found['metadata']['name']}")


@asynccontextmanager
async def operating(
    world: World, framework: Framework = TESTJOB, settings: Settings = SETTINGS
) -> AsyncIterator[asyncio.Event]:
    stop = asyncio.Event()
    env = RuntimeEnv(world.clock, Random(3).random, "host_1")
    operator = asyncio.create_task(run_operators(world.transport, [framework], settings, stop=stop, env=env, log=quiet_log()))
    try:
        yield stop
    finally:
        stop.set()
        await world.clock.until(operator.done)
        operator.result()


@pytest.fixture
def world() -> World:
    world = World()
    world.ok("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd())
    return world


async def test_a_job_runs_and_succeeds(world: World) -> None:
    async with operating(world):
        world.ok("POST", JOBS, a_job(workers=3))
        await world.clock.until(lambda: len(world.pods()) == 3)
        assert [p["metadata"]["name"] for p in world.pods()] == ["train-worker-0", "train-worker-1", "train-worker-2"]
        assert world.pod("train-worker-1")["metadata"]["finalizers"] == [FINALIZER]
        assert world.ok("GET", "/api/v1/namespaces/default/services/train")["spec"]["clusterIP"] == "None"
        world.play_all("Running")
        await world.clock.until(lambda: world.conditions() == ["Created", "Running"])
        world.play_all("Succeeded", 0)
        await world.clock.until(lambda: "Succeeded" in world.conditions())
        await world.clock.until(lambda: not any(p["metadata"].get("finalizers") for p in world.pods()))
        status = world.job()["status"]
        assert status["replicaStatuses"]["Worker"]["succeeded"] == 3
        assert status["completionTime"]
        await world.clock.until(lambda: "TestJobSucceeded" in world.events())
        assert world.events().count("SuccessfulCreatePod") == 3


async def test_a_retryable_exit_restarts_the_replica_and_is_counted(world: World) -> None:
    async with operating(world):
        world.ok("POST", JOBS, a_job(workers=2, restart="ExitCode", backoffLimit=3))
        await world.clock.until(lambda: len(world.pods()) == 2)
        world.play_all("Running")
        first = world.pod("train-worker-1")["metadata"]["uid"]
        world.play("train-worker-1", "Failed", 137)
        await world.clock.until(
            lambda: any(p["metadata"]["name"] == "train-worker-1" and p["metadata"]["uid"] != first for p in world.pods()),
            step=0.5,
        )
        assert world.job()["status"]["restarts"] == 1
        world.play_all("Running")
        await world.clock.until(lambda: world.conditions()[-1:] == ["Running"])
        world.play_all("Succeeded", 0)
        await world.clock.until(lambda: "Succeeded" in world.conditions())


async def test_a_permanent_exit_fails_the_job_with_its_cause(world: World) -> None:
    async with operating(world):
        world.ok("POST", JOBS, a_job(workers=2, restart="ExitCode"))
        await world.clock.until(lambda: len(world.pods()) == 2)
        world.play("train-worker-0", "Failed", 1)
        await world.clock.until(lambda: "Failed" in world.conditions())
        assert "Worker-0" in world.job()["status"]["conditions"][-1]["message"]


async def test_suspend_takes_the_pods_away_and_resume_brings_them_back(world: World) -> None:
    async with operating(world):
        world.ok("POST", JOBS, a_job(workers=2))
        await world.clock.until(lambda: len(world.pods()) == 2)
        before = {p["metadata"]["uid"] for p in world.pods()}
        world.ok("PATCH", f"{JOBS}/train", {"spec": {"runPolicy": {"suspend": True}}}, MERGE_PATCH)
        await world.clock.until(lambda: world.conditions()[-1:] == ["Suspended"] and not running(world))
        world.ok("PATCH", f"{JOBS}/train", {"spec": {"runPolicy": {"suspend": False}}}, MERGE_PATCH)
        await world.clock.until(lambda: len(world.pods()) == 2 and not before & {p["metadata"]["uid"] for p in world.pods()})
        assert "Suspended" not in world.conditions()


def running(world: World) -> list[Json]:
    return [p for p in world.pods() if "deletionTimestamp" not in p["metadata"]]


async def test_pods_of_a_deleted_job_are_let_go(world: World) -> None:
    async with operating(world):
        world.ok("POST", JOBS, a_job(workers=2))
        await world.clock.until(lambda: len(world.pods()) == 2)
        world.ok("DELETE", f"{JOBS}/train")
        world.collect_garbage()
        await world.clock.until(lambda: not world.pods())


async def test_a_job_of_the_same_name_waits_for_the_old_pods_and_starts(world: World) -> None:
    async with operating(world):
        world.ok("POST", JOBS, a_job(workers=2))
        await world.clock.until(lambda: len(world.pods()) == 2)
        old = {p["metadata"]["uid"] for p in world.pods()}
        world.ok("DELETE", f"{JOBS}/train")
        new = world.ok("POST", JOBS, a_job(workers=2))["metadata"]["uid"]
        await world.clock.until(lambda: not any(p["metadata"].get("finalizers") for p in world.pods()))
        for pod in world.pods():
            world.call("DELETE", f"{PODS}/{pod['metadata']['name']}")
        world.call("DELETE", "/api/v1/namespaces/default/services/train")
        await world.clock.until(lambda: len(world.pods()) == 2, step=0.5)
        assert not old & {p["metadata"]["uid"] for p in world.pods()}
        assert {p["metadata"]["ownerReferences"][0]["uid"] for p in world.pods()} == {new}


async def test_a_finished_job_goes_when_its_time_to_live_is_over(world: World) -> None:
    async with operating(world):
        world.ok("POST", JOBS, a_job(workers=1, ttlSecondsAfterFinished=60))
        await world.clock.until(lambda: len(world.pods()) == 1)
        world.play_all("Succeeded", 0)
        await world.clock.until(lambda: "Succeeded" in world.conditions())
        await world.clock.advance(50)
        assert world.call("GET", f"{JOBS}/train").status == 200
        await world.clock.until(lambda: world.call("GET", f"{JOBS}/train").status == 404, step=1)


async def test_a_kind_that_is_not_installed_is_waited_for() -> None:
    world = World()
    async with operating(world):
        await world.clock.advance(30)
        world.ok("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd())
        world.ok("POST", JOBS, a_job(workers=1))
        before = world.clock.monotonic()
        await world.clock.until(lambda: len(world.pods()) == 1, step=1)
        assert world.clock.monotonic() - before <= 61


async def test_nothing_is_written_while_nothing_changes(world: World) -> None:
    async with operating(world):
        world.ok("POST", JOBS, a_job(workers=2))
        await world.clock.until(lambda: len(world.pods()) == 2)
        world.play_all("Running")
        await world.clock.until(lambda: "Running" in world.conditions())
        await world.clock.advance(20)
        before = world.server.storage.rv
        await world.clock.advance(3600)
        assert world.server.storage.rv == before
