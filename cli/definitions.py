"""``jobcommon crds``: the CustomResourceDefinitions as YAML."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from jobcommon.cli.errors import UserError
from jobcommon.crd import crd_files
from jobcommon.framework import Framework


def as_yaml(frameworks: Iterable[Framework]) -> str:
    """All of them, as documents of one file. Raises `UserError`."""
    return "".join(f"---\n{text}" for text in _files(frameworks).values())


def write(directory: Path, frameworks: Iterable[Framework]) -> Iterator[Path]:
    """Write a file for each; gives the paths as they are written. Raises `UserError`."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, text in _files(frameworks).items():
            (directory / name).write_text(text, encoding="utf-8")
            yield directory / name
    except OSError as error:
        raise UserError(f"--output {directory}: cannot be written: {error.strerror}") from None


def _files(frameworks: Iterable[Framework]) -> dict[str, str]:
    files: dict[str, str] = {}
    for framework in frameworks:
        try:
            files |= crd_files([framework])
        except ValueError as error:
            raise UserError(f"framework {framework.name}: {error}") from None
    return files
