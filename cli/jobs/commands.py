"""The commands ``why``, ``logs``, ``list``, ``top``, ``suspend``, ``resume``, ``restart``, ``scale`` and ``wait``."""

import math
import os
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Annotated, Any

import typer

from jobcommon.cli import process
from jobcommon.cli.errors import JOB_FAILED, UserError
from jobcommon.cli.jobs.access import Api, Place, connected
from jobcommon.cli.jobs.completion import job_names
from jobcommon.cli.jobs.lookup import FoundJob, NoJobError, find_job
from jobcommon.cli.options import Context, Kubeconfig, duration_option, flag, namespace_option, option
from jobcommon.cli.output import console, notes
from jobcommon.diagnosis import Diagnosis, Found

Job = Annotated[
    str,
    typer.Argument(metavar="JOB", help="A job: digits, or pytorchjob/digits.", autocompletion=job_names, show_default=False),
]
InNamespace = Annotated[str | None, namespace_option("The job's namespace. Default: the context's.")]
Output = Annotated[str, option(..., "text or json.", "FORMAT", "--output", "-o")]


def why_command(
    job: Job, namespace: InNamespace = None, output: Output = "text", kubeconfig: Kubeconfig = None, context: Context = None
) -> None:
    """Explain why a job fails, or what it waits for: the cause, the evidence, what to do, and what happens next.

    It reads the job, its pods, their events and last lines, and what they wait for: nodes, Kueue's workloads, PodGroups.
    Rights to get and list are enough; it names what may not be read.

    \b
    Examples:
      kubectl train why digits
      jobcommon why mpijob/hello -n team-a -o json
    """
    from jobcommon.cli.jobs.why import as_json, show, why

    if output not in ("text", "json"):
        raise UserError(f"--output {output}: use text or json")

    async def ask(api: Api, found: FoundJob) -> tuple[str, Diagnosis]:
        return found.title, await why(api, found)

    title, made = _with_job(job, Place(kubeconfig, context, namespace), ask)
    if output == "json":
        typer.echo(as_json(title, made))
    else:
        show(console(), title, made, time.time())


def logs_command(
    job: Job,
    follow: bool = flag("Follow until the job has finished, across restarts.", "--follow", "-f"),
    previous: bool = flag("The previous run of each container.", "--previous", "-p"),
    rank: str = option("", "Only these replicas: 0, 0,2 or 0-3, or names such as Worker-1.", "RANKS"),
    container: str = option("", "Another container than the main container.", "NAME", "--container", "-c"),
    tail: int | None = option(None, "Only the last N lines of each container.", "N", min=0),
    since: float | None = duration_option("--since", "Only lines that are newer than this: 90, 90s or 5m.", None, least=1),
    download: Path | None = option(None, "Write a file for each run, the job, its events and the diagnosis to DIR.", "DIR"),
    namespace: InNamespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Print the logs of all replicas, each line with its replica, in colours on a terminal.

    The rank of a replica is its position in the job: first the Master, then the workers, as RANK of a PyTorchJob.

    \b
    Examples:
      kubectl train logs digits -f
      kubectl train logs digits --rank 0,3 --tail 100
      kubectl train logs digits --previous --rank Worker-1
      kubectl train logs digits --download evidence/
    """
    from jobcommon.cli.jobs.logs import Printer, Selection, chosen_pods, follow_logs, print_logs
    from jobcommon.cli.jobs.logs import download as download_logs

    if follow and (previous or download or container or since):
        raise UserError(
            "--follow shows the main containers' runs from now on: leave out --previous, --download, --container, --since"
        )
    selection = Selection(rank, container, previous, tail, None if since is None else math.ceil(since))

    async def read(api: Api, found: FoundJob) -> None:
        if download is not None:
            for path in await download_logs(api, found, download, selection):
                typer.echo(path)
            return
        printer = Printer(console(), notes(), chosen_pods(found, rank), found)
        await (follow_logs if follow else print_logs)(api, found, selection, printer)

    _with_job(job, Place(kubeconfig, context, namespace), read)


def list_command(
    namespace: InNamespace = None,
    all_namespaces: bool = flag("All namespaces.", "--all-namespaces", "-A"),
    selector: str = option("", "Only jobs with these labels, such as team=nlp,env!=dev.", "LABELS", "--selector", "-l"),
    state: list[str] | None = option(None, "Only jobs in this state, such as Failed. Repeatable.", "STATE"),
    kind: list[str] | None = option(None, "Only jobs of this kind, such as pytorchjob. Repeatable.", "KIND"),
    output: str = option("text", "text, wide (all of the cause, what to do), json or name.", "FORMAT", "--output", "-o"),
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """List the jobs of all kinds, those with problems first: state, pods, restarts, age, and the cause.

    \b
    Examples:
      kubectl train list
      kubectl train list -A --state Failed -o wide
      kubectl train list --kind pytorchjob -l team=nlp -o json
    """
    from jobcommon.cli.jobs.listing import FORMATS, Chosen, jobs_as_json, jobs_of, show_jobs, surroundings_of

    if output not in FORMATS:
        raise UserError(f"--output {output}: use {', '.join(FORMATS)}")
    chosen = Chosen(tuple(kind or ()), tuple(state or ()), selector)

    async def read(api: Api) -> tuple[list[FoundJob], list[Found]]:
        jobs = await jobs_of(api, everywhere=all_namespaces, console=notes(), chosen=chosen)
        if not jobs:
            what = "no jobs" if chosen == Chosen() else "no such jobs"
            notes().print(what + ("" if all_namespaces else f" in namespace {api.namespace}"))
        if output == "name":
            return jobs, []
        return jobs, await surroundings_of(api, jobs, everywhere=all_namespaces, console=notes())

    jobs, surroundings = _connected(Place(kubeconfig, context, namespace), read)
    if output == "name":
        for job in jobs:
            typer.echo(job.title)
    elif output == "json":
        typer.echo(jobs_as_json(jobs, surroundings, time.time()))
    elif jobs:
        show_jobs(console(), jobs, surroundings, time.time(), everywhere=all_namespaces, wide=output == "wide")


def top_command(job: Job, namespace: InNamespace = None, kubeconfig: Kubeconfig = None, context: Context = None) -> None:
    """Show a job's replicas: state, restarts, age, how long each took to start, and why one does not run.

    \b
    Example:
      kubectl train top digits
    """
    from jobcommon.cli.jobs.listing import top

    _with_job(job, Place(kubeconfig, context, namespace), lambda api, found: top(api, console(), found))


def suspend_command(job: Job, namespace: InNamespace = None, kubeconfig: Kubeconfig = None, context: Context = None) -> None:
    """Stop a job's pods until it is resumed. What has succeeded is kept; nothing counts as a failure.

    \b
    Example:
      kubectl train suspend digits
    """
    from jobcommon.cli.jobs.changes import suspend

    _with_job(job, Place(kubeconfig, context, namespace), lambda api, found: suspend(api, found, typer.echo))


def resume_command(job: Job, namespace: InNamespace = None, kubeconfig: Kubeconfig = None, context: Context = None) -> None:
    """Start a suspended job.

    \b
    Example:
      kubectl train resume digits
    """
    from jobcommon.cli.jobs.changes import resume

    _with_job(job, Place(kubeconfig, context, namespace), lambda api, found: resume(api, found, typer.echo))


def restart_command(
    job: Job,
    recreate: bool = flag("For a finished job: delete and recreate it.", "--recreate"),
    timeout: float = duration_option("--timeout", "How long its pods may take to stop.", 300.0, least=1),
    namespace: InNamespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Restart a job: all its pods are stopped, and started again.

    \b
    Examples:
      kubectl train restart digits
      kubectl train restart digits --recreate      # a finished job
    """
    from jobcommon.cli.jobs.changes import restart

    async def change(api: Api, found: FoundJob) -> None:
        await restart(api, found, typer.echo, recreate=recreate, seconds=timeout)

    _with_job(job, Place(kubeconfig, context, namespace), change)


def scale_command(
    job: Job,
    replicas: Annotated[int, option(..., "The new number of replicas.", "N", min=0)],
    kind: str | None = option(None, "The replica type. Default: the workers.", "TYPE", "--type"),
    dry_run: bool = flag("Report what would happen, and change nothing.", "--dry-run"),
    namespace: InNamespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Change the number of a job's workers, or of another replica type. It first reports what will happen.

    \b
    Example:
      kubectl train scale digits --replicas 4 --dry-run
    """
    from jobcommon.cli.jobs.changes import scale

    async def change(api: Api, found: FoundJob) -> None:
        await scale(api, found, replicas, kind, typer.echo, dry_run=dry_run)

    _with_job(job, Place(kubeconfig, context, namespace), change)


def wait_command(
    job: Job,
    aim: str = option("finished", "finished, succeeded, failed, running, suspended or deleted.", "STATE", "--for"),
    timeout: float | None = duration_option(
        "--timeout", "Give up after this time (exit code 1). Default: never.", None, least=0.1
    ),
    namespace: InNamespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Wait until a job has finished, or for the state of --for, and exit with the job's exit code.

    \b
    Examples:
      kubectl train wait digits && echo trained
      kubectl train wait digits --for running --timeout 10m

    \b
    Exit codes:
      0    the state is reached; without --for: the job has succeeded
      N    the job has failed: the exit code of the program that failed it, 1 if there is none
      1    the state cannot be reached any more, or not within --timeout
    """
    from jobcommon.cli.jobs.wait import AIMS, exit_code, wait_for
    from jobcommon.cli.jobs.why import show, why

    if aim not in AIMS:
        raise UserError(f"--for {aim}: use one of {', '.join(AIMS)}")

    async def wait(api: Api, found: FoundJob) -> int:
        status, reached = await wait_for(api, found, aim, timeout)
        if status is None:
            typer.echo(f"{found.title} deleted")
            return 0 if reached else JOB_FAILED
        made = await why(api, await find_job(api, found.title))
        show(console(), found.title, made, time.time())
        return exit_code(status, made) if aim == "finished" else 0 if reached else JOB_FAILED

    try:
        sys.exit(_with_job(job, Place(kubeconfig, context, namespace), wait))
    except NoJobError as error:
        if aim != "deleted":
            raise
        typer.echo(str(error))


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    for name, command, short in (
        ("why", why_command, "Explain why a job fails, or what it waits for."),
        ("logs", logs_command, "Print the logs of all replicas."),
        ("list", list_command, "List the jobs of all kinds."),
        ("top", top_command, "Show a job's replicas, and what is slow to start."),
        ("suspend", suspend_command, "Stop a job's pods until it is resumed."),
        ("resume", resume_command, "Start a suspended job."),
        ("restart", restart_command, "Restart a job."),
        ("scale", scale_command, "Change the number of a job's workers."),
        ("wait", wait_command, "Wait until a job has finished; exit with its exit code."),
    ):
        app.command(name, short_help=short)(command)


def _with_job(reference: str, place: Place, act: Callable[[Api, FoundJob], Coroutine[Any, Any, Any]]) -> Any:
    """What `act` makes of the job that `reference` names."""

    async def found(api: Api) -> Any:
        return await act(api, await find_job(api, reference))

    return _connected(place, found)


def _connected(place: Place, act: Callable[[Api], Coroutine[Any, Any, Any]]) -> Any:
    async def connect() -> Any:
        async with connected(place) as api:
            return await act(api)

    try:
        return process.run(connect())
    except process.Interrupted as signal:
        # Nothing runs here that could be left over.
        sys.stderr.write(os.linesep)
        sys.exit(signal.code)
