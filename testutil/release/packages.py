"""Wheel and source distribution."""

import filecmp
import os
import sys
import tarfile
import tempfile
from pathlib import Path

from jobcommon.testutil.release.program import ReleaseError, output_of


def build(root: Path, output: Path, moment: int) -> None:
    """Write both to `output`, with `moment` (seconds since the epoch) as the time of all files.

    Raises ReleaseError when the source distribution does not build the same wheel: it lacks something.
    """
    _hatchling(root, output, moment)
    (wheel,) = output.glob("*.whl")
    (source,) = output.glob("*.tar.gz")
    with tempfile.TemporaryDirectory(prefix="jobcommon-release-") as scratch:
        with tarfile.open(source) as archive:
            archive.extractall(scratch, filter="data")
        (unpacked,) = Path(scratch).iterdir()
        _hatchling(unpacked, unpacked / "dist", moment, "--target", "wheel")
        if not filecmp.cmp(unpacked / "dist" / wheel.name, wheel, shallow=False):
            raise ReleaseError(f"{source.name} builds another wheel than the directory; see tool.hatch in pyproject.toml")


def _hatchling(root: Path, output: Path, moment: int, *arguments: str) -> None:
    argv: list[str | Path] = [sys.executable, "-m", "hatchling", "build", "--directory", output, *arguments]
    output_of(argv, root, {**os.environ, "SOURCE_DATE_EPOCH": str(moment)})
