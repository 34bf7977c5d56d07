"""The commands ``jobcommon new`` and ``jobcommon rbac``: what a framework of one's own needs around it."""

from pathlib import Path
from typing import Annotated

import typer

from jobcommon.api.gang import candidates, gang_scheduler
from jobcommon.cli.errors import UserError
from jobcommon.cli.frameworks import chosen
from jobcommon.cli.options import namespace_option, option
from jobcommon.cli.rights import LEASE


def new_command(
    name: Annotated[str, typer.Argument(help="The framework's name, such as lightgbm.")],
    kind: str | None = option(None, "The kind. Default: NAME with Job.", "KIND"),
    group: str = option("kubeflow.org", "The API group of the kind.", "GROUP"),
    output: Path | None = option(None, "The directory to create. Default: NAME-operator.", "DIR", "--output", "-o"),
) -> None:
    """Create a package for a framework of your own: its policy, CRD, rights, chart, image, tests and CI.

    \b
    Examples:
      jobcommon new lightgbm
      jobcommon new lightgbm --kind LightGBMJob --group example.com
    """
    from jobcommon.cli.new import Package, write
    from jobcommon.cli.new.package import next_step

    package = Package.named(name, kind, group)
    directory = output or Path(package.directory)
    write(package, directory)
    typer.echo(f"made {directory}; next: {next_step(directory)}")


def rbac_command(
    framework: list[str] | None = typer.Argument(
        None, help="Names, or my_package:FRAMEWORK. Default: all installed frameworks."
    ),
    namespace: list[str] | None = namespace_option("Only Roles, in this namespace; repeatable.", None),
    lease_name: str = option(LEASE, "As given to jobcommon operator.", "NAME"),
    lease_namespace: str = option("", "As given to jobcommon operator. Default: the first --namespace.", "NAMESPACE"),
    gang_scheduler_name: str = option("", "As given to jobcommon operator.", "NAME"),
    kueue: str = option("", "As given to jobcommon operator: own.", "HOW"),
    output: str = option("yaml", "yaml, or values: the values of a chart, for one framework.", "FORMAT", "--output", "-o"),
) -> None:
    """Print the rights that the operators need, and those of users.

    The role NAME-kueue-reads is for Kueue's ServiceAccount: its own role lacks these kinds.

    \b
    Examples:
      jobcommon rbac --gang-scheduler-name volcano | kubectl apply -f -
      jobcommon rbac pytorch --namespace team-a --namespace team-b --lease-namespace operators
      jobcommon rbac my_package:FRAMEWORK --output values > values.yaml
    """
    from jobcommon.cli.rights import as_roles, as_values
    from jobcommon.runtime.settings import Settings

    if output not in ("yaml", "values"):
        raise UserError(f"--output {output}: use yaml or values")
    try:
        Settings(gang_scheduler_name=gang_scheduler_name, kueue=kueue)
    except ValueError as error:
        option, _, text = str(error).partition(" ")
        raise UserError(f"--{option.replace('_', '-')} {text}") from None
    scheduler = gang_scheduler(gang_scheduler_name)
    gangs = candidates(gang_scheduler_name) if scheduler is None else [scheduler]
    frameworks = chosen(framework or ())
    if output == "yaml":
        text = as_roles(frameworks, namespace or (), lease_name, gangs, kueue=kueue, lease_namespace=lease_namespace)
        typer.echo(text, nl=False)
    elif len(frameworks) == 1 and framework:
        typer.echo(as_values(framework[0], frameworks[0]), nl=False)
    else:
        raise UserError("--output values: name one framework")
