"""``jobcommon crds``: the CustomResourceDefinitions as YAML."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from jobcommon.cli.errors import UserError
from jobcommon.cli.output import written
from jobcommon.crd import crd_files
from jobcommon.framework import Framework


def as_yaml(frameworks: Iterable[Framework]) -> str:
    """All of them, as documents of one file. Raises `UserError`."""
    return "".join(f"---\n{text}" for text in _files(frameworks).values())


def write(directory: Path, frameworks: Iterable[Framework]) -> Iterator[Path]:
    """Write a file for each; gives the paths as they are written. Raises `UserError`."""
    if directory.exists() and not directory.is_dir():
        raise UserError(f"--output {directory}: is a file; name a directory")
    return written(f"--output {directory}", {directory / name: text for name, text in _files(frameworks).items()})


def _files(frameworks: Iterable[Framework]) -> dict[str, str]:
    files: dict[str, str] = {}
    for framework in frameworks:
        try:
            files |= crd_files([framework])
        except ValueError as error:
            raise UserError(f"framework {framework.name}: {error}") from None
    return files
