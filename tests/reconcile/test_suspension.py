"""Suspend, resume, managedBy: section U and rows Z5, Z28."""

import pytest

from jobcommon.api.status import JobStatus
from jobcommon.api.timestamp import format_time
from jobcommon.framework import Observed
from jobcommon.reconcile import plan, read_job
from testutil.builders import START, Manifest, Pod, condition, job_manifest, observe, services_of
from testutil.frameworks import TEST_JOB

BOTH = {"Master-0": "running", "Worker-0": "running"}
SPEC = {"Master": 1, "Worker": 1}


def conditions(status: JobStatus | None) -> list[tuple[str, str, str, str]]:
    assert status is not None
    return [(c.type, c.status, c.reason, c.message) for c in status.conditions]


CREATED = ("Created", "True", "TestJobCreated", "TestJob demo is created.")
RUNNING = ("Running", "True", "TestJobRunning", "TestJob default/demo is running.")
STOPPED = ("Running", "False", "TestJobSuspended", "TestJob demo is suspended.")
SUSPENDED = ("Suspended", "True", "TestJobSuspended", "TestJob demo is suspended.")
RESUMED = ("Suspended", "False", "TestJobResumed", "TestJob demo is resumed.")


def test_created_suspended() -> None:
    manifest = job_manifest(TEST_JOB, SPEC, run_policy={"suspend": True})
    decided = plan(TEST_JOB, read_job(TEST_JOB, manifest), Observed(), START)
    assert decided.actions == ()
    assert conditions(decided.status) == [CREATED, SUSPENDED]
    assert decided.status is not None
    assert decided.status.start_time is None
    assert [event.reason for event in decided.events] == ["TestJobSuspended"]


def test_suspend_and_resume_a_running_job() -> None:
    manifest = job_manifest(TEST_JOB, SPEC)

    def step(observed: Observed, now: float) -> list[str]:
        decided = plan(TEST_JOB, read_job(TEST_JOB, manifest), observed, now)
        if decided.status is not None:
            manifest["status"] = decided.status.to_json()
        return [str(action) for action in decided.actions]

    def shown() -> list[tuple[str, str, str, str]]:
        return conditions(read_job(TEST_JOB, manifest).status)

    assert step(Observed(), START) == [
        "create services/demo", "create pods/demo-master-0", "create pods/demo-worker-0",
    ]  # fmt: skip
    assert manifest["status"]["startTime"]
    assert step(observe(TEST_JOB, manifest, BOTH), START + 1) == []
    assert shown() == [CREATED, RUNNING]
    started = manifest["status"]["startTime"]

    manifest["spec"]["runPolicy"]["suspend"] = True
    assert step(observe(TEST_JOB, manifest, BOTH), START + 2) == [
        "delete pods/demo-master-0 (job is suspended)",
        "delete pods/demo-worker-0 (job is suspended)",
        "delete services/demo (job is suspended)",
    ]
    assert shown() == [CREATED, STOPPED, SUSPENDED]
    statuses = manifest["status"]["replicaStatuses"]
    assert all(set(status) == {"selector"} for status in statuses.values()), "nothing is active"
    assert manifest["status"]["startTime"] == started
    assert step(Observed(), START + 3) == [], "gone, and they stay gone"
    assert "disruptions" not in manifest["status"]

    manifest["spec"]["runPolicy"]["suspend"] = False
    assert step(Observed(), START + 9) == ["create services/demo", "create pods/demo-master-0", "create pods/demo-worker-0"]
    assert shown() == [STOPPED, RESUMED, CREATED], "Z28: STATE shows what holds now"
    assert step(observe(TEST_JOB, manifest, BOTH), START + 10) == []
    assert shown() == [CREATED, RESUMED, RUNNING]
    assert manifest["status"]["startTime"] != started


@pytest.mark.parametrize("policy", ["Never", "OnFailure", "ExitCode"])
def test_z5_resumed_within_the_grace_period(policy: str) -> None:
    """The old pods are waited for. That they end is neither a failure nor a disruption, whatever their exit code."""
    manifest = job_manifest(TEST_JOB, SPEC, policy=policy, run_policy={"suspend": True, "backoffLimit": 0})
    job = read_job(TEST_JOB, manifest)
    pods = [Pod.of(TEST_JOB, job, kind, 0).running() for kind in SPEC]

    def step(now: float) -> list[str]:
        observed = Observed(tuple(pod.view for pod in pods), services_of(TEST_JOB, job))
        decided = plan(TEST_JOB, read_job(TEST_JOB, manifest), observed, now)
        if decided.status is not None:
            manifest["status"] = decided.status.to_json()
        return [str(action) for action in decided.actions if "pods" in str(action)]

    assert len(step(START + 5)) == 2
    pods = [pod.deleting(at=START + 5) for pod in pods]
    manifest["spec"]["runPolicy"]["suspend"] = False
    assert step(START + 10) == []
    pods = [pod.failed(143, at=START + 20) for pod in pods]
    assert step(START + 20) == []
    status: Manifest = manifest["status"]
    assert not {"restarts", "disruptions", "failures"} & set(status)
    assert [c["type"] for c in status["conditions"]] == ["Suspended", "Created"]
    assert step(START + 21) == ["release pods/demo-master-0", "release pods/demo-worker-0"]
    pods = []
    assert step(START + 22) == ["create pods/demo-master-0", "create pods/demo-worker-0"]


def test_63_what_ended_is_on_record_before_suspension_takes_it_away() -> None:
    manifest = job_manifest(TEST_JOB, {"Master": 1, "Worker": 2}, policy="ExitCode", run_policy={"suspend": True})
    pods = {"Master-0": "running", "Worker-0": "running,succeeded", "Worker-1": "running,failed 137"}
    first = plan(TEST_JOB, read_job(TEST_JOB, manifest), observe(TEST_JOB, manifest, pods), START)
    assert [str(a) for a in first.actions if "pods" in str(a)] == ["delete pods/demo-master-0 (job is suspended)"]
    assert first.status is not None
    assert first.status.replica_statuses["Worker"].succeeded_indexes == "0"
    assert first.status.restarts == 1
    manifest["status"] = first.status.to_json()
    del pods["Master-0"]
    second = plan(TEST_JOB, read_job(TEST_JOB, manifest), observe(TEST_JOB, manifest, pods), START)
    assert [str(action) for action in second.actions if "pods" in str(action)] == [
        "release pods/demo-worker-0", "release pods/demo-worker-1",
        "delete pods/demo-worker-0 (job is suspended)", "delete pods/demo-worker-1 (job is suspended)",
    ]  # fmt: skip
    manifest["spec"]["runPolicy"]["suspend"] = False
    resumed = plan(TEST_JOB, read_job(TEST_JOB, manifest), Observed(), START)
    assert [str(action) for action in resumed.actions if "pods" in str(action)] == [
        "create pods/demo-master-0", "create pods/demo-worker-1",
    ]  # fmt: skip


@pytest.mark.parametrize("suspend", [True, False])
@pytest.mark.parametrize("spec", [SPEC, {}], ids=["valid", "invalid"])
def test_109_managed_elsewhere(suspend: bool, spec: dict[str, int]) -> None:
    run_policy = {"managedBy": "kueue.x-k8s.io/multikueue", "suspend": suspend}
    manifest = job_manifest(TEST_JOB, spec, run_policy=run_policy)
    decided = plan(TEST_JOB, read_job(TEST_JOB, manifest), Observed(), START)
    assert (decided.actions, decided.status, decided.events, decided.wake_at) == ((), None, (), None)


@pytest.mark.parametrize(
    ("pod", "restarts", "disruptions"),
    [
        pytest.param("running,failed 137,deleting", 1, None, id="failed before it was deleted"),
        pytest.param("running,deleting,failed 137", None, None, id="stopped by the suspension"),
        pytest.param("running,disrupted,deleting,failed 137", None, None, id="drained while it was being stopped"),
        pytest.param("running,evicted", None, 1, id="evicted at the same time"),
    ],
)
def test_what_counts_while_suspended(pod: str, restarts: int | None, disruptions: int | None) -> None:
    manifest = job_manifest(TEST_JOB, {"Worker": 1}, policy="ExitCode", run_policy={"suspend": True})
    job = read_job(TEST_JOB, manifest)
    built = Pod.of(TEST_JOB, job, "Worker", 0)
    for number, step in enumerate(pod.split(",")):
        method, *code = step.split()
        built = getattr(built, method)(*map(int, code), **({"at": START + number} if method in ("failed", "deleting") else {}))
    decided = plan(TEST_JOB, job, Observed((built.view,)), START + 9)
    assert decided.status is not None
    assert (decided.status.restarts, decided.status.disruptions) == (restarts, disruptions)
    assert decided.status.conditions[-1].type == "Suspended"


def test_a_deletion_before_a_start_that_was_written_late_counts() -> None:
    """An operator that died at the job's start left startTime to its successor; nothing was suspended."""
    status = {"conditions": [condition("Created"), condition("Running")], "startTime": format_time(START + 60)}
    manifest = job_manifest(TEST_JOB, {"Worker": 1}, policy="ExitCode", status=status)
    job = read_job(TEST_JOB, manifest)
    deleted = Pod.of(TEST_JOB, job, "Worker", 0).running().deleting(at=START + 5).failed(143, at=START + 6)
    decided = plan(TEST_JOB, job, Observed((deleted.view,)), START + 90)
    assert decided.status is not None
    assert decided.status.disruptions == 1


@pytest.mark.parametrize(
    ("replicas", "run_policy", "confirm"),
    [(1, {}, False), (0, {}, True), (1, {"suspend": True}, True)],
    ids=["running", "scaled-down", "suspended"],
)
def test_22_nothing_that_runs_is_taken_away_on_an_old_view_of_the_job(
    replicas: int, run_policy: Manifest, confirm: bool
) -> None:
    """Another operator may have created the pod for the job as it is now: a live read comes first."""
    manifest = job_manifest(TEST_JOB, {"Master": 1, "Worker": 1})
    observed = observe(TEST_JOB, manifest, BOTH)
    later = job_manifest(TEST_JOB, {"Master": 1, "Worker": replicas}, run_policy=run_policy)
    decided = plan(TEST_JOB, read_job(TEST_JOB, later), observed, START)
    assert ("delete pods/demo-worker-0" in " ".join(map(str, decided.actions))) is confirm
    assert decided.confirm is confirm
