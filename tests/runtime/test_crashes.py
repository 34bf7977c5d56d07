"""The operator dies at random points of a job's life and is started again: the same end, and nothing done twice."""

import asyncio
from random import Random

import pytest

from jobcommon.client.errors import TransportError
from jobcommon.client.request import Request, Response
from jobcommon.runtime.manager import Env, run_operators
from tests.runtime.fakes import TESTJOB, a_job, quiet_log
from tests.runtime.tap import Passing
from tests.runtime.world import JOBS, SETTINGS, World, world_with_testjobs

WORKERS = 3


class Flaky(Passing):
    """A transport that dies with its process, and before that loses requests and answers."""

    def __init__(self, world: World, random: Random, losses: float) -> None:
        super().__init__(world.transport)
        self.random = random
        self.losses = losses

    async def send(self, request: Request) -> Response:
        if self.random.random() < self.losses:
            raise TransportError("lost on the way there")
        response = await super().send(request)
        if self.random.random() < self.losses:
            raise TransportError("lost on the way back")
        return response


class History:
    """Every pod there ever was, by name, in order."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.uids: dict[str, list[str]] = {}
        world.server.storage.listeners.add(self.note)

    def note(self) -> None:
        for pod in self.world.pods():
            seen = self.uids.setdefault(pod["metadata"]["name"], [])
            if pod["metadata"]["uid"] not in seen:
                seen.append(pod["metadata"]["uid"])


class Operator:
    """An operator that is killed and started again every few turns of the event loop."""

    def __init__(self, world: World, seed: int, losses: float) -> None:
        self.world = world
        self.random = Random(seed)
        self.losses = losses
        self.lives = 0
        self.task: asyncio.Task[None] | None = None

    async def live_and_die(self) -> None:
        if self.task is None:
            self.lives += 1
            env = Env(self.world.clock, self.random.random, f"life-{self.lives}")
            flaky = Flaky(self.world, self.random, self.losses)
            self.task = asyncio.create_task(run_operators(flaky, [TESTJOB], SETTINGS, env=env, log=quiet_log()))
        for _ in range(self.random.randrange(20)):
            await asyncio.sleep(0)
        await self.world.clock.advance(self.random.choice((0.0, 0.01, 1.0)))
        if self.lives == 1 or self.random.random() < 0.4:
            await self.die()

    async def die(self) -> None:
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)
            self.task = None


def act_as_kubelet(world: World, random: Random, killed: set[str]) -> None:
    """Start what is new, end what runs: worker 1 is killed once, whatever else happens succeeds."""
    for pod in world.pods():
        name, phase = pod["metadata"]["name"], pod["status"].get("phase")
        if "deletionTimestamp" in pod["metadata"] or random.random() < 0.5:
            continue
        if phase == "Pending":
            world.play(name, "Running")
        elif phase == "Running" and name.endswith("-1") and not killed:
            killed.add(name)
            world.play(name, "Failed", 137)
        elif phase == "Running" and killed:
            world.play(name, "Succeeded", 0)


CASES = {"killed": (1, 0.0), "killed and cut off": (1, 0.1), "two at once": (2, 0.1)}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", range(20))
async def test_the_end_is_the_same_and_no_pod_runs_twice(seed: int, case: str) -> None:
    number, losses = CASES[case]
    world, random, killed = world_with_testjobs(), Random(1000 + seed), set[str]()
    history = History(world)
    operators = [Operator(world, seed + 100 * i, losses) for i in range(number)]
    world.ok("POST", JOBS, a_job(workers=WORKERS, restart="ExitCode", backoffLimit=1))
    for _ in range(3000):
        for operator in operators:
            await operator.live_and_die()
        act_as_kubelet(world, random, killed)
        released = not any(p["metadata"].get("finalizers") for p in world.pods())
        if "Succeeded" in world.conditions() and released:
            break
    for operator in operators:
        await operator.die()
    status = world.job()["status"]
    assert world.conditions()[-1] == "Succeeded"
    assert (status["restarts"], status["replicaStatuses"]["Worker"]["succeeded"]) == (1, WORKERS)
    assert {name: len(uids) for name, uids in sorted(history.uids.items())} == {
        "train-worker-0": 1,
        "train-worker-1": 2,
        "train-worker-2": 1,
    }
    assert all(operator.lives > 1 for operator in operators)
