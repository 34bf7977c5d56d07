"""The command ``jobcommon``."""

import asyncio
import os
import sys
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from cli import process
from cli.errors import UserError
from cli.frameworks import chosen
from cli.manifests import OF_A_CLUSTER, load
from cli.planning import describe

app = typer.Typer(
    name="jobcommon",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
# A pipe has no width to fit into; tables must not be cut to pieces there.
PIPE_WIDTH = 240
Frameworks = Annotated[
    list[str] | None, typer.Option("--framework", help="Only this framework; repeatable. All installed ones without it.")
]
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
    """Run training jobs of kubeflow.org, on a Kubernetes cluster or on this machine alone.

    \b
    On this machine:
      jobcommon run -f examples/pytorch/numpy-allreduce.yaml   # one job, to its end
      jobcommon up                                             # a cluster to try kubectl on
    On a cluster:
      jobcommon crds | kubectl apply -f -                      # the kinds; then, or by Helm (docs/install.md):
      jobcommon operator
    """


@app.command("run")
def run_command(
    filename: Files,
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Where objects go that name no namespace.")] = "default",
    timeout: Annotated[float | None, typer.Option(help="Give up after so many seconds (exit code 1).", min=0.1)] = None,
) -> None:
    """Run jobs here, on an embedded cluster of their own, from the manifest to their end.

    Everything in the files is applied, the jobs' state and logs are shown as they come, and nothing is left running.
    Exit code 0: every job has succeeded; 1: one has failed; 2: the input is wrong.

    \b
    jobcommon run -f examples/pytorch/numpy-allreduce.yaml
    jobcommon run -f jobs/ -f config.yaml --timeout 600
    kubectl get pytorchjob mine -o yaml | jobcommon run -f -
    """
    from cli.running import run

    sys.exit(process.run(run(load(filename), console(), namespace=namespace, limit=timeout)))


@app.command("up")
def up_command(
    kubeconfig: Annotated[Path, typer.Option(help="Where to write the kubeconfig.")] = Path(".jobcommon/kubeconfig"),
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="The kubeconfig's namespace.")] = "default",
    data_dir: Annotated[
        Path | None, typer.Option(help="Keep the cluster's state here; it comes back from it, also after a crash.")
    ] = None,
    port: Annotated[int, typer.Option(help="The port to listen on at 127.0.0.1; 0 takes a free one.", min=0, max=65535)] = 0,
    framework: Frameworks = None,
    operators: Annotated[bool, typer.Option(help="Whether to run the operators too, or only install their kinds.")] = True,
    capacity: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RESOURCE=AMOUNT,...", help="What the node has; pods that ask for more than is free wait. Repeatable."
        ),
    ] = None,
) -> None:
    """Keep an embedded cluster up, with all operators, until Ctrl-C.

    kubectl and every other client can use it: a kubeconfig is written, and how to use it printed. Pods are local processes:
    their commands run from this environment, and images are not pulled.

    \b
    jobcommon up
    jobcommon up --data-dir .jobcommon/data --port 6443
    jobcommon up --capacity cpu=8,memory=32Gi,nvidia.com/gpu=4
    """
    from cli.serving import amounts, up

    serving = up(
        chosen(framework or ()),
        console(),
        kubeconfig=kubeconfig,
        namespace=namespace,
        data_dir=data_dir,
        port=port,
        operators=operators,
        capacity=amounts(capacity or ()),
    )
    # To be stopped is the natural end of it.
    with suppress(process.Interrupted):
        process.run(serving)


@app.command("operator")
def operator_command(
    framework: Frameworks = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="Only jobs of this namespace. All namespaces without it.")
    ] = None,
    kubeconfig: Annotated[
        str | None, typer.Option(help="Without it: $KUBECONFIG, the pod's service account, or ~/.kube/config.")
    ] = None,
    context: Annotated[str | None, typer.Option(help="The kubeconfig's context to use.")] = None,
    workers: Annotated[int, typer.Option(help="Jobs of one framework looked after at the same time.", min=1)] = 128,
    metrics_port: Annotated[
        int, typer.Option(help="Where /metrics, /healthz and /readyz are; 0 takes a free port, -1 none.", min=-1, max=65535)
    ] = 8080,
    metrics_host: Annotated[
        str, typer.Option(help="The address these listen on; 0.0.0.0 in a pod, whose probes come from outside.")
    ] = "127.0.0.1",
    metrics_token_file: Annotated[
        Path | None, typer.Option(help="A file with the bearer token that /metrics then wants.")
    ] = None,
    leader_elect: Annotated[
        bool, typer.Option(help="Run next to replicas of yourself: one works, the others stand by.")
    ] = False,
    lease_namespace: Annotated[
        str, typer.Option(help="Where the lease of the leader is. Without it: the namespace of the pod, or of the context.")
    ] = "",
    lease_name: Annotated[str, typer.Option(help="The lease's name; the same for replicas only.")] = "jobcommon-operator",
    qps: Annotated[
        float | None, typer.Option(help="At most so many requests a second; without it the API server's flow control decides.")
    ] = None,
    burst: Annotated[int | None, typer.Option(help="How many requests may exceed --qps at once.", min=1)] = None,
    cluster_domain: Annotated[str, typer.Option(help="Appended to the addresses of replicas, as in cluster.local.")] = "",
    tracking_finalizer: Annotated[
        bool, typer.Option(help="Keep ended pods until they are counted, so that backoffLimit is exact.")
    ] = True,
    mpi_exec: Annotated[
        bool, typer.Option(help="Whether launchers of MPIJobs may get the right to run commands in their workers (v1).")
    ] = True,
    gang_scheduler_name: Annotated[
        str,
        typer.Option(help="volcano, the schedulerName of the coscheduling plugin, or auto: what the cluster has."),
    ] = "",
    log_format: Annotated[str, typer.Option(help="json or console.")] = "json",
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
) -> None:
    """Run the operators against a cluster.

    The kinds must be installed: jobcommon crds | kubectl apply -f -
    SIGTERM ends it in order: writes under way are finished and the lease is released.

    \b
    jobcommon operator --framework pytorch --namespace team-a
    jobcommon operator --leader-elect --lease-namespace jobcommon
    """
    from cli.operating import operate, token_in
    from jobcommon.runtime.settings import Settings

    try:
        settings = Settings(
            namespace=namespace,
            workers=workers,
            qps=qps,
            burst=burst,
            metrics_port=None if metrics_port < 0 else metrics_port,
            metrics_host=metrics_host,
            metrics_token=None if metrics_token_file is None else token_in(metrics_token_file),
            leader_elect=leader_elect,
            lease_namespace=lease_namespace,
            lease_name=lease_name,
            cluster_domain=cluster_domain,
            tracking_finalizer=tracking_finalizer,
            mpi_exec=mpi_exec,
            gang_scheduler_name=gang_scheduler_name,
            log_format=log_format,
            log_level=log_level,
        )
        asyncio.run(operate(chosen(framework or ()), settings, kubeconfig, context))
    except ValueError as error:
        raise UserError(str(error)) from None


@app.command("release-finalizers")
def release_finalizers_command(
    framework: Frameworks = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="Only pods of this namespace. All namespaces without it.")
    ] = None,
    kubeconfig: Annotated[
        str | None, typer.Option(help="Without it: $KUBECONFIG, the pod's service account, or ~/.kube/config.")
    ] = None,
    context: Annotated[str | None, typer.Option(help="The kubeconfig's context to use.")] = None,
) -> None:
    """Take the operators' finalizer off all pods of jobs, after the operators were stopped for good.

    Without an operator nobody else would, and pods that are deleted would stay. The pods themselves are left as they are.

    \b
    jobcommon release-finalizers
    jobcommon release-finalizers --namespace team-a --framework pytorch
    """
    from cli.finalizers import release_finalizers

    asyncio.run(release_finalizers(chosen(framework or ()), namespace, kubeconfig, context))


@app.command("plan")
def plan_command(
    filename: Files,
    observed: Annotated[
        list[str] | None,
        typer.Option(help="The job's pods and Services as a cluster has them: kubectl get pods,services -o yaml."),
    ] = None,
    output: Annotated[str, typer.Option("--output", "-o", help="text, or yaml: the objects to be written as well.")] = "text",
) -> None:
    """Print what the operator would do for a job now. Nothing is written anywhere.

    \b
    jobcommon plan -f job.yaml
    jobcommon plan -f job.yaml -o yaml
    kubectl get pods,services -o yaml > seen.yaml && jobcommon plan -f job.yaml --observed seen.yaml
    """
    if output not in ("text", "yaml"):
        raise UserError(f"--output {output}: use text or yaml")
    seen = load(observed, OF_A_CLUSTER) if observed else []
    typer.echo(describe(load(filename), seen, with_manifests=output == "yaml"), nl=False)


@app.command("convert")
def convert_command(
    file: Annotated[str, typer.Argument(help="A polyaxonfile, or a flat MPIJob (v1alpha1); - for standard input.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The file to write instead of standard output.")] = None,
    name: Annotated[str | None, typer.Option(help="The job's name, in place of the file's own.")] = None,
    image: Annotated[str | None, typer.Option(help="The image, in place of the file's own.")] = None,
) -> None:
    """Turn a polyaxonfile into the manifest of a job. What it cannot honour is an error or a warning.

    \b
    jobcommon convert polyaxonfile.yml -o job.yaml
    jobcommon convert polyaxonfile.yml --name digits --image me/digits:2 | kubectl apply -f -
    """
    from cli.converting import convert_file, write

    text = convert_file(file, name=name, image=image)
    if output is None:
        typer.echo(text, nl=False)
    else:
        write(text, output)


@app.command("crds")
def crds_command(
    framework: Frameworks = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A directory to write one file each to.")] = None,
) -> None:
    """Print the CustomResourceDefinitions, or write them to a directory.

    \b
    jobcommon crds | kubectl apply -f -
    jobcommon crds --output charts/crds
    """
    from cli.definitions import as_yaml, write

    frameworks = chosen(framework or ())
    if output is not None:
        for path in write(output, frameworks):
            typer.echo(path)
    else:
        typer.echo(as_yaml(frameworks), nl=False)


def console() -> Console:
    """Standard output; a pipe gets plain lines."""
    return Console(highlight=False, markup=False, emoji=False, width=None if sys.stdout.isatty() else PIPE_WIDTH)


def main() -> None:
    """The entry point. Exit codes: 0 done, 1 a job failed, 2 bad input, 128 + n ended by signal n."""
    try:
        app()
    except UserError as error:
        for line in str(error).splitlines():
            sys.stderr.write(f"error: {line}\n")
        sys.exit(error.code)
    except process.Interrupted as interruption:
        sys.exit(interruption.code)
    except BrokenPipeError:
        # Whoever read our output has seen enough; the interpreter must not complain when it flushes the rest.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
