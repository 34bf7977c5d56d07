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
#: by kind, the state of each replica ("-": no pod), what the spec has, and the condition beside Created
ROWS: list[tuple[Framework, list[tuple[str, Manifest, str]]]] = [
    (TF, [
        ("Chief: succeeded, Worker: -", {}, "Succeeded"), ("Chief: running, Worker: -", {}, "Running"),
        ("Chief: failed, Worker: -", {}, "Failed"), ("Master: succeeded", {}, "Succeeded"), ("Worker: failed", {}, "Failed"),
        ("Worker: succeeded", {}, "Succeeded"), ("Worker: running", {}, "Running"),
        ("PS: running*2, Worker: succeeded*2 running*2", {}, "Succeeded"),
        ("PS: running*2, Worker: running*2 succeeded*2", {}, "Running"),
        ("PS: running*2, Worker: failed*2 running*2", {}, "Failed"),
        ("PS: running*2, Worker: failed*2 succeeded*2", {}, "Failed"),
        ("PS: running*2, Worker: succeeded*2 failed*2", {}, "Succeeded"),
        ("PS: running*2, Worker: succeeded running*3", {}, "Succeeded"),
        ("PS: scheduled, Worker: scheduled*2 running -", {}, "Running"), ("Worker: succeeded running*3", ALL, "Running"),
        ("Worker: succeeded*4", ALL, "Succeeded"), ("Worker: succeeded failed running*2", ALL, "Failed"),
        ("PS: running*2, Worker: failed*4, Chief: running", {}, "Failed"),
        ("PS: running*2, Worker: succeeded*4, Chief: running", {}, "Running"),
        ("PS: failed running, Worker: succeeded*4, Chief: running", {}, "Failed"),
        ("PS: running*2, Worker: succeeded*4, Chief: failed", {}, "Failed"),
        ("PS: running*2, Worker: failed*4, Chief: succeeded", {}, "Succeeded"),
        ("PS: running*2, Worker: killed*4, Chief: killed", {"policy": "ExitCode"}, "Restarting"),
        ("PS: running, Worker: running failed", DYNAMIC, "Running"), ("PS: failed, Worker: running*2", DYNAMIC, "Failed"),
        ("Chief: -*0, Worker: running", {}, "Running"), ("Chief: -*0, Worker: succeeded", {}, "Succeeded"),
        ("PS: running, Worker: -*0", {}, "Running"), ("Chief: -*0, Worker: -*0", {}, "Failed"),
    ]),
    (PYTORCH, [
        ("Master: running, Worker: -*2", {}, "Running"), ("Master: succeeded, Worker: running -", {}, "Succeeded"),
        ("Master: -, Worker: running", {}, ""), ("Master: succeeded, Worker: failed", {"policy": "Never"}, "Succeeded"),
        ("Master: succeeded, Worker: killed", {"policy": "Never"}, "Succeeded"), ("Worker: succeeded running", {}, "Running"),
        ("Worker: succeeded*2", {}, "Succeeded"), ("Worker: succeeded running", ELASTIC, "Succeeded"),
        ("Worker: succeeded", ELASTIC, "Succeeded"),
    ]),
    (MXNET, [
        ("Worker: failed", {}, "Failed"), ("Scheduler: succeeded, Worker: succeeded", {}, "Succeeded"),
        ("Scheduler: running, Worker: running", {}, "Running"),
        ("Scheduler: running, Worker: succeeded*2 running*2", {}, "Running"),
        ("Scheduler: running, Worker: failed*2 running*2", {}, "Failed"),
        ("Scheduler: running, Worker: succeeded*2 failed*2", {}, "Failed"),
        ("Scheduler: running, Server: succeeded, Worker: running", {}, "Running"),
        ("Scheduler: running, Worker: succeeded", ALL, "Succeeded"), ("Scheduler: running, Worker: running", ALL, "Running"),
        ("Scheduler: succeeded, Worker: running", ALL, "Running"), ("Worker: succeeded running", {}, "Running"),
        ("Worker: succeeded*2", {}, "Succeeded"), ("Scheduler: -*0, Server: -*0, Worker: running", {}, "Running"),
        ("Scheduler: -*0, Server: -*0, Worker: succeeded", {}, "Succeeded"),
        ("TunerTracker: running, TunerServer: running, Tuner: running", TUNES, "Running"),
        ("TunerTracker: running, TunerServer: running, Tuner: succeeded", TUNES, "Succeeded"),
        ("TunerTracker: succeeded, TunerServer: succeeded, Tuner: running", TUNES, "Running"),
    ]),
    (PADDLE, [
        ("Master: running, Worker: succeeded", {}, "Running"), ("Master: succeeded, Worker: running", {}, "Succeeded"),
        ("Worker: running scheduled", {}, "Running"), ("Worker: succeeded running", {}, "Running"),
        ("Worker: succeeded*2", {}, "Succeeded"),
    ]),
    (XGBOOST, [
        ("Master: running, Worker: scheduled", {}, "Running"), ("Master: running, Worker: succeeded", {}, "Running"),
        ("Master: succeeded, Worker: running", {}, "Succeeded"), ("Master: failed, Worker: running", {}, "Failed"),
        ("Master: running, Worker: failed", {}, "Failed"),
    ]),
    (JAX, [
        ("Worker: running scheduled", {}, "Running"), ("Worker: succeeded running", {}, "Running"),
        ("Worker: succeeded*2", {}, "Succeeded"), ("Worker: failed running", {}, "Failed"),
    ]),
    (MPI, [
        ("Launcher: running, Worker: scheduled*2", {}, ""), ("Launcher: running, Worker: running scheduled", {}, ""),
        ("Launcher: running, Worker: running*2", {}, "Running"), ("Launcher: -, Worker: running*2", {}, ""),
        ("Launcher: succeeded, Worker: running*2", {}, "Succeeded"),
        ("Launcher: running", {"runLauncherAsWorker": True}, "Running"),
        ("Launcher: succeeded", {"runLauncherAsWorker": True}, "Succeeded"),
    ]),
]  # fmt: skip
STATES = {"failed": "running,failed 1", "killed": "running,failed 130", "succeeded": "running,succeeded"}


CASES = [(framework, *row) for framework, rows in ROWS for row in rows]


@pytest.mark.parametrize(("framework", "states", "spec", "expected"), CASES, ids=[f"{r[0].name} {r[1]} {r[2]}" for r in CASES])
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
