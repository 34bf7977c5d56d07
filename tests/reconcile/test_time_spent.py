"""Where the time of a job went: a fold over its statuses, each made in its own pass."""

from typing import Any

import pytest

from jobcommon.api.status import JobStatus
from jobcommon.api.time_spent import TimeSpent
from jobcommon.reconcile import Plan, plan
from jobcommon.spec import read_job
from jobcommon.testutil.builders import START, Manifest, job_manifest, observe
from jobcommon.testutil.frameworks import TEST_JOB
from jobcommon.testutil.plans import next_pass, status_of

NONE: dict[str, str] = {}
PENDING = {"Master-0": "scheduled", "Worker-0": "scheduled"}
RUNNING = {"Master-0": "running", "Worker-0": "running"}
FAILED = {**RUNNING, "Worker-0": "failed 137"}
DONE = {"Master-0": "succeeded", "Worker-0": "succeeded"}
SUSPEND, RESUME = {"suspend": True}, {"suspend": False}
Pass = tuple[float, dict[str, str]] | tuple[float, dict[str, str], dict[str, Any]]


def a_pass(manifest: Manifest, pods: dict[str, str], at: float) -> Plan:
    return plan(TEST_JOB, read_job(TEST_JOB, manifest), observe(TEST_JOB, manifest, pods), START + at)


def lived(*passes: Pass, manifest: Manifest | None = None) -> JobStatus:
    """The status after passes at these seconds since the creation, with these pods, and from then on this run policy."""
    manifest = manifest or job_manifest(TEST_JOB, {"Master": 1, "Worker": 1}, policy="OnFailure")
    for at, pods, *policy in passes:
        manifest = {**manifest, "spec": {**manifest["spec"], "runPolicy": {**manifest["spec"]["runPolicy"], **dict(*policy)}}}
        manifest = next_pass(manifest, a_pass(manifest, pods, at))
    return read_job(TEST_JOB, manifest).status


#: passes, the phase after them, and the seconds on record
LIVES: dict[str, tuple[list[Pass], str | None, dict[str, float]]] = {
    "new": ([(0.5, NONE)], "Pending", {}), "waits": ([(0.5, NONE), (60, PENDING)], "Pending", {}),
    "runs": ([(0.5, NONE), (60.25, RUNNING)], "Running", {"queued": 60.25}),
    "runs for long": ([(0.5, NONE), (60, RUNNING), (600, RUNNING)], "Running", {"queued": 60}),
    "succeeds": ([(0.5, NONE), (60, RUNNING), (100.125, DONE)], None, {"queued": 60, "running": 40.125}),
    "restarts": ([(0.5, NONE), (60, RUNNING), (100, FAILED)], "Restarting", {"queued": 60, "running": 40}),
    "restarts and runs": (
        [(0.5, NONE, {"restartScope": "Job"}), (60, RUNNING), (100, FAILED), (110, PENDING), (130, RUNNING), (150, DONE)], None,
        {"queued": 60, "running": 60, "restarting": 30},
    ),
    "is suspended": ([(0.5, NONE), (60, RUNNING), (100, RUNNING, SUSPEND)], "Suspended", {"queued": 60, "running": 40}),
    "is suspended, then resumed": (
        [(0.5, NONE), (60, RUNNING), (100, RUNNING, SUSPEND), (101, NONE), (160, NONE, RESUME), (170, RUNNING)], "Running",
        {"queued": 130, "running": 40},
    ),
    "fails before it has run": ([(0.5, NONE), (60, PENDING, {"activeDeadlineSeconds": 30})], None, {"queued": 60}),
    "a clock is set back": ([(0.5, NONE), (60, RUNNING), (50, DONE)], None, {"queued": 60, "running": 0}),
}  # fmt: skip


@pytest.mark.parametrize(("passes", "phase", "seconds"), LIVES.values(), ids=LIVES)
def test_where_the_time_went(passes: list[Pass], phase: str | None, seconds: dict[str, float]) -> None:
    spent = lived(*passes).time_spent
    assert spent is not None
    assert spent.phase == phase
    assert (spent.since is None) == (phase is None)
    told = spent.model_dump(exclude_none=True, exclude={"phase", "since"})
    assert told == pytest.approx(seconds)


def test_a_new_operator_writes_nothing_for_a_job_without_a_record() -> None:
    """The record begins with the next phase, which began when the condition says so."""
    manifest = job_manifest(TEST_JOB, {"Master": 1, "Worker": 1}, policy="OnFailure")
    for at, pods in ((0.0, NONE), (10.0, RUNNING)):
        manifest = next_pass(manifest, a_pass(manifest, pods, at))
    manifest["status"].pop("timeSpent")
    assert a_pass(manifest, RUNNING, 60).status is None
    spent = lived((70, DONE), manifest=manifest).time_spent
    assert spent == TimeSpent(running=60.0)


def test_the_time_from_the_last_node_to_running_is_starting() -> None:
    manifest = job_manifest(TEST_JOB, {"Master": 1, "Worker": 1}, policy="OnFailure")
    manifest = next_pass(manifest, a_pass(manifest, NONE, 0))
    observed = observe(TEST_JOB, manifest, {"Master-0": "running,placed 20", "Worker-0": "running,placed 30"})
    spent = status_of(plan(TEST_JOB, read_job(TEST_JOB, manifest), observed, START + 75))
    assert spent.time_spent is not None
    assert (spent.time_spent.queued, spent.time_spent.starting) == (30.5, 44.5)


#: what is on record, and the availability 100 seconds after `START`
SHARES = {
    "new": (TimeSpent(phase="Pending", since="2023-11-14T22:13:20.000Z"), None),
    "over": (TimeSpent(queued=1000.0, starting=10.0, running=80.0, restarting=10.0), 0.8),
    "runs": (TimeSpent(phase="Running", since="2023-11-14T22:13:20.000Z", starting=50.0, restarting=50.0), 0.5),
    "stalls": (TimeSpent(phase="Stalled", since="2023-11-14T22:13:20.000Z", running=100.0), 0.5),
    "forged": (TimeSpent(phase="Asleep", since="now", running=100.0), 1.0),
}


@pytest.mark.parametrize(("spent", "share"), SHARES.values(), ids=SHARES)
def test_availability(spent: TimeSpent, share: float | None) -> None:
    assert spent.availability(START + 100) == (share if share is None else pytest.approx(share))
