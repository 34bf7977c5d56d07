"""What a shell makes of the standard streams: closed ones, a reader that has gone, an encoding that lacks letters."""

import io
import subprocess
import sys
from pathlib import Path

import pytest

from jobcommon.cli import process
from jobcommon.cli.errors import UserError
from jobcommon.cli.output import prepare_streams
from tests.cli.commands import JOBCOMMON, PATIENCE, ROOT
from tests.cli.test_commands import VALID


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
