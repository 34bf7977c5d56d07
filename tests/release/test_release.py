"""What is installed: few dependencies, each pinned by hash, of which the image is made; and of the test kit what others use."""

import os
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


def test_thirteen_dependencies_at_most() -> None:
    assert len(PROJECT["project"]["dependencies"]) <= 13


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


def test_the_image_is_made_from_the_locks() -> None:
    text = (ROOT / "Containerfile").read_text(encoding="utf-8")
    assert re.findall(r"--require-hashes -r (\S+)", text) == ["requirements-build.lock", "requirements.lock"]
    assert "--no-index --no-deps /wheels/*.whl" in text


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


def test_no_file_is_excused_from_the_security_rules_of_ruff() -> None:
    """They forbid what makes code of data: eval, exec, pickle, YAML loaders that build objects, a shell, TLS unverified."""
    lint = PROJECT["tool"]["ruff"]["lint"]
    assert "S" in lint["select"]
    assert not [rule for rule in lint["ignore"] if re.fullmatch(r"S\d*", rule)]
    ignored = {path for path, rules in lint["per-file-ignores"].items() if any(re.fullmatch(r"S\d*", rule) for rule in rules)}
    assert not [path for path in ignored if not path.startswith(("tests", "testutil", "benchmarks"))]


@pytest.mark.parametrize("path", sorted(ROOT.glob("charts/*/Chart.yaml")), ids=lambda path: path.parent.name)
def test_a_chart_has_the_version_of_the_package(path: Path) -> None:
    chart = yaml.safe_load(path.read_text(encoding="utf-8"))
    stated = {chart["version"], chart.get("appVersion", PROJECT["project"]["version"])}
    assert stated | {one["version"] for one in chart.get("dependencies", ())} == {PROJECT["project"]["version"]}


def test_the_extra_names_the_version_of_the_embedded_cluster() -> None:
    assert f"jobcommon-localcluster[cel]=={LOCALCLUSTER}" in PROJECT["project"]["optional-dependencies"]["local"]


# -- What the workflows name is there, and what a release publishes is signed: rehearsed without a registry

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
RELEASE = ROOT / ".github" / "workflows" / "release.yml"
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
DIGEST = "sha256:" + "a" * 64


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


def test_actions_of_a_release_are_pinned_for_they_may_write() -> None:
    for step in steps(RELEASE):
        assert re.search(r"@[0-9a-f]{40}$", step.get("uses", "@" + "0" * 40))


def publish(directory: Path, *, digest: str = DIGEST) -> tuple[int, list[str]]:
    """Run .ci/publish on a copy with programs that only record how they were called; its exit code and the calls."""
    for name in ("pyproject.toml", "Containerfile", ".ci/publish"):
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_bytes((ROOT / name).read_bytes())
        (directory / name).chmod(0o755)
    dist, programs = directory / "dist", directory / "programs"
    dist.mkdir()
    programs.mkdir()
    for name in (f"tf-operator-{VERSION}.tgz", f"training-operators-{VERSION}.tgz", "sbom.cdx.json"):
        (dist / name).touch()
    subprocess.run("sha256sum * > SHA256SUMS", shell=True, cwd=dist, check=True)
    answers = {
        "docker": f"""echo '{{"containerimage.digest": "{DIGEST}"}}' > build/image.json""",
        "helm": f'echo "Digest: {digest}" >&2',
        "cosign": "true",
    }
    for name, does in answers.items():
        (programs / name).write_text(f'#!/bin/sh\necho "{name} $*" >> {directory}/calls\n{does}\n')
        (programs / name).chmod(0o755)
    env = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    done = subprocess.run([directory / ".ci" / "publish", "reg/x", "base@y"], env=env, check=False)
    return done.returncode, (directory / "calls").read_text().splitlines()


def test_all_that_is_published_is_signed_by_its_digest(tmp_path: Path) -> None:
    code, calls = publish(tmp_path)
    assert code == 0
    build, *others = calls
    assert {"--platform", "linux/amd64,linux/arm64", "BASE=base@y", "--sbom=true", "--push"} <= set(build.split())
    assert others == [
        f"cosign sign --yes reg/x/jobcommon@{DIGEST}",
        f"cosign attest --yes --type cyclonedx --predicate dist/sbom.cdx.json reg/x/jobcommon@{DIGEST}",
        f"helm push dist/tf-operator-{VERSION}.tgz oci://reg/x/charts",
        f"cosign sign --yes reg/x/charts/tf-operator@{DIGEST}",
        f"helm push dist/training-operators-{VERSION}.tgz oci://reg/x/charts",
        f"cosign sign --yes reg/x/charts/training-operators@{DIGEST}",
        "cosign sign-blob --yes --bundle dist/SHA256SUMS.sigstore.json dist/SHA256SUMS",
    ]


def test_a_chart_whose_digest_is_unknown_ends_it(tmp_path: Path) -> None:
    code, calls = publish(tmp_path, digest="")
    assert code != 0
    assert calls[-1].startswith("helm push"), "nothing is signed by a tag"
