"""The job as the controller keeps it between two events, and finished jobs that it finds at its start."""

from typing import Any

import msgspec
import pytest

from jobcommon.api.view import ObjectView, object_view
from jobcommon.controller import job_state
from jobcommon.controller.job_state import JobState, QueueLevel
from jobcommon.controller.result import ActionResult, Effect
from jobcommon.manifests.children import service_manifests
from jobcommon.reconcile.plan import Get, Plan
from jobcommon.spec import read_job
from jobcommon.testutil.builders import Manifest, Pod, condition, finished_status, job_manifest
from jobcommon.testutil.frameworks import TEST_JOB
from tests.controller.bench import Bench


def view(workers: int) -> ObjectView:
    return object_view(msgspec.json.encode(job_manifest(TEST_JOB, {"Worker": workers})))


def test_a_change_that_could_not_be_read_is_read_the_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function of the framework may fail for one spec and not for long; the job must not keep the former spec."""
    state, changed = JobState(), view(3)
    assert state.read(TEST_JOB, view(2))[1].count("Worker") == 2
    with monkeypatch.context() as broken:
        broken.setattr(job_state, "read_job", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            state.read(TEST_JOB, changed)
    assert state.read(TEST_JOB, changed)[1].count("Worker") == 3
    assert state.raw == changed.raw


@pytest.mark.parametrize(("status", "kept"), [({}, 1), (finished_status(), 0)])
def test_live_reads_are_forgotten_when_the_job_has_finished(status: dict[str, object], kept: int) -> None:
    state, companion = JobState(), view(1)
    state.read(TEST_JOB, object_view(msgspec.json.encode(job_manifest(TEST_JOB, {"Worker": 1}, status=status))))
    get = Get("v1", "configmaps", "demo-config")
    state.last_observed.record(ActionResult(get, Effect.APPLIED, seen=companion), 1.0)
    state.decided(Plan(), 2.0)
    assert len(state.last_observed.found("configmaps")) == len(state.last_observed.of("configmaps")) == kept
    assert bool(state.raw) == bool(kept)


_EVALUATES = {"metrics": [{"name": "phase", "value": "evaluate"}], "lastUpdatedTime": "2023-11-14T22:20:00Z"}
#: what becomes of a job that is at step 7, and whether that is a sign of life
SIGNS: dict[str, tuple[Manifest, bool]] = {
    "nothing": ({}, False),
    "a step that is reported again": ({"progress": {"step": 7, "lastReportTime": "2023-11-14T22:20:00Z"}}, False),
    "a step": ({"progress": {"step": 8}}, True),
    "a run of the same step": ({"progress": {"step": 7, "attempt": 1}}, True),
    "an evaluation begins": ({"trainerStatus": _EVALUATES}, True),
    "the job runs": ({"conditions": [condition("Running")]}, True),
    "the stall is recorded": ({"conditions": [condition("Stalled")]}, True),
    "one more pod runs": ({"replicaStatuses": {"Worker": {"active": 2}}}, True),
    "a container was restarted": ({"restarts": 1}, True),
}


@pytest.mark.parametrize(("change", "is_one"), SIGNS.values(), ids=SIGNS)
def test_a_sign_of_life_is_remembered_with_its_time(change: Manifest, is_one: bool) -> None:
    state, before = JobState(), {"progress": {"step": 7}}
    for now, status in ((100.0, before), (160.0, {**before, **change})):
        job = job_manifest(TEST_JOB, {"Worker": 2}, run_policy={"reportProgress": True}, status=status)
        state.read(TEST_JOB, object_view(msgspec.json.encode(job)))
        found = state.observed((), frozenset(), (), now)
    assert found.same_for == (0.0 if is_one else 60.0)
    assert found.reported == ("trainerStatus" in change)


# -- Finished jobs that an operator finds at its start


@pytest.fixture
def bench() -> Bench:
    bench = Bench()
    bench.sync()
    return bench


def finished(**run_policy: Any) -> Manifest:
    return job_manifest(TEST_JOB, {"Worker": 2}, status=finished_status(), run_policy={"cleanPodPolicy": "All", **run_policy})


def test_a_finished_job_needs_nothing(bench: Bench) -> None:
    work = bench.new(finished())
    assert work.sends_nothing
    telemetry = bench.finish(work)
    assert (telemetry.events, telemetry.counts) == ((), {})
    assert bench.controller.conditions == {"Succeeded": 1}
    assert bench.controller.states["uid-demo"].level is QueueLevel.FINISHED
    assert bench.controller.queue.next_wakeup() is None
    bench.say("testjobs", "DELETED", finished())
    assert bench.begin() is None
    assert not bench.controller.states


def test_leftovers_of_a_finished_job_are_cleaned_up() -> None:
    manifest = finished()
    job = read_job(TEST_JOB, manifest)
    (service,) = service_manifests(TEST_JOB, job)
    left = {"pods": Pod.of(TEST_JOB, job, "Worker", 0).running().raw, "services": service}
    deletions = {"pods": "delete pods/demo-worker-0 (cleanPodPolicy All)", "services": "delete services/demo (job finished)"}
    for resource, raw in left.items():
        raw["metadata"]["uid"] = "uid"
        for late in (False, True):
            bench = Bench()
            bench.sync()
            if not late:
                bench.say(resource, "ADDED", raw)
            bench.say("testjobs", "ADDED", manifest)
            if late:  # it is only seen once the job was found to be at rest
                bench.finish(bench.work())
                bench.say(resource, "ADDED", raw)
            assert [str(action) for action in bench.work().plan.actions] == [deletions[resource]]


def test_a_job_whose_status_a_user_clears_runs_again(bench: Bench) -> None:
    bench.finish(bench.new(finished()))
    work = bench.changed({**finished(), "status": {}})
    assert work.job is not None
    assert work.plan.status is not None or work.plan.actions
