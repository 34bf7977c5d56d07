"""What happens to a job over several passes, in a small world that checks the invariants at every pass."""

import pytest

from jobcommon.framework import FINALIZER
from jobcommon.reconcile.plan import Delete
from jobcommon.testutil.cluster_model import ClusterModel
from jobcommon.testutil.frameworks import TEST_JOB


def started(replicas: dict[str, int], policy: str = "ExitCode", **run_policy: object) -> ClusterModel:
    world = ClusterModel.of(TEST_JOB, replicas, policy=policy, run_policy=run_policy).start()
    assert world.current == "Running"
    return world


def counts(world: ClusterModel, kind: str = "Worker") -> dict[str, object]:
    return {key: value for key, value in world.status["replicaStatuses"][kind].items() if key != "selector"}


@pytest.mark.parametrize("crash_after", [None, 0, 1, 2])
@pytest.mark.parametrize("policy", [None, "", "None"])
def test_replicas_that_end_after_the_success_are_counted(policy: str | None, crash_after: int | None) -> None:
    """AppWrapper counts Succeeded pods, Argo and others wait for `replicaStatuses.Worker.succeeded == N`."""
    world = started({"Master": 1, "Worker": 2}, **({} if policy is None else {"cleanPodPolicy": policy}))
    world.exit("demo-master-0", 0)
    world.step(writes=crash_after)
    world.settle()
    end = [(c.type, c.status) for c in world.job.status.conditions], world.status["completionTime"]
    assert world.current == "Succeeded", "the result does not wait for them"
    for index in range(2):
        world.tick(20)
        world.exit(f"demo-worker-{index}", 0)
        for _ in range(4):
            world.step(writes=crash_after)
        world.settle()
    assert counts(world) == {"succeeded": 2, "succeededIndexes": "0-1"}
    assert counts(world, "Master") == {"succeeded": 1, "succeededIndexes": "0"}
    world.tick(60)
    assert world.settle()[-1].wake_at is None
    assert bool(world.others) == (policy == "None")
    assert {name: pod.raw["status"]["phase"] for name, pod in world.pods.items()} == {
        "demo-master-0": "Succeeded", "demo-worker-0": "Succeeded", "demo-worker-1": "Succeeded",
    }  # fmt: skip
    assert ([(c.type, c.status) for c in world.job.status.conditions], world.status["completionTime"]) == end
    assert not [name for name, pod in world.pods.items() if FINALIZER in pod.view.finalizers]


def test_final_counts_of_another_operator_are_kept() -> None:
    """training-operator adds the active replicas to the succeeded ones when a job succeeds."""
    world = started({"Master": 1, "Worker": 2}, cleanPodPolicy="None")
    world.exit("demo-master-0", 0).settle()
    world.manifest["status"]["replicaStatuses"] = {"Master": {"succeeded": 1}, "Worker": {"succeeded": 2}}
    world.exit("demo-worker-0", 0)
    world.exit("demo-worker-1", 0).settle()
    assert world.status["replicaStatuses"] == {"Master": {"succeeded": 1}, "Worker": {"succeeded": 2}}


@pytest.mark.parametrize("end", ["expires", "is deleted", "is suspended"])
def test_a_job_whose_replicas_still_end(end: str) -> None:
    world = started({"Master": 1, "Worker": 1}, **({"ttlSecondsAfterFinished": 30} if end == "expires" else {}))
    world.exit("demo-master-0", 0).settle()
    world.tick(30)
    if end == "is suspended":
        world.edit(suspend=True).settle()
        assert (world.current, "deletionTimestamp" in world.pods["demo-worker-0"].raw["metadata"]) == ("Succeeded", False)
        return
    if end == "is deleted":
        world.delete_job()
    world.settle()
    world.stop_terminating().settle()
    assert (world.exists, world.pods) == (False, {})


def test_scaled_up_and_down() -> None:
    world = started({"Worker": 4})
    world.exit("demo-worker-3", 0).settle()
    world.scale("Worker", 2).settle()
    world.stop_terminating().settle()
    assert (world.current, counts(world)) == ("Running", {"active": 2, "succeededIndexes": "3"})
    assert set(world.pods) == {"demo-worker-0", "demo-worker-1"}
    world.scale("Worker", 4)
    world.start()
    assert counts(world) == {"active": 3, "succeeded": 1, "succeededIndexes": "3"}, "what has succeeded is not run again"
    world.scale("Worker", 0).settle()
    world.stop_terminating()
    assert not world.settle()[-1].actions, "67: no pods, and no loop"
    assert not world.pods


def test_scaled_down_and_up_at_once_counts_nothing() -> None:
    world = started({"Worker": 3})
    world.scale("Worker", 1).settle()
    world.scale("Worker", 3).settle()
    assert set(world.pods) == {"demo-worker-0", "demo-worker-1", "demo-worker-2"}, "the old ones are still terminating"
    world.stop_terminating()
    world.start()
    assert (world.current, counts(world)) == ("Running", {"active": 3})
    assert not {"restarts", "disruptions", "failures"} & set(world.status)


def test_a_success_while_it_is_scaled_away_is_on_record_before_it_is_deleted() -> None:
    """The scale-down was recorded while the pod still ran; it succeeds before it is deleted."""
    world = started({"Worker": 2})
    world.scale("Worker", 1)
    world.step()
    world.exit("demo-worker-1", 0)
    assert world.step().actions == ()
    world.settle()
    assert "demo-worker-1" not in world.pods
    world.scale("Worker", 2).settle()
    assert "demo-worker-1" not in world.pods


def test_a_success_that_was_not_seen_yet_is_not_scaled_away() -> None:
    """The watch is behind: the pod has succeeded, and this view of it still runs. The deletion asks for that view (rule R1)."""
    world = started({"Worker": 2})
    world.scale("Worker", 1)
    world.step()
    (deletion,) = [action for action in world.step(writes=0).actions if isinstance(action, Delete)]
    assert deletion.resource_version == world.pods["demo-worker-1"].view.resource_version


def test_a_pod_recorded_for_scale_down_is_deleted_even_after_scale_up() -> None:
    """The operator died between the record and the deletion. The end of a pod that is on record would not be counted."""
    world = started({"Worker": 2})
    uid = world.pods["demo-worker-1"].view.uid
    world.scale("Worker", 1)
    world.step()
    world.scale("Worker", 2).settle()
    world.stop_terminating().settle()
    assert world.pods["demo-worker-1"].view.uid != uid
    assert not {"restarts", "disruptions", "failures"} & set(world.status)


def test_the_user_deletes_a_pod_that_has_succeeded() -> None:
    world = started({"Worker": 2})
    world.exit("demo-worker-0", 0)
    world.step()
    world.delete_pod("demo-worker-0").settle()
    assert "demo-worker-0" not in world.pods
    assert (world.current, counts(world)) == ("Running", {"active": 1, "succeeded": 1, "succeededIndexes": "0"})
    world.exit("demo-worker-1", 0).settle()
    assert world.current == "Succeeded"
    assert world.runs == {"demo-worker-0": 1, "demo-worker-1": 1}


def test_a_success_that_was_deleted_before_it_was_on_record_runs_again() -> None:
    """It cannot be told from a program that answers SIGTERM with exit 0; to run once more costs less than no success."""
    world = started({"Worker": 2}, policy="Never")
    world.exit("demo-worker-0", 0)
    world.delete_pod("demo-worker-0")
    assert "demo-worker-0" in world.pods, "16: our finalizer keeps it until it is on record"
    world.settle()
    assert (world.status["disruptions"], world.runs["demo-worker-0"]) == (1, 2) or world.pods["demo-worker-0"]
    world.run().settle()
    assert (world.current, counts(world)) == ("Running", {"active": 2})


def test_the_user_deletes_the_service() -> None:
    world = started({"Worker": 2})
    world.delete_service("demo")
    (first, _) = world.settle()
    assert [str(action) for action in first.actions] == ["create services/demo"]
    assert first.verify_live, "the garbage collector may have taken it, and its job is gone"
