"""Secrets and whatever else an MPIJob needs are read by name: how often, and what happens when one is deleted."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest

from jobcommon.api.kueue import CONFIGURATION_PATH
from jobcommon.cli.embedded import InProcessTransport
from jobcommon.client.request import Request, Response
from jobcommon.framework import Framework
from jobcommon.operators.mpi import MPI
from jobcommon.reconcile.wanted import RECHECK_PERIOD
from jobcommon.testutil.builders import finished_status
from jobcommon.testutil.recording import Passing, Recording, nothing
from tests.charts.test_recorded_verbs import Life
from tests.runtime.fakes import refusal
from tests.runtime.world import SETTINGS, operating

CORE = "/api/v1/namespaces/default"
SECRET, CONFIG = f"{CORE}/secrets/train-ssh", f"{CORE}/configmaps/train-config"
BY_NAME = ("configmaps", "secrets", "serviceaccounts", "roles", "rolebindings")
LAUNCHER = {"template": {"spec": {"containers": [{"name": "main", "image": "any", "command": ["true"]}]}}}
WORKERS = {"train-worker-0", "train-worker-1"}
ALL = WORKERS | {"train-launcher"}


class Watched(Life):
    """A cluster with MPIJobs; of its operators is kept in order what they ask about what they do not watch."""

    def __init__(self, framework: Framework = MPI) -> None:
        super().__init__(framework)
        self.passing = Passing(InProcessTransport(self.server))
        self.recording = Recording(self.passing)
        self.transport = self.recording  # type: ignore[assignment]

    def asked(self) -> list[tuple[str, str]]:
        """What was asked for the job; the configuration of Kueue is read once at the start."""
        wanted = [a for a in self.recording.asked if a.resource in BY_NAME and not CONFIGURATION_PATH.endswith(f"/{a.name}")]
        return sorted((a.verb, a.resource) for a in wanted)

    def held(self, name: str) -> bool:
        return any(pod["metadata"].get("finalizers") for pod in self.pods() if pod["metadata"]["name"] == name)

    def uid(self, path: str) -> str:
        return str(self.ok("GET", path)["metadata"]["uid"])

    def schedule_all(self) -> None:
        for pod in self.pods():
            scheduled = [{"type": "PodScheduled", "status": "True"}]
            path = f"{CORE}/pods/{pod['metadata']['name']}/status"
            self.ok("PATCH", path, {"status": {"conditions": scheduled}}, "application/merge-patch+json")


@asynccontextmanager
async def life(version: str = "v2beta1", names: Sequence[str] = (), **spec: Any) -> AsyncIterator[Watched]:
    """A job whose first pods are there."""
    world = Watched()
    async with operating(world, MPI, SETTINGS):
        world.submit({"Launcher": LAUNCHER, "Worker": 2}, version=version, **spec)
        await world.clock.until(lambda: set(names or ALL) <= world.named(), step=0.5)
        yield world


@pytest.mark.parametrize(("path", "name"), [(SECRET, "secrets/train-ssh"), (CONFIG, "configmaps/train-config")])
async def test_companions_deleted_before_the_pods_run_are_recreated(path: str, name: str) -> None:
    async with life() as world:
        before = world.uid(path)
        world.ok("DELETE", path)
        world.schedule_all()
        started = world.clock.monotonic()
        await world.clock.until(lambda: world.call("GET", path).status == 200, step=1)
        assert world.clock.monotonic() - started <= 2 * RECHECK_PERIOD
        assert world.uid(path) != before
        await world.clock.until(lambda: "Lost" in world.events(), step=0.5)
        events = world.ok("GET", f"{CORE}/events")["items"]
        assert [e["message"].split(" ")[0] for e in events if e["reason"] == "Lost"] == [name]


async def test_an_update_that_is_refused_is_told_and_tried_with_back_off() -> None:
    times: list[float] = []
    async with life() as world:

        async def refuses(request: Request) -> Response | None:
            if (request.method, request.path) != ("PATCH", CONFIG):
                return None
            times.append(world.clock.monotonic())
            return refusal(403, "Forbidden", "immutable")

        world.passing.before = refuses
        world.play_all("Running")
        text = "is running; waiting: update configmaps/train-config is refused: immutable."
        await world.clock.until(lambda: text in world.job()["status"]["conditions"][-1]["message"], step=0.5)
        told = world.job()["metadata"]["resourceVersion"]
        await world.clock.advance(160)
        assert [round(later - earlier) for earlier, later in pairwise(times)] == [10, 20, 40, 80]
        assert world.job()["metadata"]["resourceVersion"] == told
        assert world.events().count("FailedUpdateObject") == 1
        world.passing.before = nothing
        await world.clock.advance(160)
        assert "worker-1" in world.ok("GET", CONFIG)["data"]["discover_hosts.sh"]
        await world.clock.until(lambda: "refused" not in world.job()["status"]["conditions"][-1]["message"], step=0.5)


@pytest.mark.parametrize(("version", "policy"), [("v2beta1", "None"), ("v1", "All")])
async def test_a_new_operator_revokes_access_before_other_clean_up(version: str, policy: str) -> None:
    """The first operator dies with the final status written: its clean-up is not begun."""
    names = sorted(WORKERS)
    async with life(version, names, run_policy={"cleanPodPolicy": policy}) as world:
        world.play_all("Running")
        await world.clock.until(lambda: world.named() >= ALL, step=0.5)
        world.play_all("Running")
        await world.clock.until(lambda: world.conditions()[-1:] == ["Running"], step=0.5)
    world.play("train-launcher", "Succeeded", 0)
    done = world.job()
    done["status"] |= finished_status()
    world.ok("PUT", f"{world.jobs(name='train')}/status", done)
    world.recording.asked.clear()
    async with operating(world, MPI, SETTINGS):
        await world.clock.until(lambda: not world.held("train-launcher"), step=0.5)
        rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
        access = (SECRET, f"{CORE}/serviceaccounts/train-launcher", f"{rbac}/roles/train-launcher")
        assert [world.call("GET", path).status for path in access] == [404] * 3
