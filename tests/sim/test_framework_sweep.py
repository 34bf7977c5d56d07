"""The sweep for the framework of another package: it finds what is wrong with one, and nothing where nothing is."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from jobcommon.framework import EnvVar, Framework, Job, Outcome, Replica
from jobcommon.operators.mpi import MPI
from jobcommon.operators.mxnet import MXNET
from jobcommon.testutil.frameworks import TEST_JOB
from jobcommon.testutil.sim.framework_sweep import sweep
from jobcommon.testutil.sim.lifecycles import lifecycles_of

pytestmark = pytest.mark.no_cover
ODD = replace(TEST_JOB, kind="TestBox", plural="testboxes", name="box", group="example.com")


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

    problems = sweep(replace(TEST_JOB, env=env), runs=8).problems
    assert any("deterministic" in problem for problem in problems)


def test_a_job_that_is_no_job_of_the_framework_is_refused() -> None:
    with pytest.raises(ValueError, match="this MXJob is invalid, give another as `job`: spec"):
        lifecycles_of(MXNET)
    worker: dict[str, Any] = {"template": {"spec": {"containers": [{"name": "mxnet", "image": "image"}]}}}
    job = {"kind": "MXJob", "apiVersion": "kubeflow.org/v1", "metadata": {"name": "mine", "namespace": "default"}}
    found = lifecycles_of(MXNET, {**job, "spec": {"mxReplicaSpecs": {"Scheduler": worker, "Worker": worker}}})
    assert [next(iter(scenario.behaviour)) for scenario in found.values()] == ["mine-scheduler-0"] * 7
