"""`jobcommon new`: the package that it makes, and that its own tests pass."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from typer.testing import CliRunner

from jobcommon.cli.errors import UserError
from jobcommon.cli.main import app
from jobcommon.cli.new import Package, write


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A new package."""
    write(Package.named("light-gbm", "LightGBMJob", "example.com"), tmp_path / "light")
    return tmp_path / "light"


def run(*argv: str, cwd: Path, **environment: str) -> str:
    """What a command prints; it must succeed."""
    done = subprocess.run(
        argv, cwd=cwd, capture_output=True, text=True, timeout=550, env={**os.environ, **environment}, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("Light GBM",), 'NAME: "Light GBM" cannot be used; use lower-case letters'),
        (("-",), 'NAME: "-" cannot be used'),
        (("x", "--kind", "lightGBM"), '--kind: "lightGBM" cannot be used; write something like'),
        (("x", "--group", "nothing"), '--group: "nothing" cannot be used; write a domain'),
        (("jax",), "NAME: jax is the framework of JAXJob already"),
        (("x", "--kind", "TFJob"), "--kind: TFJob of kubeflow.org is the framework tensorflow's already"),
    ],
)
def test_names_that_cannot_be_used(arguments: tuple[str, ...], says: str, tmp_path: Path) -> None:
    name, *options = arguments
    result = CliRunner().invoke(app, ["new", *options, "--output", str(tmp_path / "made"), "--", name])
    assert isinstance(result.exception, UserError)
    assert str(result.exception).startswith(says)
    assert not (tmp_path / "made").exists()


def test_new_does_not_overwrite_files(made: Path) -> None:
    package = Package.named("light-gbm", None, "example.com")
    for taken in (made, made / "Makefile"):
        with pytest.raises(UserError, match="exists already"):
            write(package, taken)


@pytest.mark.slow
@pytest.mark.cluster
def test_a_new_package_installs_and_passes_its_own_tests(made: Path) -> None:
    """As a user has it from pip, but that pip has all it needs here."""
    run(sys.executable, "-m", "venv", str(made / ".venv"), cwd=made)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(made / ".venv")}))
    # site.addsitedir, unlike a path alone, also reads the .pth files there: jobcommon itself may be installed by one.
    (packages / "ours.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    offline = {"PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0", "PYTHONDONTWRITEBYTECODE": ""}
    said = run("make", "test", cwd=made, **offline)
    assert "11 passed" in said
    run("make", "check", cwd=made)
    said = run(str(made / ".venv/bin/python"), "-m", "jobcommon.cli", "plan", "-f", "examples/job.yaml", cwd=made)
    assert "create pods/example-master-0" in said, "it is found by its entry point"
