"""``jobcommon convert``: a polyaxonfile, or a flat MPIJob of v1alpha1, as a manifest. What is not honoured is reported."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from jobcommon.api.text import clean
from jobcommon.cli.convert import Conversion, ConvertError, convert, convert_text, is_convertible
from jobcommon.cli.errors import UserError
from jobcommon.cli.input import read_text
from jobcommon.cli.yaml_document import LIMITS
from jobcommon.cli.yaml_scalars import Dumper

_NAMELESS = ("polyaxonfile", "polyaxon", "<stdin>")


def as_yaml(manifest: Mapping[str, Any]) -> str:
    """The manifest as YAML."""
    return yaml.dump(manifest, Dumper=Dumper, sort_keys=False, width=120, allow_unicode=True)


def convert_file(file: str, *, name: str | None, image: str | None) -> str:
    """The manifest for the file (``-``: standard input) as YAML; warnings go to standard error. Raises `UserError`."""
    source, text = read_text(file, LIMITS.size)
    try:
        conversion = convert_text(text, name=name, image=image, fallback=_fallback(source))
    except ConvertError as error:
        raise _refused(source, error) from None
    return as_yaml(_told(source, conversion))


def converted(source: str, body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The manifest for a document from `source`, None for one that needs no conversion. Warnings go to standard error."""
    if not is_convertible(body):
        return None
    try:
        conversion = convert(body, fallback=_fallback(source))
    except ConvertError as error:
        raise _refused(source, error) from None
    return _told(source, conversion)


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


def _told(source: str, conversion: Conversion) -> Mapping[str, Any]:
    for warning in conversion.warnings:
        sys.stderr.write(f"{clean(f'warning: {source}: {warning}')}\n")
    return conversion.manifest


def _refused(source: str, error: ConvertError) -> UserError:
    return UserError("\n".join(f"{source}: {finding}" for finding in error.findings))
