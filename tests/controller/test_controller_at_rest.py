"""Finished jobs that an operator finds at its start."""

from typing import Any

import pytest

from jobcommon.controller import job_state
from jobcommon.controller.job_state import QueueLevel
from jobcommon.manifests.children import service_manifests
from jobcommon.spec import read_job
from jobcommon.spec.at_rest import AT_REST
from jobcommon.testutil.builders import Manifest, Pod, finished_status, job_manifest
from jobcommon.testutil.frameworks import TEST_JOB
from tests.controller.bench import Bench


@pytest.fixture
def bench() -> Bench:
    bench = Bench()
    bench.sync()
    return bench


def finished(**run_policy: Any) -> Manifest:
    return job_manifest(TEST_JOB, {"Worker": 2}, status=finished_status(), run_policy={"cleanPodPolicy": "All", **run_policy})


def test_a_job_at_rest_is_not_read(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_state, "read_job", lambda *_: 1 / 0)
    work = bench.new(finished())
    assert (work.plan, work.sends_nothing) == (AT_REST, True)
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
