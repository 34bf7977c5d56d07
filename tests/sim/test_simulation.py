"""The simulator as such: a run is the same every time, complains of what is wrong with a framework or with the operator, and of
nothing else.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from jobcommon.framework import EnvVar, Framework, Job, Outcome, Replica
from jobcommon.operators.mpi import MPI
from jobcommon.operators.mxnet import MXNET
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.testutil.frameworks import TEST_JOB
from jobcommon.testutil.mutants import known_defects
from jobcommon.testutil.sim.faults import Fault
from jobcommon.testutil.sim.framework_sweep import Trial, Trials, sweep
from jobcommon.testutil.sim.lifecycles import lifecycles_of
from jobcommon.testutil.sim.simulation import simulate

pytestmark = pytest.mark.no_cover
ODD = replace(TEST_JOB, kind="TestBox", plural="testboxes", name="box", group="example.com")
SUCCESS = lifecycles_of(PYTORCH)["L1-success"]


def test_the_same_seed_gives_the_same_history() -> None:
    faults = (Fault("crash-after", write=5), Fault("watch-lag", at=3.0, seconds=10.0, value="5"))
    first, again = simulate(SUCCESS, 7, faults), simulate(SUCCESS, 7, faults)
    assert first.history == again.history
    assert first.fired == again.fired
    assert simulate(SUCCESS, 8, faults).history != first.history


def test_a_crash_at_a_write_is_recovered_from() -> None:
    run = simulate(SUCCESS, 0, (Fault("crash-after", write=4),))
    assert run.fired["crash-after"] == 1
    assert {write.writer for write in run.trace} == {"operator-0", "operator-1"}
    assert Trials(PYTORCH).judge(Trial("L1-success", 0, run.faults)) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("defect", "lifecycle", "promise"),
    [
        ("R9-act-then-record", "L1-success", "recorded_before_destroyed"),
        ("R11-the-end-is-not-final", "L1-success", "final"),
        ("R19-written-when-nothing-changed", "L1-success", "at-rest"),
        ("D9-no-completion-time", "L1-success", "sound_status"),
        ("E15-attempts-overlap", "L20-resize-in-place", "world"),
    ],
)
def test_a_known_defect_is_complained_of(defect: str, lifecycle: str, promise: str) -> None:
    with known_defects()[defect].planted():
        problems = Trials(PYTORCH).judge(Trial(lifecycle, 0))
    assert any(problem.startswith(promise) for problem in problems)


@pytest.mark.parametrize("framework", [ODD, pytest.param(MPI, marks=pytest.mark.slow)], ids=lambda framework: framework.kind)
def test_sweeps_of_correct_frameworks_have_no_problems(framework: Framework) -> None:
    found = sweep(framework, runs=4)
    assert found.problems == []
    assert found.runs >= 4


def test_a_job_that_never_ends_is_noticed() -> None:
    found = sweep(replace(TEST_JOB, outcome=lambda _job, _tallies: Outcome(running=True)), runs=1)
    assert any(problem.startswith("--lifecycle L1-success --seed 0: the job has not succeeded") for problem in found.problems)


def test_a_framework_that_is_not_pure_is_noticed() -> None:
    numbers = count()

    def env(_job: Job, _replica: Replica) -> Sequence[EnvVar]:
        return (EnvVar("NUMBER", str(next(numbers))),)

    problems = sweep(replace(TEST_JOB, env=env), runs=4).problems
    assert any("deterministic" in problem for problem in problems)


def test_a_job_that_is_no_job_of_the_framework_is_refused() -> None:
    with pytest.raises(ValueError, match="this MXJob is invalid, give another as `job`: spec"):
        lifecycles_of(MXNET)
    worker: dict[str, Any] = {"template": {"spec": {"containers": [{"name": "mxnet", "image": "image"}]}}}
    job = {"kind": "MXJob", "apiVersion": "kubeflow.org/v1", "metadata": {"name": "mine", "namespace": "default"}}
    found = lifecycles_of(MXNET, {**job, "spec": {"mxReplicaSpecs": {"Scheduler": worker, "Worker": worker}}})
    assert [next(iter(scenario.behaviour)) for scenario in found.values()] == ["mine-scheduler-0"] * 7
