"""Every example runs here as it is and does what its comment says."""

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cli.commands import ROOT, answered, jobcommon

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

# example -> exit code of `jobcommon run`, and what its output says
RUNS: dict[str, tuple[int, Sequence[str]]] = {
    "pytorch/digits.yaml": (0, [r"digits-master-0 \| test accuracy 0\.9[5-9]", r"Succeeded +True"]),
    "pytorch/numpy-allreduce.yaml": (0, [r"numpy-allreduce-master-0 \| test accuracy 0\.9", r"Succeeded +True"]),
    "pytorch/elastic.yaml": (0, [r"of 2: sum 3", r"Succeeded +True"]),
    "pytorch/recovery.yaml": (
        0,
        [
            r"rank 1 is killed",
            r"Restarting: .* all replicas in place because Worker-0: exited with code 137",
            r"attempt 1 begins with epoch 11\n",
            r"epoch 20 loss 0\.0",
            r"Succeeded +True",
        ],
    ),
    "jax/processes.yaml": (
        0,
        [r"worker-0 \| coordinator of processes 1 2", r"worker-2 \| process 2 of 3 go", r"Succeeded +True"],
    ),
    "xgboost/tracker.yaml": (0, [r"master-0 \| tracker of 1 tracker-worker-0 2 tracker-worker-1", r"Succeeded +True"]),
    "paddle/collective.yaml": (0, [r"worker-0 \| master of collective with one more node", r"Succeeded +True"]),
    "trainjob/steps.yaml": (
        0,
        [r"dataset-initializer-0-0 \| hf://user/dataset is here(.|\n)*node-0-1 \| node 1 trains", r"Succeeded +True"],
    ),
    "run-policy/restart.yaml": (0, [r"first run: killed", r"Restarting: .* code 137", r"second run: done", r"Succeeded +True"]),
    "run-policy/deadline.yaml": (1, [r"Failed +True .*DeadlineExceeded"]),
    "run-policy/overrides.yaml": (0, [r"worker-0 \| size small", r"worker-1 \| size small", r"worker-2 \| size large"]),
    "run-policy/progress.yaml": (0, [r"all steps are reported", r"Succeeded +True"]),
    "run-policy/ttl.yaml": (0, [r"gone in five seconds", r"Succeeded +True"]),
    "run-policy/suspend.yaml": (1, [r"Suspended +True", r"suspended, and nothing here will resume it"]),
}
# Those that import torch in each of their processes.
SLOW = ("pytorch/digits.yaml", "pytorch/elastic.yaml", "pytorch/recovery.yaml")
# example -> the modules its script imports
NEEDS = {
    "pytorch/digits.yaml": ("torch", "sklearn"),
    "pytorch/numpy-allreduce.yaml": ("numpy",),
    "pytorch/elastic.yaml": ("torch",),
    "pytorch/recovery.yaml": ("torch",),
}
# example -> the environment it needs, and what its output says
OF_OTHERS: dict[str, tuple[str, list[str]]] = {
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
SSHD = Path("/usr/sbin/sshd")
# Where sshd puts itself when it separates privileges; a machine whose init does not start it may lack the directory.
SSHD_STATE = Path("/run/sshd")
MISSING = [name for name in ("mpirun", "kubectl") if shutil.which(name) is None]
MISSING += [name for name in ("mpi4py", "numpy") if importlib.util.find_spec(name) is None]
needs_mpi = pytest.mark.skipif(
    bool(MISSING), reason=f"not installed: {', '.join(MISSING)} (apt: openmpi-bin; kubectl; pip: mpi4py, numpy)"
)
needs_sshd = pytest.mark.skipif(
    not SSHD.exists() or os.geteuid() != 0,
    reason="ssh between pods needs /usr/sbin/sshd (apt: openssh-server) and root to run it",
)
MPI = ("mpi/allreduce-ssh.yaml", "mpi/allreduce-exec.yaml")


# Their users act while they run: test_resize.py does.
FOR_UP = {"pytorch/resize.yaml"}


def skip_without(name: str) -> None:
    """Skip the test when this environment, whose Python the pods run, lacks what the example imports."""
    missing = [module for module in NEEDS.get(name, ()) if importlib.util.find_spec(module) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)} (pip install 'jobcommon[examples]', or make setup)")


def test_every_example_is_tried_and_listed() -> None:
    tried = RUNS.keys() | FOR_UP | OF_OTHERS.keys() | {*MPI}
    found = {path.relative_to(ROOT / "examples").as_posix() for path in (ROOT / "examples").rglob("*.y*ml")}
    listed = (ROOT / "examples/README.md").read_text(encoding="utf-8")
    assert {name for name in found if not name.startswith(("polyaxon/", "seeds/"))} == tried
    assert [name for name in found if f"({name})" not in listed and not name.startswith("polyaxon/")] == []


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in RUNS])
def test_example(name: str) -> None:
    skip_without(name)
    code, patterns = RUNS[name]
    done = answered("run", "-f", f"examples/{name}")
    assert done.returncode == code, done.stdout + done.stderr
    assert [pattern for pattern in patterns if not re.search(pattern, done.stdout)] == [], done.stdout


@pytest.mark.slow
@pytest.mark.training
@pytest.mark.parametrize("name", OF_OTHERS)
def test_example_of_an_environment_of_its_own(name: str) -> None:
    environment, patterns = OF_OTHERS[name]
    python = ROOT / f".venv-{environment}/bin/python"
    if not python.exists():
        pytest.skip(f"there is no environment .venv-{environment}: make frameworks")
    # The environment's Python is then the one of the pods.
    command = [str(python), "-m", "jobcommon.cli", "run", "-f", f"examples/{name}", "--timeout", "500"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=550)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [pattern for pattern in patterns if not re.search(pattern, done.stdout)] == [], done.stdout


@pytest.mark.slow
@pytest.mark.training
@needs_mpi
@pytest.mark.parametrize("name", [pytest.param(MPI[0], marks=needs_sshd), MPI[1]])
def test_example_of_mpi(name: str) -> None:
    if name == MPI[0]:
        SSHD_STATE.mkdir(exist_ok=True)
    done = jobcommon("run", "-f", f"examples/{name}")
    assert done.returncode == 0, done.stdout + done.stderr
    job = Path(name).stem
    total, squares = sum(range(1000)), sum(number**2 for number in range(1000))
    line = f"{job}-launcher | 4 ranks on {job}-worker-0 {job}-worker-1: sum {total}, of squares {squares}\n"
    assert line in done.stdout
    assert re.search(r"Succeeded +True", done.stdout), done.stdout


@pytest.mark.slow
@pytest.mark.training
@pytest.mark.skipif(
    any(shutil.which(name) is None for name in ("mpirun", "kubectl")), reason="not installed: openmpi-bin, or kubectl"
)
def test_a_script_alone(tmp_path: Path) -> None:
    script = tmp_path / "ranks.py"
    script.write_text("import os, socket, sys\nrank = os.environ['OMPI_COMM_WORLD_RANK']\n"
                      "print(f\"rank {rank} on {socket.gethostname()}: {os.environ['A']} {sys.argv[1]}\")\n")  # fmt: skip
    done = jobcommon("run", str(script), "--framework", "mpi", "--workers", "2", "--env", "A=b", "--", "c")
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(re.findall(r"rank .*", done.stdout)) == [f"rank {rank} on ranks-worker-{rank}: b c" for rank in (0, 1)]
