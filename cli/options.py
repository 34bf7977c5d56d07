"""Options that several commands have."""

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
        help="real: etcd and kube-apiserver from $KUBEBUILDER_ASSETS, as setup-envtest installs them; pods remain local "
        "processes.",
    ),
]
