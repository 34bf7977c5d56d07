"""``jobcommon crds``: the CustomResourceDefinitions as YAML."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import yaml
from jobcommon.crd import custom_resource_definition

from cli.errors import UserError
from jobcommon.framework import Framework


def as_yaml(framework: Framework) -> str:
    """One definition."""
    return yaml.safe_dump(custom_resource_definition(framework), sort_keys=False, width=120, allow_unicode=True)


def write(directory: Path, frameworks: Iterable[Framework]) -> Iterator[Path]:
    """Write ``<plural>.yaml`` for each; gives the paths as they are written. Raises `UserError`."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for framework in frameworks:
            path = directory / f"{framework.plural}.yaml"
            path.write_text(as_yaml(framework), encoding="utf-8")
            yield path
    except OSError as error:
        raise UserError(f"--output {directory}: cannot be written: {error.strerror}") from None
