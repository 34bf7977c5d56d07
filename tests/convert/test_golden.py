"""Whole documents and what becomes of them, for people to read and to compare. ``make golden`` writes the manifests anew."""

import os

import pytest

from jobcommon.cli.convert_command import as_yaml
from tests.convert.documents import DIRECTORY, converted, job_of, text_of

NAMES = sorted(path.name.removesuffix(".polyaxon.yml") for path in DIRECTORY.glob("*.polyaxon.yml"))


@pytest.mark.parametrize("name", NAMES)
def test_document_becomes_manifest(name: str) -> None:
    manifest, warnings = converted(text_of(name), fallback=name, image="given" if name == "g0-flat" else None)
    text = "".join(f"# warning: {warning}\n" for warning in warnings) + as_yaml(manifest)
    path = DIRECTORY / f"{name}.manifest.yaml"
    if os.environ.get("GOLDEN") == "write":
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
    if manifest["kind"] != "Job":
        job_of(manifest)
