"""Which Python the programs of pods run with that are processes of this machine: the user's, not that of this command."""

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from jobcommon.cli.errors import UserError

GIVEN = "--python"
#: By which variable an environment is active. A venv is often made within a conda environment, so it comes first.
ACTIVE = ("VIRTUAL_ENV", "CONDA_PREFIX")


@dataclass(frozen=True)
class Python:
    """An interpreter, called `python` in its directory, and why it was chosen."""

    path: Path
    why: str

    def __str__(self) -> str:
        return f"pods run {self.path} as python ({self.why}){'; --python selects another' if self.why != GIVEN else ''}"


def python_of_pods(given: str | None, environment: Mapping[str, str] = os.environ) -> Python:
    """The one `given`, by its path or its environment's; else that of the active environment; else the first on PATH.

    It is this command's own if the command itself is not on PATH: it was called by the path of the environment that is meant.
    Raises `UserError` if `given` names none.
    """
    if given is not None:
        return Python(_named(given), GIVEN)
    for name in ACTIVE:
        program = Path(environment.get(name) or os.devnull).absolute() / "bin/python"
        if os.access(program, os.X_OK):
            return Python(program, name)
    own, path = Path(sys.executable), environment.get("PATH")
    command, first = shutil.which("jobcommon", path=path), shutil.which("python", path=path)
    if command and first and _same(Path(command), own.parent / "jobcommon"):
        return Python(Path(first).absolute(), "the first on PATH")
    return Python(own.parent / "python", "jobcommon's own")


def _named(given: str) -> Path:
    """Commands call it `python`, so it must be the one of that name in its directory."""
    found = Path(given) / "bin/python" if Path(given).is_dir() else Path(shutil.which(given) or "")
    program = found.absolute().with_name("python")
    if not found.name or not os.access(found, os.X_OK):
        raise UserError(f"--python {given}: no such interpreter; give its path, or the directory of an environment")
    if not _same(found, program):
        raise UserError(f"--python {given}: {program} is not the same; make an environment and name that: {given} -m venv ENV")
    return program


def _same(one: Path, other: Path) -> bool:
    return one.exists() and other.exists() and one.samefile(other)
