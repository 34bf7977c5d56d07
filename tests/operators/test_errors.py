"""The errors of a job's spec, for each kind: what it says, or the field that it names."""

from typing import Any

import pytest

from jobcommon.framework import Framework
from jobcommon.operators.jax import JAX
from jobcommon.operators.mpi import MPI
from jobcommon.operators.mxnet import MXNET
from jobcommon.operators.paddle import PADDLE
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.operators.tf import TF
from jobcommon.operators.xgboost import XGBOOST
from jobcommon.spec import read_job
from jobcommon.testutil.builders import Manifest, job_manifest, replica_spec

TUNE = {"TunerTracker": 1, "TunerServer": 1, "Tuner": 1}
BOTH = {"Master": 1, "Worker": 1}
LAUNCHER = {"Launcher": 1}
PT, MX, MPIS = "spec.pytorchReplicaSpecs", "spec.mxReplicaSpecs", "spec.mpiReplicaSpecs"
OURS = {"managedBy": "kubeflow.org/training-operator"}
NO_WORKERS = f"{PT}[Worker]: Required value: elasticPolicy applies to workers, so the job needs a Worker"
NO_MASTER = f"{PT}[Worker].replicas: Forbidden: must be at least 1 without a Master"


def of_command(command: object) -> Manifest:
    return {"template": {"spec": {"containers": [{"name": "main", "image": "i", "command": command}]}}}


#: the replicas, what else the job has, and how each error begins
ROWS: list[tuple[Framework, dict[str, Any], dict[str, Any], list[str]]] = [
    (TF, {"Chief": 1, "Master": 1}, {}, ["spec.tfReplicaSpecs: Forbidden: Chief and Master are the same role"]),
    (TF, {"Chief": 2}, {}, ["spec.tfReplicaSpecs[Chief].replicas"]),
    (TF, {}, {"replicaSpecs": {}}, ["spec.tfReplicaSpecs: Required value: name at least one replica type of Chief"]),
    (PYTORCH, BOTH, {"elasticPolicy": {"rdzvBackend": "c10d"}, "run_policy": OURS}, []),
    (PYTORCH, {"Master": 2, "Worker": 1}, {}, [f"{PT}[Master].replicas: Forbidden: must be 1"]),
    (PYTORCH, {"Master": replica_spec(PYTORCH, None)}, {}, []),
    (PYTORCH, {"Worker": 0}, {}, [NO_MASTER]),
    (PYTORCH, {"Master": 1, "Worker": 0}, {}, []),
    (PYTORCH, {"Master": 1, "Worker": 0}, {"elasticPolicy": {}}, [NO_WORKERS]),
    (PYTORCH, {"Master": 1}, {"elasticPolicy": {}}, [NO_WORKERS]),
    (PYTORCH, {"Worker": 0}, {"elasticPolicy": {}}, [NO_MASTER]),
    (PYTORCH, BOTH, {"elasticPolicy": {"nProcPerNode": 1}}, []),
    (
        PYTORCH, BOTH, {"elasticPolicy": {"nProcPerNode": 1}, "nprocPerNode": "1"},
        ["spec.elasticPolicy.nProcPerNode: Forbidden: spec.nprocPerNode is set; remove this field"],
    ),
    (
        PYTORCH, {"Worker": 1}, {"elasticPolicy": {"minReplicas": 5, "maxReplicas": 2}},
        ["spec.elasticPolicy.minReplicas: Invalid value: 5: must not exceed maxReplicas, which is 2"],
    ),
    (PYTORCH, {"Worker": 1}, {"elasticPolicy": {"minReplicas": "x"}}, ["spec.elasticPolicy.minReplicas"]),
    (
        PYTORCH, {"Worker": 1}, {"nprocPerNode": "two"},
        ['spec.nprocPerNode: Invalid value: "two": use "auto", "cpu", "gpu", "xpu", "npu" or a number in quotes, from "1"'],
    ),
    (PYTORCH, {"Worker": 1}, {"nprocPerNode": 2}, ["spec.nprocPerNode: must be text, in quotes"]),
    # Not ours to judge; the definition refuses it.
    (PYTORCH, BOTH, {"run_policy": {"managedBy": "other-job-controller"}, "nprocPerNode": "two"}, []),
    (MXNET, {"Scheduler": 1, "Server": 1, "Worker": 1}, {"jobMode": "MXTrain"}, []),
    (MXNET, {"Worker": 1}, {"jobMode": "MXTrain"}, []),
    (MXNET, {"Scheduler": 0, "Server": 0, "Worker": 1}, {}, []),
    (MXNET, TUNE, {"jobMode": "MXTune"}, []),
    (MXNET, {"Scheduler": 1}, {"jobMode": "MXTrain"}, [f"{MX}[Worker]: Required value"]),
    (MXNET, {"Scheduler": 1, "Worker": 2}, {"jobMode": "MXTrain"}, []),
    (MXNET, {"TunerTracker": 1}, {"jobMode": "MXTune"}, [f"{MX}[Tuner]: Required value"]),
    (MXNET, {"Worker": 1, "Tuner": 1}, {"jobMode": "MXTune"}, [f"{MX}[Worker]: Forbidden"]),
    (MXNET, {"Worker": 1}, {"jobMode": "MXServe"}, ["spec.jobMode"]),
    (MXNET, {"Scheduler": 2, "Worker": 1}, {}, [f"{MX}[Scheduler].replicas"]),
    (PADDLE, {"Master": 1, "Worker": 2}, {}, []),
    (PADDLE, {"Worker": 1}, {}, []),
    (PADDLE, {"Worker": 0}, {}, ["spec.paddleReplicaSpecs[Worker].replicas"]),
    (PADDLE, {"Worker": 2}, {"elasticPolicy": {"minReplicas": 1, "maxReplicas": 4, "maxRestarts": 0, "metrics": []}}, []),
    (PADDLE, {"Worker": 2}, {"elasticPolicy": {"minReplicas": 0}}, ["spec.elasticPolicy.minReplicas"]),
    (XGBOOST, {"Master": 1, "Worker": 2}, {}, []),
    (XGBOOST, {"Worker": 1}, {}, ["spec.xgbReplicaSpecs[Master]"]),
    (XGBOOST, {"Master": 2}, {}, ["spec.xgbReplicaSpecs[Master].replicas"]),
    (XGBOOST, {"Master": 0}, {}, ["spec.xgbReplicaSpecs[Master].replicas"]),
    (JAX, {"Worker": 0}, {}, ["spec.jaxReplicaSpecs[Worker].replicas"]),
    (MPI, LAUNCHER, {}, []),
    (MPI, {"Launcher": 1, "Worker": 3}, {}, []),
    (MPI, LAUNCHER, {"name": "n" * 54}, []),
    (MPI, {"Launcher": 1, "Worker": 10}, {"name": "n" * 54}, []),
    (MPI, {"Launcher": 1, "Worker": 11}, {"name": "n" * 54}, ["metadata.name"]),
    (MPI, LAUNCHER, {"mpiImplementation": "Intel"}, []),
    (MPI, LAUNCHER, {"mpiImplementation": "MPICH"}, []),
    (MPI, LAUNCHER, {"mpiImplementation": "Unknown"}, ["spec.mpiImplementation"]),
    (MPI, LAUNCHER, {"mpiDistribution": "LAM"}, ["spec.mpiImplementation"]),
    (MPI, LAUNCHER, {"launcherCreationPolicy": "Whenever"}, ["spec.launcherCreationPolicy"]),
    (MPI, LAUNCHER, {"transport": "RSH"}, ["spec.transport"]),
    (MPI, LAUNCHER, {"slotsPerWorker": 0}, ["spec.slotsPerWorker"]),
    (MPI, LAUNCHER, {"slotsPerWorker": -1}, ["spec.slotsPerWorker"]),
    (MPI, LAUNCHER, {"sshAuthMountPath": "home"}, ["spec.sshAuthMountPath"]),
    (MPI, {"Launcher": {}, "Worker": {}}, {}, [f"{MPIS}[Launcher].template", f"{MPIS}[Worker].template"]),
    (
        MPI, {"Launcher": replica_spec(MPI, 2, "Always"), "Worker": 0}, {},
        [f"{MPIS}[Launcher].replicas", f"{MPIS}[Launcher].restartPolicy", f"{MPIS}[Worker].replicas"],
    ),
    (MPI, {"Launcher": 1, "Worker": replica_spec(MPI, 1, "Invalid")}, {}, [f"{MPIS}[Worker].restartPolicy"]),
    (MPI, {"Launcher": of_command("mpirun x.py")}, {}, [f"{MPIS}[Launcher].template.spec.containers[0].command"]),
    # The command of the slide, of which the launcher is made.
    (MPI, {"Worker": of_command("mpirun x.py")}, {}, [f"{MPIS}[Launcher].template.spec.containers[0].command"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("framework", "replicas", "job", "expected"), ROWS, ids=[f"{row[0].name} {number}" for number, row in enumerate(ROWS)]
)
def test_errors_name_their_fields_and_say_what_to_change(
    framework: Framework, replicas: dict[str, Any], job: dict[str, Any], expected: list[str]
) -> None:
    found = [str(error) for error in read_job(framework, job_manifest(framework, replicas, **job)).errors]
    assert len(found) == len(expected), found
    assert all(error.startswith(start) for error, start in zip(found, expected, strict=True)), found
