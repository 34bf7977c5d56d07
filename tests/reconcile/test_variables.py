"""The variables of large jobs: what no process can be started with is refused, and the rest is made once for all pods."""

import pytest

from jobcommon.framework import Framework, Job, Replica
from jobcommon.operators.jax import JAX
from jobcommon.operators.mpi import MPI
from jobcommon.operators.mxnet import MXNET
from jobcommon.operators.paddle import PADDLE
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.operators.tf import TF
from jobcommon.operators.xgboost import XGBOOST
from jobcommon.spec import read_job
from jobcommon.spec.validation import MAX_VARIABLE
from jobcommon.testutil.builders import job_manifest
from jobcommon.testutil.effort import effort

FRAMEWORKS = (TF, PYTORCH, MXNET, MPI, JAX, XGBOOST, PADDLE)
OTHERS = {
    "TFJob": {"PS": 1}, "XGBoostJob": {"Master": 1}, "PyTorchJob": {"Master": 1}, "MPIJob": {"Launcher": 1},
    "MXJob": {"Scheduler": 1, "Server": 1},
}  # fmt: skip
MANY = 9_900
# Of a job called demo in a namespace called default.
REFUSED = {"TFJob": "the variable TF_CONFIG of a ", "XGBoostJob": "the variable WORKER_ADDRS of a "}


def job_of(framework: Framework, workers: int) -> Job:
    return read_job(framework, job_manifest(framework, {**OTHERS.get(framework.kind, {}), "Worker": workers}))


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda f: f.name)
@pytest.mark.parametrize("workers", [499, 2_500, 5_000, MANY])
def test_every_variable_fits_or_the_job_is_refused(framework: Framework, workers: int) -> None:
    job = job_of(framework, workers)
    made = [v for kind in job.replica_specs for v in framework.env(job, Replica(kind, 0))]
    longest = max((len(f"{v.name}={v.value}") + 1 for v in made), default=0)
    assert bool(job.errors) == (longest > MAX_VARIABLE), job.errors
    if workers == MANY and framework.kind in REFUSED:
        (error,) = job.errors
        assert f"spec.{framework.replica_specs}" in str(error)
        assert REFUSED[framework.kind] in str(error)
        assert "use at most some" in str(error)


@pytest.mark.parametrize("framework", [TF, XGBOOST], ids=lambda f: f.name)
def test_the_list_of_all_peers_is_made_once(framework: Framework) -> None:
    def variables() -> None:
        job = job_of(framework, 2_000)
        for index in range(2_000):
            framework.env(job, Replica("Worker", index))

    assert effort(variables, 200) < 200, "2,000 times the list would be some 2,000 loops"
