"""Options that several commands have."""

import math
import re
from typing import Annotated, Any

import typer

from jobcommon.cli.errors import UserError

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def namespace_name(value: str | list[str] | None) -> str | list[str] | None:
    """The value of --namespace. Raises `UserError` for one that no namespace can have: nothing would be found there."""
    for name in [value] if value and isinstance(value, str) else value or ():
        if _LABEL.fullmatch(name) is None:
            raise UserError(f'--namespace {name}: write lower-case letters, digits and "-", at most 63 of them, as in team-a')
    return value


_GO = re.compile(r"(?:\d+(?:\.\d*)?(?:h|ms|m|s))+")
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


def option(default: Any, text: str, metavar: str | None = None, *names: str, **more: Any) -> Any:
    """An option with this help, as the default of a command's argument or, with `...` for the default, in its annotation.

    Without `names` it has the name of the argument.
    """
    return typer.Option(default, *names, metavar=metavar, help=text, **more)


def flag(text: str, *names: str) -> Any:
    """An option that is off unless it is given, without one that turns it off."""
    return option(False, text, None, *names)


def duration_option(name: str, text: str, default: Any = ..., *, least: float = 0.0) -> Any:
    """An option that takes seconds, or a duration as kubectl takes it: 90, 90s, 5m or 1h30m. Its value is in seconds."""

    def parsed(given: str | float) -> float:
        value = str(given)
        if _GO.fullmatch(value):
            seconds = sum(float(number) * _UNITS[unit] for number, unit in re.findall(r"([\d.]+)(h|ms|m|s)", value))
        else:
            try:
                seconds = float(value)
            except ValueError:
                seconds = math.nan
        if not (math.isfinite(seconds) and seconds >= least):
            over = f" of at least {least:g}s" if least else ""
            raise UserError(f"{name} {value}: write seconds or a duration{over}, such as 90, 90s, 5m or 1h30m")
        return seconds

    return option(default, text, "DURATION", name, parser=parsed)


def namespace_option(text: str, default: Any = ...) -> Any:
    """The option --namespace, with this help."""
    return option(default, text, "NAMESPACE", "--namespace", "-n", callback=namespace_name)


_FRAMEWORK = "Only this framework, by its name or as my_package:FRAMEWORK; repeatable. Default: all installed frameworks."
Frameworks = Annotated[list[str] | None, option(..., _FRAMEWORK, "NAME", "--framework")]
_KUBECONFIG = "Default: $KUBECONFIG, the pod's service account, or ~/.kube/config."
Kubeconfig = Annotated[str | None, option(..., _KUBECONFIG, "FILE")]
Context = Annotated[str | None, option(..., "The kubeconfig's context to use.", "NAME")]
OneNamespace = Annotated[str | None, namespace_option("Only jobs in this namespace. Default: all namespaces.")]
Namespace = Annotated[str, namespace_option("The namespace of objects that do not name a namespace.")]
_MANIFESTS = "A manifest, a directory of manifests, or - for standard input; repeatable."
_FILES = option(..., _MANIFESTS, "FILE", "--filename", "-f")
Files = Annotated[list[str], _FILES]
OptionalFiles = Annotated[list[str] | None, _FILES]


_PYTHON = "The Python interpreter or environment of local pods. Default: the active environment, else the first python on PATH."
PythonOption = Annotated[str | None, option(..., _PYTHON, "PATH", "--python")]
