"""Examples of frameworks that need an environment of their own: `make frameworks` makes it."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.cli.commands import ROOT

# example -> the environment it needs, and what its output says
RUNS: dict[str, tuple[str, list[str]]] = {
    "tensorflow/parameter-server.yaml": (
        "tf",
        [r"ps-0 \| ps 0 serves", r"worker-1 \| worker 1 serves", r"chief-0 \| slope 3\.0\d offset -1\.0\d", r"Succeeded +True"],
    ),
    "tensorflow/multi-worker-mirrored.yaml": (
        "tf",
        [rf"worker-{index} \| worker {index} of 2: slope 3\.0\d offset -1\.0\d" for index in (0, 1)] + [r"Succeeded +True"],
    ),
    "mxnet/dist-sync.yaml": (
        "mxnet",
        # ps-lite numbers workers as they come.
        [rf"worker-\d \| worker {rank} of 2: slope 3\.0\d offset -1\.0\d" for rank in (0, 1)] + [r"Succeeded +True"],
    ),
}


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.training
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", RUNS)
def test_example(name: str) -> None:
    environment, patterns = RUNS[name]
    python = ROOT / f".venv-{environment}/bin/python"
    if not python.exists():
        pytest.skip(f"there is no environment .venv-{environment}: make frameworks")
    done = run(python, f"examples/{name}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [pattern for pattern in patterns if not re.search(pattern, done.stdout)] == [], done.stdout


def run(python: Path, manifest: str) -> subprocess.CompletedProcess[str]:
    """`jobcommon run` with the environment's Python, which is then the one of the pods."""
    command = [str(python), "-m", "jobcommon.cli", "run", "-f", manifest, "--timeout", "500"]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=550)
