"""The event recorder: what it sends, what it folds together, what it drops; and that it blocks no reconcile."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from jobcommon.client.errors import TransportError
from jobcommon.client.request import Request, Response
from jobcommon.reconcile.plan import NORMAL, WARNING, Event
from jobcommon.runtime.recorder import BURST, MEMORY_LIMIT, QUEUE_LIMIT, Recorder, Reference
from tests.runtime.fakes import Answer, FakeClock, ScriptedTransport, quiet_log, refusal, reply, turns

EVENTS = "/api/v1/namespaces/default/events"
JOB = Reference("kubeflow.org/v1", "TestJob", "default", "train", "uid-1")


def about(number: int) -> Reference:
    return Reference("kubeflow.org/v1", "TestJob", "default", f"train-{number}", f"uid-{number}")


class Bench:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.server = ScriptedTransport().on("POST", EVENTS, reply({}, 201)).on("PATCH", EVENTS, reply())
        self.recorder = Recorder(self.server, self.clock, quiet_log(), instance="me")

    def say(self, text: str = "hello", job: Reference = JOB, kind: str = NORMAL) -> None:
        self.recorder.emit("test-controller", job, Event(kind, "Greeted", text))

    def bodies(self, method: str) -> list[dict[str, Any]]:
        return [msgspec.json.decode(r.body or b"") for r in self.server.made(method)]


@asynccontextmanager
async def recording() -> AsyncIterator[Bench]:
    bench = Bench()
    task = asyncio.create_task(bench.recorder.run())
    try:
        yield bench
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_an_event_as_it_is_sent() -> None:
    async with recording() as bench:
        bench.say(kind=WARNING)
        await turns()
    (body,) = bench.bodies("POST")
    assert body["metadata"]["name"].startswith("train.")
    assert body["metadata"]["namespace"] == "default"
    del body["metadata"]
    assert body == {
        "apiVersion": "v1",
        "kind": "Event",
        "involvedObject": {
            "apiVersion": "kubeflow.org/v1",
            "kind": "TestJob",
            "namespace": "default",
            "name": "train",
            "uid": "uid-1",
        },
        "type": "Warning",
        "reason": "Greeted",
        "message": "hello",
        "source": {"component": "test-controller"},
        "reportingComponent": "test-controller",
        "reportingInstance": "me",
        "firstTimestamp": "2025-10-09T08:53:20Z",
        "lastTimestamp": "2025-10-09T08:53:20Z",
        "count": 1,
    }


async def test_a_repeated_event_is_counted() -> None:
    async with recording() as bench:
        bench.say()
        await turns()
        await bench.clock.advance(60)
        bench.say()
        await turns()
        bench.say("something else")
        await turns()
    assert len(bench.bodies("POST")) == 2
    (request,) = bench.server.made("PATCH")
    assert request.path.startswith(f"{EVENTS}/train.")
    assert bench.bodies("PATCH") == [{"count": 2, "lastTimestamp": "2025-10-09T08:54:20Z"}]


async def test_repeats_during_a_request_are_sent_together() -> None:
    async with recording() as bench:
        bench.server.hold.clear()
        for _ in range(5):
            bench.say("a")
            bench.say("b")
            await turns(3)
        bench.server.hold.set()
        await turns()
    posts = {body["message"]: body["count"] for body in bench.bodies("POST")}
    assert posts == {"a": 1, "b": 5}
    assert [body["count"] for body in bench.bodies("PATCH")] == [5]


async def test_an_event_that_has_expired_on_the_server_is_made_anew() -> None:
    async with recording() as bench:
        bench.server.on("PATCH", EVENTS, refusal(404, "NotFound"))
        bench.say()
        await turns()
        bench.say()
        await turns()
    assert [body["count"] for body in bench.bodies("POST")] == [1, 2]


async def test_the_limit_of_events_is_per_object() -> None:
    async with recording() as bench:
        for number in range(100):
            bench.say(str(number))
        bench.say("other", about(2))
        await turns(400)
        assert len(bench.bodies("POST")) == BURST + 1
        assert bench.recorder.dropped == 100 - BURST
        await bench.clock.advance(301)
        bench.say("later")
        bench.say("too much")
        await turns()
    assert len(bench.bodies("POST")) == BURST + 2


@pytest.mark.parametrize(("answer", "waited"), [(TransportError("down"), 10), (refusal(503, retry_after="7"), 7)])
async def test_a_sink_that_stays_down_costs_the_event(answer: Answer, waited: int) -> None:
    async with recording() as bench:
        bench.server.on("POST", EVENTS, answer)
        bench.say()
        await bench.clock.advance(waited * 11 - 1)
        assert bench.recorder.dropped == 0
        await bench.clock.advance(1000)
    assert len(bench.bodies("POST")) == 12
    assert bench.recorder.dropped == 1


@pytest.mark.parametrize("answer", ["held", "down", "asks to wait"])
async def test_a_namespace_whose_events_are_not_taken_delays_and_displaces_no_other(answer: str) -> None:
    bad = "/api/v1/namespaces/bad/events"
    waits = asyncio.Event()

    async with recording() as bench:
        answers: dict[str, Answer] = {"down": TransportError("down"), "asks to wait": refusal(429, retry_after="300")}
        send = bench.server.send

        async def held(request: Request) -> Response:
            if request.path == bad:
                await waits.wait()
            return await send(request)

        bench.server.on("POST", bad, answers.get(answer, reply()))
        if answer == "held":
            bench.server.send = held  # type: ignore[method-assign]
        for number in range(QUEUE_LIMIT + 2):
            bench.say(job=replace(about(number), namespace="bad"))
        bench.say()
        bench.say("more")
        await turns(50)
    posts = [body["message"] for body in bench.bodies("POST") if body["metadata"]["namespace"] == "default"]
    assert posts == ["hello", "more"]


@pytest.mark.parametrize("code", [400, 403, 404, 422, 429, 500, 503])
async def test_an_event_that_is_refused_is_dropped_and_the_next_is_sent(code: int) -> None:
    async with recording() as bench:
        bench.server.on("POST", EVENTS, refusal(code))
        bench.say()
        await turns()
        bench.server.on("POST", EVENTS, reply({}, 201))
        bench.say("next")
        await turns()
    assert [body["message"] for body in bench.bodies("POST")] == ["hello", "next"]
    assert bench.recorder.dropped == 1


async def test_memory_of_events_is_bounded_and_keeps_the_latest() -> None:
    async with recording() as bench:
        bench.say()
        for number in range(MEMORY_LIMIT - 1):
            bench.say(job=about(number))
            if number % 500 == 0:
                await turns(2000)
        bench.say()
        await turns(2000)
        posts = len(bench.bodies("POST"))
        bench.say(job=about(MEMORY_LIMIT))
        bench.say()
        await turns()
        bench.say(job=about(0))
        await turns()
    assert posts == MEMORY_LIMIT
    assert [body["count"] for body in bench.bodies("PATCH")] == [2, 3]
    assert len(bench.bodies("POST")) == posts + 2
    assert bench.recorder.dropped == 0
