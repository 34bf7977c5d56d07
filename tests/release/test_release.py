"""A whole release, but for its SBOM, which needs a package index."""

import re
import tarfile
from pathlib import Path

import pytest
import yaml

from jobcommon.testutil.release import checksums
from jobcommon.testutil.release.__main__ import SBOM, release
from jobcommon.testutil.release.program import ReleaseError

helm = pytest.importorskip("helm_python", reason="helm-python-sdk has no wheel for this platform")
ROOT = Path(__file__).resolve().parents[2]
CHARTS = sorted(path.parent.name for path in ROOT.glob("charts/*/Chart.yaml") if path.parent.name != "jobcommon-lib")


def rendered(chart: Path) -> dict[str, str]:
    with helm.Chart.load(chart) as loaded:
        return dict(loaded.render({}, name="demo", namespace="operators"))


@pytest.mark.slow
def test_a_release_is_complete_and_the_same_each_time(tmp_path: Path) -> None:
    made = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / SBOM).write_text("{}")
        release(tmp_path / name)
        made.append((tmp_path / name / checksums.NAME).read_text())
    assert made[0] == made[1]
    one = tmp_path / "one"
    names = sorted(re.sub(r"-\d+\.\d+\.\d+", "", path.name) for path in one.iterdir())
    assert names == sorted(
        [
            *("CHANGELOG.md", checksums.NAME, SBOM, "jobcommon-crds.yaml", "jobcommon-install.yaml"),
            *("jobcommon.tar.gz", "jobcommon-py3-none-any.whl"),
            *("jobcommon_localcluster.tar.gz", "jobcommon_localcluster-py3-none-any.whl"),
            *(f"{chart}.tgz" for chart in CHARTS),
        ]
    )
    for archive in one.glob("*.tgz"):
        with tarfile.open(archive) as members:
            assert all(member.isfile() for member in members), "no link that leads out of the archive"
    assert rendered(ROOT / "charts" / CHARTS[0]) == rendered(next(one.glob(f"{CHARTS[0]}-*.tgz")))
    released = (one / "jobcommon-crds.yaml").read_text()
    assert [path.name for path in (ROOT / "charts" / "crds").iterdir() if path.read_text() not in released] == []
    kinds = {found["kind"] for found in yaml.safe_load_all((one / "jobcommon-install.yaml").read_text())}
    assert {"Namespace", "Deployment", "ClusterRole"} <= kinds
    with pytest.raises(ReleaseError, match="holds other files"):
        release(one)


def test_an_sbom_is_part_of_it(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match=f"{SBOM} is missing; make sbom"):
        release(tmp_path)
