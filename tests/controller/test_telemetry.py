"""What a reconcile tells the world: events, counts and durations from what the writes did."""

from dataclasses import replace
from typing import Any

import pytest

from jobcommon.api.observed import Observed
from jobcommon.client.errors import StatusError
from jobcommon.controller.result import ActionResult, Effect, Result, Work
from jobcommon.controller.telemetry import LABELS, MAX_EMITTED, MAX_OBJECTS_NAMED, durations, telemetry
from jobcommon.reconcile import plan
from jobcommon.reconcile.plan import Action, Event, Get, Plan, SetImage, Update
from jobcommon.spec import read_job
from jobcommon.testutil.builders import START, Pod, condition, job_manifest
from jobcommon.testutil.frameworks import TEST_JOB


def work(workers: int = 2) -> Work:
    manifest = job_manifest(TEST_JOB, {"Worker": workers})
    job = read_job(TEST_JOB, manifest)
    return Work("default", "demo", "uid-demo", plan(TEST_JOB, job, Observed(), START), job, manifest)


def told(done: Work, effect: Effect = Effect.APPLIED, error: Any = None, said: Any = None) -> tuple[list[str], dict[str, int]]:
    outcomes = tuple(ActionResult(action, effect, error=error) for action in done.plan.actions)
    found = telemetry(TEST_JOB, done, Result(outcomes, status_version="9"), {} if said is None else said, START)
    return [str(event) for event in found.events], found.counts


def test_creations() -> None:
    assert told(work()) == (
        ["Normal SuccessfulCreatePod: Created pod: demo-worker-0, demo-worker-1; service: demo"],
        {"created_pods": 2, "succeeded_service_creation": 1, "training_operator_jobs_created": 1},
    )


def test_a_large_job_gets_a_handful_of_events() -> None:
    events, counts = told(work(500))
    assert events == ["Normal SuccessfulCreatePod: Created pod: demo-worker-0 … demo-worker-499 (500 in all); service: demo"]
    assert counts["created_pods"] == 500
    assert told(work(MAX_OBJECTS_NAMED))[0][0].endswith("demo-worker-10, demo-worker-11; service: demo")


@pytest.mark.parametrize("effect", [Effect.ALREADY_EXISTS, Effect.NOT_FOUND, Effect.SKIPPED])
def test_a_write_without_effect_is_not_reported(effect: Effect) -> None:
    assert told(work(), effect) == ([], {"training_operator_jobs_created": 1})


def test_a_refusal_is_reported_once() -> None:
    said: dict[tuple[str, str], None] = {}
    error = StatusError(403, "Forbidden", "exceeded quota")
    events, counts = told(work(), Effect.REFUSED, error, said)
    assert events == [
        "Warning FailedCreateService: Error creating: 403 Forbidden: exceeded quota",
        "Warning FailedCreatePod: Error creating: 403 Forbidden: exceeded quota",
    ]
    assert counts["failed_service_creation"] == 1
    assert told(work(), Effect.REFUSED, error, said)[0] == []


CHANGES: dict[str, Action] = {
    "FailedGetObject": Get("v1", "serviceaccounts", "demo-launcher"),
    "FailedUpdateObject": Update("v1", "configmaps", "demo-config", {}, {}),
    "FailedUpdatePodGroup": Update("v1", "podgroups", "demo", {}, {}),
    "FailedUpdatePod": SetImage("demo-worker-0", "uid-0", "main", "image", "other", "0", "attempt 1 begins"),
}


@pytest.mark.parametrize("reason", CHANGES)
def test_a_refused_change_is_reported_and_a_conflict_is_not(reason: str) -> None:
    change = replace(work(), plan=Plan((CHANGES[reason],)))
    events, _ = told(change, Effect.REFUSED, StatusError(422, "Invalid", "no"))
    verb = "reading" if reason == "FailedGetObject" else "updating"
    assert events == [f"Warning {reason}: Error {verb}: 422 Invalid: no"]
    assert told(change, Effect.REFUSED, StatusError(409, "Conflict", "no")) == ([], {})


@pytest.mark.parametrize("code", [403, 404, 409, 422, 429])
def test_a_status_that_the_platform_refuses_is_reported_once(code: int) -> None:
    said: dict[tuple[str, str], None] = {}
    result = Result(status_error=StatusError(code, "No", "testjobs/status: denied"))
    for expected in ([f"Warning FailedUpdateStatus: Error updating the status: {code} No: testjobs/status: denied"], []):
        events = telemetry(TEST_JOB, work(), result, said, START).events
        assert [str(event) for event in events] == (expected if code in (403, 422) else [])


def test_a_name_in_use_is_reported() -> None:
    said: dict[tuple[str, str], None] = {}
    events, _ = told(work(1), Effect.NAME_CONFLICT, StatusError(409, "AlreadyExists", ""), said)
    assert events[1] == (
        "Warning NameConflict: create pods/demo-worker-0 failed: an object with this name exists, but belongs to another "
        "owner or has lost its labels; delete or rename it"
    )
    assert told(work(1), Effect.NAME_CONFLICT, None, said)[0] == []


def test_lasting_events_that_differ_in_numbers_are_one_and_memory_is_bounded() -> None:
    said: dict[tuple[str, str], None] = {}
    emitted, planned = 0, work()
    for number in range(1000):
        texts = (f"Pod demo-worker-0: 0/{number} nodes are available", f"Pod demo-worker-{number}: no node")
        events = tuple(Event("Warning", "Unschedulable", text, lasting=True) for text in texts)
        done = replace(planned, plan=Plan(events=events))
        emitted += len(telemetry(TEST_JOB, done, Result(), said, START).events)
        assert len(said) <= MAX_EMITTED
    assert emitted == 1001, "what each pass repeats is not dropped"


# -- The durations of a job's life: which reconcile observes which, and that a launch is observed once

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
