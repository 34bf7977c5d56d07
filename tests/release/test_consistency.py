"""A release is refused while versions, changelog and working tree do not fit together; checksums are those of the files."""

import hashlib
import os
import subprocess
from pathlib import Path

import pytest
import yaml

from jobcommon.testutil.release import checksums
from jobcommon.testutil.release.consistency import changes, faults
from jobcommon.testutil.release.program import ReleaseError, output_of

ROOT = Path(__file__).resolve().parents[2]
VERSION = "1.2.3"
CHART = {"name": "an-operator", "type": "application", "version": VERSION, "appVersion": VERSION}
SHARED = {"name": "jobcommon-lib", "type": "library", "version": VERSION}
CHANGELOG = f"# Changelog\n\n## [Unreleased]\n\n## [{VERSION}]\n\n* All.\n\n## [1.2.2]\n\n* Less.\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project without faults, committed."""
    local = '[project.optional-dependencies]\nlocal = ["jobcommon-localcluster[cel]==0.2.0"]\n'
    (tmp_path / "pyproject.toml").write_text(f'[project]\nversion = "{VERSION}"\n{local}')
    (tmp_path / "localcluster").mkdir()
    (tmp_path / "localcluster/pyproject.toml").write_text('[project]\nversion = "0.2.0"\n')
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    write_chart(tmp_path, {**CHART, "dependencies": [{"name": "jobcommon-lib", "version": VERSION}]})
    write_chart(tmp_path, SHARED)
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "All")
    return tmp_path


def write_chart(root: Path, chart: dict[str, object]) -> None:
    directory = root / "charts" / str(chart["name"])
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "Chart.yaml").write_text(yaml.safe_dump(chart))


def git(root: Path, *arguments: str) -> None:
    author = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    subprocess.run(["git", *arguments], cwd=root, env={**os.environ, **author}, check=True)


def test_this_project_could_be_released() -> None:
    assert faults(ROOT, snapshot=True) == []


def test_a_consistent_project_has_no_faults(project: Path) -> None:
    assert faults(project, snapshot=False) == []


@pytest.mark.parametrize(
    ("chart", "field"),
    [
        ({**CHART, "version": "1.2.2"}, "version"),
        ({**CHART, "appVersion": "1.2.2"}, "appVersion"),
        ({**CHART, "dependencies": [{"name": "jobcommon-lib", "version": "1.2.2"}]}, "dependencies[jobcommon-lib].version"),
        ({**SHARED, "version": "1.2.2"}, "version"),
    ],
)
def test_a_chart_has_the_version_of_the_package(project: Path, chart: dict[str, object], field: str) -> None:
    write_chart(project, chart)
    (fault,) = faults(project, snapshot=True)
    assert fault.startswith(f"charts/{chart['name']}/Chart.yaml: {field} is 1.2.2, but pyproject.toml has {VERSION}")


def test_the_extra_names_the_version_of_the_embedded_cluster(project: Path) -> None:
    (project / "localcluster/pyproject.toml").write_text('[project]\nversion = "0.3.0"\n')
    (fault,) = faults(project, snapshot=True)
    assert "does not have jobcommon-localcluster[cel]==0.3.0" in fault


def test_uncommitted_files_are_accepted_in_a_snapshot_only(project: Path) -> None:
    (project / "new").touch()
    (fault,) = faults(project, snapshot=False)
    assert fault.startswith("new: not committed")
    assert faults(project, snapshot=True) == []


def test_the_changes_are_those_of_the_version(project: Path) -> None:
    assert changes(project) == f"## [{VERSION}]\n\n* All.\n"


def test_before_the_version_has_a_section_the_unreleased_changes_count(project: Path) -> None:
    (project / "CHANGELOG.md").write_text("# Changelog\n\n## [Unreleased]\n\n* New.\n\n## [1.2.2]\n\n* Less.\n")
    assert changes(project) == "## [Unreleased]\n\n* New.\n"


def test_a_version_without_changes_is_refused(project: Path) -> None:
    (project / "CHANGELOG.md").write_text("# Changelog\n\n## [Unreleased]\n\n## [1.2.2]\n\n* Less.\n")
    (fault,) = faults(project, snapshot=True)
    assert f"add a section '## [{VERSION}]'" in fault


def test_checksums_are_of_every_file(tmp_path: Path) -> None:
    contents = {"b": b"two", "a": b"one"}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    checksums.write(tmp_path)
    checksums.write(tmp_path)
    lines = [f"{hashlib.sha256(contents[name]).hexdigest()}  {name}" for name in "ab"]
    assert (tmp_path / checksums.NAME).read_text().splitlines() == lines


@pytest.mark.parametrize(
    ("argv", "said"), [(["sh", "-c", "echo why >&2; exit 3"], "exit code 3\nwhy"), (["no-such"], "No such file")]
)
def test_a_program_that_fails_says_why(argv: list[str], said: str) -> None:
    with pytest.raises(ReleaseError, match=said):
        output_of(argv)
