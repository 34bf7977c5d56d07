"""The errors of a job's spec, for each kind."""

import os
from pathlib import Path
from typing import Any

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

GOLDEN = Path(__file__).parent.parent / "golden/errors_of_kinds.txt"
TUNE = {"TunerTracker": 1, "TunerServer": 1, "Tuner": 1}
BOTH = {"Master": 1, "Worker": 1}
LAUNCHER = {"Launcher": 1}
OURS = {"managedBy": "kubeflow.org/training-operator"}


def of_command(command: object) -> Manifest:
    return {"template": {"spec": {"containers": [{"name": "main", "image": "i", "command": command}]}}}


#: by kind, the replicas and what else the job has; tests/golden/errors_of_kinds.txt has the errors
ROWS: list[tuple[Framework, list[tuple[dict[str, Any], dict[str, Any]]]]] = [
    (TF, [({"Chief": 1, "Master": 1}, {}), ({"Chief": 2}, {}), ({}, {"replicaSpecs": {}})]),
    (PYTORCH, [
        (BOTH, {"elasticPolicy": {"rdzvBackend": "c10d"}, "run_policy": OURS}), ({"Master": 2, "Worker": 1}, {}),
        ({"Master": replica_spec(PYTORCH, None)}, {}), ({"Worker": 0}, {}), ({"Master": 1, "Worker": 0}, {}),
        ({"Master": 1, "Worker": 0}, {"elasticPolicy": {}}), ({"Master": 1}, {"elasticPolicy": {}}),
        ({"Worker": 0}, {"elasticPolicy": {}}), (BOTH, {"elasticPolicy": {"nProcPerNode": 1}}),
        (BOTH, {"elasticPolicy": {"nProcPerNode": 1}, "nprocPerNode": "1"}),
        ({"Worker": 1}, {"elasticPolicy": {"minReplicas": 5, "maxReplicas": 2}}),
        ({"Worker": 1}, {"elasticPolicy": {"minReplicas": "x"}}), ({"Worker": 1}, {"nprocPerNode": "two"}),
        ({"Worker": 1}, {"nprocPerNode": 2}),
        (BOTH, {"run_policy": {"managedBy": "other-job-controller"}, "nprocPerNode": "two"}),
    ]),
    (MXNET, [
        ({"Scheduler": 1, "Server": 1, "Worker": 1}, {"jobMode": "MXTrain"}), ({"Worker": 1}, {"jobMode": "MXTrain"}),
        ({"Scheduler": 0, "Server": 0, "Worker": 1}, {}), (TUNE, {"jobMode": "MXTune"}),
        ({"Scheduler": 1}, {"jobMode": "MXTrain"}), ({"Scheduler": 1, "Worker": 2}, {"jobMode": "MXTrain"}),
        ({"TunerTracker": 1}, {"jobMode": "MXTune"}), ({"Worker": 1, "Tuner": 1}, {"jobMode": "MXTune"}),
        ({"Worker": 1}, {"jobMode": "MXServe"}), ({"Scheduler": 2, "Worker": 1}, {}),
    ]),
    (PADDLE, [
        ({"Master": 1, "Worker": 2}, {}), ({"Worker": 1}, {}), ({"Worker": 0}, {}),
        ({"Worker": 2}, {"elasticPolicy": {"minReplicas": 1, "maxReplicas": 4, "maxRestarts": 0, "metrics": []}}),
        ({"Worker": 2}, {"elasticPolicy": {"minReplicas": 0}}),
    ]),
    (XGBOOST, [({"Master": 1, "Worker": 2}, {}), ({"Worker": 1}, {}), ({"Master": 2}, {}), ({"Master": 0}, {})]),
    (JAX, [({"Worker": 0}, {})]),
    (MPI, [
        (LAUNCHER, {}), ({"Launcher": 1, "Worker": 3}, {}), (LAUNCHER, {"name": "n" * 54}),
        ({"Launcher": 1, "Worker": 10}, {"name": "n" * 54}), ({"Launcher": 1, "Worker": 11}, {"name": "n" * 54}),
        (LAUNCHER, {"mpiImplementation": "Intel"}), (LAUNCHER, {"mpiImplementation": "MPICH"}),
        (LAUNCHER, {"mpiImplementation": "Unknown"}), (LAUNCHER, {"mpiDistribution": "LAM"}),
        (LAUNCHER, {"launcherCreationPolicy": "Whenever"}), (LAUNCHER, {"transport": "RSH"}), (LAUNCHER, {"slotsPerWorker": 0}),
        (LAUNCHER, {"slotsPerWorker": -1}), (LAUNCHER, {"sshAuthMountPath": "home"}), ({"Launcher": {}, "Worker": {}}, {}),
        ({"Launcher": replica_spec(MPI, 2, "Always"), "Worker": 0}, {}),
        ({"Launcher": 1, "Worker": replica_spec(MPI, 1, "Invalid")}, {}), ({"Launcher": of_command("mpirun x.py")}, {}),
        ({"Worker": of_command("mpirun x.py")}, {}),
    ]),
]  # fmt: skip


def test_errors_name_their_fields_and_say_what_to_change() -> None:
    told = []
    for framework, rows in ROWS:
        for replicas, job in rows:
            errors = read_job(framework, job_manifest(framework, replicas, **job)).errors
            told += [f"{framework.kind} {replicas} {job}\n", *(f"    {error}\n" for error in errors)]
    text = "".join(told)
    if os.environ.get("GOLDEN") == "write":
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8"), "if this is meant: make golden"
