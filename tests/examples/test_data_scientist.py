"""docs/data-scientist.md: its script by its command, and by its manifest, where a lost replica costs an epoch."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.cli.commands import PATIENCE, cluster_up, started
from tests.docs.blocks import blocks

pytestmark = [pytest.mark.slow, pytest.mark.cluster]
PAGE = {block.language + block.words[-1] if block.words else block.language: block.text
        for block in blocks() if block.document.name == "data-scientist.md"}  # fmt: skip


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """With the script and some data."""
    torch = pytest.importorskip("torch")
    (tmp_path / "train.py").write_text(PAGE["python"])
    (tmp_path / "data").mkdir()
    torch.save((torch.randn(64, 4), torch.randn(64, 1)), tmp_path / "data" / "train.pt")
    return tmp_path


def test_the_command_of_the_page(directory: Path) -> None:
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    for epochs, said in ((2, "epoch 1: "), (3, "resumes at epoch 2")):
        script = PAGE["sh"].replace("EPOCHS=5", f"EPOCHS={epochs}")
        done = subprocess.run(
            ["bash", "-euc", script], cwd=directory, env=env, capture_output=True, text=True, timeout=PATIENCE
        )
        assert done.returncode == 0, done.stdout
        assert said in done.stdout


def test_the_job_of_the_page_resumes(directory: Path) -> None:
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **yaml.safe_load(PAGE["yamlPersistentVolumeClaim"])}
    job = yaml.safe_load(PAGE["yaml"])
    for spec in job["spec"]["pytorchReplicaSpecs"].values():
        (container,) = spec["template"]["spec"]["containers"]
        # It goes on until the test has seen enough; here the script and the data are files of this machine.
        container |= {"workingDir": str(directory), "env": [
            {"name": "EPOCHS", "value": "1000000"}, {"name": "DATA", "value": str(directory / "data")},
            {"name": "OMP_NUM_THREADS", "value": "1"}, *(v for v in container["env"] if v["name"] == "CHECKPOINTS"),
        ]}  # fmt: skip
    job["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] = 1
    with cluster_up(directory, "--capacity", "cpu=16,memory=64Gi,nvidia.com/gpu=2") as kubectl:
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
