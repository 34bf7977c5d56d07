"""What is installed: few dependencies, each pinned by hash, of which the image is made; and of the test kit what others use."""

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import requires
from pathlib import Path
from typing import Any

import grimp
import pytest
import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
#: What docs/new-framework.md and `jobcommon new` promise to authors of frameworks, of `jobcommon.testutil`.
KIT = ("builders", "cluster", "frameworks", "plans", "recording", "sim.framework_sweep", "sim.__main__")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LOCALCLUSTER = tomllib.loads((ROOT / "localcluster/pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]


def named(requirement: str) -> str:
    return re.sub(r"[-_.]+", "-", re.split(r"[\s<>=!~;\[(]", requirement.strip(), maxsplit=1)[0]).lower()


#: Each lock, and what it is made from.
LOCKS = {
    "requirements.lock": PROJECT["project"]["dependencies"],
    "requirements-build.lock": PROJECT["build-system"]["requires"],
}


def locked(lock: str) -> dict[str, str]:
    text = (ROOT / lock).read_text(encoding="utf-8").replace("\\\n", " ")
    entries = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return {named(entry): entry for entry in entries}


@pytest.mark.parametrize("lock", LOCKS)
def test_the_lock_pins_each_dependency_and_theirs_by_hash(lock: str) -> None:
    pins = locked(lock)
    for name, entry in pins.items():
        assert re.match(rf"{name}==\S+", entry.replace("_", "-"), re.IGNORECASE), entry[:60]
        assert re.findall(r"--hash=sha256:[0-9a-f]{64}\b", entry), f"{name} has no hash"
        assert "://" not in entry, "no index, no URL"
    waiting = [named(requirement) for requirement in LOCKS[lock]]
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        assert name in pins, f"{name} is not in {lock}; run: make lock"
        waiting += [named(r.name) for r in map(Requirement, requires(name) or ()) if r.marker is None or r.marker.evaluate()]
    assert len(seen) > len(LOCKS[lock])


@pytest.mark.parametrize("lock", LOCKS)
def test_the_lock_satisfies_what_the_project_asks_for(lock: str) -> None:
    pins = locked(lock)
    for text in LOCKS[lock]:
        wanted = Requirement(text)
        version = pins[named(text)].split("==")[1].split()[0]
        assert wanted.specifier.contains(version), f"{text}, but {version} is locked; run: make lock"


def test_of_the_test_kit_is_installed_what_frameworks_and_the_command_use(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "hatchling", "build", "--directory", str(tmp_path)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    graph = grimp.build_graph("jobcommon", cache_dir=None)
    users = {f"jobcommon.testutil.{name}" for name in KIT} | {one for one in graph.modules if one.startswith("jobcommon.cli")}
    used = users.union(*map(graph.find_upstream_modules, users))
    paths = {name.replace(".", "/") for name in used if name.startswith("jobcommon.testutil.")}
    needed = {f"{path}.py" for path in paths if (ROOT / path.removeprefix("jobcommon/")).with_suffix(".py").exists()}
    needed |= {f"jobcommon/testutil/{name}__init__.py" for name in ("", "sim/")}
    (wheel,), (source,) = tmp_path.glob("*.whl"), tmp_path.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name for name in names if name.startswith("jobcommon/testutil/")} == needed
    with tarfile.open(source) as members:
        assert {one.partition("/")[2] for one in members.getnames() if "/jobcommon/testutil/" in one} == needed
    assert {"jobcommon/cli/new/library/Chart.yaml", "jobcommon/operators/pytorch/__init__.py"} <= set(names)
    assert len(names) == len(set(names)), "each link is followed once"


@pytest.mark.parametrize("path", sorted(ROOT.glob("charts/*/Chart.yaml")), ids=lambda path: path.parent.name)
def test_a_chart_has_the_version_of_the_package(path: Path) -> None:
    chart = yaml.safe_load(path.read_text(encoding="utf-8"))
    stated = {chart["version"], chart.get("appVersion", PROJECT["project"]["version"])}
    assert stated | {one["version"] for one in chart.get("dependencies", ())} == {PROJECT["project"]["version"]}


def test_the_extra_names_the_version_of_the_embedded_cluster() -> None:
    assert f"jobcommon-localcluster[cel]=={LOCALCLUSTER}" in PROJECT["project"]["optional-dependencies"]["local"]


# -- What the workflows name is there, and what a release publishes is signed: rehearsed without a registry

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def steps(path: Path) -> list[dict[str, Any]]:
    jobs = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]
    return [step for job in jobs.values() for step in job["steps"]]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_what_a_workflow_runs_is_there(path: Path) -> None:
    assert yaml.safe_load(path.read_text(encoding="utf-8"))["permissions"] == {"contents": "read"}, "a job asks for more itself"
    for step in steps(path):
        run = step.get("run", "")
        assert ("uses" in step) != bool(run)
        assert "${{" not in run, "text of others would be run"
        assert set(re.findall(r"\bmake ([a-z-]+)", run)) <= TARGETS
        for name in re.findall(r"[\w./-]*(?:\btests/|\.ci/)[\w./-]+", run):
            # Steps of the embedded cluster's tests run in its directory.
            assert any((root / name).exists() for root in (ROOT, ROOT / "localcluster")), name
