"""What happens to a job over several passes, in a small world that checks the invariants at every pass."""

from typing import Any

import pytest

from jobcommon.api.observed import Observed
from jobcommon.framework import FINALIZER
from jobcommon.reconcile import accounting, plan, slots
from jobcommon.spec import read_job
from jobcommon.testutil.builders import START, job_manifest
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


# -- suspend, resume, managedBy -------------------------------------------------------------------------------------------

SPEC = {"Master": 1, "Worker": 1}


POLICIES = ("Never", "OnFailure", "ExitCode", "Always")


def suspended(policy: str, **run_policy: Any) -> ClusterModel:
    """A job that ran, its suspension on record and all its pods being deleted."""
    world = running(policy, **run_policy)
    world.edit(suspend=True).settle()
    assert all(pod.view.deletion_time is not None for pod in world.pods.values())
    return world


def running(policy: str, **run_policy: Any) -> ClusterModel:
    world = ClusterModel.of(TEST_JOB, {"Master": 1, "Worker": 2}, policy=policy, run_policy={"backoffLimit": 0, **run_policy})
    world.start()
    return world


def nothing_counted(world: ClusterModel) -> None:
    assert not {"restarts", "disruptions", "failures"} & set(world.status)
    assert not [event for event in world.events if "Restarting" in event.reason or "Failed" in event.reason]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("code", [0, 1, 137, 143])
@pytest.mark.parametrize("resume", ["before they end", "when they have ended", "when they are gone", "never"])
def test_pods_stopped_by_suspension_are_not_charged(policy: str, code: int, resume: str) -> None:
    """Whatever the exit code; in `stop_terminating` the kubelet's last DELETE moves deletionTimestamp behind the end."""
    world = suspended(policy)
    first = {name: pod.view.uid for name, pod in world.pods.items()}
    if resume == "before they end":
        world.edit(suspend=False).settle()
        assert world.current == "Created"
    world.tick(1)
    world.stop_terminating(code)
    if resume == "when they have ended":
        world.edit(suspend=False)
    world.settle()
    if resume == "when they are gone":
        world.edit(suspend=False)
    if resume == "never":
        assert (world.current, world.pods) == ("Suspended", {})
        nothing_counted(world)
        return
    world.start()
    assert world.current == "Running"
    assert not {pod.view.uid for pod in world.pods.values()} & set(first.values())
    nothing_counted(world)


def test_a_job_that_is_half_stopped_is_stopped_before_it_is_resumed() -> None:
    """The pods that run would fail for want of those that do not, and the job with them."""
    world = running("Never")
    world.edit(suspend=True)
    world.step()
    world.step(writes=1)
    world.edit(suspend=False).settle()
    assert all(pod.view.deletion_time is not None for pod in world.pods.values())
    world.stop_terminating(1)
    world.start()
    assert world.current == "Running"
    nothing_counted(world)


def test_a_resume_waits_until_all_terminating_pods_fit_into_the_status(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (accounting, slots):
        monkeypatch.setattr(module, "MAX_ENTRIES", 2)
    world = suspended("Never")
    world.edit(suspend=False).settle()
    assert world.current == "Suspended"
    name = next(iter(world.pods))
    world.put(world.pods[name].failed(143).last_delete(at=world.now)).settle()
    assert world.current == "Created"
    world.stop_terminating(1)
    world.start()
    assert world.current == "Running"
    nothing_counted(world)


@pytest.mark.parametrize(("managed_by", "ours"), [
    (None, True), ("kubeflow.org/training-operator", True), ("", False), ("kueue.x-k8s.io/multikueue", False), ("other", False),
])  # fmt: skip
@pytest.mark.parametrize("suspend", [True, False])
@pytest.mark.parametrize("spec", [SPEC, {}], ids=["valid", "invalid"])
def test_a_job_managed_elsewhere_is_left_alone(suspend: bool, spec: dict[str, int], managed_by: str, ours: bool) -> None:
    manifest = job_manifest(TEST_JOB, spec, run_policy={"managedBy": managed_by, "suspend": suspend})
    decided = plan(TEST_JOB, read_job(TEST_JOB, manifest), Observed(), START)
    assert ((decided.actions, decided.status, decided.events, decided.wake_at) != ((), None, (), None)) is ours


def test_a_failure_that_is_recorded_with_a_suspension_is_named_when_it_ends_the_job() -> None:
    world = ClusterModel.of(TEST_JOB, {"Worker": 2}, policy="ExitCode", run_policy={"backoffLimit": 0}).start()
    world.exit("demo-worker-1", 137)
    world.suspend()
    world.edit(suspend=False).settle()
    message = world.status["conditions"][-1]["message"]
    assert message.startswith("Job demo has failed because Worker-1: exited with code 137 (SIGKILL)")


@pytest.mark.parametrize(("change", "verify_live"), [("nothing", False), ("scaled down", True), ("suspended", True)])
def test_running_pods_are_deleted_only_after_a_live_read_of_the_job(change: str, verify_live: bool) -> None:
    """Another operator may have created the pod for the job as it is now: a live read comes first."""
    world = running("Never")
    if change == "scaled down":
        world.scale("Worker", 1)
    elif change == "suspended":
        world.edit(suspend=True)
    world.step()
    decided = world.step()
    assert ("delete pods/demo-worker-1" in " ".join(map(str, decided.actions))) is verify_live
    assert decided.verify_live is verify_live
