"""The command ``jobcommon``."""

import errno
import os
import signal
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

import jobcommon
from jobcommon.api.text import clean
from jobcommon.cli import process
from jobcommon.cli.errors import BAD_INPUT, UserError, missing_extra, usage_error
from jobcommon.cli.framework_commands import new_command, rbac_command
from jobcommon.cli.framework_options import with_own_options
from jobcommon.cli.frameworks import chosen, usable
from jobcommon.cli.jobs import commands
from jobcommon.cli.manifests import load
from jobcommon.cli.operator_command import operator_command
from jobcommon.cli.options import (
    Context,
    Files,
    Frameworks,
    Kubeconfig,
    Namespace,
    OneNamespace,
    PythonOption,
    flag,
    namespace_option,
    option,
)
from jobcommon.cli.output import console, prepare_streams
from jobcommon.cli.run_command import RunCommand, run_command
from jobcommon.client.config import ConfigError

FRAMEWORKS = tuple(usable())

HELP_WIDTH = 110
# No bugs of the command, also where no file is named: what is written to is standard output then, a log or a socket.
DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EMFILE, errno.ENFILE)

app = typer.Typer(
    name="jobcommon",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    # Plain text: boxes break the lines of examples, and leave no room for what an option does.
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": HELP_WIDTH},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"jobcommon {jobcommon.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    _version: bool = option(False, "Print the version.", None, "--version", callback=_show_version, is_eager=True),
) -> None:
    """Run training jobs of kubeflow.org, on a Kubernetes cluster or on this machine alone.

    \b
    On this machine:
      jobcommon run -f job.yaml             # one job, to its end
      jobcommon run train.py --workers 3    # the same without a manifest
      jobcommon up                          # a cluster to try kubectl on
    On a cluster (or by Helm, see docs/install.md):
      jobcommon doctor                      # what would keep them from working
      jobcommon crds | kubectl apply -f -   # the kinds
      jobcommon operator                    # the controllers of their jobs
      jobcommon dashboard                   # a page of the jobs
      kubectl train why digits              # why a job fails or waits; the same as: jobcommon why digits
    """


app.command("run", cls=RunCommand, short_help="Run jobs from a manifest or a script, until they have finished.")(run_command)


@app.command("up", short_help="Run a cluster on this machine, for kubectl and other clients.")
def up_command(
    kubeconfig: Path = option(Path(".jobcommon/kubeconfig"), "Where to write the kubeconfig.", "FILE"),
    namespace: str = namespace_option("The kubeconfig's namespace.", "default"),
    port: int = option(0, "The port on 127.0.0.1; 0 for a free port.", "PORT", min=0, max=65535),
    framework: Frameworks = None,
    operators: bool = option(True, "Run the operators, or only install their kinds."),
    capacity: list[str] | None = option(
        None, "The node's capacity; pods that request more than is free wait. Repeatable.", "RESOURCE=AMOUNT,..."
    ),
    dashboard: bool = flag("Serve the dashboard, too (see jobcommon dashboard).", "--dashboard"),
    python: PythonOption = None,
) -> None:
    """Run an embedded cluster, with all operators, until Ctrl-C.

    kubectl and every other client can use it: it writes a kubeconfig, and prints how to use it. Pods are local processes:
    their commands run with the programs of this machine and of the active Python environment, and images are not pulled.

    \b
    Examples:
      jobcommon up
      jobcommon up --dashboard --port 6443
      jobcommon up --capacity cpu=8,memory=32Gi,nvidia.com/gpu=4
    """
    from jobcommon.cli.python import python_of_pods
    from jobcommon.cli.up import amounts, up

    serving = up(
        chosen(framework or ()),
        console(),
        kubeconfig=kubeconfig,
        namespace=namespace,
        port=port,
        operators=operators,
        capacity=amounts(capacity or ()),
        with_dashboard=dashboard,
        python=python_of_pods(python),
    )
    try:
        process.run(serving)
    except process.Interrupted:
        # Ctrl-C is the normal end of this command.
        typer.echo("The cluster is stopped; nothing is left running.")


@app.command("dashboard", short_help="Show a cluster's jobs in the browser, read-only.")
def dashboard_command(
    framework: Frameworks = None,
    namespace: OneNamespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    port: int = option(0, "The port on 127.0.0.1; 0 for a free port.", "PORT", min=0, max=65535),
) -> None:
    """Show a cluster's jobs in the browser: conditions, pods, events, and logs as they are printed.

    It only reads, with the rights of the kubeconfig. It listens on 127.0.0.1; the printed address contains a token.

    \b
    Examples:
      jobcommon dashboard
      jobcommon dashboard --kubeconfig .jobcommon/kubeconfig
      jobcommon dashboard --context production --namespace team-a
    """
    from jobcommon.cli.dashboard.command import show_dashboard

    serving = show_dashboard(chosen(framework or ()), namespace=namespace, kubeconfig=kubeconfig, context=context, port=port)
    try:
        process.run(serving)
    except process.Interrupted:
        typer.echo("The dashboard is stopped.")


app.command("operator", short_help="Run the operators against a cluster.")(with_own_options(operator_command, FRAMEWORKS))


@app.command("release-finalizers", short_help="Remove the finalizers from pods after an uninstallation.")
def release_finalizers_command(
    framework: Frameworks = None,
    namespace: str | None = namespace_option("Only pods in this namespace. Default: all namespaces.", None),
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Remove the operators' finalizer from all pods of jobs, after the operators were uninstalled.

    Without an operator the finalizer stays, and deleted pods remain Terminating. The pods themselves are not deleted.

    \b
    Examples:
      jobcommon release-finalizers
      jobcommon release-finalizers --namespace team-a --framework pytorch
    """
    from jobcommon.cli.finalizers import release_finalizers

    process.run(release_finalizers(chosen(framework or ()), namespace, kubeconfig, context))


@app.command("doctor", short_help="Check a cluster for what would keep the operators from working.")
def doctor_command(
    framework: Frameworks = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    output: Literal["text", "json"] = option("text", "text or json.", "FORMAT", "--output", "-o"),
) -> int:
    """Check a cluster before and after the operators are installed. Nothing is written.

    It reports definitions that drop our fields, other operators of the same kinds, their webhooks and leases, missing
    rights, versions, Kueue and Trainer; and what could not be read.

    \b
    Examples:
      jobcommon doctor
      jobcommon doctor --framework pytorch --context staging -o json

    \b
    Exit codes:
      0    no error was found
      1    an error was found, or the API server could not be asked
      2    the input is wrong
    """
    from jobcommon.cli.doctor_command import doctor

    return process.run(doctor(chosen(framework or ()), kubeconfig, context, output))


@app.command("plan", short_help="Print what the operator would do for a job.")
def plan_command(
    filename: Files,
    output: Literal["text", "yaml"] = option(
        "text", "text, or yaml, which adds the objects to be written.", "FORMAT", "--output", "-o"
    ),
    namespace: Namespace = "default",
) -> None:
    """Print what the operator would do for a job without pods. Nothing is written anywhere.

    \b
    Examples:
      jobcommon plan -f job.yaml
      jobcommon plan -f job.yaml -o yaml
    """
    from jobcommon.cli.plan import describe

    typer.echo(describe(load(filename), namespace, with_manifests=output == "yaml"), nl=False)


@app.command("convert", short_help="Convert a polyaxonfile to a manifest.")
def convert_command(
    file: Annotated[str, typer.Argument(help="A polyaxonfile, or a flat MPIJob (v1alpha1); - for standard input.")],
    output: Path | None = option(None, "The file to write instead of standard output.", "FILE", "--output", "-o"),
    name: str | None = option(None, "The job's name, instead of the file's.", "NAME"),
    image: str | None = option(None, "The image, instead of the file's.", "IMAGE"),
) -> None:
    """Convert a polyaxonfile to the manifest of a job. What cannot be converted is an error or a warning.

    \b
    Examples:
      jobcommon convert polyaxonfile.yml -o job.yaml
      jobcommon convert polyaxonfile.yml --name digits --image me/digits:2 | kubectl apply -f -
    """
    from jobcommon.cli.convert_command import convert_file, write

    text = convert_file(file, name=name, image=image)
    if output is None:
        typer.echo(text, nl=False)
    else:
        write(text, output)


@app.command("crds", short_help="Print the CustomResourceDefinitions.")
def crds_command(
    framework: Frameworks = None,
    output: Path | None = option(None, "The directory for one file per definition.", "DIR", "--output", "-o"),
) -> None:
    """Print the CustomResourceDefinitions, or write them to a directory.

    \b
    Examples:
      jobcommon crds | kubectl apply -f -
      jobcommon crds --output charts/crds
    """
    from jobcommon.cli.definitions import as_yaml, write

    frameworks = chosen(framework or ())
    if output is not None:
        for path in write(output, frameworks):
            typer.echo(path)
    else:
        typer.echo(as_yaml(frameworks), nl=False)


app.command("new", short_help="Create a package for a framework of your own.")(new_command)
app.command("rbac", short_help="Print the roles of the operators.")(rbac_command)


def _forget_output() -> None:
    """Redirect the output, so that the interpreter does not fail when it flushes what could not be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fault(error: OSError) -> str:
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return f"{error.strerror}; raise the limit: ulimit -n 4096"
    return str(error.strerror)


commands.register(app)


def _answered(name: str | None) -> int:
    """The exit code of the command; the text of a wrong use is that of a `UserError`."""
    try:
        code = app(prog_name=name, standalone_mode=False)
    except Exception as error:
        if (text := usage_error(error)) is None:
            raise
        if len(sys.argv) < 2:
            # Without arguments, it is the help.
            error.show()  # type: ignore[attr-defined]
            return BAD_INPUT
        context = getattr(error, "ctx", None)
        raise UserError(f"{text}\n{f'see {context.command_path} --help' if context else ''}".strip()) from None
    return code if isinstance(code, int) else 0


def main(name: str | None = None) -> None:
    """The entry point, under the program's name or another one.

    Exit codes: 0 done, 1 a job failed, 2 bad input, 3 a job was stuck, 128 + n ended by signal n.
    """
    prepare_streams()
    try:
        sys.exit(_answered(name))
    except (UserError, ConfigError) as error:
        for line in str(error).splitlines():
            sys.stderr.write(f"error: {clean(line)}\n")
        sys.exit(getattr(error, "code", BAD_INPUT))
    except process.Interrupted as interrupted:
        # Another Ctrl-C must not disturb the interpreter, which is ending.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        sys.stderr.write(f"ended by {interrupted}; nothing is left running\n")
        sys.exit(interrupted.code)
    except ModuleNotFoundError as error:
        if (needed := missing_extra(error)) is None:
            raise
        sys.stderr.write(f"error: {needed}\n")
        sys.exit(BAD_INPUT)
    except BrokenPipeError:
        # The reader of our output has closed it.
        _forget_output()
        sys.exit(1)
    except OSError as error:
        if error.errno not in DISK_ERRORS and not error.filename:
            raise
        sys.stderr.write(f"error: {error.filename or 'standard output or a file of the cluster'}: {_fault(error)}\n")
        _forget_output()
        sys.exit(1)
