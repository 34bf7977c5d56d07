"""The command ``jobcommon``."""

import sys
from importlib.metadata import version
from typing import Annotated

import typer

from cli.errors import UserError
from cli.manifests import load
from cli.planning import describe

app = typer.Typer(
    name="jobcommon",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
Files = Annotated[
    list[str],
    typer.Option("--filename", "-f", help="A manifest, a directory of manifests, or - for standard input; repeatable."),
]


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"jobcommon {version('jobcommon')}")
        raise typer.Exit


@app.callback()
def _root(
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Run training jobs of kubeflow.org, on a Kubernetes cluster or on this machine alone."""


@app.command("plan")
def plan_command(
    filename: Files,
    observed: Annotated[
        list[str] | None,
        typer.Option(help="The job's pods and Services as the cluster has them: kubectl get pods,services -o yaml."),
    ] = None,
    output: Annotated[
        str, typer.Option("--output", "-o", help="text, or yaml for the objects to be written as well.")
    ] = "text",
) -> None:
    """Print what the operator would do for a job now. Nothing is written anywhere."""
    if output not in ("text", "yaml"):
        raise UserError(f"--output {output}: use text or yaml")
    typer.echo(describe(load(filename), load(observed) if observed else [], with_manifests=output == "yaml"), nl=False)


def main() -> None:
    """The entry point. Exit codes: 0 done, 1 a job failed, 2 bad input."""
    try:
        app()
    except UserError as error:
        for line in str(error).splitlines():
            sys.stderr.write(f"error: {line}\n")
        sys.exit(error.code)
