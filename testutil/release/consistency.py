"""Whether what is to be released fits together: versions, changelog, working tree."""

import tomllib
from collections.abc import Iterator
from pathlib import Path

import yaml

from jobcommon.testutil.release.program import ReleaseError, output_of

CHANGELOG = "CHANGELOG.md"
#: The directory of the embedded cluster, which is a distribution of its own.
LOCALCLUSTER = "localcluster"


def version_of(root: Path) -> str:
    """The version in pyproject.toml."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    return str(project["project"]["version"])


def faults(root: Path, *, snapshot: bool) -> list[str]:
    """What speaks against a release of the directory `root`; a snapshot may have uncommitted changes."""
    found = [*_chart_faults(root, version_of(root)), *_requirement_faults(root)]
    try:
        changes(root)
    except ReleaseError as error:
        found.append(str(error))
    changed = () if snapshot else output_of(["git", "status", "--porcelain"], root).splitlines()
    return found + [f"{line[3:]}: not committed; commit it, or make a snapshot: make release SNAPSHOT=yes" for line in changed]


def _requirement_faults(root: Path) -> Iterator[str]:
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = f"jobcommon-localcluster[cel]=={version_of(root / LOCALCLUSTER)}"
    if wanted not in project["optional-dependencies"]["local"]:
        yield f"pyproject.toml: the extra local does not have {wanted}, as in {LOCALCLUSTER}/pyproject.toml; change one"


def _chart_faults(root: Path, version: str) -> Iterator[str]:
    for path in sorted((root / "charts").glob("*/Chart.yaml")):
        chart = yaml.safe_load(path.read_text(encoding="utf-8"))
        stated = {"version": chart.get("version")}
        if chart.get("type") != "library":
            stated["appVersion"] = chart.get("appVersion")
        stated |= {
            f"dependencies[{dependency['name']}].version": dependency["version"] for dependency in chart.get("dependencies", ())
        }
        for field, value in stated.items():
            if value != version:
                yield f"{path.relative_to(root)}: {field} is {value}, but pyproject.toml has {version}; change one of them"


def changes(root: Path) -> str:
    """The section of the changelog for the version; without one, what is listed as unreleased.

    Raises ReleaseError when there is neither.
    """
    version = version_of(root)
    sections: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in (root / CHANGELOG).read_text(encoding="utf-8").splitlines(keepends=True):
        if line.startswith("## ["):
            lines = sections.setdefault(line[4:].partition("]")[0], [])
        lines.append(line)
    for name in (version, "Unreleased"):
        if "".join(sections.get(name, ())[1:]).strip():
            return "".join(sections[name]).rstrip() + "\n"
    raise ReleaseError(f"{CHANGELOG}: add a section '## [{version}]' that says what changed")
