"""Every example runs here as it is and does what its comment says."""

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.commands import ROOT, answered, jobcommon

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]
SLOW = [pytest.mark.slow]
SSHD = Path("/usr/sbin/sshd")
# Where sshd puts itself when it separates privileges; a machine whose init does not start it may lack the directory.
SSHD_STATE = Path("/run/sshd")


@dataclass(frozen=True)
class Example:
    """What the output of `jobcommon run` says at exit code `code`. It needs these modules in the Python of its pods, or these
    programs; `environment`: that Python is one of its own.
    """

    says: Sequence[str]
    code: int = 0
    needs: Sequence[str] = ()
    marks: Sequence[pytest.MarkDecorator] = ()
    environment: str = ""


def allreduce(job: str) -> str:
    total, squares = sum(range(1000)), sum(number**2 for number in range(1000))
    return rf"{job}-launcher \| 4 ranks on {job}-worker-0 {job}-worker-1: sum {total}, of squares {squares}\n"


SLOPES = r"worker {} of 2: slope 3\.0\d offset -1\.0\d"
EXAMPLES = {
    "pytorch/digits.yaml": Example([r"digits-master-0 \| test accuracy 0\.9[5-9]"], needs=["torch", "sklearn"], marks=SLOW),
    "pytorch/numpy-allreduce.yaml": Example([r"numpy-allreduce-master-0 \| test accuracy 0\.9"], needs=["numpy"]),
    "pytorch/elastic.yaml": Example([r"of 2: sum 3"], needs=["torch"], marks=SLOW),
    "pytorch/recovery.yaml": Example(
        [
            r"rank 1 is killed",
            r"Restarting: .* all replicas in place because Worker-0: exited with code 137",
            r"attempt 1 begins with epoch 11\n",
            r"epoch 20 loss 0\.0",
        ],
        needs=["torch"],
        marks=SLOW,
    ),
    "jax/processes.yaml": Example([r"worker-0 \| coordinator of processes 1 2", r"worker-2 \| process 2 of 3 go"]),
    "xgboost/tracker.yaml": Example([r"master-0 \| tracker of 1 tracker-worker-0 2 tracker-worker-1"]),
    "paddle/collective.yaml": Example([r"worker-0 \| master of collective with one more node"]),
    "trainjob/steps.yaml": Example([r"dataset-initializer-0-0 \| hf://user/dataset is here(.|\n)*node-0-1 \| node 1 trains"]),
    "run-policy/restart.yaml": Example([r"first run: killed", r"Restarting: .* code 137", r"second run: done"]),
    "run-policy/deadline.yaml": Example([r"  Failed  DeadlineExceeded\n"], code=1),
    "run-policy/overrides.yaml": Example([r"worker-0 \| size small", r"worker-1 \| size small", r"worker-2 \| size large"]),
    "run-policy/progress.yaml": Example([r"all steps are reported"]),
    "run-policy/ttl.yaml": Example([r"gone in five seconds"]),
    "run-policy/suspend.yaml": Example([r"  Suspended\n", r"suspended, and nothing here will resume it"], code=1),
    "tensorflow/parameter-server.yaml": Example(
        [r"ps-0 \| ps 0 serves", r"worker-1 \| worker 1 serves", r"chief-0 \| slope 3\.0\d offset -1\.0\d"],
        marks=SLOW,
        environment="tf",
    ),
    "tensorflow/multi-worker-mirrored.yaml": Example(
        [rf"worker-{index} \| {SLOPES.format(index)}" for index in (0, 1)], marks=SLOW, environment="tf"
    ),
    # ps-lite numbers workers as they come.
    "mxnet/dist-sync.yaml": Example(
        [rf"worker-\d \| {SLOPES.format(rank)}" for rank in (0, 1)], marks=SLOW, environment="mxnet"
    ),
    "mpi/allreduce-ssh.yaml": Example([allreduce("allreduce-ssh")], needs=["mpirun", "sshd", "mpi4py", "numpy"], marks=SLOW),
    "mpi/allreduce-exec.yaml": Example(
        [allreduce("allreduce-exec")], needs=["mpirun", "kubectl", "mpi4py", "numpy"], marks=SLOW
    ),
    # Of these only the leader is sure to be heard: the job is over with it.
    "polyaxon/pytorch.yml": Example(
        [r"ranks-master-0 \| hello from master 0 rank 0 of 4", r"master is at ranks-master-0\.ranks:23456"],
        marks=SLOW,
    ),
    "polyaxon/tensorflow.yml": Example([r"roles-chief-0 \| chief 0 of \['chief', 'ps', 'worker'\]"], marks=SLOW),
    "polyaxon/mxnet.yml": Example([r"kvstore-scheduler-0 \| scheduler of 2 workers and 1 servers, dist_sync"], marks=SLOW),
    "polyaxon/horovod.yml": Example(
        [rf"ring-launcher \| \[1,{rank}\]<stdout>:{rank}" for rank in range(4)],
        needs=["mpirun", "sshd"],
        marks=SLOW,
    ),
}
# Its user acts while it runs: test_pages.py does.
FOR_UP = {"pytorch/resize.yaml"}
PROGRAMS = {"mpirun": "openmpi-bin", "kubectl": "kubectl", "sshd": "openssh-server, and root to run it"}


def is_there(needed: str) -> bool:
    """Whether this machine has the program, or this environment, whose Python the pods run, the module."""
    if needed == "sshd":
        return SSHD.exists() and os.geteuid() == 0
    return shutil.which(needed) is not None if needed in PROGRAMS else importlib.util.find_spec(needed) is not None


def test_every_example_is_tried_and_listed() -> None:
    found = {path.relative_to(ROOT / "examples").as_posix() for path in (ROOT / "examples").rglob("*.y*ml")}
    listed = (ROOT / "examples/README.md").read_text(encoding="utf-8")
    assert {name for name in found if not name.startswith("seeds/")} == EXAMPLES.keys() | FOR_UP
    assert [name for name in found if f"({name})" not in listed and not name.startswith("polyaxon/")] == []


@pytest.mark.parametrize("name", [pytest.param(name, marks=example.marks) for name, example in EXAMPLES.items()])
def test_example(name: str) -> None:
    example = EXAMPLES[name]
    if missing := [PROGRAMS.get(needed, needed) for needed in example.needs if not is_there(needed)]:
        pytest.skip(f"not installed: {', '.join(missing)} (pip install 'jobcommon[examples]', make setup, or apt)")
    if "sshd" in example.needs:
        SSHD_STATE.mkdir(exist_ok=True)
    if example.environment:
        python = ROOT / f".venv-{example.environment}/bin/python"
        if not python.exists():
            pytest.skip(f"there is no environment .venv-{example.environment}: make frameworks")
        # The environment's Python is then the one of the pods.
        command = [str(python), "-m", "jobcommon.cli", "run", "-f", f"examples/{name}", "--timeout", "500"]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=550)
    else:
        done = answered("run", "-f", f"examples/{name}")
        assert done.stderr == ""
    assert done.returncode == example.code, done.stdout + done.stderr
    wanted = [*example.says, *([r"  Succeeded\n"] if example.code == 0 else [])]
    assert [pattern for pattern in wanted if not re.search(pattern, done.stdout)] == [], done.stdout


@pytest.mark.slow
@pytest.mark.skipif(not (is_there("mpirun") and is_there("kubectl")), reason="not installed: openmpi-bin, or kubectl")
def test_a_script_alone(tmp_path: Path) -> None:
    script = tmp_path / "ranks.py"
    # Ranks share an output: a line that Python writes in two parts is mixed with another's.
    script.write_text("import os, socket, sys\nrank = os.environ['OMPI_COMM_WORLD_RANK']\nassert not sys.stdout.write_through\n"
                      "print(f\"rank {rank} on {socket.gethostname()}: {os.environ['A']} {sys.argv[1]}\")\n")  # fmt: skip
    done = jobcommon("run", str(script), "--framework", "mpi", "--workers", "2", "--env", "A=b", "--", "c")
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(re.findall(r"rank .*", done.stdout)) == [f"rank {rank} on ranks-worker-{rank}: b c" for rank in (0, 1)]
