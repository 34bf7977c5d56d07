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


def duration_option(option: str, text: str, *, least: float = 0.0) -> Any:
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
            raise UserError(f"{option} {value}: write seconds or a duration{over}, such as 90, 90s, 5m or 1h30m")
        return seconds

    return typer.Option(option, metavar="DURATION", parser=parsed, help=text)


def namespace_option(text: str) -> Any:
    """The option --namespace, with this help."""
    return typer.Option("--namespace", "-n", metavar="NAMESPACE", callback=namespace_name, help=text)


Frameworks = Annotated[
    list[str] | None,
    typer.Option(
        "--framework",
        metavar="NAME",
        help="Only this framework, by its name or as my_package:FRAMEWORK; repeatable. Default: all installed frameworks.",
    ),
]
Kubeconfig = Annotated[
    str | None, typer.Option(metavar="FILE", help="Default: $KUBECONFIG, the pod's service account, or ~/.kube/config.")
]
Context = Annotated[str | None, typer.Option(metavar="NAME", help="The kubeconfig's context to use.")]
OneNamespace = Annotated[str | None, namespace_option("Only jobs in this namespace. Default: all namespaces.")]
Namespace = Annotated[str, namespace_option("The namespace of objects that do not name a namespace.")]
_FILES = typer.Option(
    "--filename",
    "-f",
    metavar="FILE",
    help="A manifest, a directory of manifests, an http(s) address, or - for standard input; repeatable.",
)
Files = Annotated[list[str], _FILES]
OptionalFiles = Annotated[list[str] | None, _FILES]


def _server(value: str | None) -> str | None:
    if value not in (None, "embedded", "real"):
        raise UserError(f"--server {value}: use embedded or real")
    return value


PythonOption = Annotated[
    str | None,
    typer.Option(
        "--python",
        metavar="PATH",
        help="The Python interpreter or environment of local pods. Default: the active environment, else the first python on "
        "PATH.",
    ),
]
Server = Annotated[
    str | None,
    typer.Option(
        metavar="embedded|real",
        callback=_server,
        help="real: etcd, kube-apiserver and kube-controller-manager from $KUBEBUILDER_ASSETS; pods remain local processes.",
    ),
]
