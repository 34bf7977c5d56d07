"""Which replicas decide about a job, for each kind: the tables of the reference's tests, and what they leave out.

Where the reference's result is a defect, the expectation is the sensible one; docs/deviations.md names those.
"""

import pytest

from jobcommon.framework import Framework
from jobcommon.operators.jax import JAX
from jobcommon.operators.mpi import MPI
from jobcommon.operators.mxnet import MXNET
from jobcommon.operators.paddle import PADDLE
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.operators.tf import TF
from jobcommon.operators.xgboost import XGBOOST
from jobcommon.testutil import plans
from jobcommon.testutil.builders import Manifest, job_manifest
from jobcommon.testutil.plans import holding

ALL: Manifest = {"successPolicy": "AllWorkers"}
ELASTIC: Manifest = {"elasticPolicy": {}}
DYNAMIC: Manifest = {"enableDynamicWorker": True, "policy": "Never"}
TUNES = {"jobMode": "MXTune"}
#: the state of each replica ("-": no pod), what the spec has, and the condition beside Created
ROWS: list[tuple[Framework, str, Manifest, str]] = [
    (TF, "Chief: succeeded, Worker: -", {}, "Succeeded"),
    (TF, "Chief: running, Worker: -", {}, "Running"),
    (TF, "Chief: failed, Worker: -", {}, "Failed"),
    (TF, "Master: succeeded", {}, "Succeeded"),
    (TF, "Worker: failed", {}, "Failed"),
    (TF, "Worker: succeeded", {}, "Succeeded"),
    (TF, "Worker: running", {}, "Running"),
    # The table's worker 0 has no container status; in a cluster its phase says enough, and the job has succeeded.
    (TF, "PS: running*2, Worker: succeeded*2 running*2", {}, "Succeeded"),
    (TF, "PS: running*2, Worker: running*2 succeeded*2", {}, "Running"),
    (TF, "PS: running*2, Worker: failed*2 running*2", {}, "Failed"),
    (TF, "PS: running*2, Worker: failed*2 succeeded*2", {}, "Failed"),
    (TF, "PS: running*2, Worker: succeeded*2 failed*2", {}, "Succeeded"),
    (TF, "PS: running*2, Worker: succeeded running*3", {}, "Succeeded"),
    (TF, "PS: scheduled, Worker: scheduled*2 running -", {}, "Running"),
    (TF, "Worker: succeeded running*3", ALL, "Running"),
    (TF, "Worker: succeeded*4", ALL, "Succeeded"),
    (TF, "Worker: succeeded failed running*2", ALL, "Failed"),
    (TF, "PS: running*2, Worker: failed*4, Chief: running", {}, "Failed"),
    (TF, "PS: running*2, Worker: succeeded*4, Chief: running", {}, "Running"),
    (TF, "PS: failed running, Worker: succeeded*4, Chief: running", {}, "Failed"),
    (TF, "PS: running*2, Worker: succeeded*4, Chief: failed", {}, "Failed"),
    (TF, "PS: running*2, Worker: failed*4, Chief: succeeded", {}, "Succeeded"),
    (TF, "PS: running*2, Worker: killed*4, Chief: killed", {"policy": "ExitCode"}, "Restarting"),
    (TF, "PS: running, Worker: running failed", DYNAMIC, "Running"),
    (TF, "PS: failed, Worker: running*2", DYNAMIC, "Failed"),
    (TF, "Chief: -*0, Worker: running", {}, "Running"),
    (TF, "Chief: -*0, Worker: succeeded", {}, "Succeeded"),
    (TF, "PS: running, Worker: -*0", {}, "Running"),
    (TF, "Chief: -*0, Worker: -*0", {}, "Failed"),
    (PYTORCH, "Master: running, Worker: -*2", {}, "Running"),
    (PYTORCH, "Master: succeeded, Worker: running -", {}, "Succeeded"),
    (PYTORCH, "Master: -, Worker: running", {}, ""),
    (PYTORCH, "Master: succeeded, Worker: failed", {"policy": "Never"}, "Succeeded"),
    (PYTORCH, "Master: succeeded, Worker: killed", {"policy": "Never"}, "Succeeded"),
    (PYTORCH, "Worker: succeeded running", {}, "Running"),
    (PYTORCH, "Worker: succeeded*2", {}, "Succeeded"),
    (PYTORCH, "Worker: succeeded running", ELASTIC, "Succeeded"),
    (PYTORCH, "Worker: succeeded", ELASTIC, "Succeeded"),
    (MXNET, "Worker: failed", {}, "Failed"),
    (MXNET, "Scheduler: succeeded, Worker: succeeded", {}, "Succeeded"),
    (MXNET, "Scheduler: running, Worker: running", {}, "Running"),
    (MXNET, "Scheduler: running, Worker: succeeded*2 running*2", {}, "Running"),
    (MXNET, "Scheduler: running, Worker: failed*2 running*2", {}, "Failed"),
    (MXNET, "Scheduler: running, Worker: succeeded*2 failed*2", {}, "Failed"),
    (MXNET, "Scheduler: running, Server: succeeded, Worker: running", {}, "Running"),
    (MXNET, "Scheduler: running, Worker: succeeded", ALL, "Succeeded"),
    (MXNET, "Scheduler: running, Worker: running", ALL, "Running"),
    (MXNET, "Scheduler: succeeded, Worker: running", ALL, "Running"),
    (MXNET, "Worker: succeeded running", {}, "Running"),
    (MXNET, "Worker: succeeded*2", {}, "Succeeded"),
    (MXNET, "Scheduler: -*0, Server: -*0, Worker: running", {}, "Running"),
    (MXNET, "Scheduler: -*0, Server: -*0, Worker: succeeded", {}, "Succeeded"),
    (MXNET, "TunerTracker: running, TunerServer: running, Tuner: running", TUNES, "Running"),
    (MXNET, "TunerTracker: running, TunerServer: running, Tuner: succeeded", TUNES, "Succeeded"),
    (MXNET, "TunerTracker: succeeded, TunerServer: succeeded, Tuner: running", TUNES, "Running"),
    (PADDLE, "Master: running, Worker: succeeded", {}, "Running"),
    (PADDLE, "Master: succeeded, Worker: running", {}, "Succeeded"),
    (PADDLE, "Worker: running scheduled", {}, "Running"),
    (PADDLE, "Worker: succeeded running", {}, "Running"),
    (PADDLE, "Worker: succeeded*2", {}, "Succeeded"),
    (XGBOOST, "Master: running, Worker: scheduled", {}, "Running"),
    (XGBOOST, "Master: running, Worker: succeeded", {}, "Running"),
    (XGBOOST, "Master: succeeded, Worker: running", {}, "Succeeded"),
    (XGBOOST, "Master: failed, Worker: running", {}, "Failed"),
    (XGBOOST, "Master: running, Worker: failed", {}, "Failed"),
    (JAX, "Worker: running scheduled", {}, "Running"),
    (JAX, "Worker: succeeded running", {}, "Running"),
    (JAX, "Worker: succeeded*2", {}, "Succeeded"),
    (JAX, "Worker: failed running", {}, "Failed"),
    (MPI, "Launcher: running, Worker: scheduled*2", {}, ""),
    (MPI, "Launcher: running, Worker: running scheduled", {}, ""),
    (MPI, "Launcher: running, Worker: running*2", {}, "Running"),
    (MPI, "Launcher: -, Worker: running*2", {}, ""),
    (MPI, "Launcher: succeeded, Worker: running*2", {}, "Succeeded"),
    (MPI, "Launcher: running", {"runLauncherAsWorker": True}, "Running"),
    (MPI, "Launcher: succeeded", {"runLauncherAsWorker": True}, "Succeeded"),
]
STATES = {"failed": "running,failed 1", "killed": "running,failed 130", "succeeded": "running,succeeded"}


@pytest.mark.parametrize(("framework", "states", "spec", "expected"), ROWS, ids=[f"{r[0].name} {r[1]} {r[2]}" for r in ROWS])
def test_who_decides(framework: Framework, states: str, spec: Manifest, expected: str) -> None:
    replicas: dict[str, int] = {}
    pods: dict[str, str] = {}
    for part in states.split(", "):
        kind, _, words = part.partition(": ")
        slots = [word for state in words.split() for word in [state.split("*")[0]] * int(state.partition("*")[2] or 1)]
        replicas[kind] = len(slots)
        pods |= {f"{kind}-{index}": STATES.get(word, word) for index, word in enumerate(slots) if word != "-"}
    decision = plans.decide(framework, job_manifest(framework, replicas, **spec), pods)
    assert holding(decision) == ["Created", *([expected] if expected else [])]
