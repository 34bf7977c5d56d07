"""What the Helm chart of a framework's package has from the framework: its CRD, its rights, and the values of all charts."""

from collections.abc import Mapping
from pathlib import Path

import yaml

from jobcommon.cli.errors import UserError
from jobcommon.cli.rights import as_values
from jobcommon.crd import crd_files
from jobcommon.framework import Framework

_LIBRARY = Path(__file__).parent / "library"
# The last of the values.
_FRAMEWORK = "\n# Another framework"


def library_files() -> Mapping[str, str]:
    """The library chart, by path in it. Raises `UserError` where it was left out, as in the operators' image."""
    files = [path for path in (_LIBRARY / "Chart.yaml", *sorted((_LIBRARY / "templates").glob("*.tpl"))) if path.exists()]
    if not files:
        raise UserError("this installation of jobcommon has no charts; use one from a wheel or a clone")
    return {path.relative_to(_LIBRARY).as_posix(): path.read_text(encoding="utf-8") for path in files}


def library_version() -> str:
    """The version of the library chart."""
    return str(yaml.safe_load(library_files()["Chart.yaml"])["version"])


def first_values(image: str) -> str:
    """The values of a new chart, but for its framework: those of all charts with another image."""
    text = (_LIBRARY / "shared" / "values.yaml").read_text(encoding="utf-8").partition(_FRAMEWORK)[0]
    return text.replace("  repository: jobcommon\n", f"  repository: {image}\n")


def values_schema() -> str:
    """The schema of the values."""
    return (_LIBRARY / "shared" / "values.schema.json").read_text(encoding="utf-8")


def chart_files(chart: Path, module: str, framework: Framework) -> dict[Path, str]:
    """The files of a chart that follow from the framework: its CRD, and the values, of which the last is the framework's.

    `module` names the framework as in ``my_package:FRAMEWORK``.
    """
    values = chart / "values.yaml"
    kept = values.read_text(encoding="utf-8").partition("\nframework:\n")[0]
    files = {chart / "crds" / name: text for name, text in crd_files([framework]).items()}
    return {**files, values: f"{kept}\n{as_values(module, framework)}"}
