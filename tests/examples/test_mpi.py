"""The MPI examples run here with `jobcommon run`, over ssh and over kubectl exec."""

import importlib.util
import os
import re
import shutil
from pathlib import Path

import pytest

from tests.cli.commands import jobcommon

SSHD = Path("/usr/sbin/sshd")
# Where sshd puts itself when it separates privileges; a machine whose init does not start it may lack the directory.
SSHD_STATE = Path("/run/sshd")
MISSING = [name for name in ("mpirun", "kubectl") if shutil.which(name) is None]
MISSING += [name for name in ("mpi4py", "numpy") if importlib.util.find_spec(name) is None]
pytestmark = [pytest.mark.cluster, pytest.mark.training, pytest.mark.timeout(600)]
needs_mpi = pytest.mark.skipif(
    bool(MISSING), reason=f"not installed: {', '.join(MISSING)} (apt: openmpi-bin; kubectl; pip: mpi4py, numpy)"
)
needs_sshd = pytest.mark.skipif(
    not SSHD.exists() or os.geteuid() != 0,
    reason="ssh between pods needs /usr/sbin/sshd (apt: openssh-server) and root to run it",
)
EXAMPLES = ("mpi/allreduce-ssh.yaml", "mpi/allreduce-exec.yaml")


@pytest.mark.slow
@needs_mpi
@pytest.mark.parametrize("name", [pytest.param(EXAMPLES[0], marks=needs_sshd), EXAMPLES[1]])
def test_example(name: str) -> None:
    if name == EXAMPLES[0]:
        SSHD_STATE.mkdir(exist_ok=True)
    done = jobcommon("run", "-f", f"examples/{name}")
    assert done.returncode == 0, done.stdout + done.stderr
    job = Path(name).stem
    total, squares = sum(range(1000)), sum(number**2 for number in range(1000))
    line = f"{job}-launcher | 4 ranks on {job}-worker-0 {job}-worker-1: sum {total}, of squares {squares}\n"
    assert line in done.stdout
    assert re.search(r"Succeeded +True", done.stdout), done.stdout


@pytest.mark.slow
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
