"""Suspend, resume, managedBy."""

from typing import Any

import pytest

from jobcommon.api.observed import Observed
from jobcommon.api.status import JobStatus
from jobcommon.reconcile import accounting, plan, slots
from jobcommon.spec import read_job
from jobcommon.testutil.builders import START, Pod, job_manifest, observe
from jobcommon.testutil.cluster_model import ClusterModel
from jobcommon.testutil.frameworks import TEST_JOB
from jobcommon.testutil.plans import status_of

TIMED = ("failed", "deleting", "last_delete")
SPEC = {"Master": 1, "Worker": 1}


def conditions(status: JobStatus | None) -> list[tuple[str, str, str, str]]:
    assert status is not None
    return [(c.type, c.status, c.reason, c.message) for c in status.conditions]


POLICIES = ("Never", "OnFailure", "ExitCode", "Always")


def suspended(policy: str, **run_policy: Any) -> ClusterModel:
    """A job that ran, its suspension on record and all its pods being deleted."""
    world = started(policy, **run_policy)
    world.edit(suspend=True).settle()
    assert all(pod.view.deletion_time is not None for pod in world.pods.values())
    return world


def started(policy: str, **run_policy: Any) -> ClusterModel:
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


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("writes", range(5))
def test_an_operator_that_dies_while_it_suspends_counts_nothing(policy: str, writes: int) -> None:
    """It dies after so many deletions; the pods end, and perhaps the job is resumed, before another one takes over."""
    for resumed in (False, True):
        world = started(policy)
        world.edit(suspend=True)
        world.step()
        world.step(writes=writes)
        world.stop_terminating(1)
        for name in [name for name, pod in world.pods.items() if pod.view.phase == "Running" and writes]:
            # It fails for want of its peers.
            world.exit(name, 1)
            break
        world.edit(suspend=not resumed).settle()
        world.stop_terminating(1)
        world.start()
        assert world.current == ("Running" if resumed else "Suspended")
        nothing_counted(world)


def test_a_job_that_is_half_stopped_is_stopped_before_it_is_resumed() -> None:
    """The pods that run would fail for want of those that do not, and the job with them."""
    world = started("Never")
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


def test_ended_pods_are_recorded_before_suspension_deletes_them() -> None:
    world = started("ExitCode", backoffLimit=3)
    world.exit("demo-worker-0", 0)
    world.exit("demo-worker-1", 137)
    world.edit(suspend=True)
    first = world.step()
    assert first.actions == ()
    assert status_of(first).replica_statuses["Worker"].succeeded_indexes == "0"
    assert status_of(first).restarts == 1
    second = world.step()
    assert [str(action) for action in second.actions if "pods" in str(action)] == [
        "delete pods/demo-master-0 (job is suspended)",
        "remove finalizer from pods/demo-worker-0", "delete pods/demo-worker-0 (job is suspended)",
        "remove finalizer from pods/demo-worker-1", "delete pods/demo-worker-1 (job is suspended)",
    ]  # fmt: skip
    world.stop_terminating().settle()
    world.edit(suspend=False).settle()
    assert set(world.pods) == {"demo-master-0", "demo-worker-1"}


@pytest.mark.parametrize("suspend", [True, False])
@pytest.mark.parametrize("spec", [SPEC, {}], ids=["valid", "invalid"])
def test_a_job_managed_elsewhere_is_left_alone(suspend: bool, spec: dict[str, int]) -> None:
    run_policy = {"managedBy": "kueue.x-k8s.io/multikueue", "suspend": suspend}
    manifest = job_manifest(TEST_JOB, spec, run_policy=run_policy)
    decided = plan(TEST_JOB, read_job(TEST_JOB, manifest), Observed(), START)
    assert (decided.actions, decided.status, decided.events, decided.wake_at) == ((), None, (), None)


@pytest.mark.parametrize(("pod", "restarts", "disruptions"), [
    pytest.param("running,failed 137", 1, None, id="failed before anything was deleted"),
    pytest.param("running,failed 137,deleting", None, None, id="failed and deleted"),
    pytest.param("running,deleting,failed 137", None, None, id="stopped by the suspension"),
    pytest.param("running,deleting,failed 137,last_delete", None, None, id="the last DELETE moved the timestamp"),
    pytest.param("running,disrupted,deleting,failed 137", None, None, id="drained while it was being stopped"),
    pytest.param("running,evicted", None, 1, id="evicted at the same time"),
])  # fmt: skip
def test_ends_while_suspended_are_charged_by_cause(pod: str, restarts: int | None, disruptions: int | None) -> None:
    manifest = job_manifest(TEST_JOB, {"Worker": 1}, policy="ExitCode", run_policy={"suspend": True})
    job = read_job(TEST_JOB, manifest)
    built = Pod.of(TEST_JOB, job, "Worker", 0)
    for number, step in enumerate(pod.split(",")):
        method, *code = step.split()
        built = getattr(built, method)(*map(int, code), **({"at": START + number} if method in TIMED else {}))
    decided = plan(TEST_JOB, job, Observed((built.view,)), START + 9)
    assert (status_of(decided).restarts, status_of(decided).disruptions) == (restarts, disruptions)
    assert status_of(decided).conditions[-1].type == "Suspended"


@pytest.mark.parametrize(
    ("change", "verify_live"),
    [("nothing", False), ("scaled down", True), ("suspended", True)],
)
def test_running_pods_are_deleted_only_after_a_live_read_of_the_job(change: str, verify_live: bool) -> None:
    """Another operator may have created the pod for the job as it is now: a live read comes first."""
    world = started("Never")
    if change == "scaled down":
        world.scale("Worker", 1)
    elif change == "suspended":
        world.edit(suspend=True)
    world.step()
    decided = world.step()
    assert ("delete pods/demo-worker-1" in " ".join(map(str, decided.actions))) is verify_live
    assert decided.verify_live is verify_live


def test_the_status_tells_why_a_pod_is_on_record() -> None:
    """A status without the list, as earlier releases wrote it, is read as before."""
    manifest = job_manifest(TEST_JOB, {"Worker": 2}, policy="ExitCode")
    seen = observe(TEST_JOB, manifest, {"Worker-0": "failed 137", "Worker-1": "running", "Worker-2": "running"})
    decided = plan(TEST_JOB, read_job(TEST_JOB, manifest), seen, START)
    uids = {pod.name: pod.uid for pod in seen.pods}
    assert status_of(decided).counted_pods == [uids["demo-worker-0"], uids["demo-worker-2"]]
    assert status_of(decided).stopped_pods == [uids["demo-worker-2"]]
    wider = job_manifest(TEST_JOB, {"Worker": 3}, policy="ExitCode", status=status_of(decided).to_json())
    for status, failed in ((wider["status"], 1), ({**wider["status"], "stoppedPods": []}, 2)):
        again = plan(TEST_JOB, read_job(TEST_JOB, {**wider, "status": status}), seen, START + 1)
        assert sorted(str(action) for action in again.actions if "create" not in str(action)) == [
            "delete pods/demo-worker-0 (to be replaced)",
            "delete pods/demo-worker-2 (to be replaced)",
            "remove finalizer from pods/demo-worker-0",
        ]
        counts = (again.status or read_job(TEST_JOB, {**wider, "status": status}).status).replica_statuses["Worker"]
        assert counts.failed == failed


def test_a_failure_that_is_recorded_with_a_suspension_is_named_when_it_ends_the_job() -> None:
    world = ClusterModel.of(TEST_JOB, {"Worker": 2}, policy="ExitCode", run_policy={"backoffLimit": 0}).start()
    world.exit("demo-worker-1", 137)
    world.suspend()
    world.edit(suspend=False).settle()
    message = world.status["conditions"][-1]["message"]
    assert message.startswith("Job demo has failed because Worker-1: exited with code 137 (SIGKILL)")
