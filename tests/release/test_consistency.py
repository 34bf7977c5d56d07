"""What is released together names one version."""

import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PROJECT, LOCALCLUSTER = (
    tomllib.loads((ROOT / path / "pyproject.toml").read_text(encoding="utf-8"))["project"] for path in ("", "localcluster")
)


@pytest.mark.parametrize("path", sorted(ROOT.glob("charts/*/Chart.yaml")), ids=lambda path: path.parent.name)
def test_a_chart_has_the_version_of_the_package(path: Path) -> None:
    chart = yaml.safe_load(path.read_text(encoding="utf-8"))
    stated = {chart["version"], chart.get("appVersion", PROJECT["version"])}
    assert stated | {one["version"] for one in chart.get("dependencies", ())} == {PROJECT["version"]}


def test_the_extra_names_the_version_of_the_embedded_cluster() -> None:
    assert f"jobcommon-localcluster[cel]=={LOCALCLUSTER['version']}" in PROJECT["optional-dependencies"]["local"]
