"""docs/data-scientist.md: its script, by its manifest, where a lost replica costs an epoch."""

from pathlib import Path

import pytest
import yaml

from tests.cli.commands import cluster_up, started
from tests.docs.blocks import blocks

pytestmark = [pytest.mark.slow, pytest.mark.cluster]
PAGE = [block for block in blocks() if block.document.name == "data-scientist.md"]
SCRIPT = next(block.text for block in PAGE if block.language == "python" and not block.words)


def test_the_job_of_the_page_resumes(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "data").mkdir()
    torch.save((torch.randn(64, 4), torch.randn(64, 1)), tmp_path / "data" / "train.pt")
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
