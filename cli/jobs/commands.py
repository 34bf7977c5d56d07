"""The commands ``why``, ``logs``, ``list``, ``top``, ``suspend``, ``resume``, ``restart``, ``scale`` and ``wait``."""

import asyncio
import math
import os
import sys
import time
from collections.abc import Callable, Coroutine
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, Literal

import typer

from jobcommon.cli import process
from jobcommon.cli.errors import JOB_FAILED, UserError
from jobcommon.cli.frameworks import installed
from jobcommon.cli.jobs.access import Api, Place, connected
from jobcommon.cli.jobs.lookup import NoJobError, all_jobs, find_job, surroundings
from jobcommon.cli.options import Context, Kubeconfig, duration_option, flag, namespace_option, option
from jobcommon.cli.output import console, notes
from jobcommon.client.config import ConfigError

# A shell waits for completions.
SECONDS = 3.0


def job_names(incomplete: str) -> list[str]:
    """The jobs of the context's namespace that begin so; none when the cluster cannot be asked."""

    async def names() -> list[str]:
        async with asyncio.timeout(SECONDS), connected(Place()) as api:
            jobs, _ = await all_jobs(api, installed().values(), api.namespace)
        return [job.title if "/" in incomplete else job.name for job in jobs]

    try:
        return sorted({name for name in asyncio.run(names()) if name.startswith(incomplete)})
    except (UserError, ConfigError, TimeoutError):
        return []


Job = Annotated[
    str,
    typer.Argument(metavar="JOB", help="A job: digits, or pytorchjob/digits.", autocompletion=job_names, show_default=False),
]
InNamespace = Annotated[str | None, namespace_option("The job's namespace. Default: the context's.")]
PLACE = {"namespace": InNamespace, "kubeconfig": Kubeconfig, "context": Context}


async def why_command(
    api: Api, job: Job, output: Literal["text", "json"] = option("text", "text or json.", "FORMAT", "--output", "-o")
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

    found = await find_job(api, job)
    made = await why(api, found)
    if output == "json":
        typer.echo(as_json(found.title, made))
    else:
        show(console(), found.title, made, time.time())


async def logs_command(
    api: Api,
    job: Job,
    follow: bool = flag("Follow until the job has finished, across restarts.", "--follow", "-f"),
    previous: bool = flag("The previous run of each container.", "--previous", "-p"),
    rank: str = option("", "Only these replicas: 0, 0,2 or 0-3, or names such as Worker-1.", "RANKS"),
    container: str = option("", "Another container than the main container.", "NAME", "--container", "-c"),
    tail: int | None = option(None, "Only the last N lines of each container.", "N", min=0),
    since: float | None = duration_option("--since", "Only lines that are newer than this: 90, 90s or 5m.", None, least=1),
) -> None:
    """Print the logs of all replicas, each line with its replica, in colours on a terminal.

    The rank of a replica is its position in the job: first the Master, then the workers, as RANK of a PyTorchJob.

    \b
    Examples:
      kubectl train logs digits -f
      kubectl train logs digits --rank 0,3 --tail 100
      kubectl train logs digits --previous --rank Worker-1
    """
    from jobcommon.cli.jobs.logs import Selection, follow_logs, print_logs

    if follow and (previous or container or since):
        raise UserError("--follow shows the main containers' runs from now on: leave out --previous, --container, --since")
    found = await find_job(api, job)
    selection = Selection(rank, container, previous, tail, None if since is None else math.ceil(since))
    await (follow_logs if follow else print_logs)(api, found, selection, console(), notes())


async def list_command(
    api: Api,
    all_namespaces: bool = flag("All namespaces.", "--all-namespaces", "-A"),
    selector: str = option("", "Only jobs with these labels, such as team=nlp,env!=dev.", "LABELS", "--selector", "-l"),
    output: Literal["text", "wide", "json", "name"] = option(
        "text", "text, wide (all of the cause, what to do), json or name.", "FORMAT", "--output", "-o"
    ),
) -> None:
    """List the jobs of all kinds, those with problems first: state, pods, restarts, age, and the cause.

    \b
    Examples:
      kubectl train list
      kubectl train list -A -o wide
      kubectl train list -l team=nlp -o json
    """
    from jobcommon.cli.jobs.listing import jobs_as_json, jobs_of, show_jobs, surroundings_of

    jobs = await jobs_of(api, everywhere=all_namespaces, console=notes(), selector=selector)
    if not jobs:
        notes().print(
            ("no such jobs" if selector else "no jobs") + ("" if all_namespaces else f" in namespace {api.namespace}")
        )
    if output == "name":
        for job in jobs:
            typer.echo(job.title)
        return
    found = await surroundings_of(api, jobs, everywhere=all_namespaces, console=notes())
    if output == "json":
        typer.echo(jobs_as_json(found, time.time()))
    elif jobs:
        show_jobs(console(), found, time.time(), everywhere=all_namespaces, wide=output == "wide")


async def top_command(api: Api, job: Job) -> None:
    """Show a job's replicas: state, restarts, age, how long each took to start, and why one does not run.

    \b
    Example:
      kubectl train top digits
    """
    from jobcommon.cli.jobs.listing import show_replicas

    show_replicas(console(), await surroundings(api, await find_job(api, job)), time.time())


async def suspend_command(api: Api, job: Job) -> None:
    """Stop a job's pods until it is resumed. What has succeeded is kept; nothing counts as a failure.

    \b
    Example:
      kubectl train suspend digits
    """
    from jobcommon.cli.jobs.changes import suspend

    await suspend(api, await find_job(api, job), typer.echo)


async def resume_command(api: Api, job: Job) -> None:
    """Start a suspended job.

    \b
    Example:
      kubectl train resume digits
    """
    from jobcommon.cli.jobs.changes import resume

    await resume(api, await find_job(api, job), typer.echo)


async def restart_command(
    api: Api,
    job: Job,
    recreate: bool = flag("For a finished job: delete and recreate it.", "--recreate"),
    seconds: float = duration_option("--timeout", "How long its pods may take to stop.", 300.0, least=1),
) -> None:
    """Restart a job: all its pods are stopped, and started again.

    \b
    Examples:
      kubectl train restart digits
      kubectl train restart digits --recreate      # a finished job
    """
    from jobcommon.cli.jobs.changes import restart

    await restart(api, await find_job(api, job), typer.echo, recreate=recreate, seconds=seconds)


async def scale_command(
    api: Api,
    job: Job,
    replicas: Annotated[int, option(..., "The new number of replicas.", "N", min=0)],
    kind: str | None = option(None, "The replica type. Default: the workers.", "TYPE", "--type"),
    dry_run: bool = flag("Report what would happen, and change nothing.", "--dry-run"),
) -> None:
    """Change the number of a job's workers, or of another replica type. It first reports what will happen.

    \b
    Example:
      kubectl train scale digits --replicas 4 --dry-run
    """
    from jobcommon.cli.jobs.changes import scale

    await scale(api, await find_job(api, job), replicas, kind, typer.echo, dry_run=dry_run)


async def wait_command(
    api: Api,
    job: Job,
    aim: Literal["finished", "succeeded", "failed", "running", "suspended", "deleted"] = option(
        "finished", "finished, succeeded, failed, running, suspended or deleted.", "STATE", "--for"
    ),
    seconds: float | None = duration_option(
        "--timeout", "Give up after this time (exit code 1). Default: never.", None, least=0.1
    ),
) -> int:
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
    from jobcommon.cli.jobs.wait import exit_code, wait_for
    from jobcommon.cli.jobs.why import show, why

    try:
        found = await find_job(api, job)
    except NoJobError as error:
        if aim != "deleted":
            raise
        typer.echo(str(error))
        return 0
    status, reached = await wait_for(api, found, aim, seconds)
    if status is None:
        typer.echo(f"{found.title} deleted")
        return 0 if reached else JOB_FAILED
    made = await why(api, await find_job(api, found.title))
    show(console(), found.title, made, time.time())
    return exit_code(status, made) if aim == "finished" else 0 if reached else JOB_FAILED


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
        app.command(name, short_help=short)(_connected(command))


def _connected(act: Callable[..., Coroutine[Any, Any, int | None]]) -> Callable[..., int | None]:
    """The command of a coroutine that takes an Api: the options of `act`, and those that choose the cluster."""

    def command(namespace: str | None, kubeconfig: str | None, context: str | None, **options: Any) -> int | None:
        async def connect() -> int | None:
            async with connected(Place(kubeconfig, context, namespace)) as api:
                return await act(api, **options)

        try:
            return process.run(connect())
        except process.Interrupted as signal:
            # Nothing runs here that could be left over.
            sys.stderr.write(os.linesep)
            return signal.code

    _, *own = signature(act).parameters.values()
    place = [Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=of) for name, of in PLACE.items()]
    command.__doc__ = act.__doc__
    command.__annotations__ = {one.name: one.annotation for one in (*own, *place)}
    command.__signature__ = Signature([*own, *place])  # type: ignore[attr-defined]  # how inspect takes it
    return command
