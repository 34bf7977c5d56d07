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
Namespace = Annotated[
    str, typer.Option("--namespace", "-n", metavar="NAMESPACE", help="Where objects go that name no namespace.")
]
Files = Annotated[
    list[str],
    typer.Option(
        "--filename",
        "-f",
        metavar="FILE",
        help="A manifest, a directory of manifests, an http(s) address, or - for standard input; repeatable.",
    ),
]
