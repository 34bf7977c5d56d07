"""Replicas that share the jobs: each job has one, shards are handed over, and replicas with another number of shards wait."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from random import Random

import msgspec
import pytest

from jobcommon.api import labels
from jobcommon.api.shard import Shard, lease_names, slot_of
from jobcommon.client.request import MERGE_PATCH
from jobcommon.runtime.manager import Env, Manager
from jobcommon.runtime.settings import Settings
from tests.runtime.fakes import TESTJOB, a_job, quiet_log
from tests.runtime.tap import Tap
from tests.runtime.world import JOBS, PODS, SETTINGS, World, operating, world_with_testjobs

SHARED = replace(SETTINGS, shards=2)
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"


class Replica:
    """A process with its own name."""

    def __init__(self, world: World, name: str, settings: Settings = SHARED) -> None:
        self.name = name
        self.tap = Tap(world.transport)
        env = Env(world.clock, Random(name).random, name)
        self.manager = Manager(self.tap, (TESTJOB,), settings, election_transport=world.transport, env=env, log=quiet_log())
        self.task = asyncio.create_task(self.manager.run())

    @property
    def jobs_written(self) -> set[str]:
        """The jobs for which something was written."""
        written = (request.path + (request.body or b"").decode() for request in self.tap.writes)
        return {name for text in written if "/events" not in text for name in re.findall(r"job-\d", text)}

    @property
    def shards(self) -> list[int]:
        """Those that it holds and whose caches are complete."""
        return [one.shard.index for one in self.manager.shards if one.shard and one.fence.held() and one.ready]


@asynccontextmanager
async def replicas(world: World, *names: str, settings: Settings = SHARED) -> AsyncIterator[list[Replica]]:
    started = [Replica(world, name, settings) for name in names]
    try:
        yield started
    finally:
        for replica in started:
            replica.tap.open.set()
            replica.manager.stop()
        for replica in started:
            await world.clock.until(replica.task.done, step=0.1)
            replica.task.result()


async def balanced(world: World, *started: Replica) -> None:
    """Return once each has one of the two shards."""
    await world.clock.until(lambda: sorted(tuple(r.shards) for r in started) == [(0,), (1,)], step=0.1)


def submit(world: World, count: int = 6) -> dict[str, int]:
    """Jobs, and the shard of each."""
    names = [f"job-{number}" for number in range(count)]
    uids = {name: world.ok("POST", JOBS, a_job(name, workers=1))["metadata"]["uid"] for name in names}
    found = {name: next(index for index in range(2) if Shard(index, 2).has_job(uid)) for name, uid in uids.items()}
    assert set(found.values()) == {0, 1}, "the seed of the world is to give jobs of both shards"
    return found


def holder(world: World, suffix: str) -> str:
    """Who holds the lease; "" if it is free or was never needed."""
    found = world.call("GET", f"{LEASES}/jobcommon-operator{suffix}")
    return "" if found.status == 404 else str(msgspec.json.decode(found.body)["spec"]["holderIdentity"])


@pytest.fixture
def world() -> World:
    return world_with_testjobs()


async def test_each_job_is_written_by_the_replica_that_holds_its_shard(world: World) -> None:
    async with replicas(world, "a", "b") as (a, b):
        await balanced(world, a, b)
        assert (a.manager.ready, b.manager.ready) == (True, True)
        a.tap.writes.clear(), b.tap.writes.clear()
        shard_of = submit(world)
        await world.clock.until(lambda: len(world.pods()) == 6)
        for replica in (a, b):
            assert replica.jobs_written == {name for name, shard in shard_of.items() if shard in replica.shards}
        for pod in world.pods():
            (owner,) = pod["metadata"]["ownerReferences"]
            assert pod["metadata"]["labels"][labels.SHARD] == str(slot_of(owner["uid"]))
        assert {holder(world, "-shard-0"), holder(world, "-shard-1")} == {"a", "b"}
        assert holder(world, "") == "2 shards"
        await world.clock.advance(5)
        assert not holder(world, "-candidate"), "none has less than its share"
        text = a.manager.metrics.render().decode()
        mine, other = a.shards[0], b.shards[0]
        assert f'leader_election_master_status{{name="jobcommon-operator-shard-{mine}"}} 1.0' in text
        assert f'leader_election_master_status{{name="jobcommon-operator-shard-{other}"}} 0.0' in text


async def test_the_server_is_asked_for_the_objects_of_the_shard_only(world: World) -> None:
    async with replicas(world, "a", "b") as (a, b):
        await balanced(world, a, b)
        for shard in (Shard(0, 2), Shard(1, 2)):
            wanted = f"training.kubeflow.org/operator-name=testjob-controller,{shard.label_selector}"
            for resource in ("pods", "services"):
                asked = [one for one in (a, b) if wanted in [query["labelSelector"] for query in one.tap.watched[resource]]]
                assert [one for one in asked if shard.index in one.shards]
            queries = [query for replica in (a, b) for query in replica.tap.watched["testjobs"]]
            assert shard.shard_selector in [query["shardSelector"] for query in queries]
            assert not any("labelSelector" in query for query in queries)


async def test_a_replica_that_ends_leaves_its_shard_within_five_seconds(world: World) -> None:
    async with replicas(world, "b") as (b,):
        async with replicas(world, "a") as (a,):
            await balanced(world, a, b)
        ended = world.clock.monotonic()
        await world.clock.until(lambda: b.shards == [0, 1], step=0.1)
        assert world.clock.monotonic() - ended <= 5
        submit(world)
        await world.clock.until(lambda: len(world.pods()) == 6)


async def test_a_shard_is_handed_over_after_the_writes_under_way(world: World) -> None:
    async with replicas(world, "a") as (a,):
        await world.clock.until(lambda: a.shards == [0, 1])
        a.tap.open.clear()
        submit(world)
        await world.clock.until(lambda: all(driver.busy for driver in a.manager.drivers))
        async with replicas(world, "b") as (b,):
            await world.clock.advance(9)
            assert b.shards == []
            assert world.pods() == []
            a.tap.open.set()
            await balanced(world, a, b)
            await world.clock.until(lambda: len(world.pods()) == 6)


async def test_pods_from_before_the_shards_are_found(world: World) -> None:
    async with operating(world):
        submit(world)
        await world.clock.until(lambda: len(world.pods()) == 6)
    assert not any(labels.SHARD in pod["metadata"]["labels"] for pod in world.pods())
    async with replicas(world, "a", "b") as (a, b):
        await balanced(world, a, b)
        world.play_all("Succeeded", 0)
        await world.clock.until(lambda: all("Succeeded" in world.conditions(f"job-{number}") for number in range(6)), step=0.1)
        assert len(world.pods()) == 6
        seen = [len(driver.controller.informers["pods"].store) for r in (a, b) for driver in r.manager.drivers]
        assert sum(seen) == 6, "each pod is in one cache"


async def test_replicas_with_another_number_of_shards_wait_for_the_last_of_the_others(world: World) -> None:
    more = replace(SETTINGS, shards=3)
    async with replicas(world, "c", settings=more) as (c,):
        async with replicas(world, "a", "b", settings=more):
            await world.clock.advance(20)
            async with replicas(world, "d") as (d,):
                await world.clock.advance(20)
                assert d.shards == []
                assert d.manager.ready, "it stands by"
        await world.clock.until(lambda: c.shards == [0, 1, 2], step=0.1)
    async with replicas(world, "d") as (d,):
        await world.clock.advance(10)
        assert d.shards == [], "the others' lease has to expire: not all of them may be known to have ended"
        await world.clock.until(lambda: d.shards == [0, 1], step=0.1)


async def test_one_leader_and_replicas_with_shards_exclude_each_other(world: World) -> None:
    async with replicas(world, "d") as (d,):
        await world.clock.until(lambda: d.shards == [0, 1])
        async with replicas(world, "leader", settings=replace(SETTINGS, leader_elect=True)) as (leader,):
            await world.clock.advance(30)
            assert leader.manager.drivers == []
    async with replicas(world, "leader", settings=replace(SETTINGS, leader_elect=True)) as (leader,):
        await world.clock.until(lambda: leader.manager.drivers, step=0.1)
        async with replicas(world, "d") as (d,):
            await world.clock.advance(30)
            assert d.shards == []


async def test_a_pod_whose_slot_a_user_has_changed_is_not_taken_for_another(world: World) -> None:
    """Its replica does not see it any more; what it finds under the name it does not take for a pod in its cache."""
    async with replicas(world, "a", "b") as (a, b):
        await balanced(world, a, b)
        submit(world)
        await world.clock.until(lambda: len(world.pods()) == 6)
        pod = world.pods()[0]["metadata"]
        elsewhere = (int(pod["labels"][labels.SHARD]) + 32) % 64
        world.ok("PATCH", f"{PODS}/{pod['name']}", {"metadata": {"labels": {labels.SHARD: str(elsewhere)}}}, MERGE_PATCH)
        await world.clock.advance(60)
        assert [p["metadata"]["uid"] for p in world.pods() if p["metadata"]["name"] == pod["name"]] == [pod["uid"]]
        world.ok(
            "PATCH", f"{PODS}/{pod['name']}", {"metadata": {"labels": {labels.SHARD: pod["labels"][labels.SHARD]}}}, MERGE_PATCH
        )
        world.play_all("Succeeded", 0)
        await world.clock.until(lambda: all("Succeeded" in world.conditions(f"job-{number}") for number in range(6)), step=0.5)


def test_the_leases_by_name() -> None:
    assert lease_names("op", 1) == ("op",)
    assert lease_names("op", 2) == ("op", "op-candidate", "op-shard-0", "op-shard-1")


@pytest.mark.parametrize("shards", [0, 65])
def test_there_are_one_to_64_shards(shards: int) -> None:
    with pytest.raises(ValueError, match=f"shards must be from 1 to 64, not {shards}"):
        replace(SETTINGS, shards=shards)
