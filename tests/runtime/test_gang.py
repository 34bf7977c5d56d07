"""Gang schedulers that come and go while the whole operator works; tests/charts/test_recorded_verbs.py has whole lives."""

import asyncio
from dataclasses import replace

import pytest

from jobcommon.api.gang import COSCHEDULING, NATIVE, VOLCANO, GangScheduler, candidates
from jobcommon.client.errors import TransportError
from jobcommon.runtime.discovery import find_gang_scheduler
from jobcommon.runtime.settings import Settings
from jobcommon.testutil.kueue import gang_definitions
from tests.runtime.fakes import FakeClock, ScriptedTransport, a_job, definition, quiet_log, refusal, reply
from tests.runtime.world import JOBS, SETTINGS, Json, operating, world_with_testjobs

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


def pod_groups(scheduler: GangScheduler) -> Json:
    """The PodGroup definition that comes with a scheduler, as far as we use it."""
    group, version = scheduler.api_version.split("/")
    spec = {"type": "object", "properties": SPECS[scheduler]}
    status = {"type": "object", "properties": {"phase": {"type": "string"}}}
    return definition(group, "PodGroup", "podgroups", {version: {"spec": spec, "status": status}}, version)


def settings(name: str) -> Settings:
    return replace(SETTINGS, gang_scheduler_name=name)


# -- auto -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("installed", "kueue", "expected"),
    [
        ((), "", None),
        ((VOLCANO,), "", VOLCANO),
        ((COSCHEDULING,), "", COSCHEDULING),
        ((COSCHEDULING, VOLCANO), "", VOLCANO),
        ((VOLCANO, NATIVE), "", NATIVE),
        ((NATIVE, COSCHEDULING), "own", COSCHEDULING),
    ],
    ids=["none", "volcano", "scheduler-plugins", "both", "kubernetes", "not kubernetes beside kueue"],
)
async def test_found_at_start(installed: tuple[GangScheduler, ...], kueue: str, expected: GangScheduler | None) -> None:
    world = world_with_testjobs()
    for scheduler in installed:
        for one in gang_definitions(scheduler.api_version) if scheduler.native else [pod_groups(scheduler)]:
            world.ok("POST", DEFINITIONS, one)
    async with operating(world, settings=replace(SETTINGS, gang_scheduler_name="auto", kueue=kueue)):
        world.ok("POST", JOBS, a_job())
        if expected is None:
            await world.clock.until(lambda: len(world.pods()) == 2)
            assert world.job()["status"]["conditions"][0]["message"] == "TestJob train is created."
        else:
            path = f"/apis/{expected.api_version}/namespaces/default/podgroups/train"
            await world.clock.until(lambda: world.call("GET", path).status == 200)


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
    world = world_with_testjobs()
    world.server.handle = lambda *_: refusal(503)  # type: ignore[method-assign]
    async with operating(world, settings=settings("auto")):
        await world.clock.advance(100)


def test_kubernetes_and_kueue_are_not_used_together() -> None:
    with pytest.raises(ValueError, match="gang_scheduler_name kubernetes and kueue own cannot be used together"):
        replace(SETTINGS, gang_scheduler_name="kubernetes", kueue="own")
