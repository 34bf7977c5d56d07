"""Options that several commands have."""

from typing import Annotated

import typer

Frameworks = Annotated[
    list[str] | None,
    typer.Option(
        "--framework",
        metavar="NAME",
        help="Only this framework, by its name or as my_package:FRAMEWORK; repeatable. All installed ones without it.",
    ),
]
Kubeconfig = Annotated[
    str | None, typer.Option(metavar="FILE", help="Without it: $KUBECONFIG, the pod's service account, or ~/.kube/config.")
]
Context = Annotated[str | None, typer.Option(metavar="NAME", help="The kubeconfig's context to use.")]
OneNamespace = Annotated[
    str | None,
    typer.Option("--namespace", "-n", metavar="NAMESPACE", help="Only jobs of this namespace. All namespaces without it."),
]
Namespace = Annotated[
    str, typer.Option("--namespace", "-n", metavar="NAMESPACE", help="Where objects go that name no namespace.")
]
_FILES = typer.Option(
    "--filename",
    "-f",
    metavar="FILE",
    help="A manifest, a directory of manifests, an http(s) address, or - for standard input; repeatable.",
)
Files = Annotated[list[str], _FILES]
OptionalFiles = Annotated[list[str] | None, _FILES]
