"""What a framework's `own_options` say, the command offers, and its functions find in the job."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from jobcommon.cli.framework_options import Chosen, configured, with_own_options
from jobcommon.framework import Framework
from jobcommon.operators.mpi import MPI
from jobcommon.operators.mpi.job import mpi_options
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.spec import read_job
from jobcommon.testutil.builders import job_manifest
from jobcommon.testutil.frameworks import TEST_JOB


@dataclass(frozen=True)
class OwnOptions:
    """One of each type."""

    loud: bool = field(default=False, metadata={"help": "Whether it says more."})
    port: int = 7
    share: float = 0.5
    image: str = field(default="a/b", metadata={"metavar": "IMAGE"})
    workers: int = 3


OWN = replace(TEST_JOB, name="my-own", own_options=OwnOptions())
FRAMEWORKS = (MPI, OWN, PYTORCH)


def run(arguments: Sequence[str]) -> tuple[Framework, ...]:
    """The frameworks as the command configures them."""
    seen: list[tuple[Framework, ...]] = []

    def command(my_own_workers: int = 1, own_options: Chosen | None = None) -> None:
        """Its own option goes first."""
        assert my_own_workers == 5
        seen.append(configured(FRAMEWORKS, own_options or {}))

    app = typer.Typer(rich_markup_mode=None)
    app.command()(with_own_options(command, FRAMEWORKS))
    done = CliRunner().invoke(app, ["--my-own-workers", "5", *arguments])
    assert done.exit_code == 0, done.output
    return seen[0]


@pytest.mark.parametrize(
    ("arguments", "changes"),
    [
        ((), {}),
        (("--my-own-loud",), {"loud": True}),
        (("--no-my-own-loud", "--my-own-port=8"), {"port": 8}),
        (("--my-own-share", "1.5", "--my-own-image", "c"), {"share": 1.5, "image": "c"}),
    ],
)
def test_each_field_is_an_option(arguments: Sequence[str], changes: dict[str, Any]) -> None:
    assert run(arguments) == (MPI, replace(OWN, own_options=OwnOptions(**changes)), PYTORCH)


def test_a_job_has_the_options_of_its_framework() -> None:
    mpi, own, _ = run(["--no-mpi-exec", "--mpi-kubectl-image", "my/kubectl:1", "--my-own-port=9"])
    chosen = mpi_options(read_job(mpi, job_manifest(MPI, {"Launcher": 1, "Worker": 1})))
    assert (chosen.exec, chosen.kubectl_image) == (False, "my/kubectl:1")
    assert read_job(own, job_manifest(own, {"Worker": 1})).own_options == OwnOptions(port=9)
