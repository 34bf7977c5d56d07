"""The operator over real HTTP against the embedded API server's front, with a real clock."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

from jobcommon.client.transport import StaticEndpoint
from jobcommon.runtime.manager import run_against
from localcluster import ApiServer, Env, serve
from localcluster.client import ADMIN
from tests.runtime.fakes import TESTJOB, a_job, crd
from tests.runtime.world import JOBS, PODS, SETTINGS, World

TOKEN = "t0ken"


class RealWorld(World):
    """The same world at the machine's own pace."""

    def __init__(self) -> None:
        super().__init__()
        self.server = ApiServer(Env.system(), tokens={TOKEN: ADMIN})
        self.ok("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd())


async def test_a_job_runs_over_http_under_a_lease_in_the_namespace_of_the_credentials() -> None:
    world, stop = RealWorld(), asyncio.Event()
    world.ok("POST", "/api/v1/namespaces", {"metadata": {"name": "operators"}})
    async with serve(world.server) as front, asyncio.timeout(100):
        settings = replace(SETTINGS, leader_elect=True, log_level="error")
        endpoint = StaticEndpoint(front.url, TOKEN, namespace="operators")
        operator = asyncio.create_task(run_against(endpoint, [TESTJOB], settings, stop=stop))
        world.ok("POST", JOBS, a_job(workers=3))
        await seen(world, lambda: len(world.pods()) == 3)
        world.play_all("Running")
        await seen(world, lambda: "Running" in world.conditions())
        world.play_all("Succeeded", 0)
        await seen(world, lambda: "Succeeded" in world.conditions())
        await seen(world, lambda: "TestJobSucceeded" in world.events())
        stop.set()
        await operator
    assert world.ok("GET", f"{PODS}/train-worker-0")["status"]["phase"] == "Succeeded"
    lease = world.ok("GET", "/apis/coordination.k8s.io/v1/namespaces/operators/leases/jobcommon-operator")
    assert lease["spec"]["holderIdentity"] == ""


async def seen(world: World, condition: Callable[[], object]) -> None:
    """Return once the condition holds, looking after each change on the server."""
    while not condition():
        changed = asyncio.Event()
        world.server.storage.listeners.add(changed.set)
        try:
            async with asyncio.timeout(1):
                await changed.wait()
        except TimeoutError:
            continue
        finally:
            world.server.storage.listeners.discard(changed.set)
