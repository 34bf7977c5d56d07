"""The manager: several frameworks, leader election, health, signals and a graceful end."""

import asyncio
import gc
import json
import os
import signal
import sys
from collections import Counter
from dataclasses import replace
from importlib.metadata import version
from io import StringIO
from math import nan
from random import Random
from typing import Any

import aiohttp
import pytest

from jobcommon.api.labels import OPERATOR_NAME
from jobcommon.client.errors import StatusError
from jobcommon.client.request import MERGE_PATCH, Request
from jobcommon.client.transport import StaticEndpoint
from jobcommon.framework import FINALIZER
from jobcommon.runtime import logging
from jobcommon.runtime.clock import cancelled
from jobcommon.runtime.manager import Env, Manager, run_against, run_operators
from jobcommon.runtime.settings import Settings
from jobcommon.testutil.recording import Passing
from tests.runtime.fakes import TESTJOB, FakeClock, a_job, crd, quiet_log, turns
from tests.runtime.world import ELECTING, JOBS, SETTINGS, Process, World, operating, processes, world_with_testjobs

OTHER = replace(TESTJOB, kind="OtherJob", plural="otherjobs", name="other")


@pytest.fixture
def world() -> World:
    return world_with_testjobs()


async def test_a_kind_without_crd_does_not_block_the_others(world: World) -> None:
    process = Process(world, "a", SETTINGS, OTHER, TESTJOB)
    async with processes(world, process):
        world.ok("POST", JOBS, a_job())
        await world.clock.until(lambda: len(world.pods()) == 2)
        assert process.manager.ready
        world.ok("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd(OTHER))
        other = {**a_job("second", workers=1), "kind": "OtherJob"}
        world.ok("POST", "/apis/kubeflow.org/v1/namespaces/default/otherjobs", other)
        await world.clock.until(lambda: len(world.pods()) == 3, step=1)


async def test_only_the_leader_works_and_another_takes_over_after_a_graceful_end(world: World) -> None:
    first = Process(world, "a", ELECTING)
    await world.clock.until(lambda: first.manager.elector is not None and first.manager.elector.held())
    second = Process(world, "b", ELECTING)
    async with processes(world, second):
        async with processes(world, first):
            world.ok("POST", JOBS, a_job("one"))
            await world.clock.until(lambda: len(world.pods()) == 2)
            assert (first.manager.ready, second.manager.ready) == (True, True)
            assert second.tap.writes == []
        ended = world.clock.monotonic()
        world.ok("POST", JOBS, a_job("two"))
        await world.clock.until(lambda: len(world.pods()) == 4, step=0.1)
        assert world.clock.monotonic() - ended <= 5
        assert len(second.tap.writes) > 0


async def test_a_lost_lease_stops_writes_and_empties_the_caches(world: World) -> None:
    process = Process(world, settings=ELECTING)
    async with processes(world, process):
        await world.clock.until(lambda: process.manager.drivers)
        (before,) = process.manager.drivers
        lease = world.ok("GET", "/apis/coordination.k8s.io/v1/namespaces/default/leases/jobcommon-operator")
        lease["spec"]["holderIdentity"] = "b"
        world.ok("PUT", "/apis/coordination.k8s.io/v1/namespaces/default/leases/jobcommon-operator", lease)
        await world.clock.until(lambda: not process.manager.drivers, step=0.1)
        world.ok("POST", JOBS, a_job())
        await world.clock.advance(10)
        assert world.pods() == []
        await world.clock.until(lambda: len(world.pods()) == 2, step=0.5)
        assert process.manager.drivers[0] is not before


async def test_the_writes_under_way_are_finished_before_the_lease_is_released(world: World) -> None:
    process = Process(world, settings=ELECTING)
    async with processes(world, process):
        await world.clock.until(lambda: process.manager.ready and process.manager.drivers)
        process.tap.open.clear()
        world.ok("POST", JOBS, a_job())
        await world.clock.until(lambda: process.manager.drivers[0].busy)
        process.manager.stop()
        await world.clock.advance(5)
        lease = "/apis/coordination.k8s.io/v1/namespaces/default/leases/jobcommon-operator"
        assert world.ok("GET", lease)["spec"]["holderIdentity"] == "a"
        process.tap.open.set()
        await world.clock.until(process.task.done)
        assert world.ok("GET", lease)["spec"]["holderIdentity"] == ""
        assert len(world.pods()) == 2
        assert world.conditions() == ["Created"]


async def test_a_write_that_waited_for_its_turn_is_not_made_once_the_lease_is_gone(world: World) -> None:
    process = Process(world, settings=replace(ELECTING, qps=1.0, burst=1))
    async with processes(world, process):
        await world.clock.until(lambda: process.manager.drivers and process.manager.ready)
        world.ok("POST", JOBS, a_job(workers=20))
        await world.clock.until(lambda: len(world.pods()) >= 2, step=0.1)
        # The process is frozen: when it wakes up, all timers are due at once and the lease is long over.
        process.tap.writes.clear()
        world.clock.now += 60
        await world.clock.advance(0.01)
        assert process.tap.writes == []


async def test_a_write_that_hangs_does_not_hold_up_the_end_for_ever(world: World) -> None:
    process = Process(world, settings=SETTINGS)
    await world.clock.until(lambda: process.manager.ready)
    process.tap.open.clear()
    world.ok("POST", JOBS, a_job())
    await world.clock.until(lambda: process.manager.drivers[0].busy)
    asked = world.clock.monotonic()
    process.manager.stop()
    await world.clock.until(process.task.done, step=0.5)
    assert world.clock.monotonic() - asked <= 30
    process.task.result()


async def test_the_settings_reach_the_decision(world: World) -> None:
    settings = replace(SETTINGS, cluster_domain="cluster.test", tracking_finalizer=False)
    async with operating(world, settings=settings):
        world.ok("POST", JOBS, a_job())
        await world.clock.until(lambda: len(world.pods()) == 2)
        (_, pod) = world.pods()
        assert "finalizers" not in pod["metadata"]
        variables = {e["name"]: e["value"] for e in pod["spec"]["containers"][0]["env"]}
        assert variables["LEADER"] == "train-worker-0.train.default.svc.cluster.test"


async def test_named_namespaces_are_served_each_by_itself_and_the_others_left_alone(world: World) -> None:
    """The operator has no right in one of them, which delays nothing in the other two; gauges are of all together."""
    names, asked = ("team-a", "forbidden", "team-b"), Counter[str]()

    async def forbid(request: Request) -> None:
        asked[request.path] += 1
        if "/namespaces/forbidden/" in request.path:
            raise StatusError(403)

    for name in names:
        world.ok("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        there = a_job(workers=1)
        there["metadata"]["namespace"] = name
        world.ok("POST", JOBS.replace("default", name), there)
    world.ok("POST", JOBS, a_job("here"))
    world.transport = Passing(world.transport, forbid)  # type: ignore[assignment]
    pods = lambda name: world.ok("GET", f"/api/v1/namespaces/{name}/pods")["items"]  # noqa: E731
    async with operating(world, settings=replace(SETTINGS, namespaces=names)) as process:
        await world.clock.until(lambda: len(pods("team-a")) == len(pods("team-b")) == 1)
        await world.clock.advance(1)
        assert pods("default") == pods("forbidden") == []
        assert process.sample("training_operator_jobs", state="Created") == 2
        assert not process.manager.ready, "rights are missing"
        assert asked["/openapi/v3/apis/kubeflow.org/v1"] < len(names), "the schema is the same in all"


@pytest.mark.parametrize("what", ["operator stopped", "namespace deleted", "namespace and lease deleted"])
async def test_an_operator_that_goes_with_its_namespace_leaves_no_finalizer(world: World, what: str) -> None:
    world.ok("POST", "/api/v1/namespaces", {"metadata": {"name": "team"}})
    job, pods = a_job(), "/api/v1/namespaces/team/pods"
    job["metadata"]["namespace"] = "team"
    renamed = replace(TESTJOB, former_controllers=("former-controller",))
    async with operating(world, renamed, settings=replace(ELECTING, namespaces=("team",), lease_namespace="team")):
        world.ok("POST", JOBS.replace("default", "team"), job)
        await world.clock.until(lambda: len(world.ok("GET", pods)["items"]) == 2)
        former = {"metadata": {"labels": {OPERATOR_NAME: "former-controller"}}}
        world.ok("PATCH", f"{pods}/train-worker-0", former, MERGE_PATCH)
        if "deleted" in what:
            world.ok("DELETE", "/api/v1/namespaces/team")
        if "lease" in what:
            world.ok("DELETE", "/apis/coordination.k8s.io/v1/namespaces/team/leases/jobcommon-operator")
            await world.clock.advance(20)
    left = [pod["metadata"].get("finalizers") for pod in world.ok("GET", pods)["items"]]
    assert left == ([None] * 2 if "deleted" in what else [[FINALIZER]] * 2)


async def test_counts_and_health_are_served(world: World) -> None:
    settings = replace(SETTINGS, metrics_port=0, metrics_host="127.0.0.1", metrics_token="s3cret")
    out = StringIO()
    process = Process(world, settings=settings, log=logging.setup("json", "info", out))

    def port() -> int | None:
        return next((line["port"] for line in map(json.loads, out.getvalue().splitlines()) if "port" in line), None)

    async with processes(world, process), aiohttp.ClientSession() as client:
        world.ok("POST", JOBS, a_job())
        await world.clock.until(lambda: port() and len(world.pods()) == 2)
        url = f"http://127.0.0.1:{port()}"
        async with client.get(f"{url}/readyz") as answer:
            assert answer.status == 200
        async with client.get(f"{url}/metrics", headers={"Authorization": "Bearer s3cret"}) as answer:
            text = await answer.text()
    assert 'created_pods_total{framework="test",job_namespace="default"} 2.0' in text
    assert 'training_operator_jobs_created_total{framework="test",job_namespace="default"} 1.0' in text
    assert 'rest_client_requests_total{code="201",verb="POST"}' in text
    assert 'workqueue_depth{name="test"} 0.0' in text
    assert "workqueue_queue_duration_seconds_count" in text
    assert "training_operator_reconcile_duration_seconds_count" in text
    assert 'training_operator_unstored_status_fields{framework="test"} 0.0' in text
    assert "_created{" not in text, "a counter is one series"
    (first,) = [line for line in map(json.loads, out.getvalue().splitlines()) if line["event"] == "operator started"]
    assert first["frameworks"] == ["test"]
    assert first["server"].startswith("v1.")
    assert first["version"] == version("jobcommon")


PROGRAM = """
import asyncio, sys
from jobcommon import Settings, run_operators
from localcluster.apiserver import ApiServer, Env
from jobcommon.cli.embedded import InProcessTransport
from tests.runtime.fakes import TESTJOB

async def main():
    server = ApiServer(Env.system())
    print("ready", flush=True)
    settings = Settings(metrics_port=None, leader_elect=True)
    await run_operators(InProcessTransport(server), [TESTJOB], settings, handle_signals=True)
    print(server.storage.rv > 0, flush=True)

asyncio.run(main())
"""


async def test_a_signal_ends_the_process_with_0() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env={**os.environ}
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert await process.stdout.readline() == b"ready\n"
    while b"leading" not in (line := await process.stderr.readline()):
        assert line
    process.send_signal(signal.SIGTERM)
    output, errors = await process.communicate()
    assert (process.returncode, output) == (0, b"True\n"), errors


async def test_cancelling_ends_it_too(world: World) -> None:
    env = Env(world.clock, Random(1).random, "a")
    running = asyncio.create_task(run_operators(world.transport, [TESTJOB], SETTINGS, env=env, log=quiet_log()))
    await turns()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    assert left == []


async def test_a_second_signal_aborts_at_once(world: World) -> None:
    env = Env(world.clock, Random(1).random, "a")
    operators = run_operators(world.transport, [TESTJOB], SETTINGS, env=env, log=quiet_log(), handle_signals=True)
    running = asyncio.create_task(operators)
    await turns()
    for number in (signal.SIGTERM, signal.SIGINT):
        os.kill(os.getpid(), number)
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_operators_of_a_server_that_does_not_answer_end_when_they_are_to_stop() -> None:
    stop = asyncio.Event()
    stop.set()
    await run_against(StaticEndpoint("http://127.0.0.1:9"), [TESTJOB], SETTINGS, stop=stop)


WRONG: dict[str, dict[str, Any]] = {
    "workers must be at least 1": {"workers": 0},
    "concurrency must be at least 1": {"concurrency": 0},
    "slow_start_cap must be at least 1": {"slow_start_cap": -1},
    "qps must be a number over 0, not 0.0": {"qps": 0.0},
    "qps must be a number over 0, not nan": {"qps": nan},
    'lease_name "A_B" is not the name of a lease': {"lease_name": "A_B", "leader_elect": True},
    "namespaces must be different names, not 'team'": {"namespaces": "team"},
    "namespaces must be different names, not \\('',\\)": {"namespaces": ("",)},
    "namespaces must be different names, not \\('a', 'a'\\)": {"namespaces": ("a", "a")},
    "metrics_port must be from 0 to 65535": {"metrics_port": 70000},
    "burst has no effect without qps": {"burst": 5},
}


@pytest.mark.parametrize("message", WRONG)
def test_settings_that_make_no_sense_are_refused(message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Settings(**WRONG[message])


async def test_a_manager_without_frameworks_is_refused() -> None:
    with pytest.raises(ValueError, match="no framework"):
        Manager(World().transport, [], SETTINGS)


@pytest.mark.parametrize(
    ("concurrency", "qps", "seats"), [(64, None, 64), (1, None, 1), (64, 5.0, 5), (64, 0.1, 1), (2, 5.0, 2)]
)
async def test_as_many_requests_are_under_way_as_may_be(concurrency: int, qps: float | None, seats: int) -> None:
    """With a limit on the rate no more than it lets through in a second: more would wait in order of arrival."""
    manager = Manager(World().transport, [TESTJOB], replace(SETTINGS, concurrency=concurrency, qps=qps))
    waiting = [asyncio.create_task(manager.flow_controller.seat(n).__aenter__()) for n in range(seats + 3)]
    await turns()
    assert (manager.flow_controller.in_use, manager.flow_controller.waiting) == (seats, 3)
    for task in waiting:
        task.cancel()


async def test_an_error_that_is_not_expected_is_logged_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    async def broken() -> None:
        raise ValueError("broken")

    failed = asyncio.create_task(broken())
    await FakeClock().bounded(broken(), 1.0)
    await cancelled(failed)
    del failed
    gc.collect()
    assert caplog.text.count("ValueError: broken") == 2
