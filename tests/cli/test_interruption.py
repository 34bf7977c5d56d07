"""Whatever ends the command, no process of a pod outlives it; and what a shell makes of the standard streams."""

import contextlib
import io
import os
import pty
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from jobcommon.cli import process
from jobcommon.cli.errors import UserError
from jobcommon.cli.output import prepare_streams
from tests.cli.commands import JOBCOMMON, PATIENCE, ROOT, answered, processes_with, started
from tests.cli.test_commands import VALID

pytestmark = pytest.mark.cluster

JOB = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {{name: endless}}
spec:
  pytorchReplicaSpecs: {{Worker: {{replicas: 2, template: {{spec: {{containers: [
    {{name: pytorch, image: any, command: [sh, -c, "trap '' TERM; sleep {marker} & echo ready; wait"]}}]}}}}}}}}
"""


@pytest.fixture
def marker(request: pytest.FixtureRequest) -> str:
    """A number of seconds that nothing else on this machine sleeps."""
    return f"7{os.getpid()}.{abs(hash(request.node.name)) % 10**6}"


@pytest.mark.parametrize(("number", "again"), [(signal.SIGTERM, 0), (signal.SIGINT, 2)], ids=["SIGTERM", "Ctrl-C three times"])
def test_a_signal_ends_run_in_order(number: signal.Signals, again: int, marker: str, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(JOB.format(marker=marker))
    with started("run", "-f", str(tmp_path / "job.yaml"), until="| ready") as process:
        assert process.stdout is not None
        assert processes_with(marker)
        process.send_signal(number)
        assert any(re.search(r"stopping what runs here, after \d:\d\d\n", line) for line in process.stdout)
        for _ in range(again):
            process.send_signal(number)
        out, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode == 128 + number
        assert out.endswith(f"ended by {number.name}; nothing is left running\n")
        assert "Traceback" not in out
        assert "Error" not in out
    assert processes_with(marker) == []


# The command, interrupted when it begins to import a module.
INTERRUPTED = """
import os, signal, sys
module = sys.argv.pop(1)
def hook(event, args):
    if event == "import" and args[0] == module:
        os.kill(os.getpid(), signal.SIGINT)
sys.addaudithook(hook)
from jobcommon.cli.start import main
main()
"""


@pytest.mark.parametrize("module", ["typer", "jobcommon.framework"])
def test_ctrl_c_ends_a_command_that_still_reads_its_imports(module: str, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(JOB.format(marker="60"))
    command = [sys.executable, "-c", INTERRUPTED, module, "run", "-f", str(tmp_path / "job.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=PATIENCE)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted; nothing is left running\n")


def test_up_takes_its_kubeconfig_away_and_ends_with_0(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    with started("up", "--kubeconfig", str(kubeconfig), until="The cluster is up") as process:
        assert kubeconfig.stat().st_mode & 0o777 == 0o600
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0
        assert out.endswith("The cluster is stopped; nothing is left running.\n")
    assert not kubeconfig.exists()


def test_a_port_that_cannot_be_had_is_one_line(tmp_path: Path) -> None:
    kubeconfig = str(tmp_path / "kubeconfig")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = answered("up", "--port", port, "--kubeconfig", kubeconfig)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert done.stderr.startswith(f"error: --port {port}: the port is in use; choose another")


def test_a_terminal_shows_progress_bars_while_they_move(tmp_path: Path) -> None:
    command = rf"printf '50%%\\r60%%\\r'; until [ -e {tmp_path}/seen ]; do sleep 0.05; done; echo ready"
    (tmp_path / "job.yaml").write_text(JOB.replace("trap '' TERM; sleep {marker} & echo ready; wait", command).format())
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [*JOBCOMMON, "run", "-f", str(tmp_path / "job.yaml")],
        stdout=follower, stderr=follower, cwd=ROOT, env={**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "40"},
    )  # fmt: skip
    os.close(follower)
    seen = b""
    with contextlib.suppress(OSError):  # the other end is closed
        while piece := os.read(leader, 65536):
            seen += piece
            if b"endless-worker-0 | \x1b[0m60%" in seen:
                (tmp_path / "seen").touch()
    os.close(leader)
    assert process.wait(PATIENCE) == 0
    text = seen.decode(errors="replace")
    assert "endless-worker-0 | \x1b[0mready" in text
    assert "endless-worker-0 | \x1b[0m60%" in text


# -- What a shell makes of the standard streams: closed ones, a reader that has gone, an encoding that lacks letters


@pytest.mark.cluster
def test_a_reader_that_leaves_ends_a_run(tmp_path: Path) -> None:
    """As in ``jobcommon run … | head -1``: the next line is printed by one of several tasks."""
    (tmp_path / "job.yaml").write_text(VALID.replace("exit 0", "sleep 1000"))
    command = [*JOBCOMMON, "run", "-f", str(tmp_path / "job.yaml")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert "pods run " in running.stdout.readline()
        assert "applied" in running.stdout.readline()
        running.stdout.close()
        assert running.stderr.read() == ""
        assert running.wait(PATIENCE) == 1


def test_closed_streams_are_empty_ones() -> None:
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" <&- >&-', "sh", *JOBCOMMON, "plan", "-f", "-"],
        stderr=subprocess.PIPE, text=True, cwd=ROOT, timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr == "error: <stdin>: no object in it; a manifest begins with apiVersion, kind and metadata.name\n"


def test_streams_are_utf_8_in_any_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.BytesIO()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("é".encode()), encoding="latin-1"))
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out, encoding="ascii"))
    prepare_streams()
    sys.stdout.write(f"Worker 2 → 4, {sys.stdin.read()}, \udcff")
    sys.stdout.flush()
    assert out.getvalue().decode() == "Worker 2 → 4, é, \\udcff"


@pytest.mark.parametrize("error", [UserError("job.yaml: wrong"), BrokenPipeError()], ids=lambda error: type(error).__name__)
def test_the_error_of_a_task_comes_without_its_group(error: Exception) -> None:
    async def main() -> None:
        raise ExceptionGroup("tasks", [ExceptionGroup("tasks", [error])])

    with pytest.raises(type(error)):
        process.run(main())
