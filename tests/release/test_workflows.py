"""What the workflows name is there, and what a release publishes is signed: rehearsed without a registry."""

import os
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
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
