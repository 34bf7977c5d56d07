"""The limits of a run: backoffLimit, activeDeadlineSeconds, the pace of restarts; and what others had wrong in it."""

import pytest

from jobcommon.api.observed import Observed
from jobcommon.api.status import JobStatus
from jobcommon.reconcile import plan
from jobcommon.reconcile.limits import MAX_RESTART_DELAY, restart_due
from jobcommon.reconcile.plan import Delete, Plan, RemoveFinalizer
from jobcommon.spec import read_job
from jobcommon.testutil.builders import START, Manifest, Pod, condition, job_manifest, observe
from jobcommon.testutil.frameworks import TEST_JOB
from jobcommon.testutil.plans import status_of

STARTED: Manifest = {
    "conditions": [condition("Created", reason="TestJobCreated", message="TestJob demo is created."), condition("Running")],
    "startTime": "2023-11-14T22:13:20Z",
}


def current(decided: Plan) -> str:
    return f"{decided.status.conditions[-1].type} {decided.status.conditions[-1].reason}" if decided.status else "unchanged"


@pytest.mark.parametrize(("policy", "pods", "limit", "restarts", "past"), [
    pytest.param("OnFailure", ["running", "succeeded"], 0, 0, False, id="Running:0 Succeeded, limit 0"),
    pytest.param("OnFailure", ["running", "succeeded", "crash_looping 3"], 3, 0, True, id="the 4th run failed, limit 3"),
    pytest.param("OnFailure", ["crash_looping 2"], 3, 0, False, id="the 3rd run failed, limit 3"),
    pytest.param("Always", ["crash_looping 3"], 3, 0, True, id="Always"),
    pytest.param("OnFailure", ["crash_looping 1", "crash_looping 1"], 3, 0, True, id="summed over replicas"),
    pytest.param("OnFailure", ["running,between_runs 1"], 0, 0, True, id="the first failure, limit 0"),
    pytest.param("OnFailure", ["running,between_runs 0"], 0, 0, False, id="OnFailure with code 0 is none"),
    pytest.param("ExitCode", ["running,failed 137"], 0, 0, True, id="limit 0"),
    pytest.param("ExitCode", ["running,failed 137"], 3, 2, False, id="the 3rd failure, limit 3"),
    pytest.param("ExitCode", ["running,failed 137"], 3, 3, True, id="the 4th failure, limit 3"),
    pytest.param("OnFailure", ["crash_looping 0"], 3, 3, True, id="recreations and restarts add up"),
    pytest.param("ExitCode", ["running,evicted"], 0, 0, False, id="evictions are not charged"),
    pytest.param("ExitCode", ["running,failed 137"], 2**31 - 1, 10**6, False, id="huge limit"),
    pytest.param("ExitCode", ["running,failed 137"], None, 10**6, False, id="no limit"),
])  # fmt: skip
def test_a_job_fails_with_the_failed_run_after_backoff_limit(
    policy: str, pods: list[str], limit: int | None, restarts: int, past: bool
) -> None:
    run_policy = {} if limit is None else {"backoffLimit": limit}
    status = {**STARTED, "replicaStatuses": {"Worker": {"restarts": restarts}}} if restarts else STARTED
    manifest = job_manifest(TEST_JOB, {"Worker": len(pods)}, policy=policy, run_policy=run_policy, status=status)
    slots = {f"Worker-{index}": states for index, states in enumerate(pods)}
    decided = plan(TEST_JOB, read_job(TEST_JOB, manifest), observe(TEST_JOB, manifest, slots), START)
    assert (current(decided) == "Failed BackoffLimitExceeded") is past


@pytest.mark.parametrize(("pod", "after", "must_exist"), [
    pytest.param("failed 137", 1, (), id="a failure of late"),
    pytest.param("failed 137", 60, (("demo-worker-0", "uid-demo-worker-0"),), id="a failure of long ago"),
    pytest.param("failed 1", 60, (("demo-worker-0", "uid-demo-worker-0"),), id="a final one"),
    pytest.param("deleting,failed 143", 32, (("demo-worker-0", "uid-demo-worker-0"),), id="deleted half a minute ago"),
    pytest.param("last_delete,failed 143", 1, (("demo-worker-0", "uid-demo-worker-0"),), id="deleted, whenever it was"),
    pytest.param("succeeded", 60, (), id="a success, which cannot count twice"),
])  # fmt: skip
def test_a_failure_that_is_entered_late_needs_its_pod_for_a_witness(
    pod: str, after: float, must_exist: tuple[tuple[str, str], ...]
) -> None:
    """Another operator may have counted it, and released the pod, while our view of the pods stood still.

    A deletionTimestamp is no time of an end: it lies the grace period ahead of the DELETE, and a later DELETE moves it.
    """
    manifest = job_manifest(TEST_JOB, {"Worker": 1}, policy="ExitCode", run_policy={"backoffLimit": 2}, status=STARTED)
    observed = observe(TEST_JOB, manifest, {"Worker-0": f"running,{pod}"})
    assert plan(TEST_JOB, read_job(TEST_JOB, manifest), observed, START + after).must_exist == must_exist


def test_a_forced_deletion_of_a_crash_looping_pod_loses_no_failure() -> None:
    manifest = job_manifest(TEST_JOB, {"Worker": 1}, policy="OnFailure", status=STARTED)
    pod = Pod.of(TEST_JOB, read_job(TEST_JOB, manifest), "Worker", 0).crash_looping(2).deleting(at=START + 5, grace=0)
    decided = plan(TEST_JOB, read_job(TEST_JOB, manifest), Observed(pods=(pod.view,)), START)
    assert (status_of(decided).restarts, status_of(decided).disruptions) == (3, 1)


@pytest.mark.parametrize(("seconds", "elapsed", "past", "wake"), [
    pytest.param(None, 10**6, False, None, id="unset"), pytest.param(2, 0, False, 2, id="not yet"),
    pytest.param(2, 2, True, None, id="just now"), pytest.param(60, 59.5, False, 60, id="it wakes by itself"),
    pytest.param(60, 61, True, None, id="late"), pytest.param(60, -3600, False, 60, id="the clock went back"),
])  # fmt: skip
def test_a_job_fails_when_its_active_deadline_passes(
    seconds: int | None, elapsed: float, past: bool, wake: float | None
) -> None:
    run_policy = {} if seconds is None else {"activeDeadlineSeconds": seconds}
    manifest = job_manifest(TEST_JOB, {"Worker": 1}, run_policy=run_policy, status=STARTED)
    observed = observe(TEST_JOB, manifest, {"Worker-0": "running"})
    decided = plan(TEST_JOB, read_job(TEST_JOB, manifest), observed, START + elapsed)
    assert (current(decided) == "Failed DeadlineExceeded") is past
    assert decided.wake_at == (None if wake is None else START + wake)


@pytest.mark.parametrize(("earlier", "ran", "delay"), [
    (0, 0, 0), (1, 0, 0), (2, 0, 1), (3, 0, 2), (4, 3, 1), (4, 4, 0), (9, 0, MAX_RESTART_DELAY),
    (10**9, 10, MAX_RESTART_DELAY - 10),
])  # fmt: skip
def test_the_pace_of_restarts(earlier: int, ran: int, delay: float) -> None:
    assert restart_due(START, earlier, START + ran) == START + ran + delay


@pytest.mark.parametrize(
    ("ahead", "recorded", "delay"),
    [(3600, 0, 4), (3600, -3, 1), (3600, -9, 0), (3600, None, 0), (3600, 3600, 0), (2, 0, 4)],
)
def test_a_clock_behind_the_others_puts_no_restart_off(ahead: float, recorded: float | None, delay: float) -> None:
    """The pod's start is written by another clock: it counts from when our own recorded the end."""
    assert restart_due(START + ahead, 4, START, None if recorded is None else START + recorded) == START + delay


# -- limits and ends that other controllers of jobs had wrong -------------------------------------------------------------


def decide(pods: dict[str, str], status: JobStatus | None = None, now: float = START, **policy: object) -> Plan:
    body = status.to_json() if status is not None else None
    manifest = job_manifest(TEST_JOB, {"Worker": 3}, policy="OnFailure", run_policy=policy, status=body)
    return plan(TEST_JOB, read_job(TEST_JOB, manifest), observe(TEST_JOB, manifest, pods), now)


def test_of_many_ended_pods_each_is_counted_once() -> None:
    """kubernetes#104666: more than one pass could note: what is counted stays noted as long as its pod is there."""
    manifest = job_manifest(TEST_JOB, {"Worker": 700}, policy="OnFailure", run_policy={"backoffLimit": 5000})
    pods = {f"Worker-{index}": "running,failed 137" for index in range(700)}
    seen = observe(TEST_JOB, manifest, pods)
    totals = []
    for _ in range(4):
        status = plan(TEST_JOB, read_job(TEST_JOB, manifest), seen, START).status
        if status is not None:
            manifest = {**manifest, "status": status.to_json()}
            totals.append(status.restarts or 0)
    assert totals == [500, 700], "in two passes, and no more in the others"


def test_no_finalizer_is_left_when_the_limit_is_reached() -> None:
    """kubernetes#109485: a job fails for good; pods that its controller had not seen yet appear afterwards, and all end."""
    failed = status_of(decide({"Worker-0": "running,failed 1", "Worker-1": "running"}, backoffLimit=0))
    assert failed.finished
    pods = {"Worker-0": "running,failed 1", "Worker-1": "running,succeeded", "Worker-2": "running,failed 1"}
    first = decide(pods, failed, START + 3600, backoffLimit=0)
    # A success is recorded before its pod is released.
    second = decide(pods, first.status, START + 3600, backoffLimit=0)
    released = {a.name for a in (*first.actions, *second.actions) if isinstance(a, RemoveFinalizer)}
    assert released == {"demo-worker-0", "demo-worker-1", "demo-worker-2"}


def test_a_late_pod_is_stopped() -> None:
    """The same with a pod that runs: it is not left to itself."""
    failed = decide({"Worker-0": "running,failed 1"}, backoffLimit=0).status
    late = decide({"Worker-0": "running,failed 1", "Worker-2": "running"}, failed, START + 3600, backoffLimit=0)
    assert "demo-worker-2" in {a.name for a in late.actions if isinstance(a, Delete)}


def test_restarts_do_not_begin_anew_when_the_pods_are_deleted() -> None:
    """trainer#3779: a job at its last restart loses its pods: the restarts that it had count on."""
    status = status_of(decide({f"Worker-{index}": "running,failed 137" for index in range(3)}, backoffLimit=3))
    assert not status.finished
    after = decide({}, status, START + 3600, backoffLimit=3).status or status
    assert after.restarts == status.restarts
    again = status_of(decide({"Worker-0": "running,failed 137"}, after, START + 7200, backoffLimit=3))
    assert again.conditions[-1].reason == "BackoffLimitExceeded"
