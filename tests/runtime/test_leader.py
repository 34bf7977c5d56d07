"""Leader election against the embedded API server: take-over times, loss, release, and every kind of failure."""

import asyncio
from random import Random
from typing import Any

import pytest

from jobcommon.client.errors import TransportError
from jobcommon.client.request import MERGE_PATCH, Request, Response
from jobcommon.runtime.leader import LeaderElector, LeaseSettings
from tests.runtime.fakes import quiet_log, refusal
from tests.runtime.tap import WithoutStreams
from tests.runtime.world import World

LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"


class Line(WithoutStreams):
    """A transport to the world that can be cut."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.fault: str | None = None
        self.writes = 0
        self.delay = 0.0

    async def send(self, request: Request) -> Response:
        await asyncio.sleep(0)
        self.writes += request.method != "GET"
        if self.fault == "down":
            raise TransportError("no route")
        if self.fault == "refuses":
            return refusal(500, "InternalError")
        if self.fault == "nonsense":
            return Response(200, b"<html>")
        response = await self.world.transport.send(request)
        await self.world.clock.sleep(self.delay)
        if self.fault == "answer lost" and request.method != "GET":
            raise TransportError("reset")
        return response


class Candidate:
    def __init__(self, world: World, name: str, seed: int = 1, **times: float) -> None:
        self.line = Line(world)
        settings = LeaseSettings("default", "operators", name, **times)
        self.elector = LeaderElector(self.line, settings, world.clock, Random(seed).random, quiet_log())
        self.leads = False
        self.lost_at: float | None = None
        self.task = asyncio.create_task(self._run(world))

    async def _run(self, world: World) -> None:
        await self.elector.acquire()
        self.leads = True
        await self.elector.hold()
        self.leads = False
        self.lost_at = world.clock.monotonic()

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


def spec(world: World) -> dict[str, Any]:
    return world.ok("GET", f"{LEASES}/operators")["spec"]


async def test_the_first_one_leads_and_the_second_waits() -> None:
    world = World()
    first, second = Candidate(world, "a"), Candidate(world, "b", 2)
    await world.clock.until(lambda: first.leads)
    await world.clock.advance(300)
    assert (first.elector.held(), second.leads, second.elector.leader) == (True, False, "a")
    assert spec(world)["leaseTransitions"] == 0
    assert spec(world)["leaseDurationSeconds"] == 15
    for candidate in (first, second):
        await candidate.end()


async def test_a_renewal_that_was_broken_off_does_not_stand_in_the_way_of_the_release() -> None:
    world = World()
    first = Candidate(world, "a")
    await world.clock.until(lambda: first.leads)
    lease = world.ok("GET", f"{LEASES}/operators")
    await first.end()
    world.ok("PUT", f"{LEASES}/operators", {**lease, "spec": {**lease["spec"], "renewTime": "2026-01-01T00:00:00.000000Z"}})
    await first.elector.release()
    assert spec(world)["holderIdentity"] == ""


@pytest.mark.parametrize("fault", ["down", "refuses", "nonsense"])
async def test_a_leader_that_cannot_renew_stops_before_the_lease_expires(fault: str) -> None:
    world = World()
    first = Candidate(world, "a")
    await world.clock.until(lambda: first.leads)
    second = Candidate(world, "b", 2)
    await world.clock.advance(1)
    renewed = world.clock.monotonic()
    first.line.fault = fault
    await world.clock.advance(8.5)
    assert first.elector.held()
    await world.clock.until(lambda: not first.elector.held(), step=0.1)
    assert world.clock.monotonic() - renewed <= 10.1
    await world.clock.until(lambda: first.lost_at is not None, step=0.1)
    assert not second.leads
    await world.clock.until(lambda: second.leads, step=0.1)
    assert world.clock.monotonic() - renewed >= 10 + 4, "a write of the one before may still be under way"
    assert world.clock.monotonic() - renewed <= 24
    await second.end()


async def test_a_renewal_counts_from_its_request() -> None:
    """The server may have stored it long before it has answered."""
    world = World()
    asked = world.clock.monotonic()
    first = Candidate(world, "a")
    first.line.delay = 3.9
    await world.clock.until(lambda: first.leads, step=0.1)
    first.line.fault = "down"
    await world.clock.until(lambda: not first.elector.held(), step=0.1)
    # The lease was read before it was made, and each answer took its time.
    assert world.clock.monotonic() - asked <= 3.9 + 10.1
    await first.end()


async def test_a_renewal_that_hangs_does_not_hide_the_loss() -> None:
    """At the renew deadline, and no later, the writes under way are cancelled."""
    world = World()
    first = Candidate(world, "a")
    await world.clock.until(lambda: first.leads)
    renewed = world.clock.monotonic()
    first.line.delay = 1000.0
    await world.clock.until(lambda: first.lost_at is not None, step=0.1)
    assert first.lost_at is not None
    assert first.lost_at - renewed <= 10.1


@pytest.mark.parametrize(
    "strange", [{}, {"holderIdentity": None}, {"holderIdentity": "", "leaseTransitions": 7}, {"leaseDurationSeconds": 1}]
)
async def test_a_lease_without_a_holder_is_acquired(strange: dict[str, Any]) -> None:
    world = World()
    world.ok("POST", LEASES, {"metadata": {"name": "operators"}, "spec": strange})
    first = Candidate(world, "a")
    await world.clock.until(lambda: first.leads)
    await first.end()


async def test_release_without_the_lease_writes_nothing_and_a_failed_one_is_survived() -> None:
    world = World()
    first = Candidate(world, "a")
    await first.end()
    await first.elector.release()
    assert first.line.writes == 0
    second = Candidate(world, "b")
    await world.clock.until(lambda: second.leads)
    await second.end()
    second.line.fault = "down"
    await second.elector.release()
    assert spec(world)["holderIdentity"] == "b"


async def test_a_lease_that_another_has_by_now_is_not_released() -> None:
    world = World()
    first = Candidate(world, "a")
    await world.clock.until(lambda: first.leads)
    await first.end()
    world.ok("PATCH", f"{LEASES}/operators", {"spec": {"holderIdentity": "b"}}, MERGE_PATCH)
    await first.elector.release()
    assert spec(world)["holderIdentity"] == "b"


def test_times_that_are_unsafe_are_refused() -> None:
    with pytest.raises(ValueError, match="must exceed the renew deadline"):
        LeaseSettings("default", "operators", "a", lease_duration=10, renew_deadline=10)
    with pytest.raises(ValueError, match="retry period"):
        LeaseSettings("default", "operators", "a", renew_deadline=2)
    # Two led: the Lease said 10 s, after which another process took it while the first held it until 10.5 s.
    with pytest.raises(ValueError, match=r"whole number of seconds, not 10\.9; round it up"):
        LeaseSettings("default", "operators", "a", lease_duration=10.9, renew_deadline=10.5)
