"""Gang scheduling with the whole operator against the embedded API server; the test plays the scheduler and the kubelet."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from jobcommon.api.gang import COSCHEDULING, NATIVE, VOLCANO, GangScheduler, candidates
from jobcommon.api.workload import min_count
from jobcommon.client.errors import TransportError
from jobcommon.client.request import MERGE_PATCH, Request, Response
from jobcommon.runtime.discovery import find_gang_scheduler
from jobcommon.runtime.settings import Settings
from jobcommon.testutil.native_definitions import definitions
from localcluster.model import Access, DefinitionController
from tests.runtime.fakes import FakeClock, ScriptedTransport, a_job, quiet_log, refusal, reply
from tests.runtime.tap import Passing
from tests.runtime.world import JOBS, SETTINGS, Json, World, operating, world_with_testjobs

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
QUANTITIES = {
    "type": "object",
    "additionalProperties": {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True},
}
INT = {"type": "integer", "format": "int32"}
SPECS: dict[GangScheduler, Json] = {
    VOLCANO: {
        "minMember": INT,
        "minResources": QUANTITIES,
        "queue": {"type": "string", "default": "default"},
        "priorityClassName": {"type": "string"},
        "minTaskMember": {"type": "object", "additionalProperties": INT},
    },
    COSCHEDULING: {"minMember": {**INT, "minimum": 1}, "minResources": QUANTITIES, "scheduleTimeoutSeconds": INT},
}


def definition(scheduler: GangScheduler) -> Json:
    """The PodGroup definition that comes with a scheduler, as far as we use it."""
    group, version = scheduler.api_version.split("/")
    status = {"type": "object", "properties": {"phase": {"type": "string"}}}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": SPECS[scheduler]}, "status": status}}
    names = {"plural": "podgroups", "singular": "podgroup", "kind": "PodGroup", "listKind": "PodGroupList"}
    served = {
        "name": version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"podgroups.{group}",
            # kube-apiserver wants it for groups of *.k8s.io.
            "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/scheduler-plugins/pull/50"},
        },
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [served]},
    }


class Cluster:
    """A world with a gang scheduler in it, whose part the test plays."""

    def __init__(self, *installed: GangScheduler) -> None:
        self.world = world_with_testjobs()
        self.until = self.world.clock.until
        for scheduler in installed:
            self.install(scheduler)

    def install(self, scheduler: GangScheduler) -> None:
        for one in definitions(scheduler.api_version) if scheduler.native else [definition(scheduler)]:
            self.world.ok("POST", DEFINITIONS, one)

    def uninstall(self, scheduler: GangScheduler) -> None:
        for plural in ("podgroups", "workloads") if scheduler.native else ("podgroups",):
            self.world.ok("DELETE", f"{DEFINITIONS}/{plural}.{scheduler.api_version.partition('/')[0]}")
        # The API server's own controller: first the objects go, then the definition.
        DefinitionController(Access(self.world.server, "crd-finalizer")).step()

    def groups(self, scheduler: GangScheduler) -> list[Json]:
        items: list[Json] = self.world.ok("GET", self.path(scheduler))["items"]
        return items

    def workloads(self, scheduler: GangScheduler) -> list[Json]:
        items: list[Json] = self.world.ok("GET", self.path(scheduler).replace("podgroups", "workloads"))["items"]
        return items

    def group(self, scheduler: GangScheduler, name: str = "train") -> Json:
        return self.world.ok("GET", f"{self.path(scheduler)}/{name}")

    async def appeared(self, scheduler: GangScheduler, name: str = "train") -> Json:
        await self.until(lambda: name in [group["metadata"]["name"] for group in self.groups(scheduler)])
        return self.group(scheduler, name)

    def phase(self, phase: str, name: str = "train") -> None:
        """What Volcano's scheduler does to a PodGroup."""
        self.world.ok("PATCH", f"{self.path(VOLCANO)}/{name}/status", {"status": {"phase": phase}}, MERGE_PATCH)

    def edit(self, run_policy: Json, name: str = "train") -> None:
        self.world.ok("PATCH", f"{JOBS}/{name}", {"spec": {"runPolicy": run_policy}}, MERGE_PATCH)

    def pods(self, name: str = "train") -> list[Json]:
        return [pod for pod in self.world.pods() if pod["metadata"]["name"].startswith(f"{name}-")]

    def message(self, kind: str = "Created", name: str = "train") -> str:
        found = [c["message"] for c in self.world.job(name).get("status", {}).get("conditions", []) if c["type"] == kind]
        return found[0] if found else ""

    @staticmethod
    def path(scheduler: GangScheduler) -> str:
        return f"/apis/{scheduler.api_version}/namespaces/default/podgroups"


def settings(name: str) -> Settings:
    return replace(SETTINGS, gang_scheduler_name=name)


def a_big_job(name: str = "train", **run_policy: Any) -> Json:
    job = a_job(name, **run_policy)
    (container,) = job["spec"]["testReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
    container["resources"] = {"requests": {"cpu": "1500m"}, "limits": {"cpu": 2, "memory": "1Gi"}}
    return job


async def test_volcano_from_the_queue_to_the_end() -> None:
    cluster = Cluster(VOLCANO)
    world = cluster.world
    async with operating(world, settings=settings("volcano")):
        world.ok("POST", JOBS, a_big_job(activeDeadlineSeconds=600))
        group = await cluster.appeared(VOLCANO)
        assert group["spec"] == {"minMember": 2, "minResources": {"cpu": "3", "memory": "2Gi"}, "queue": "default"}
        cluster.phase("Pending")
        await cluster.until(lambda: "wait for volcano to take up PodGroup train" in cluster.message())
        before = world.job()["metadata"]["resourceVersion"], cluster.group(VOLCANO)["metadata"]["resourceVersion"]
        await world.clock.advance(3600)
        after = world.job()["metadata"]["resourceVersion"], cluster.group(VOLCANO)["metadata"]["resourceVersion"]
        assert after == before, "an hour in the queue costs no write"
        assert world.pods() == []
        assert world.events().count("Waiting") == 1
        cluster.phase("Inqueue")
        await cluster.until(lambda: len(world.pods()) == 2)
        for pod in world.pods():
            assert pod["spec"]["schedulerName"] == "volcano"
            assert pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == "train"
            assert pod["metadata"]["annotations"]["volcano.sh/task-spec"] == "worker"
        cluster.phase("Running")
        world.play_all("Running")
        await cluster.until(lambda: world.conditions() == ["Created", "Running"])
        world.play_all("Succeeded", 0)
        await cluster.until(lambda: "Succeeded" in world.conditions())
        await cluster.until(lambda: cluster.groups(VOLCANO) == [])


async def test_pod_groups_that_are_not_installed_turn_it_off_until_they_are() -> None:
    cluster = Cluster()
    world = cluster.world
    async with operating(world, settings=settings("volcano")):
        world.ok("POST", JOBS, a_job("early"))
        await cluster.until(lambda: len(cluster.pods("early")) == 2)
        assert all(pod["spec"].get("schedulerName") != "volcano" for pod in world.pods())
        await cluster.until(lambda: "gang scheduling is off: PodGroup" in cluster.message(name="early"))
        await cluster.until(lambda: "GangSchedulingOff" in world.events())
        cluster.install(VOLCANO)
        await cluster.until(lambda: "created without it" in cluster.message(name="early"), step=1.0)
        world.ok("POST", JOBS, a_job("late"))
        await cluster.appeared(VOLCANO, "late")
        assert [group["metadata"]["name"] for group in cluster.groups(VOLCANO)] == ["late"]
        assert cluster.pods("late") == []


class Slow(Passing):
    """A transport on which nothing about PodGroups gets through before `open`."""

    def __init__(self, world: World) -> None:
        super().__init__(world.transport)
        self.open = asyncio.Event()

    async def send(self, request: Request) -> Response:
        if request.path.endswith("/podgroups"):
            await self.open.wait()
        return await super().send(request)

    async def stream(self, request: Request) -> AsyncIterator[bytes]:
        if request.path.endswith("/podgroups"):
            await self.open.wait()
        async for line in super().stream(request):
            yield line


async def test_priority_classes_404_as_last_response_completes_the_sync() -> None:
    """Everything else is known by then, and nothing more will wake the operator."""
    cluster = Cluster()
    world = cluster.world
    world.transport = slow = Slow(world)  # type: ignore[assignment]
    async with operating(world, settings=settings("volcano")):
        world.ok("POST", JOBS, a_job())
        await world.clock.advance(5)
        assert world.pods() == [], "nothing is decided before it is known"
        slow.open.set()
        await cluster.until(lambda: len(world.pods()) == 2)


async def test_a_queued_job_runs_when_the_definition_is_deleted() -> None:
    cluster = Cluster(VOLCANO)
    world = cluster.world
    async with operating(world, settings=settings("volcano")):
        world.ok("POST", JOBS, a_job())
        await cluster.appeared(VOLCANO)
        await cluster.until(lambda: "wait for volcano" in cluster.message())
        cluster.uninstall(VOLCANO)
        await cluster.until(lambda: len(world.pods()) == 2, step=0.5)
        await cluster.until(lambda: "gang scheduling is off: PodGroup" in cluster.message())
        world.play_all("Running")
        await cluster.until(lambda: world.conditions()[-1:] == ["Running"])


async def test_a_pod_group_of_another_owner_is_not_changed() -> None:
    cluster = Cluster(VOLCANO)
    world = cluster.world
    body = {"apiVersion": VOLCANO.api_version, "kind": "PodGroup", "metadata": {"name": "train"}, "spec": {"minMember": 9}}
    world.ok("POST", cluster.path(VOLCANO), body)
    async with operating(world, settings=settings("volcano")):
        world.ok("POST", JOBS, a_job())
        await cluster.until(lambda: "NameConflict" in world.events())
        assert cluster.group(VOLCANO)["spec"]["minMember"] == 9
        assert world.pods() == []
        world.ok("DELETE", f"{cluster.path(VOLCANO)}/train")
        await cluster.until(lambda: cluster.groups(VOLCANO), step=1.0)
        assert cluster.group(VOLCANO)["spec"]["minMember"] == 2


# -- Kubernetes' own --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheduler", NATIVE, ids=["v1beta1", "v1alpha2"])
async def test_workload_pod_group_and_pods_to_the_end(scheduler: GangScheduler) -> None:
    cluster = Cluster(scheduler)
    world = cluster.world
    async with operating(world, settings=settings("kubernetes")):
        world.ok("POST", JOBS, a_job())
        await cluster.until(lambda: len(world.pods()) == 2)
        for pod in world.pods():
            assert pod["spec"]["schedulingGroup"] == {"podGroupName": "train"}
            assert pod["spec"]["schedulerName"] == "default-scheduler"
        assert min_count(cluster.group(scheduler)) == 2
        world.play_all("Running")
        await cluster.until(lambda: world.conditions()[-1:] == ["Running"])
        world.play(world.pods()[0]["metadata"]["name"], "Succeeded", 0)
        if scheduler is NATIVE[0]:
            await cluster.until(lambda: min_count(cluster.group(scheduler)) == 1)
        cluster.edit({"suspend": True})
        await cluster.until(lambda: cluster.groups(scheduler) == cluster.workloads(scheduler) == [])
        cluster.edit({"suspend": False})
        await cluster.until(lambda: len(cluster.groups(scheduler)) == len(cluster.workloads(scheduler)) == 1)
        assert min_count(cluster.group(scheduler)) == 1
        await cluster.until(lambda: len([pod for pod in world.pods() if pod["status"]["phase"] == "Pending"]) == 1)
        world.play_all("Succeeded", 0)
        await cluster.until(lambda: "Succeeded" in world.conditions())
        await cluster.until(lambda: cluster.groups(scheduler) == cluster.workloads(scheduler) == [])


async def test_a_server_without_the_api_is_named_until_it_serves_it() -> None:
    cluster = Cluster()
    world = cluster.world
    async with operating(world, settings=settings("kubernetes")):
        world.ok("POST", JOBS, a_job("early"))
        await cluster.until(lambda: len(cluster.pods("early")) == 2)
        text = "the API server serves no PodGroup of scheduling.k8s.io in a known version; Kubernetes 1.37 has v1beta1 "
        await cluster.until(lambda: f"gang scheduling is off: {text}" in cluster.message(name="early"))
        assert "1.36 v1alpha2 (GenericWorkload and GangScheduling)" in cluster.message(name="early")
        cluster.install(NATIVE[0])
        await cluster.until(lambda: "created without it" in cluster.message(name="early"), step=1.0)
        world.ok("POST", JOBS, a_job("late"))
        await cluster.until(lambda: len(cluster.pods("late")) == 2)
        assert [group["metadata"]["name"] for group in cluster.groups(NATIVE[0])] == ["late"]
        cluster.uninstall(NATIVE[0])
        await cluster.until(lambda: text in cluster.message(name="late"), step=0.5)
        assert len(cluster.pods("late")) == 2, "running jobs go on"


# -- auto -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("installed", "expected"),
    [
        ((), None),
        ((VOLCANO,), VOLCANO),
        ((COSCHEDULING,), COSCHEDULING),
        ((COSCHEDULING, VOLCANO), VOLCANO),
        ((VOLCANO, NATIVE[1]), NATIVE[1]),
    ],
    ids=["none", "volcano", "scheduler-plugins", "both", "kubernetes"],
)
async def test_found_at_start(installed: tuple[GangScheduler, ...], expected: GangScheduler | None) -> None:
    cluster = Cluster(*installed)
    world = cluster.world
    assert await find_gang_scheduler(world.transport, world.clock, quiet_log(), candidates("auto")) == expected
    async with operating(world, settings=settings("auto")):
        world.ok("POST", JOBS, a_job())
        if expected is None:
            await cluster.until(lambda: len(world.pods()) == 2)
            assert cluster.message() == "TestJob train is created."
        else:
            await cluster.appeared(expected)


async def test_found_after_the_server_has_come_to_itself() -> None:
    transport, clock = ScriptedTransport(), FakeClock()
    answers = [TransportError("connection refused"), refusal(503), reply("junk"), reply({"resources": [{"name": "podgroups"}]})]
    for group in ("scheduling.x-k8s.io", "scheduling.k8s.io"):
        transport.on("GET", f"/apis/{group}", refusal(404))
    transport.on("GET", "/apis/scheduling.volcano.sh", lambda _: answers.pop(0) if len(answers) > 1 else answers[0])
    found: list[GangScheduler | None] = []

    async def find() -> None:
        found.append(await find_gang_scheduler(transport, clock, quiet_log(), candidates("auto")))

    task = asyncio.create_task(find())
    await clock.until(task.done, step=0.5)
    assert found == [VOLCANO]
    assert clock.now >= 1000.0 + 1.0 + 2.0 + 4.0


async def test_stopped_while_it_detects_the_gang_scheduler() -> None:
    """`operating` stops the operator and waits for its end."""
    cluster = Cluster()
    world = cluster.world
    world.server.handle = lambda *_: refusal(503)  # type: ignore[method-assign]
    async with operating(world, settings=settings("auto")):
        await world.clock.advance(100)


def test_kubernetes_and_kueue_are_not_used_together() -> None:
    with pytest.raises(ValueError, match="gang_scheduler_name kubernetes and kueue own cannot be used together"):
        replace(SETTINGS, gang_scheduler_name="kubernetes", kueue="own")


async def test_auto_beside_kueue_is_not_kubernetes() -> None:
    cluster = Cluster(NATIVE[0], COSCHEDULING)
    world = cluster.world
    async with operating(world, settings=replace(SETTINGS, gang_scheduler_name="auto", kueue="own")):
        world.ok("POST", JOBS, a_job())
        await cluster.appeared(COSCHEDULING)


def test_a_bad_name_is_refused_with_advice() -> None:
    with pytest.raises(ValueError, match="use kubernetes, volcano, yunikorn, koordinator, auto, or the schedulerName"):
        settings("No Name")
