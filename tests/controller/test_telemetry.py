"""What a reconcile tells the world: events and counts from what the writes did."""

from dataclasses import replace
from typing import Any

import pytest

from jobcommon.api.observed import Observed
from jobcommon.client.errors import StatusError
from jobcommon.controller.result import ActionResult, Effect, Result, Work
from jobcommon.controller.telemetry import MAX_EMITTED, MAX_OBJECTS_NAMED, telemetry
from jobcommon.reconcile import plan
from jobcommon.reconcile.plan import Action, Event, Get, Plan, SetImage, Update
from jobcommon.spec import read_job
from jobcommon.testutil.builders import START, job_manifest
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
