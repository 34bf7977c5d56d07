"""``jobcommon convert``: a polyaxonfile, or a flat MPIJob of v1alpha1, as a manifest. What is not honoured is reported."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jobcommon.api.text import clean
from jobcommon.cli.convert import ConvertError, convert, is_convertible
from jobcommon.cli.errors import UserError
from jobcommon.cli.input import read_documents, read_text
from jobcommon.cli.yaml_scalars import as_yaml

_NAMELESS = ("polyaxonfile", "polyaxon", "<stdin>")


def convert_file(file: str, *, name: str | None, image: str | None) -> str:
    """The manifest for the file (``-``: standard input) as YAML; warnings go to standard error. Raises `UserError`."""
    source, text = read_text(file)
    bodies = [body for _, body in read_documents(source, text)]
    if len(bodies) > 1:
        raise UserError(f"{source}: has {len(bodies)} documents: convert them one by one")
    return as_yaml(_converted(source, bodies[0] if bodies else None, name, image))


def converted(source: str, body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The manifest for a document from `source`, None for one that needs no conversion. Warnings go to standard error."""
    return _converted(source, body) if is_convertible(body) else None


def _converted(source: str, body: object, name: str | None = None, image: str | None = None) -> Mapping[str, Any]:
    try:
        conversion = convert(body, name=name, image=image, fallback=_fallback(source))
    except ConvertError as error:
        raise UserError("\n".join(f"{source}: {finding}" for finding in error.findings)) from None
    for warning in conversion.warnings:
        sys.stderr.write(f"{clean(f'warning: {source}: {warning}')}\n")
    return conversion.manifest


def write(text: str, output: Path) -> None:
    """Write the manifest to a file. Raises `UserError`."""
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"--output {output}: cannot be written: {error.strerror}") from None


def _fallback(source: str) -> str:
    """A job without a name is called by its file, or, where every file has the same name, by its directory."""
    path = Path(source)
    if path.stem.lower() not in _NAMELESS:
        return path.stem
    return (path.resolve().parent.name if source != "<stdin>" else "") or "experiment"
