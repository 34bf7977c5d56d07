"""A rank that hangs, with real processes: noticed within its deadline, and the job finishes."""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from jobcommon.api.status import ConditionType, JobProgress, JobStatus, read_status
from jobcommon.api.timestamp import parse_time
from jobcommon.client.list_watch import WatchedObject
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.testutil.builders import Manifest
from jobcommon.testutil.cluster import cluster_for

#: The deadline is the shortest that is allowed, and the program reports every second.
DEADLINE = 20
#: What stands for the collective is a file per step and rank: rank 0 waits for rank 1 and the other way round. Each rank begins
#: with the step that rank 0 has completed last, its checkpoint. Reports are made as Trainer's guide says.
PROGRAM = r"""
import json, os, pathlib, ssl, sys, time, urllib.request
from datetime import datetime, timezone

rank, shared, last = int(os.environ["RANK"]), pathlib.Path(sys.argv[1]), int(sys.argv[2])
attempt = os.environ["JOBCOMMON_RESTART_ATTEMPT"]
trust = ssl.create_default_context(cafile=os.environ["KUBEFLOW_TRAINER_SERVER_CA_CERT"])

def report(step):
    token = pathlib.Path(os.environ["KUBEFLOW_TRAINER_SERVER_TOKEN"]).read_text().strip()
    metrics = [{"name": "current_step", "value": str(step)}] if step is not None else []
    status = {"progressPercentage": min(100 * (step or 0) // last, 99), "metrics": metrics}
    body = {"trainerStatus": {**status, "lastUpdatedTime": datetime.now(timezone.utc).isoformat()}}
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(os.environ["KUBEFLOW_TRAINER_SERVER_URL"], json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=5, context=trust) as answer:
        assert answer.status == 200

checkpoint = shared / "checkpoint"
step, reported = int(checkpoint.read_text()) if checkpoint.exists() else 0, 0.0
if rank == 0:
    report(None)
while step < last:
    (shared / f"{attempt}-{step}-{rank}").touch()
    while not (shared / f"{attempt}-{step}-{1 - rank}").exists():
        time.sleep(0.02)
    step += 1
    time.sleep(0.2)
    if rank == 0:
        checkpoint.write_text(str(step))
        if time.monotonic() - reported >= 1:
            reported = time.monotonic()
            report(step)
"""


def job(shared: Path, steps: int) -> Manifest:
    container = {"name": "pytorch", "image": "python", "command": [sys.executable, "-c", PROGRAM, str(shared), str(steps)]}
    replica = {"replicas": 1, "restartPolicy": "OnFailure", "template": {"spec": {"containers": [container]}}}
    policy: dict[str, Any] = {
        "restartScope": "Job", "reportProgress": True, "progressDeadlineSeconds": DEADLINE, "stallAction": "Restart",
    }  # fmt: skip
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "demo"},
        "spec": {"runPolicy": policy, "pytorchReplicaSpecs": {"Master": replica, "Worker": replica}},
    }


def programs(shared: Path, variable: bytes) -> list[int]:
    """The processes of the program with that variable, by the numbers that this process sees."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command, environ = (process / "cmdline").read_bytes(), (process / "environ").read_bytes()
        except OSError:
            continue
        if str(shared).encode() in command and variable in environ.split(b"\0"):
            found.append(int(process.name))
    assert found
    return found


def status_of(event: WatchedObject) -> JobStatus:
    return read_status(event.body.get("status"))


def armed(event: WatchedObject) -> bool:
    known = status_of(event).progress
    return known is not None and bool(known.armed)


def higher_than(before: JobProgress, event: WatchedObject) -> bool:
    now = status_of(event).progress
    return now is not None and (now.highest_step or 0) > (before.highest_step or 0)


@pytest.mark.slow
async def test_a_rank_that_hangs_is_noticed_and_the_job_finishes(tmp_path: Path) -> None:
    async with cluster_for(PYTORCH) as cluster:
        await cluster.create(PYTORCH, job(tmp_path, 60))
        await cluster.until(PYTORCH, "demo", armed)
        for process in programs(tmp_path, b"RANK=1"):
            os.kill(process, signal.SIGSTOP)
        stopped = asyncio.get_running_loop().time()
        found = await cluster.until(PYTORCH, "demo", lambda event: status_of(event).has(ConditionType.STALLED))
        assert asyncio.get_running_loop().time() - stopped < DEADLINE + 5
        status = read_status(found["status"])
        known, stalled = status.progress, status.condition(ConditionType.STALLED)
        assert known is not None
        assert stalled is not None
        silent = (parse_time(stalled.last_transition_time) or 0) - (parse_time(known.last_progress_time) or 0)
        assert DEADLINE - 1 < silent < DEADLINE + 5
        done = await cluster.until(PYTORCH, "demo", lambda event: status_of(event).finished)
        final = read_status(done["status"])
        assert final.has(ConditionType.SUCCEEDED)
        assert (final.attempt, final.restarts) == (1, 1)
        assert (tmp_path / "checkpoint").read_text() == "60"
        await cluster.until(PYTORCH, "demo", lambda event: higher_than(known, event))
