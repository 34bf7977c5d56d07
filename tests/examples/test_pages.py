"""The commands of documents as a reader types them, on real programs: the tutorial, elastic jobs, data and checkpoints."""

import os
import re
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from tests.cli.commands import ROOT, cluster_up, started, typed
from tests.docs.blocks import Block, blocks

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.timeout(1200)]
BIN = Path(sys.executable).parent
# What a reader of the tutorial must see, by a part of the command that prints it.
PROMISED = {
    "jobcommon run train.py --workers 3 --name tutorial -- --epochs 5": "epoch 4: [0.96, -1.99, 2.92, -3.92]",
    "jobcommon wait tutorial": "epoch 4: [0.96, -1.99, 2.92, -3.92]",
    "jobcommon why broken": "invalid int value",
    "--name tutorial-2": "epoch 4: [0.96, -1.99, 2.92, -3.92]",
}


def page(name: str, language: str) -> list[Block]:
    return [block for block in blocks() if block.document.as_posix() == f"docs/{name}" and block.language == language]


def test_the_tutorial(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    if not (ROOT / ".venv/bin/activate").exists():
        pytest.skip("no .venv, which make setup makes")
    (tmp_path / "train.py").write_text(page("tutorial.md", "python")[0].text)
    install, *commands = page("tutorial.md", "sh")
    # A new terminal: only the first step puts the commands on its PATH. `make setup` is not repeated.
    bare = ":".join(one for one in os.environ["PATH"].split(":") if Path(one) != BIN)
    path = typed(f"{install.text.removeprefix('make setup')}echo $PATH", ROOT, PATH=bare).splitlines()[-1]
    up = next(number for number, block in enumerate(commands) if "background" in block.words)
    seen = {block.text: typed(block.text, tmp_path, PATH=path, COLUMNS="200") for block in commands[:up]}
    with cluster_up(tmp_path, "--kubeconfig", str(tmp_path / ".jobcommon" / "kubeconfig")):
        seen |= {block.text: typed(block.text, tmp_path, PATH=path, COLUMNS="200") for block in commands[up + 1 :]}
    for part, promised in PROMISED.items():
        assert promised in next(output for text, output in seen.items() if part in text)


def test_a_resize(tmp_path: Path) -> None:
    """What `make demo-elastic` shows: the loss goes on from the checkpoint in each size."""
    pytest.importorskip("torch")
    up, *commands = [block.text for block in page("elastic.md", "sh")][1:]
    epochs: list[tuple[int, float]] = []
    ranks: list[int] = []
    with cluster_up(tmp_path, *up.split()[2:]):
        for command in "".join(commands).splitlines():
            print(f"$ {command}", flush=True)
            print(output := typed(command, ROOT, KUBECONFIG=str(tmp_path / "kubeconfig")), flush=True)
            for world, after in re.findall(r"(\d) ranks go on after epoch (\d+)\n", output):
                ranks.append(int(world))
                assert not epochs or int(after) >= epochs[-1][0], "what was seen is in the checkpoint"
            epochs += [(int(epoch), float(loss)) for epoch, loss in re.findall(r"epoch (\d+) loss (\S+)\n", output)]
    assert ranks == [3, 5, 4, 3, 4]
    assert len(epochs) == 2 * len(ranks)
    assert all(later > epoch and less < loss for (epoch, loss), (later, less) in pairwise(epochs))


def test_a_job_with_data_and_checkpoints(tmp_path: Path) -> None:
    """The script of the page by its manifest: a lost replica costs an epoch."""
    pytest.importorskip("torch")
    (tmp_path / "train.py").write_text(next(block.text for block in page("data-scientist.md", "python") if not block.words))
    data, run = page("data-scientist.md", "sh")[0].text.splitlines()
    typed(data, tmp_path)
    assert run.startswith("jobcommon run train.py --workers 2 --env DATA=$PWD/data ")
    claim, job = (yaml.safe_load(block.text) for block in page("data-scientist.md", "yaml"))
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
