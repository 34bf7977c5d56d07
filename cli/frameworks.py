"""The frameworks there are: every `Framework` value under the entry points group ``jobcommon.frameworks``.

A package of a third party adds its own by an entry point; nothing here names one. One without an entry point is named by a
reference, ``my_package:FRAMEWORK``.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from jobcommon.cli.errors import UserError
from jobcommon.cli.framework_errors import framework_errors
from jobcommon.framework import Framework

GROUP = "jobcommon.frameworks"
REFERENCE = ":"


@cache
def loaded() -> tuple[Mapping[str, Framework], Mapping[str, str]]:
    """The frameworks by name in alphabetical order, and of those that are not to be used, why."""
    found: dict[str, Framework] = {}
    broken: dict[str, str] = {}
    for entry in sorted(entry_points(group=GROUP), key=lambda e: e.name):
        try:
            value = _load(entry)
        except UserError as error:
            broken[entry.name] = str(error)
            continue
        same = next((f for f in found.values() if f is not value and (f.group, f.kind) == (value.group, value.kind)), None)
        if same is not None:
            broken[entry.name] = (
                f"framework {entry.name} ({entry.value}): kind: {value.kind} is already the kind of framework {same.name}"
            )
        else:
            found[entry.name] = value
    return found, broken


def _load(entry: EntryPoint) -> Framework:
    """The framework of an entry point. Raises `UserError` when it cannot be used."""
    try:
        value = entry.load()
        if not isinstance(value, Framework):
            raise TypeError("it is not a jobcommon.Framework")
        # A value of another type than its field is an error of Python's there.
        errors = framework_errors(value)
    except Exception as error:
        cause = f"{type(error).__name__}: {error}"
        raise UserError(f"framework {entry.name} cannot be loaded from {entry.value}: {cause}") from None
    if errors:
        raise UserError("\n".join(f"framework {entry.name} ({entry.value}): {error}" for error in errors))
    return value


def referenced(reference: str) -> Framework:
    """The framework of ``my_package:FRAMEWORK``. Raises `UserError` when it cannot be used."""
    if EntryPoint.pattern.fullmatch(reference) is None:
        raise UserError(f"--framework {reference}: write a module and a name in it, as in my_package:FRAMEWORK")
    return _load(EntryPoint(reference.partition(":")[2] or reference, reference, GROUP))


def usable() -> Iterable[Framework]:
    """Those of the installed frameworks that are not broken, if there are any."""
    return loaded()[0].values()


def installed() -> Mapping[str, Framework]:
    """The installed frameworks by name, in alphabetical order; without those that are broken.

    Raises `UserError` when there is none.
    """
    found, broken = loaded()
    if not found and broken:
        raise UserError("\n".join(broken.values()))
    if not found:
        raise UserError("no framework is installed: run `make setup`, or `pip install -e .` in the directory of the project")
    return found


def chosen(names: Iterable[str]) -> tuple[Framework, ...]:
    """The frameworks of those names or references, all that are installed for none.

    Raises `UserError` for one that is not installed or broken.
    """
    found, (_, broken) = installed(), loaded()
    wanted = list(dict.fromkeys(names)) or [*found, *broken]
    for name in wanted:
        if name in broken:
            raise UserError(broken[name])
        if name not in found and REFERENCE not in name:
            known = ", ".join(found)
            raise UserError(f"--framework {name}: there is no such framework here; use one of {known}, or module:NAME")
    return tuple(found[name] if name in found else referenced(name) for name in wanted)


def not_loaded() -> str:
    """Lines that say why some frameworks could not be loaded; "" if all are. A job without a framework may be theirs."""
    return "".join(f"{text}\n" for text in loaded()[1].values())


def of_manifest(manifest: Mapping[str, object]) -> Framework | None:
    """The framework of such an object, by group and kind; None for other objects."""
    group = str(manifest.get("apiVersion", "")).rpartition("/")[0]
    return next((f for f in installed().values() if f.kind == manifest.get("kind") and f.group == group), None)
