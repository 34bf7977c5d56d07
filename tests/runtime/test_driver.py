"""The driver: isolation, bounds, sleep without polling, silent streams, and the end."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from io import StringIO
from random import Random

import pytest

from jobcommon.api.timestamp import format_moment
from jobcommon.client.errors import TransportError
from jobcommon.client.request import MERGE_PATCH, Request, Response, Transport
from jobcommon.controller.barrier import Barrier
from jobcommon.controller.expectations import TIMEOUT, Creation
from jobcommon.controller.job_controller import JobController
from jobcommon.controller.result import Result, Work
from jobcommon.runtime import logging
from jobcommon.runtime.discovery import holder_of
from jobcommon.runtime.driver import RIVAL_SECONDS, Driver
from jobcommon.runtime.executor import Executor
from jobcommon.runtime.flow_control import FlowController
from jobcommon.runtime.metrics import Metrics
from jobcommon.runtime.recorder import Recorder
from tests.runtime.fakes import TESTJOB, ScriptedTransport, a_job, quiet_log, refusal, reply, turns
from tests.runtime.world import JOBS, World, operating, world_with_testjobs


class Obstacle:
    """An executor that does the real thing unless told otherwise."""

    def __init__(self, world: World) -> None:
        self.real = Executor(TESTJOB, world.transport, FlowController(100))
        self.raises: set[str] = set()
        self.gate = asyncio.Event()
        self.gate.set()
        self.under_way: list[str] = []
        self.most = 0

    async def execute(self, work: Work) -> Result:
        self.under_way.append(work.name)
        self.most = max(self.most, len(self.under_way))
        try:
            await self.gate.wait()
            if work.name in self.raises:
                raise RuntimeError("a defect")
            return await self.real.execute(work)
        finally:
            self.under_way.remove(work.name)


class Bench:
    """A driver at work on the world."""

    def __init__(self, world: World, transport: Transport | None = None, workers: int = 8) -> None:
        self.world = world
        self.clock = world.clock
        self.controller = JobController(TESTJOB, Random(5).random)
        self.executor = Obstacle(world)
        self.metrics = Metrics(process=False)
        self.driver = Driver(
            self.controller,
            transport or world.transport,
            self.executor.execute,
            world.clock,
            self.metrics,
            Recorder(world.transport, world.clock, quiet_log()),
            quiet_log(),
            workers=workers,
        )

    def measured(self, name: str) -> float:
        return self.metrics.registry.get_sample_value(name, {"framework": TESTJOB.name}) or 0.0

    def has(self, name: str) -> Callable[[], bool]:
        return lambda: any(p["metadata"]["name"] == f"{name}-worker-0" for p in self.world.pods())


@asynccontextmanager
async def driving(world: World, transport: Transport | None = None, workers: int = 8) -> AsyncIterator[Bench]:
    bench = Bench(world, transport, workers)
    task = asyncio.create_task(bench.driver.run())
    try:
        yield bench
    finally:
        bench.executor.gate.set()
        bench.driver.stop()
        await bench.clock.until(task.done)
        task.result()


@pytest.fixture
def world() -> World:
    return world_with_testjobs()


@pytest.mark.parametrize("what", ["plan", "execute", "finish"])
async def test_what_raises_costs_its_own_key_a_back_off(world: World, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    async with driving(world) as bench:
        jobs, held = bench.controller.informers[bench.controller.jobs].store, Barrier.behind

        def refuse(barrier: Barrier, uid: str, versions: Mapping[str, str]) -> tuple[str, ...]:
            if (bad := jobs.get("default", "bad")) is not None and bad.uid == uid:
                raise RuntimeError("a defect")
            return held(barrier, uid, versions)

        finish = bench.controller.finish
        if what == "plan":
            monkeypatch.setattr(Barrier, "behind", refuse)
        elif what == "finish":
            monkeypatch.setattr(
                bench.controller, "finish", lambda work, *more: 1 / (work.name != "bad") and finish(work, *more)
            )
        else:
            bench.executor.raises.add("bad")
        world.ok("POST", JOBS, a_job("bad"))
        world.ok("POST", JOBS, a_job("good"))
        await bench.clock.until(bench.has("good"))
        await bench.clock.until(lambda: bench.measured("training_operator_reconcile_errors_total") >= 3)
        assert bench.has("bad")() == (what == "finish")
        monkeypatch.undo()
        bench.executor.raises.clear()
        await bench.clock.until(lambda: not bench.controller.queue.failing, step=1)
        await bench.clock.until(bench.has("bad"), step=1)


async def logged(world: World, env: Callable[..., object], *words: str) -> list[Mapping[str, object]]:
    """The log of an operator whose framework has this function, once it has a line with one of the words."""
    out = StringIO()
    async with operating(world, replace(TESTJOB, env=env), log=logging.setup("json", "info", out)):
        world.ok("POST", JOBS, a_job())
        await world.clock.until(lambda: any(word in out.getvalue() for word in words), step=0.1)
    return list(map(json.loads, out.getvalue().splitlines()))


async def test_a_framework_that_takes_long_is_logged_with_the_time(world: World) -> None:
    def slow(*_: object) -> tuple[()]:
        world.clock.now += 0.3
        return ()

    told = "slow plan blocked the event loop"
    (line, *_) = [line for line in await logged(world, slow, told) if line["event"] == told]
    assert line["seconds"] in (0.3, 0.6)


async def test_a_write_that_is_never_seen_is_logged_and_counted(world: World) -> None:
    async with driving(world) as bench:
        world.ok("POST", JOBS, a_job("train"))
        await bench.clock.until(bench.has("train"))
        job = bench.controller.informers[bench.controller.jobs].store.get("default", "train")
        bench.controller.expectations.expect(job.uid, Creation("pods", "lost"), bench.clock.monotonic())
        bench.controller.resync()
        await bench.clock.advance(TIMEOUT)
        assert bench.measured("training_operator_lapsed_expectations_total") == 1


async def test_no_more_plans_are_under_way_than_there_are_workers(world: World) -> None:
    async with driving(world, workers=3) as bench:
        bench.executor.gate.clear()
        for number in range(10):
            world.ok("POST", JOBS, a_job(f"job-{number}", workers=1))
        await bench.clock.until(lambda: bench.driver.busy == 3)
        await bench.clock.advance(5)
        assert sorted(bench.executor.under_way) == sorted(set(bench.executor.under_way))
        bench.executor.gate.set()
        await bench.clock.until(lambda: len(world.pods()) == 10)
        assert bench.executor.most == 3


async def test_an_idle_driver_sleeps(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async with driving(world) as bench:
        world.ok("POST", JOBS, a_job())
        await bench.clock.until(bench.has("train"))
        world.play_all("Running")
        await bench.clock.until(lambda: "Running" in world.conditions())
        await bench.clock.advance(10)
        begins = []
        begin = bench.controller.begin
        monkeypatch.setattr(bench.controller, "begin", lambda moment: begins.append(moment) or begin(moment))
        await bench.clock.advance(100)
        assert len({moment.monotonic for moment in begins}) <= 3
        waits = {"name": TESTJOB.name}
        assert (bench.metrics.registry.get_sample_value("workqueue_queue_duration_seconds_sum", waits) or 0.0) < 1


async def test_a_driver_whose_workers_are_busy_sleeps_though_a_timer_is_due(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with driving(world, workers=1) as bench:
        bench.executor.gate.clear()
        world.ok("POST", JOBS, a_job())
        await bench.clock.until(lambda: bench.driver.busy == 1)
        bench.controller.queue.add_at(("default", "other"), bench.clock.monotonic() + 1)
        bench.controller.queue.add(("default", "third"))
        await bench.clock.advance(2)
        waits, wait = [], bench.clock.wait
        monkeypatch.setattr(bench.clock, "wait", lambda *given: waits.append(given) or wait(*given))
        await turns(200)
        assert waits == []


async def test_a_long_list_leaves_the_others_their_turn() -> None:
    world, silent = World(), Silent()
    silent.bookmarks = 10_000
    async with driving(world, silent) as bench:
        passes = 0
        await silent.said.wait()
        while silent.open:
            passes += 1
            await asyncio.sleep(0)
        assert passes >= 50
        bench.driver.stop()


class Silent:
    """Lists are empty; watches open and say nothing. `breaks` makes them break instead."""

    def __init__(self) -> None:
        self.lists = 0
        self.opened: list[Request] = []
        self.open = 0
        self.breaks = False
        self.bookmarks = 0
        self.said = asyncio.Event()

    async def send(self, request: Request) -> Response:
        if request.path.startswith("/openapi"):
            raise TransportError("not here")
        self.lists += 1
        return reply({"metadata": {"resourceVersion": "5"}, "items": []})

    async def stream(self, request: Request) -> AsyncGenerator[bytes, None]:
        self.opened.append(request)
        self.open += 1
        try:
            if self.breaks:
                raise TransportError("reset")
            for _ in range(self.bookmarks):
                self.said.set()
                yield b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"5"}}}'
            if self.bookmarks:
                return
            await asyncio.Event().wait()
            yield b""
        finally:
            self.open -= 1

    async def close(self) -> None:
        pass


async def test_a_cache_that_stumbles_starts_anew(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async with driving(world) as bench:
        await bench.clock.until(lambda: bench.controller.synced)
        take = bench.controller.take
        monkeypatch.setattr(bench.controller, "take", lambda *_: 1 / 0)
        world.ok("POST", JOBS, a_job("job"))
        await turns()
        monkeypatch.setattr(bench.controller, "take", take)
        await bench.clock.until(bench.has("job"), step=0.1)


async def test_an_operator_acts_if_it_may_not_see_whether_another_does() -> None:
    refusing = ScriptedTransport().on("GET", "/apis/coordination", refusal(403))
    assert await holder_of(refusing, "rival", 0.0) == ""


async def test_an_operator_does_not_act_while_another_controller_of_the_kind_does() -> None:
    """Whose lease is held when it starts, or later; a lease that is no longer renewed counts for nothing."""
    world, framework = world_with_testjobs(), replace(TESTJOB, rival="rival")
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"

    def spec() -> dict[str, object]:
        renewed = format_moment(world.clock.wall())
        return {"holderIdentity": "other", "leaseDurationSeconds": 15, "renewTime": renewed}

    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "rival"}, "spec": spec()}
    world.ok("POST", leases, lease)
    out = StringIO()
    async with operating(world, framework, log=logging.setup("json", "warning", out)):
        world.ok("POST", JOBS, a_job())
        await world.clock.advance(5.0)
        assert world.pods() == []
        assert "holds lease kube-system/rival" in out.getvalue()
        await world.clock.until(lambda: len(world.pods()) > 0, step=1.0)
        world.ok("PATCH", f"{leases}/rival", {"spec": spec()}, MERGE_PATCH)
        await world.clock.advance(RIVAL_SECONDS)
        world.ok("POST", JOBS, a_job("second"))
        await world.clock.advance(2.0)
        assert not any("second" in pod["metadata"]["name"] for pod in world.pods())
