"""What the reference operators began, ours carry on: running pods stay, nothing is done again, the end is the same."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from jobcommon.client.request import MERGE_PATCH
from jobcommon.crd import custom_resource_definition
from jobcommon.framework import FINALIZER
from jobcommon.testutil.builders import condition
from tests.runtime.world import PODS, Json, World, operating
from tests.upgrade.reference import SHAPES, Shape

pytestmark = pytest.mark.slow

SERVICES = "/api/v1/namespaces/default/services"
SETTLED = 30.0
OF_KIND = {"argvalues": SHAPES, "ids": [f"{shape.framework.kind} {shape.policy}" for shape in SHAPES]}


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

    def suspend(self, on: bool) -> None:
        self.ok("PATCH", f"{self.jobs}/demo", {"spec": {"runPolicy": {"suspend": on}}}, MERGE_PATCH)

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


@pytest.mark.parametrize("lost", [False, True], ids=["all there", "one lost"])
@pytest.mark.parametrize("shape", **OF_KIND)
async def test_a_running_job_runs_on_and_succeeds(shape: Shape, lost: bool) -> None:
    """Where the reference has deleted a failed pod and gone, the new pod and the old ones must find each other."""
    world = Inherited(shape)
    gone = shape.pod_name("Worker", 1) if lost else ""
    status = shape.status(world.clock.wall(), "Restarting" if lost else "Running", "active")
    world.leave("Running", status=status, without=(gone,))
    before, services, start = world.uids(), world.services(), world.status()["startTime"]
    async with taken_over(world):
        after = world.uids()
        assert {name: uid for name, uid in after.items() if name != gone} == before
        assert world.services() >= services, "running pods know each other by these names"
        assert world.status()["startTime"] == start
        if lost:
            replacement = world.pod(gone)
            assert FINALIZER in replacement["metadata"]["finalizers"]
            if services:
                assert gone in world.services(), "what the others call it by"
                variables = str(replacement["spec"]["containers"][0].get("env"))
                assert f"{shape.pod_name(shape.master, 0)}.default.svc" in variables, (
                    "the others answer to their Services' names only"
                )
                assert f"{shape.pod_name(shape.master, 0)}.demo.default.svc" not in variables
            world.play(gone, "Running")
        await world.clock.until(lambda: world.current == "Running")
        for name in world.deciders():
            world.play(name, "Succeeded", 0)
        await world.clock.until(lambda: world.current == "Succeeded")
        await world.clock.advance(SETTLED)
        assert world.uids() == after
        assert world.status()["completionTime"]


@pytest.mark.parametrize("shape", **OF_KIND)
async def test_a_failure_between_two_reads_is_seen_once(shape: Shape) -> None:
    """Without our finalizer a pod can vanish uncounted; one that is there is counted like any other."""
    world = Inherited(shape)
    world.leave("Running", status=shape.status(world.clock.wall(), "Running", "active"))
    failed = shape.pod_name("Worker", 0)
    world.play(failed, "Failed", 137)
    before = world.uids()
    async with taken_over(world):
        await world.clock.until(lambda: world.uids().get(failed, before[failed]) != before[failed], step=0.5)
        assert world.status()["restarts"] == 1
        assert {**world.uids(), failed: ""} == {**before, failed: ""}


@pytest.mark.parametrize("recorded", ["Running", "Succeeded", "Failed beside Succeeded"])
@pytest.mark.parametrize("shape", **OF_KIND)
async def test_an_end_is_seen_once_and_one_on_record_stays(shape: Shape, recorded: str) -> None:
    """The reference could leave Failed True beside Succeeded; the job is over all the same."""
    world = Inherited(shape)
    count = "active" if recorded == "Running" else "succeeded"
    status = shape.status(world.clock.wall(), recorded.rpartition(" ")[2], count)
    if recorded.startswith("Failed"):
        status["conditions"].append(condition("Failed", True, "JobFailed", "one worker failed", world.clock.wall()))
    world.leave("Running", "Succeeded", status=status)
    before = world.uids()
    async with taken_over(world):
        assert world.uids() == before
        if recorded == "Running":
            assert world.current == "Succeeded"
        else:
            assert world.status()["conditions"] == status["conditions"]
            assert world.events() == []


@pytest.mark.parametrize("shape", **OF_KIND)
async def test_a_suspended_job_is_resumed_with_new_pods(shape: Shape) -> None:
    world = Inherited(shape)
    world.put_status(shape.status(world.clock.wall(), "Suspended"))
    world.suspend(True)
    async with taken_over(world):
        assert world.uids() == {}
        assert world.current == "Suspended"
        world.suspend(False)
        workers = {shape.pod_name("Worker", index) for index in range(2)}
        await world.clock.until(lambda: workers <= set(world.uids()))
