"""What a killed cluster leaves behind is swept by the next one, and what a living one has is not."""

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from localcluster.scratch import scratch_directory

HOLDER = (
    "import sys; from localcluster.scratch import scratch_directory\n"
    "with scratch_directory() as place:\n"
    "    (place / 'token').write_text('secret'); print(place, flush=True); sys.stdin.read()"
)


@pytest.fixture(autouse=True)
def own_temporary_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)


def test_it_goes_with_the_context(tmp_path: Path) -> None:
    with scratch_directory() as place:
        assert place.parent == tmp_path
        assert place.stat().st_mode & 0o777 == 0o700
        (place / "below").mkdir()
    assert list(tmp_path.iterdir()) == []


def test_the_dead_are_swept_and_the_living_are_not(tmp_path: Path) -> None:
    foreign = tmp_path / "localcluster-run-of-another-kind"
    foreign.mkdir()
    with (
        subprocess.Popen([sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as dead,
        scratch_directory() as living,
    ):
        assert dead.stdout is not None
        left = Path(dead.stdout.readline().strip())
        with scratch_directory():
            assert (left / "token").exists(), "it lives"
        dead.kill()
        dead.wait()
        assert (left / "token").exists()
        with scratch_directory() as fresh:
            assert {place.name for place in tmp_path.iterdir()} == {living.name, fresh.name, foreign.name}
