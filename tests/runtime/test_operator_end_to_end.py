"""The whole operator in one process against the embedded API server; the test plays the kubelet, and time is its own."""

import pytest

from jobcommon.client.request import MERGE_PATCH
from jobcommon.testutil.recording import Recording
from tests.runtime.fakes import a_job, crd
from tests.runtime.world import JOBS, PODS, Json, World, operating, world_with_testjobs


@pytest.fixture
def world() -> World:
    return world_with_testjobs()


def running(world: World) -> list[Json]:
    return [p for p in world.pods() if "deletionTimestamp" not in p["metadata"]]


async def test_a_job_of_the_same_name_waits_for_the_old_pods_and_starts(world: World) -> None:
    async with operating(world):
        world.ok("POST", JOBS, a_job(workers=2))
        await world.clock.until(lambda: len(world.pods()) == 2)
        old = {p["metadata"]["uid"] for p in world.pods()}
        world.ok("DELETE", f"{JOBS}/train")
        new = world.ok("POST", JOBS, a_job(workers=2))["metadata"]["uid"]
        await world.clock.until(lambda: not any(p["metadata"].get("finalizers") for p in world.pods()))
        for pod in world.pods():
            world.call("DELETE", f"{PODS}/{pod['metadata']['name']}")
        world.call("DELETE", "/api/v1/namespaces/default/services/train")
        await world.clock.until(lambda: len(world.pods()) == 2, step=0.5)
        assert not old & {p["metadata"]["uid"] for p in world.pods()}
        assert {p["metadata"]["ownerReferences"][0]["uid"] for p in world.pods()} == {new}


async def test_a_service_of_the_jobs_name_that_is_not_ours_blocks_nothing(world: World) -> None:
    """The Service gets another name, which stays through restarts of the operator and suspensions."""
    services = "/api/v1/namespaces/default/services"

    def addressed() -> set[tuple[str, str]]:
        """The pods' subdomains, and the Services that they are told."""
        pods = [p["spec"] for p in running(world)]
        leaders = {v["value"].split(".")[1] for s in pods for v in s["containers"][0]["env"] if v["name"] == "LEADER"}
        return {(spec["subdomain"], leader) for spec in pods for leader in leaders}

    world.ok(
        "POST", services, {"metadata": {"name": "train"}, "spec": {"ports": [{"port": 80}], "selector": {"app": "tensorboard"}}}
    )
    async with operating(world):
        world.ok("POST", JOBS, a_job(workers=2))
        await world.clock.until(lambda: len(world.pods()) == 2 and bool(world.job()["status"].get("serviceName")))
        other = world.job()["status"]["serviceName"]
        assert addressed() == {(other, other)}
        assert world.ok("GET", f"{services}/{other}")["spec"]["clusterIP"] == "None"
        assert [event for event in world.events() if event == "NameConflict"] == ["NameConflict"]
    world.ok("DELETE", f"{services}/train")
    async with operating(world):
        world.call("DELETE", f"{services}/{other}")
        await world.clock.until(lambda: world.call("GET", f"{services}/{other}").status == 200, step=0.5)
        world.ok("PATCH", f"{JOBS}/train", {"spec": {"runPolicy": {"suspend": True}}}, MERGE_PATCH)
        await world.clock.until(lambda: world.conditions()[-1:] == ["Suspended"] and not running(world))
        world.ok("PATCH", f"{JOBS}/train", {"spec": {"runPolicy": {"suspend": False}}}, MERGE_PATCH)
        await world.clock.until(lambda: len(running(world)) == 2, step=0.5)
        assert addressed() == {(other, other)}
        assert world.call("GET", f"{services}/train").status == 404


async def test_a_kind_that_is_not_installed_is_waited_for() -> None:
    world = World()
    async with operating(world):
        await world.clock.advance(30)
        world.ok("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd())
        world.ok("POST", JOBS, a_job(workers=1))
        before = world.clock.monotonic()
        await world.clock.until(lambda: len(world.pods()) == 1, step=1)
        assert world.clock.monotonic() - before <= 61


async def test_an_idle_operator_sends_no_writes(world: World) -> None:
    async with operating(world):
        world.ok("POST", JOBS, a_job(workers=2))
        await world.clock.until(lambda: len(world.pods()) == 2)
        world.play_all("Running")
        await world.clock.until(lambda: "Running" in world.conditions())
        await world.clock.advance(20)
        before = world.server.storage.rv
        await world.clock.advance(3600)
        assert world.server.storage.rv == before


@pytest.mark.parametrize("taken", ["finalizers", "labels", "ownerReferences"])
async def test_what_a_user_takes_off_our_pod_makes_nothing_run_or_count_twice(world: World, taken: str) -> None:
    recording = Recording(world.transport)
    world.transport = recording  # type: ignore[assignment]
    async with operating(world):
        world.ok("POST", JOBS, a_job(workers=2))
        await world.clock.until(lambda: len(world.pods()) == 2)
        world.play_all("Running")
        await world.clock.until(lambda: world.conditions()[-1:] == ["Running"])
        uids = {pod["metadata"]["uid"] for pod in world.pods()}
        pod = world.pod("train-worker-0")
        pod["metadata"][taken] = {} if taken == "labels" else []
        world.ok("PUT", f"{PODS}/train-worker-0", pod)
        before = len(recording.asked)
        await world.clock.advance(600)
        assert {pod["metadata"]["uid"] for pod in world.pods()} == uids, "its name is taken, so nothing runs twice"
        assert len(recording.asked) - before < 100, "nor is the API server asked again and again"
        if taken != "finalizers":
            assert "NameConflict" in world.events()
        world.play("train-worker-1", "Succeeded", 0)
        await world.clock.advance(60)
        assert world.job()["status"]["replicaStatuses"]["Worker"]["succeeded"] == 1
        assert not world.job()["status"].get("restarts")
