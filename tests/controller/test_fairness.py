"""Fairness: one tenant's hundred thousand jobs, and another's few."""

import asyncio
from random import Random

import msgspec

from jobcommon.client.request import Response
from jobcommon.controller.fair_queue import RoundRobin
from jobcommon.controller.job_controller import JobController, Moment
from jobcommon.controller.result import Result
from jobcommon.runtime.flow_control import FlowController
from jobcommon.testutil.builders import START, job_manifest
from jobcommon.testutil.effort import effort
from jobcommon.testutil.frameworks import TEST_JOB
from tests.runtime.fakes import turns

HUGE, SMALL = 100_000, 10


def test_the_controller_plans_for_namespaces_in_turn() -> None:
    controller = JobController(TEST_JOB, Random(1).random)
    for name, informer in controller.informers.items():
        informer.next(0.0)
        jobs = [job_manifest(TEST_JOB, {"Worker": 1}, name=f"job-{n}", uid=f"uid-{n}") for n in range(600)]
        for number, job in enumerate(jobs):
            job["metadata"]["namespace"] = "huge" if number < 590 else "small"
        page = {"metadata": {"resourceVersion": "9"}, "items": jobs if name == TEST_JOB.plural else []}
        controller.take(name, informer.received(Response(200, msgspec.json.encode(page)), 0.0))
    namespaces = []
    for _ in range(20):
        work = controller.begin(Moment(0.0, START))
        assert work is not None
        namespaces.append(work.namespace)
        controller.finish(work, Result(stale=True), Moment(0.0, START))
    assert namespaces == ["huge", "small"] * 10


async def test_requests_of_namespaces_take_turns_and_of_jobs_within_one() -> None:
    flow_controller, order = FlowController(1), []

    async def request(namespace: str, job: str) -> None:
        async with flow_controller.seat(namespace, job):
            order.append(f"{namespace}/{job}")

    async with asyncio.TaskGroup() as tasks, flow_controller.seat("huge", "first"):
        for job in "aaabbb":
            tasks.create_task(request("huge", job))
        for _ in range(2):
            tasks.create_task(request("small", "c"))
        await turns()
        assert flow_controller.waiting == 8
    assert order == [*("huge/a", "small/c", "huge/b", "small/c"), *("huge/a", "huge/b", "huge/a", "huge/b")]
    assert (flow_controller.in_use, flow_controller.waiting) == (0, 0)


def test_a_turn_costs_the_same_however_many_flows_there_are() -> None:
    line = RoundRobin[int]()

    def turns_of_all() -> None:
        for number in range(20_000):
            line.append((str(number),), number)
        for _ in range(20_000):
            line.pop()

    assert effort(turns_of_all, 80) < 80
