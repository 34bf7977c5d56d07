"""The example of a recovery, with a rank that is killed ten times in a row: every attempt goes on from the checkpoint."""

import importlib.util
from pathlib import Path

import pytest
import yaml

from jobcommon.api.status import read_status
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.reconcile import limits
from jobcommon.testutil.cluster import cluster_for, succeeded
from tests.cli.commands import ROOT

KILLS = 10
#: what the example's script says, and what it says here
CHANGES = {
    "attempt == 0 and epoch == 10": f"attempt < {KILLS} and epoch == 10 + attempt",
    'print(f"attempt {attempt} begins with epoch {first}", flush=True)': (
        'print(attempt, first, file=CHECKPOINT.with_name("begun").open("a"))'
    ),
}


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.timeout(600)
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed (make setup)")
async def test_every_attempt_goes_on_from_the_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FIRST_RESTART_DELAY", 0.0)
    text = (ROOT / "examples/pytorch/recovery.yaml").read_text(encoding="utf-8")
    for old, new in CHANGES.items():
        assert old in text
        text = text.replace(old, new)
    code, _, job = yaml.safe_load_all(text)
    job["spec"]["runPolicy"]["backoffLimit"] = KILLS
    for spec in job["spec"]["pytorchReplicaSpecs"].values():
        spec["template"]["spec"]["volumes"][1] = {"name": "checkpoints", "hostPath": {"path": str(tmp_path)}}
    async with cluster_for(PYTORCH) as cluster:
        await cluster.create("configmaps", code)
        await cluster.create(PYTORCH, job)
        done = await cluster.until(PYTORCH, "recovery", succeeded, seconds=500)
        pods = {pod["metadata"]["name"] for pod in await cluster.pods()}
    status = read_status(done["status"])
    assert (status.attempt, status.restarts, len(pods)) == (KILLS, KILLS, 3)
    begun = [line.split() for line in (tmp_path / "begun").read_text().splitlines()]
    assert begun == [["0", "1"], *([str(n), str(10 + n)] for n in range(1, KILLS + 1))]
    assert status.time_spent is not None
    assert status.time_spent.restarting is not None
    print(f"from a kill to running again: {status.time_spent.restarting / KILLS:.2f} s on average of {KILLS}")
