"""The job as the controller keeps it between two events."""

import msgspec
import pytest

from jobcommon.api.view import ObjectView, object_view
from jobcommon.controller import job_state
from jobcommon.controller.job_state import JobState
from jobcommon.controller.result import ActionResult, Effect
from jobcommon.reconcile.plan import Get, Plan
from jobcommon.testutil.builders import finished_status, job_manifest
from jobcommon.testutil.frameworks import TEST_JOB


def view(workers: int) -> ObjectView:
    return object_view(msgspec.json.encode(job_manifest(TEST_JOB, {"Worker": workers})))


def test_a_change_that_could_not_be_read_is_read_the_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function of the framework may fail for one spec and not for long; the job must not keep the former spec."""
    state, changed = JobState(), view(3)
    assert state.read(TEST_JOB, view(2)).count("Worker") == 2
    with monkeypatch.context() as broken:
        broken.setattr(job_state, "reread_job", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            state.read(TEST_JOB, changed)
    assert state.read(TEST_JOB, changed).count("Worker") == 3
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
