"""Resizes of jobs whose replicas are restarted together: by their user, and by themselves with `runPolicy.elastic`."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from jobcommon.api.kueue import QUEUE_LABEL
from jobcommon.api.observed import IMAGES
from jobcommon.api.replica import format_indexes
from jobcommon.api.timestamp import format_moment
from jobcommon.framework import Options
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.testutil.cluster_model import ClusterModel
from jobcommon.testutil.frameworks import SCALED_JOB
from jobcommon.testutil.kueue import admitted

IN_PLACE, RECREATE = "Auto", "Recreate"
ELASTIC = {"minReplicas": 2, "maxReplicas": 5, "shrinkAfterSeconds": 30, "growAfterSeconds": 100}


def world_of(method: str, workers: int = 3, room: int = 100, **more: Any) -> ClusterModel:
    policy = {"restartScope": "Job", "restartMethod": method, **more}
    world = ClusterModel.of(SCALED_JOB, {"Master": 1, "Worker": workers}, policy="ExitCode", run_policy=policy)
    assert isinstance(world, ClusterModel)
    world.room = room
    world.react()
    assert world.current != "Failed", message(world)
    return world


def size(world: ClusterModel) -> int:
    assert world.mixed == []
    return int(world.status["attemptReplicas"]["Worker"])


def message(world: ClusterModel) -> str:
    return str(world.status["conditions"][-1]["message"])


def uids(world: ClusterModel) -> dict[str, str]:
    return {name: pod.view.uid for name, pod in world.pods.items()}


def worlds(world: ClusterModel) -> set[tuple[str, str]]:
    """What the running programs know of their peers."""
    return {world.worlds[pod.view.uid] for pod in world.pods.values()}


@pytest.mark.parametrize("method", [IN_PLACE, RECREATE])
@pytest.mark.parametrize("count", [0, 1, 2, 4, 6])
def test_another_number_of_replicas_is_a_new_attempt(method: str, count: int) -> None:
    world = world_of(method)
    before = uids(world)
    world.scale("Worker", count).settle()
    assert f"because it is resized from 3 to {count} workers" in message(world)
    world.now += 7
    world.react()
    world.wait(60)
    assert (size(world), world.current, world.status["attempt"]) == (count, "Running", 1)
    assert worlds(world) == {("1", f"Master=1,Worker={count}")}
    kept = {name for name, uid in uids(world).items() if before.get(name) == uid}
    assert len(kept) == (1 + min(3, count) if method == IN_PLACE else 0)
    assert ("failures" in world.status, world.status.get("restarts"), world.status.get("disruptions")) == (False, None, None)
    assert world.status["replicaStatuses"]["Worker"].get("failedRuns") is None
    spent = world.status["timeSpent"]
    assert (spent["resizing"], spent.get("restarting")) == (7, None)


def test_runs_that_the_operator_has_ended_are_not_charged_when_the_scope_is_changed() -> None:
    world = world_of(IN_PLACE, workers=2, backoffLimit=3)
    for count in (3, 2, 3, 2):
        world.now += 100
        world.scale("Worker", count).react()
        world.wait(60)
    world.edit(restartScope=None, restartMethod=None).react()
    world.wait(60)
    assert (message(world), world.status.get("restarts")) == ("TestJob default/demo is running.", None)
    world.exit("demo-worker-1", 137)
    world.react()
    world.wait(60)
    assert "Worker-1 restarted once, last: exited with code 137" in message(world)
    world.delete_pod("demo-worker-0")
    world.truth.by_others += 1
    world.react()
    world.wait(60)
    assert (world.current, world.status["restarts"]) == ("Running", 1)


@pytest.mark.parametrize(("method", "room", "trouble"), [(RECREATE, 3, ""), (IN_PLACE, 4, "rejects")])
@pytest.mark.parametrize("ahead", [0, 9000])
def test_times_that_a_clock_ahead_has_recorded_delay_no_resize(ahead: int, method: str, room: int, trouble: str) -> None:
    world = world_of(method, elastic=ELASTIC)
    world.lose_node_of("demo-worker-1")
    world.room, world.trouble = room, trouble
    world.react()
    world.manifest["status"] |= dict.fromkeys(("lastRestartTime", "gatheringSince"), format_moment(world.now + ahead))
    world.wait(69)
    assert size(world) == 2


@pytest.mark.parametrize("method", [IN_PLACE, RECREATE])
def test_a_job_goes_on_without_those_that_find_no_node_and_grows_again(method: str) -> None:
    world = world_of(method, elastic=ELASTIC)
    world.lose_node_of("demo-worker-1")
    world.room = 3
    world.react()
    world.wait(29)
    assert (size(world), world.current) == (3, "Restarting")
    world.wait(40)
    assert (size(world), world.current, world.status["attempt"]) == (2, "Running", 1), "one restart a loss"
    assert "with 2 of 3 workers" in message(world)
    late = "Worker-1" if method == IN_PLACE else "Worker-2"
    assert f"attempt 1 begins with 2 of 3 workers: no room for {late} for 30 s" in {event.message for event in world.events}
    world.wait(100)
    assert [name for name, pod in world.pods.items() if not pod.view.scheduled] == [f"demo-{late.lower()}"]
    # Of an autoscaler it is no replica; its selector matches the spare pod, which stands for the growth that was asked for.
    assert world.status["replicaStatuses"]["Worker"]["active"] == 2
    before, runs = uids(world), dict(world.runs)
    world.room = 4
    world.react()
    world.wait(60)
    assert (size(world), world.current, len(world.pods)) == (3, "Running", 4)
    assert worlds(world) == {(str(world.status["attempt"]), "Master=1,Worker=3")}
    assert (uids(world) == before) is (method == IN_PLACE)
    assert {name: count - runs.get(name, 0) for name, count in world.runs.items()} == dict.fromkeys(world.pods, 1)


def test_a_job_starts_with_what_there_is() -> None:
    world = world_of(IN_PLACE, workers=5, room=4, elastic=ELASTIC)
    world.wait(40)
    assert (size(world), world.current) == (3, "Running")


def test_it_does_not_grow_once_a_replica_has_succeeded() -> None:
    world = world_of(IN_PLACE, workers=5, room=4, elastic=ELASTIC)
    world.wait(40)
    world.exit("demo-worker-1", 0)
    world.room = 100
    world.react()
    world.wait(400)
    assert (size(world), world.current) == (3, "Running")


def test_it_grows_after_the_next_checkpoint_of_a_program_that_reports_them() -> None:
    world = world_of(IN_PLACE, elastic=ELASTIC)
    report(world, "100")
    world.scale("Worker", 4).react()
    assert (size(world), world.status["awaitedCheckpoint"]) == (3, "100")
    report(world, "200")
    world.react()
    world.wait(60)
    assert (size(world), world.status.get("awaitedCheckpoint")) == (4, None)


def report(world: ClusterModel, checkpoint: str) -> None:
    found = {"lastUpdatedTime": "2026-01-01T00:00:00Z", "metrics": [{"name": "checkpoint", "value": checkpoint}]}
    world.manifest["status"] = {**world.status, "trainerStatus": found}
    world.edit()


@pytest.mark.parametrize("end", ["suspended", "succeeded", "scaled"])
def test_spare_pods_go_with_their_use(end: str) -> None:
    world = world_of(IN_PLACE, room=4, elastic=ELASTIC)
    world.scale("Worker", 4).react()
    assert len(world.pods) == 5
    if end == "suspended":
        world.edit(suspend=True)
    elif end == "scaled":
        world.scale("Worker", 3)
    else:
        world.exit("demo-master-0", 0)
    world.react()
    world.wait(100)
    assert "demo-worker-3" not in world.pods


# -- lives of elastic jobs -----------------------------------------------------------------------------------------------------


def no_room(world: ClusterModel, name: str) -> None:
    world.room = len(world.pods) - 1
    world.lose_node_of(name).react()
    world.wait(40)


def a_hole(world: ClusterModel) -> None:
    no_room(world, "demo-worker-1")


def all_but_one_are_silent(world: ClusterModel) -> None:
    """Too few remain, and one that comes back waits for the others."""
    names = ["demo-worker-1", "demo-worker-2", "demo-worker-3"]
    for name in names:
        world.silence(name)
    world.wait(400)
    assert world.current != "Failed"
    for name in names:
        del world.silent[world.pods[name].view.uid]
        world.react()
        world.wait(5)


def quota_for_fewer(world: ClusterModel) -> None:
    """A pod that it refuses delays no other, neither in the growth nor in the restart."""
    world.pods_allowed = 3
    world.evict("demo-worker-1")
    world.evict("demo-worker-2")
    world.react()
    world.wait(1200)
    world.pods_allowed = 4
    world.wait(2000)
    world.evict("demo-worker-0")
    world.react()
    world.wait(20)


def a_predecessor_holds_a_name(world: ClusterModel) -> None:
    world.stops_after = 30.0
    names = [*world.pods]
    for name in names:
        world.put(world.pods[name].without_finalizer()).delete_pod(name, grace=300)
    world.recreate_job("second")
    world.react()
    world.wait(25)
    assert [*world.pods] == names
    world.wait(20)


def growth_onto_a_node_that_rejects(world: ClusterModel) -> None:
    """A job that was never resized makes its spare pod anew with pauses, whatever the node's clock says."""
    world.trouble, world.skew = "rejects", 9000.0
    world.scale("Worker", 5).react()
    world.wait(1000)
    world.trouble, world.skew = "", 0.0
    world.wait(60)


def growth_with_a_clock_set_back(world: ClusterModel) -> None:
    """The node of a spare pod that seems to be of the future gets its time to set it up."""
    world.wait(5)
    world.scale("Worker", 5).settle()
    before = uids(world)
    world.now -= 5
    world.place()
    world.react()
    assert uids(world) == before


def images_may_not_be_changed(world: ClusterModel) -> None:
    """The pods that were gathered are made anew. One that ends before the others, as it is asked to, has lost no node."""
    world.refused, world.stops_after, world.order, world.room = frozenset({IMAGES}), 30.0, 1, 4
    world.lose_node_of("demo-worker-1").react()
    world.wait(100)


#: what happens to four workers, and the workers that train then, whether pods are kept or not
LIVES: dict[str, tuple[Callable[[ClusterModel], None], set[int], int]] = {
    "a hole": (a_hole, {0, 2, 3}, 1), "an outage": (all_but_one_are_silent, {0, 1, 2, 3}, 1),
    "quota": (quota_for_fewer, {0, 1, 3}, 3), "predecessors": (a_predecessor_holds_a_name, {0, 1, 2, 3}, 0),
    "a bad node": (growth_onto_a_node_that_rejects, {0, 1, 2, 3, 4}, 1),
    "set back": (growth_with_a_clock_set_back, {0, 1, 2, 3, 4}, 1),
    "refused images": (images_may_not_be_changed, {0, 1, 3}, 1),
}  # fmt: skip


@pytest.mark.parametrize("life", LIVES)
def test_those_that_have_nodes_train(life: str) -> None:
    """Ranks are 0 … n-1, each once, whatever the indexes. The attempts are one for each loss, and one for each growth."""
    happens, workers, attempts = LIVES[life]
    policy = {"restartScope": "Job", "restartMethod": "Auto", "elastic": {**ELASTIC, "minReplicas": 2}}
    world = ClusterModel.of(PYTORCH, {"Master": 1, "Worker": 4}, policy="OnFailure", run_policy=policy)
    assert isinstance(world, ClusterModel)
    world.react()
    happens(world)
    known = {name: (int(env["RANK"]), int(env["WORLD_SIZE"])) for name, env in world.running().items()}
    assert known == {
        "demo-master-0": (0, len(workers) + 1),
        **{f"demo-worker-{index}": (rank, len(workers) + 1) for rank, index in enumerate(sorted(workers), start=1)},
    }
    out = format_indexes({*range(world.job.asked_of("Worker"))} - workers)
    assert (size(world), world.status.get("leftOut", {}).get("Worker")) == (len(workers), out)
    assert (world.current, world.status.get("attempt"), "gatheringSince" in world.status) == ("Running", attempts, False)
    assert world.status["replicaStatuses"]["Worker"].get("failedRuns") is None


def test_hostile_members_are_read() -> None:
    world = world_of(IN_PLACE, elastic=ELASTIC)
    for left_out in ("0-99999999999", "x,-1,,5-3", "1-2," * 5000):
        world.manifest["status"] |= {"leftOut": {"Worker": left_out, "Robot": "1"}}
        world.edit().react()
        world.wait(300)
        assert (size(world), world.current, world.status.get("leftOut")) == (3, "Running", None)


# -- queues and gangs ----------------------------------------------------------------------------------------------------------


def queued() -> ClusterModel:
    """An elastic job whose Workload Kueue has not admitted yet."""
    framework = replace(SCALED_JOB, options=Options(kueue=True))
    policy = {"restartScope": "Job", "restartMethod": "Auto", "elastic": ELASTIC}
    world = ClusterModel.of(framework, {"Master": 1, "Worker": 4}, policy="ExitCode", run_policy=policy)
    assert isinstance(world, ClusterModel)
    world.manifest["metadata"]["labels"] = {QUEUE_LABEL: "team"}
    world.quota = False
    world.react()
    return world


def workload(world: ClusterModel) -> Any:
    return next(found for (kind, _), found in world.others.items() if kind == "Workload")


def admit(world: ClusterModel, workers: int) -> None:
    """Kueue admits the job with so many workers, as by its partial admission."""
    found = admitted(workload(world), at=world.now)
    (_, of_workers) = found["status"]["admission"]["podSetAssignments"]
    of_workers["count"] = workers
    world.others["Workload", found["metadata"]["name"]] = found
    world.react()


def test_kueue_may_admit_an_elastic_job_in_part() -> None:
    world = queued()
    assert [(one["count"], one.get("minCount")) for one in workload(world)["spec"]["podSets"]] == [(1, None), (4, 2)]
    admit(world, 3)
    world.wait(60)
    assert (size(world), world.current) == (3, "Running")
    assert "with 3 of 4 workers, and has quota for 3" in message(world)
    world.wait(1000)
    assert (size(world), len(world.pods)) == (3, 4), "it asks for no node without quota"


def test_a_job_that_shrinks_gives_its_quota_back() -> None:
    world = queued()
    admit(world, 4)
    assert size(world) == 4
    world.scale("Worker", 2).react()
    world.wait(60)
    assert (size(world), world.current) == (2, "Running"), "a change within the bounds does not cost the admission"
    assert workload(world)["status"]["reclaimablePods"] == [{"name": "worker", "count": 2}]
    world.preempted = True
    world.react()
    assert (world.current, "reclaimablePods" in workload(world)["status"]) == ("Suspended", False)
    world.preempted, world.quota = False, True
    world.react()
    assert (size(world), world.current) == (2, "Running"), "it is resumed with what is asked for"
