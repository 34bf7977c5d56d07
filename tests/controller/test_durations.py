"""The durations of a job's life: which reconcile observes which, and that a launch is observed once."""

from typing import Any

import pytest

from jobcommon.api.observed import Observed
from jobcommon.controller.result import Result, Work
from jobcommon.controller.telemetry import LABELS, durations
from jobcommon.reconcile import plan
from jobcommon.reconcile.plan import Plan
from jobcommon.spec import read_job
from jobcommon.testutil.builders import START, Pod, condition, job_manifest
from jobcommon.testutil.frameworks import TEST_JOB

RUNNING = {"conditions": [condition("Running")], "startTime": "2025-10-09T08:53:20Z"}


def observed(
    status: Any = None, *, after: Any = None, active: int = 0, created: int = 0, waited: float = 90.0, stored: bool = True
) -> dict[str, float]:
    """What a reconcile of a job with four workers observes: `after` is the status that it writes."""
    job = read_job(TEST_JOB, job_manifest(TEST_JOB, {"Worker": 4}, status=status))
    assert job.creation_time is not None
    written = read_job(TEST_JOB, job_manifest(TEST_JOB, {"Worker": 4}, status=after)).status if after else None
    work = Work("default", "demo", "uid", Plan(status=written), job, active_pods=active)
    result = Result(status_version="9" if stored and written else None)
    found = durations(work, result, created, job.creation_time + waited)
    assert all(o.label in LABELS[o.name] for o in found)
    assert len({o.label for o in found}) == len(found)
    return {o.label: o.seconds for o in found}


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ({"created": 4}, {"first_pod": 90, "all_pods": 90}),
        ({"created": 1}, {"first_pod": 90}),
        ({"created": 2, "active": 1}, {}),
        ({"created": 3, "active": 1}, {"all_pods": 90}),
        ({"active": 4}, {}),
        ({"active": 4, "after": RUNNING}, {"running": 90}),
        ({"active": 4, "after": RUNNING, "stored": False}, {}),
        ({"created": 4, "waited": -5.0}, {"first_pod": 0, "all_pods": 0}),
        # Replacements and resumed jobs are no launches.
        ({"created": 4, "status": {"disruptions": 1}}, {}),
        ({"created": 4, "status": {"restarts": 1}}, {}),
        ({"created": 4, "status": {"conditions": [condition("Running", holds=False)]}}, {}),
        ({"after": RUNNING, "status": {"conditions": [condition("Restarting")]}}, {}),
        ({"after": RUNNING, "status": RUNNING}, {}),
    ],
)
def test_a_launch(case: dict[str, Any], expected: dict[str, float]) -> None:
    assert observed(**case) == expected


def test_a_restart_has_a_cause_when_it_is_recorded() -> None:
    manifest = job_manifest(TEST_JOB, {"Worker": 4}, policy="ExitCode")
    job = read_job(TEST_JOB, manifest)

    def causes(*pods: Pod) -> tuple[tuple[str, int], ...]:
        return plan(TEST_JOB, job, Observed(pods=tuple(pod.view for pod in pods), begun=True), START + 1).restart_causes

    def worker(index: int) -> Pod:
        return Pod.of(TEST_JOB, job, "Worker", index).scheduled().running()

    assert causes(worker(0), worker(1)) == ()
    assert causes(worker(0).failed(137, reason="OOMKilled"), worker(1).evicted()) == (("Evicted", 1), ("OOMKilled", 1))
    assert causes(worker(0).failed(143), worker(1).failed(143)) == (("SIGTERM", 2),)
    assert causes(worker(0).failed(137, reason="Written by a stranger")) == (("Other", 1),), "the causes are bounded"
    assert causes(worker(0).failed(1)) == (), "the job fails, and nothing is restarted"
