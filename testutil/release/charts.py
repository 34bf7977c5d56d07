"""Helm charts as archives that stand alone."""

import gzip
import io
import shutil
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import yaml

from jobcommon.testutil.release.program import ReleaseError


def package(charts: Path, output: Path, moment: int) -> None:
    """Write an archive of each chart in the directory `charts` to `output`, library charts excepted.

    `moment` (seconds since the epoch) is the time of all files. Raises ReleaseError when Helm does not accept a chart, when
    an archive does not render what its directory does, and where Helm's library is not installed.
    """
    try:
        import helm_python as helm
    except ImportError:
        raise ReleaseError("helm-python-sdk is not installed, and has wheels for x86-64 Linux and macOS only") from None
    with tempfile.TemporaryDirectory(prefix="jobcommon-release-") as scratch:
        # In the repository, the charts share files by symbolic links.
        plain = Path(shutil.copytree(charts, Path(scratch) / "charts", symlinks=False))
        for chart in sorted(path.parent for path in plain.glob("*/Chart.yaml")):
            if yaml.safe_load((chart / "Chart.yaml").read_text(encoding="utf-8")).get("type") == "library":
                continue
            try:
                packed = Path(helm.package(chart, destination=scratch))
                archive = output / packed.name
                archive.write_bytes(_dated(packed.read_bytes(), moment))
                same = _rendered(helm.Chart.load(chart)) == _rendered(helm.Chart.load(archive))
            except helm.HelmError as error:
                raise ReleaseError(f"charts/{chart.name}: {error}") from None
            if not same:
                raise ReleaseError(f"{archive.name} does not render what charts/{chart.name} does")


def _rendered(chart: Any) -> Any:
    with chart:
        return chart.render({}, name="release", namespace="default"), chart.crds


def _dated(archive: bytes, moment: int) -> bytes:
    """The same files in the same order; Helm gives them the time of packaging."""
    buffer = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(archive)) as old,
        gzip.GzipFile(fileobj=buffer, mode="wb", filename="", mtime=moment) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for member in old:
            new.addfile(member.replace(mtime=moment, deep=False), old.extractfile(member))
    return buffer.getvalue()
