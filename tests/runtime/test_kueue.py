"""Operators that own the Workloads do not start where Kueue queues a kind itself, as far as its configuration tells."""

import asyncio
from typing import Any

import pytest

from jobcommon.api.kueue import CONFIGURATION_PATH, KUEUE_API
from jobcommon.client.errors import TransportError
from jobcommon.client.request import Response
from jobcommon.runtime.discovery import refuse_to_queue_twice
from jobcommon.runtime.handover import hand_over
from jobcommon.runtime.manager import run_operators
from jobcommon.runtime.settings import Settings
from tests.runtime.fakes import TESTJOB, FakeClock, ScriptedTransport, quiet_log, refusal, reply

WORKLOADS = f"/apis/{KUEUE_API}/workloads"
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


@pytest.mark.parametrize("answer", [TransportError("reset"), refusal(500), refusal(404), refusal(403), reply(b"[")], ids=str)
async def test_an_operator_that_owns_no_workloads_starts_whatever_kueue_answers(answer: Any) -> None:
    transport, clock = ScriptedTransport(), FakeClock()
    transport.on("GET", CONFIGURATION_PATH, refusal(404)).on("GET", WORKLOADS, answer)
    await hand_over(transport, clock, quiet_log(), [TESTJOB], None, own=False)
    assert [request.method for request in transport.sent] == ["GET", "GET"]


async def test_an_operator_that_is_to_own_workloads_waits_until_kueue_answers() -> None:
    answers = [TransportError("connection refused"), refusal(500), reply({"items": []})]
    transport, clock = ScriptedTransport(), FakeClock()
    transport.on("GET", WORKLOADS, lambda _: answers.pop(0))
    task = asyncio.create_task(hand_over(transport, clock, quiet_log(), [TESTJOB], None, own=True))
    await clock.until(task.done, step=0.5)
    task.result()
    assert answers == []
