"""Real processes under kill -9, the thin form; `make chaos` is the full one."""

import uuid
from pathlib import Path

import pytest

from jobcommon.testutil.chaos.jobs import FRAMEWORKS, Script
from jobcommon.testutil.chaos.trial import Plan, run_trial

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

THIN = Plan(
    jobs=24, operator_kills=5, operator_every=(2.0, 4.0), cluster_kills=3, cluster_every=(4.0, 6.0),
    longest_run=3.0, submit_every=0.2, deadline=500.0,
)  # fmt: skip


@pytest.mark.timeout(600)
async def test_all_jobs_end_right_and_nothing_runs_twice(tmp_path: Path) -> None:
    """A job of every kind and script; operator and cluster are killed while they run."""
    result = await run_trial(THIN, tmp_path, uuid.uuid4().hex)
    assert result.faults == []
    assert (result.operator_kills, len(result.evidence.cluster_kills) // 2) == (5, 3)
    assert {(job.framework.kind, job.script) for job in result.jobs} >= {
        (framework.kind, script) for framework in FRAMEWORKS for script in (Script.SUCCEEDS, Script.EXHAUSTS, Script.FAILS)
    }
    assert any(run.ended is None for run in result.runs), "the kills of the cluster have cut no run short"
    assert len({run.uid for run in result.runs}) > len(result.jobs)
