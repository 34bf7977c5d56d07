"""The command ``run``: jobs from manifests or from a script, on an embedded cluster or on the one of a kubeconfig."""

import shlex
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Literal

import typer
from typer.core import TyperCommand

from jobcommon.cli import PLUGIN, process
from jobcommon.cli.errors import UserError, usage_error
from jobcommon.cli.jobs.access import Place
from jobcommon.cli.jobs.lookup import FoundJob
from jobcommon.cli.manifests import load
from jobcommon.cli.options import OptionalFiles, PythonOption, duration_option, flag, namespace_option, option
from jobcommon.cli.output import console

STUCK_AFTER = 300.0


class RunCommand(TyperCommand):
    """``run``; an option that it does not have may be the script's."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As its base does. Raises `UserError` for an option that may be the script's."""
        script = next((arg for arg in args if arg.endswith(".py")), None)
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            # Typer has a click of its own since 0.20, of which it exports no such class.
            if type(error).__name__ != "NoSuchOption" or script is None:
                raise
            after = f"{ctx.command_path} {shlex.quote(script)} -- {getattr(error, 'option_name', '')}"
            raise UserError(f"{usage_error(error)}\nthe options of a script follow --, as in: {after}") from None


def run_command(
    context: typer.Context,
    script: str | None = typer.Argument(
        None, metavar="SCRIPT", help="A Python script to run, without a manifest.", show_default=False
    ),
    arguments: list[str] | None = typer.Argument(
        None, metavar="-- ARGS", help="The script's arguments, after --.", show_default=False
    ),
    filename: OptionalFiles = None,
    namespace: str | None = namespace_option("The namespace of objects that do not name a namespace.", None),
    workers: int = option(1, "For a script: the number of processes, including rank 0.", "N", min=1),
    framework: str = option("pytorch", "For a script: the framework.", "NAME"),
    image: str | None = option(None, "For a script on a cluster: the image, which must contain python.", "IMAGE"),
    name: str | None = option(None, "For a script: the job's name. Default: the name of the script.", "NAME"),
    include: list[str] | None = option(None, "For a script on a cluster: another file to put beside it; repeatable.", "FILE"),
    env: list[str] | None = option(None, "For a script: an environment variable; repeatable.", "NAME=VALUE"),
    resources: list[str] | None = option(
        None, "For a script: the resources of each process, such as nvidia.com/gpu=1.", "RESOURCE=AMOUNT,..."
    ),
    nproc_per_node: int | None = option(
        None, "For a script: start it with torchrun, N processes in each of --workers pods.", "N", min=1
    ),
    report_progress: bool = flag("For a script: it reports its progress, in a module that it imports.", "--report-progress"),
    output: Literal["yaml"] | None = option(None, "yaml: print the manifest without running it.", "FORMAT", "--output", "-o"),
    local: bool | None = option(
        None,
        "Run on this machine, or on the kubeconfig's cluster (the default with --kubeconfig, --context and in kubectl train).",
        None,
        "--local/--cluster",
    ),
    kubeconfig: str | None = option(None, "Run on the cluster of this kubeconfig.", "FILE"),
    kube_context: str | None = option(None, "The kubeconfig's context to use.", "NAME", "--context"),
    wait: bool = option(True, "On a cluster: follow the jobs until they have finished, or only create them."),
    timeout: float | None = duration_option(
        "--timeout", "Give up after this time (exit code 1). Default: never.", None, least=0.1
    ),
    stuck_after: float = duration_option(
        "--stuck-after",
        "Stop if pods could not run for this time and no other pod printed anything (exit code 3); 0 for never.",
        STUCK_AFTER,
    ),
    python: PythonOption = None,
) -> int:
    """Run jobs from manifests until they have finished: here on an embedded cluster, or on the cluster of a kubeconfig.

    Everything in the files is applied, and the jobs' state and logs are shown as they arrive. Here pods are local processes:
    their commands run with the programs of this machine and of the active Python environment, images are not pulled, and
    nothing is left running. On a cluster Ctrl-C only detaches: the jobs continue.

    A script needs no manifest: it runs as a job of --workers processes, and -o yaml prints the manifest of that job.

    \b
    Examples:
      jobcommon run -f job.yaml
      jobcommon run -f jobs/ -f config.yaml --timeout 10m
      kubectl get pytorchjob mine -o yaml | jobcommon run -f -
      jobcommon run train.py --workers 3 -- --epochs 5
      jobcommon run train.py --workers 3 --image me/torch:2 --kubeconfig ~/.kube/config -- --epochs 5
      kubectl train run -f job.yaml --stuck-after 0

    \b
    Exit codes:
      0    every job has succeeded
      1    a job has failed, is suspended, or has not finished within --timeout
      N    on a cluster: the exit code of the program that failed the job
      2    the input is wrong
      3    a job was stuck for --stuck-after
      130  interrupted by Ctrl-C (143: SIGTERM, 129: SIGHUP)
    """
    from jobcommon.cli.script import Script
    from jobcommon.cli.yaml_scalars import as_yaml

    elsewhere = kubeconfig is not None or kube_context is not None
    as_plugin = (context.find_root().info_name or "") == PLUGIN
    here = local if local is not None else not (elsewhere or as_plugin)
    if here and elsewhere:
        raise UserError("--local: leave out --kubeconfig and --context, or use --cluster")
    if python and not here:
        raise UserError("--python: applies to pods on this machine; on a cluster the image has its own Python, so leave it out")
    if script is None:
        own = {
            "--image": image, "--name": name, "--include": include, "--env": env, "--resources": resources,
            "--nproc-per-node": nproc_per_node, "--report-progress": report_progress,
        }  # fmt: skip
        if used := [option for option, value in own.items() if value]:
            raise UserError(f"{used[0]}: applies to a script; with -f, write it into the manifest")
        manifests = load(_given(filename), fresh=True)
    else:
        if filename:
            raise UserError("give a script or manifests with -f, not both")
        if Path(script).suffix not in ("", ".py"):
            raise UserError(f"{script}: is not a Python script (.py); a manifest is given with -f, and may start anything")
        if image is None and not here:
            raise UserError(
                f"--image: {script} runs on a cluster in an image with python and its modules; name it, such as --image "
                "pytorch/pytorch"
            )
        made = Script(
            script, tuple(arguments or ()), workers, framework, None if here and output is None else image, name,
            tuple(include or ()), tuple(env or ()), tuple(resources or ()), nproc_per_node, report_progress,
        )  # fmt: skip
        manifests = made.manifests(unique=not here and output is None)
    if output == "yaml":
        typer.echo(as_yaml(*(manifest.body for manifest in manifests)), nl=False)
        return 0
    from jobcommon.cli.python import python_of_pods
    from jobcommon.cli.run import Limits, run_here, run_on_cluster

    limits = Limits(timeout, stuck_after)
    if here:
        running = run_here(manifests, console(), namespace=namespace or "default", limits=limits, python=python_of_pods(python))
        return process.run(running)
    place, started = Place(kubeconfig, kube_context, namespace), list[FoundJob]()
    running = run_on_cluster(place, manifests, console(), limits=limits, wait=wait, started=started.append)
    return _end_there(running, place, started, wait=wait)


def _given(filename: list[str] | None) -> list[str]:
    if not filename:
        raise UserError("nothing to run: give a manifest with -f FILE, or a script, as in: jobcommon run train.py --workers 3")
    return filename


def _end_there(running: Coroutine[Any, Any, int], place: Place, started: list[FoundJob], *, wait: bool) -> int:
    try:
        code = process.run(running)
    except process.Interrupted as signal:
        if not started:
            sys.stderr.write(f"ended by {signal}, before a job was created\n")
        _say_how_to_return(started, place, "detached; it continues")
        return signal.code
    if not wait:
        _say_how_to_return(started, place, "created")
    return code


def _say_how_to_return(jobs: list[FoundJob], place: Place, what: str) -> None:
    where = "".join(
        f" {option} {shlex.quote(value)}"
        for option, value in (("--kubeconfig", place.kubeconfig), ("--context", place.context))
        if value is not None
    )
    for job in jobs:
        name = f"{job.name} -n {job.namespace}{where}"
        sys.stderr.write(
            f"{job.title}: {what}\n  its logs: kubectl train logs -f {name}\n  its end:  kubectl train wait {name}\n"
            f"  to stop it: kubectl train suspend {name}\n"
        )
