"""Wheels and source distributions."""

import filecmp
import os
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path

from jobcommon.testutil.release.program import ReleaseError, output_of


def build(root: Path, output: Path, moment: int) -> None:
    """Write both to `output`, with `moment` (seconds since the epoch) as the time of all files.

    Raises ReleaseError when the source distribution does not build the same wheel: it lacks something.
    """
    with tempfile.TemporaryDirectory(prefix="jobcommon-release-") as scratch:
        made, unpacking = Path(scratch) / "made", Path(scratch) / "unpacking"
        _hatchling(root, made, moment)
        (wheel,) = made.glob("*.whl")
        (source,) = made.glob("*.tar.gz")
        with tarfile.open(source) as archive:
            archive.extractall(unpacking, filter="data")
        (unpacked,) = unpacking.iterdir()
        _hatchling(unpacked, unpacked / "dist", moment, "--target", "wheel")
        if not filecmp.cmp(unpacked / "dist" / wheel.name, wheel, shallow=False):
            raise ReleaseError(f"{source.name} builds another wheel than the directory; see tool.hatch in pyproject.toml")
        for path in (wheel, source):
            shutil.move(path, output)


def _hatchling(root: Path, output: Path, moment: int, *arguments: str) -> None:
    argv: list[str | Path] = [sys.executable, "-m", "hatchling", "build", "--directory", output, *arguments]
    output_of(argv, root, {**os.environ, "SOURCE_DATE_EPOCH": str(moment)})
