"""Gang schedulers and Kueue, found by the whole operator; tests/charts/test_recorded_verbs.py has whole lives."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from jobcommon.api.gang import COSCHEDULING, NATIVE, VOLCANO, GangScheduler, candidates
from jobcommon.api.kueue import CONFIGURATION_PATH
from jobcommon.client.errors import TransportError
from jobcommon.client.request import Response
from jobcommon.runtime.discovery import find_gang_scheduler, refuse_to_queue_twice
from jobcommon.runtime.manager import run_operators
from jobcommon.runtime.settings import Settings
from tests.definitions import of_scheduler
from tests.runtime.fakes import TESTJOB, FakeClock, ScriptedTransport, a_job, quiet_log, refusal, reply
from tests.runtime.world import JOBS, SETTINGS, operating, world_with_testjobs

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


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
        for one in of_scheduler(scheduler):
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


# -- Operators that own the Workloads do not start where Kueue queues a kind itself, as far as its configuration tells

ON = "integrations: {frameworks: [batch/job, kubeflow.org/testjob]}"


def configuration(text: str) -> Response:
    return reply({"data": {"controller_manager_config.yaml": text}})


async def asked(answer: Any) -> FakeClock:
    transport, clock = ScriptedTransport(), FakeClock()
    transport.on("GET", CONFIGURATION_PATH, answer)
    await refuse_to_queue_twice(transport, clock, quiet_log(), [TESTJOB])
    return clock


async def test_a_kind_that_kueue_queues_itself_is_refused_with_the_fix() -> None:
    with pytest.raises(ValueError, match=r"^kueue own: Kueue itself queues TestJob") as refused:
        await asked(configuration(ON))
    for part in ("remove kubeflow.org/testjob from", "add TestJob.v1.kubeflow.org to", "restart Kueue"):
        assert part in str(refused.value)


@pytest.mark.parametrize(
    "answer",
    [
        configuration("integrations: {frameworks: [batch/job], externalFrameworks: [TestJob.v1.kubeflow.org]}"),
        configuration("kind: Configuration"),
        configuration("[1]"),
        refusal(404),
        refusal(403),
    ],
    ids=["external", "default", "unreadable", "none", "forbidden"],
)
async def test_an_unreadable_configuration_does_not_stop_the_operator(answer: Response) -> None:
    await asked(answer)


async def test_a_server_that_does_not_answer_is_asked_again() -> None:
    answers = [TransportError("connection refused"), refusal(503), configuration(ON)]
    transport, clock = ScriptedTransport(), FakeClock()
    transport.on("GET", CONFIGURATION_PATH, lambda _: answers.pop(0))
    task = asyncio.create_task(refuse_to_queue_twice(transport, clock, quiet_log(), [TESTJOB]))
    await clock.until(task.done, step=0.5)
    with pytest.raises(ValueError, match="queues TestJob"):
        task.result()
    assert answers == []


async def test_the_operator_ends_with_the_reason() -> None:
    transport = ScriptedTransport()
    transport.on("GET", "/", reply()).on("GET", CONFIGURATION_PATH, configuration(ON))
    running = run_operators(transport, [TESTJOB], Settings(metrics_port=None, kueue="own"), log=quiet_log())
    with pytest.raises(ValueError, match="kueue own: Kueue itself queues TestJob"):
        await running
    assert not [request for request in transport.sent if request.method != "GET"]
