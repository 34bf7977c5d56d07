"""Defects that other controllers of jobs had, as cases of the decision: the issue's number, and what must hold here.

Also of this kind: kubernetes#109429, pods keep their finalizers when their job is deleted (tests/controller/test_controller.py:
test_finalizers_of_a_deleted_jobs_pods_are_removed, and the three tests after it). What caused kubernetes#130103, a status older
than our own last write, is kept off before the decision (ibid.: test_a_job_waits_for_a_cache_that_lags_after_a_create).
"""

from collections.abc import Callable

import pytest

from jobcommon.api.status import JobStatus
from jobcommon.reconcile import plan
from jobcommon.reconcile.plan import Create, Delete, Plan, RemoveFinalizer
from jobcommon.spec import read_job
from jobcommon.testutil.builders import START, finished_status, job_manifest, observe
from jobcommon.testutil.frameworks import TEST_JOB
from jobcommon.testutil.plans import status_of

Pods = dict[str, str]


def decide(pods: Pods, status: JobStatus | None = None, now: float = START, **policy: object) -> Plan:
    body = status.to_json() if status is not None else None
    manifest = job_manifest(TEST_JOB, {"Worker": 3}, policy="OnFailure", run_policy=policy, status=body)
    return plan(TEST_JOB, read_job(TEST_JOB, manifest), observe(TEST_JOB, manifest, pods), now)


def counted_once() -> None:
    """The cache shows an ended pod, finalizer and all, after its end was counted."""
    pods = {"Worker-0": "running,succeeded", "Worker-1": "running,failed 137", "Worker-2": "running"}
    first = status_of(decide(pods))
    again = decide(pods, first)
    later = again.status or first
    assert (later.restarts, later.disruptions) == (first.restarts, first.disruptions)
    assert later.replica_statuses == first.replica_statuses
    assert len(later.failures) == len(first.failures) == 1


def many_are_counted_once() -> None:
    """More ended pods than one pass of others could note: what is counted stays noted as long as its pod is there."""
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


def a_success_is_not_run_again() -> None:
    """The pod of a recorded success is gone, with its finalizer; only the status tells of it."""
    status = decide({"Worker-0": "running,succeeded", "Worker-1": "running", "Worker-2": "running"}).status
    later = decide({"Worker-1": "running", "Worker-2": "running"}, status)
    assert "demo-worker-0" not in {action.name for action in later.actions if isinstance(action, Create)}


def no_finalizer_is_left() -> None:
    """A job fails for good; pods that its controller had not seen yet appear afterwards, and all end."""
    failed = status_of(decide({"Worker-0": "running,failed 1", "Worker-1": "running"}, backoffLimit=0))
    assert failed.finished
    pods = {"Worker-0": "running,failed 1", "Worker-1": "running,succeeded", "Worker-2": "running,failed 1"}
    first = decide(pods, failed, START + 3600, backoffLimit=0)
    # A success is recorded before its pod is released.
    second = decide(pods, first.status, START + 3600, backoffLimit=0)
    released = {a.name for a in (*first.actions, *second.actions) if isinstance(a, RemoveFinalizer)}
    assert released == {"demo-worker-0", "demo-worker-1", "demo-worker-2"}


def a_late_pod_is_stopped() -> None:
    """The same with a pod that runs: it is not left to itself."""
    failed = decide({"Worker-0": "running,failed 1"}, backoffLimit=0).status
    late = decide({"Worker-0": "running,failed 1", "Worker-2": "running"}, failed, START + 3600, backoffLimit=0)
    assert "demo-worker-2" in {a.name for a in late.actions if isinstance(a, Delete)}


def a_failed_job_stays_failed() -> None:
    """All that a job that has failed consisted of is deleted, by a user or because its time to live is over."""
    manifest = job_manifest(TEST_JOB, {"Worker": 3}, status=finished_status("Failed", "BackoffLimitExceeded"))
    for later in (START, START + 10 * 86_400):
        decided = plan(TEST_JOB, read_job(TEST_JOB, manifest), observe(TEST_JOB, manifest), later)
        assert not [action for action in decided.actions if isinstance(action, Create)]
        assert decided.status is None or decided.status.has("Failed")


def the_budget_is_not_reset() -> None:
    """A job at its last restart loses its pods: the restarts that it had count on."""
    status = status_of(decide({f"Worker-{index}": "running,failed 137" for index in range(3)}, backoffLimit=3))
    assert not status.finished
    after = decide({}, status, START + 3600, backoffLimit=3).status or status
    assert after.restarts == status.restarts
    again = status_of(decide({"Worker-0": "running,failed 137"}, after, START + 7200, backoffLimit=3))
    assert again.conditions[-1].reason == "BackoffLimitExceeded"


CASES: dict[str, Callable[[], None]] = {
    "kubernetes#105200: an end is counted twice from a stale cache": counted_once,
    "kubernetes#104666: of more than 500 ended pods some are counted twice": many_are_counted_once,
    "kubernetes#130103: a replica that has succeeded runs again": a_success_is_not_run_again,
    "kubernetes#109485: finalizers are left when the backoff limit is reached": no_finalizer_is_left,
    "kubernetes#109485: and pods run on": a_late_pod_is_stopped,
    "trainer#3737: a failed job runs again when its objects are deleted": a_failed_job_stays_failed,
    "trainer#3779: the restarts begin anew when the objects are deleted": the_budget_is_not_reset,
}


@pytest.mark.parametrize("defect", CASES)
def test_a_defect_of_others_is_none_here(defect: str) -> None:
    CASES[defect]()
