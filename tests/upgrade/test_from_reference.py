"""What the reference operators began, ours carry on: running pods stay, nothing is done again, the end is the same."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from jobcommon.crd import custom_resource_definition
from jobcommon.framework import FINALIZER
from jobcommon.testutil.builders import condition
from tests.runtime.world import PODS, Json, World, operating
from tests.upgrade.reference import SHAPES, Shape

pytestmark = pytest.mark.slow

SERVICES = "/api/v1/namespaces/default/services"
SETTLED = 30.0
OF_KIND = {"argvalues": SHAPES, "ids": [shape.framework.kind for shape in SHAPES]}


class Inherited(World):
    """A cluster in which a reference operator was at work until now."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        definition = custom_resource_definition(shape.framework)
        self.ok("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
        self.jobs = f"/apis/kubeflow.org/v1/namespaces/default/{shape.framework.plural}"
        self.created = self.ok("POST", self.jobs, shape.job())
        self.created["apiVersion"] = "kubeflow.org/v1"

    def leave(self, *phases: str, status: Json, without: tuple[str, ...] = ()) -> None:
        """Pods and Services of all replicas, the pods brought through `phases`, and the status."""
        for kind, index in self.shape.slots:
            name = self.shape.pod_name(kind, index)
            if (service := self.shape.service(self.created, kind, index)) is not None:
                self.ok("POST", SERVICES, service)
            if name in without:
                continue
            self.ok("POST", PODS, self.shape.pod(self.created, kind, index))
            for phase in phases:
                self.play(name, phase, 0 if phase == "Succeeded" else None)
        self.put_status(status)

    def put_status(self, status: Json) -> None:
        current = self.ok("GET", f"{self.jobs}/demo")
        self.ok("PUT", f"{self.jobs}/demo/status", {**current, "status": status})

    def uids(self) -> dict[str, str]:
        return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in self.pods()}

    def services(self) -> set[str]:
        return {service["metadata"]["name"] for service in self.ok("GET", SERVICES)["items"]} - {"kubernetes"}

    def status(self) -> Json:
        status: Json = self.ok("GET", f"{self.jobs}/demo")["status"]
        return status

    @property
    def current(self) -> str:
        return str(self.status()["conditions"][-1]["type"])

    def deciders(self) -> list[str]:
        return [self.shape.pod_name(kind, index) for kind, index in self.shape.slots if kind in self.shape.deciding]


@asynccontextmanager
async def taken_over(world: Inherited) -> AsyncIterator[None]:
    """Our operator, once it has come to rest."""
    async with operating(world, world.shape.framework):
        await world.clock.advance(SETTLED)
        yield


@pytest.mark.parametrize("shape", **OF_KIND)
async def test_a_running_job_runs_on_and_succeeds(shape: Shape) -> None:
    world = Inherited(shape)
    world.leave("Running", status=shape.status(world.clock.wall(), "Running", "active"))
    before, services, start = world.uids(), world.services(), world.status()["startTime"]
    async with taken_over(world):
        assert world.uids() == before
        assert world.services() >= services, "running pods know each other by these names"
        assert world.current == "Running"
        assert world.status()["startTime"] == start
        for name in world.deciders():
            world.play(name, "Succeeded", 0)
        await world.clock.until(lambda: world.current == "Succeeded")
        await world.clock.advance(SETTLED)
        assert world.uids() == before
        assert world.status()["completionTime"]


@pytest.mark.parametrize(
    "shape", [*SHAPES, replace(SHAPES[1], policy="OnFailure")], ids=lambda s: f"{s.framework.kind} {s.policy}"
)
async def test_a_failure_or_an_end_between_two_reads_is_seen_once(shape: Shape) -> None:
    """Without our finalizer a pod can vanish uncounted; one that is there is counted like any other."""
    world = Inherited(shape)
    world.leave("Running", status=shape.status(world.clock.wall(), "Running", "active"))
    failed = shape.pod_name("Worker", 0)
    if shape.policy == "ExitCode":
        world.play(failed, "Failed", 137)
    before = world.uids()
    async with taken_over(world):
        if shape.policy == "ExitCode":
            await world.clock.until(lambda: world.uids().get(failed, before[failed]) != before[failed], step=0.5)
            assert world.status()["restarts"] == 1
        assert {**world.uids(), failed: ""} == {**before, failed: ""}
    ended = Inherited(shape)
    ended.leave("Running", "Succeeded", status=shape.status(ended.clock.wall(), "Running", "active"))
    before = ended.uids()
    async with taken_over(ended):
        assert (ended.uids(), ended.current) == (before, "Succeeded")


@pytest.mark.parametrize("shape", **OF_KIND)
async def test_a_replica_that_is_being_replaced_is_replaced_and_the_others_stay(shape: Shape) -> None:
    """The reference has deleted a failed pod and gone. The new pod and the old ones must find each other."""
    world = Inherited(shape)
    lost = shape.pod_name("Worker", 1)
    world.leave("Running", status=shape.status(world.clock.wall(), "Restarting", "active"), without=(lost,))
    before = world.uids()
    async with taken_over(world):
        after = world.uids()
        assert {name: after[name] for name in before} == before
        assert set(after) == {*before, lost}
        replacement = world.pod(lost)
        assert FINALIZER in replacement["metadata"]["finalizers"]
        if world.shape.service(world.created, "Worker", 1) is not None:
            assert lost in world.services(), "what the others call it by"
            told = str(replacement["spec"]["containers"][0].get("env"))
            assert f"{shape.pod_name(shape.master, 0)}.default.svc" in told, "the others answer to their Services' names only"
            assert f"{shape.pod_name(shape.master, 0)}.demo.default.svc" not in told
        world.play(lost, "Running")
        await world.clock.until(lambda: world.current == "Running")
        for name in world.deciders():
            world.play(name, "Succeeded", 0)
        await world.clock.until(lambda: world.current == "Succeeded")


@pytest.mark.parametrize("shape", **OF_KIND)
async def test_a_finished_job_is_left_as_it_is(shape: Shape) -> None:
    world = Inherited(shape)
    world.leave("Running", "Succeeded", status=shape.status(world.clock.wall(), "Succeeded", "succeeded"))
    before, conditions = world.uids(), world.status()["conditions"]
    async with taken_over(world):
        assert world.uids() == before
        assert world.status()["conditions"] == conditions
        assert world.events() == []


@pytest.mark.parametrize("shape", **OF_KIND)
async def test_a_suspended_job_is_resumed_with_new_pods(shape: Shape) -> None:
    world = Inherited(shape)
    world.put_status(shape.status(world.clock.wall(), "Suspended"))
    patch: Callable[[bool], Any] = lambda on: world.ok(  # noqa: E731
        "PATCH", f"{world.jobs}/demo", {"spec": {"runPolicy": {"suspend": on}}}, "application/merge-patch+json"
    )
    patch(True)
    async with taken_over(world):
        assert world.uids() == {}
        assert world.current == "Suspended"
        patch(False)
        workers = {shape.pod_name("Worker", index) for index in range(2)}
        await world.clock.until(lambda: workers <= set(world.uids()))


async def test_an_end_that_the_reference_wrote_with_both_conditions_stays() -> None:
    """The reference could leave Running, or Failed beside Succeeded, True at the end; the job is over all the same."""
    shape = SHAPES[1]
    world = Inherited(shape)
    status = shape.status(world.clock.wall(), "Succeeded", "succeeded")
    status["conditions"].append(condition("Failed", True, "PyTorchJobFailed", "one worker failed", world.clock.wall()))
    world.leave("Running", "Succeeded", status=status)
    before = world.uids()
    async with taken_over(world):
        assert world.uids() == before
        assert {c["type"] for c in world.status()["conditions"] if c["status"] == "True"} >= {"Failed"}
