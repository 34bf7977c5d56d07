"""The frameworks there are: every `Framework` value under the entry points group ``jobcommon.frameworks``.

A package of a third party adds its own by an entry point; nothing here names one.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import entry_points

from cli.errors import UserError
from jobcommon.framework import Framework

GROUP = "jobcommon.frameworks"


@cache
def installed() -> Mapping[str, Framework]:
    """The installed frameworks by name, in alphabetical order. Raises `UserError` when one cannot be loaded."""
    found: dict[str, Framework] = {}
    for entry in sorted(entry_points(group=GROUP), key=lambda e: e.name):
        try:
            value = entry.load()
        except Exception as error:
            cause = f"{type(error).__name__}: {error}"
            raise UserError(f"framework {entry.name} cannot be loaded from {entry.value}: {cause}") from error
        if not isinstance(value, Framework):
            raise UserError(f"framework {entry.name}: {entry.value} is not a jobcommon.framework.Framework value")
        found[entry.name] = value
    if not found:
        raise UserError("no framework is installed: run `make setup`, or `pip install -e .` in the directory of the project")
    return found


def chosen(names: Iterable[str]) -> tuple[Framework, ...]:
    """The frameworks of those names, all of them for no names. Raises `UserError` for a name that is not installed."""
    found = installed()
    wanted = list(dict.fromkeys(names)) or list(found)
    for name in wanted:
        if name not in found:
            raise UserError(f"--framework {name}: there is no such framework here; use one of {', '.join(found)}")
    return tuple(found[name] for name in wanted)


def of_manifest(manifest: Mapping[str, object]) -> Framework | None:
    """The framework that runs such an object, by group and kind; None when it is something else."""
    group = str(manifest.get("apiVersion", "")).rpartition("/")[0]
    return next((f for f in installed().values() if f.kind == manifest.get("kind") and f.group == group), None)
