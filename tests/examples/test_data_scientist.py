"""docs/data-scientist.md: its script, by its manifest, where a lost replica costs an epoch."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.cli.commands import cluster_up, started
from tests.docs.blocks import blocks

pytestmark = [pytest.mark.slow, pytest.mark.cluster]
PAGE = [block for block in blocks() if block.document.name == "data-scientist.md"]
SCRIPT = next(block.text for block in PAGE if block.language == "python" and not block.words)


def test_the_job_of_the_page_resumes(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "train.py").write_text(SCRIPT)
    data, run = next(block.text for block in PAGE if block.language == "sh").splitlines()
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    subprocess.run(data, shell=True, check=True, cwd=tmp_path, env={**os.environ, "PATH": path})
    assert run.startswith("jobcommon run train.py --workers 2 --env DATA=$PWD/data ")
    claim, job = (yaml.safe_load(block.text) for block in PAGE if block.language == "yaml")
    for spec in job["spec"]["pytorchReplicaSpecs"].values():
        (container,) = spec["template"]["spec"]["containers"]
        # It goes on until the test has seen enough; here the script and the data are files of this machine.
        container |= {"workingDir": str(tmp_path), "env": [
            {"name": "EPOCHS", "value": "1000000"}, {"name": "DATA", "value": str(tmp_path / "data")},
            {"name": "OMP_NUM_THREADS", "value": "1"}, *(v for v in container["env"] if v["name"] == "CHECKPOINTS"),
        ]}  # fmt: skip
    job["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] = 1
    with cluster_up(tmp_path, "--capacity", "cpu=16,memory=64Gi,nvidia.com/gpu=2") as kubectl:
        kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all([claim, job]))
        follow = ("logs", "mine", "-f", "--rank", "Master-0", "--kubeconfig", str(kubectl.kubeconfig))
        with started(*follow, until="epoch 3: ") as log:
            kubectl("delete", "pod", "mine-worker-0")
            assert log.stdout is not None
            resumed = next(line for line in log.stdout if "resumes at epoch " in line)
            assert int(resumed.split()[-1]) > 3
            assert any("epoch " in line for line in log.stdout)
        state = "jsonpath={.status.conditions[?(@.status=='True')].type}"
        assert "Failed" not in kubectl("get", "pytorchjob", "mine", "-o", state)
