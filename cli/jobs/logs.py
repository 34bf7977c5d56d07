"""``logs``: what all replicas of a job print, each line with its replica."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from jobcommon.cli.display import Display
from jobcommon.cli.errors import JOB_FAILED, UserError
from jobcommon.cli.followed import FollowedJob
from jobcommon.cli.jobs.access import Api
from jobcommon.cli.jobs.lookup import FoundJob, pods_of
from jobcommon.cli.jobs.why import why
from jobcommon.cli.watch import Follower
from jobcommon.client.container_log import ContainerLogs, LogOptions
from jobcommon.client.errors import StatusError
from jobcommon.client.lines import shown_lines
from jobcommon.diagnosis import Found
from jobcommon.diagnosis.reading import read_kept


@dataclass(frozen=True)
class Selection:
    """Which logs: of which ranks ("" for all), which container ("" for the main one), which run, and how much of each."""

    ranks: str = ""
    container: str = ""
    previous: bool = False
    tail: int | None = None
    since: int | None = None


def _replicas(job: FoundJob) -> dict[str, str]:
    """The names of replicas by those of their pods, in the order of ranks."""
    read = job.read
    return {read.pod_name(replica): str(replica) for replica in read.replicas}


def chosen_pods(job: FoundJob, ranks: str) -> Callable[[str], bool]:
    """Whether a pod is among `ranks`: ``0``, ``0,2``, ``0-3``, or names such as ``Worker-1``. Raises `UserError`."""
    if not ranks:
        return lambda _pod: True
    replicas = _replicas(job)
    names = list(replicas)
    chosen: set[str] = set()
    for part in ranks.split(","):
        first, dash, last = part.strip().partition("-")
        if first.isdecimal() and (last.isdecimal() or not dash):
            chosen |= set(names[int(first) : int(last or first) + 1])
            if int(last or first) < len(names):
                continue
        elif found := [pod for pod, replica in replicas.items() if part.strip().lower() in (pod, replica.lower())]:
            chosen.update(found)
            continue
        shown = ", ".join(f"{rank}: {replica}" for rank, replica in enumerate(list(replicas.values())[:8]))
        raise UserError(f"--rank {part}: {job.title} has no such replica; it has {shown}{', …' if len(names) > 8 else ''}")
    return chosen.__contains__


def displayed(job: FoundJob, ranks: str, console: Console, notes: Console, followed: Sequence[FollowedJob] = ()) -> Display:
    """Shows the lines of these ranks, each with its replica, on `console`, and what else happens on `notes`."""
    replicas = _replicas(job)
    return Display(console, followed, notes=notes, label=lambda pod: replicas.get(pod, pod), wanted=chosen_pods(job, ranks))


async def print_logs(api: Api, job: FoundJob, selection: Selection, console: Console, notes: Console) -> None:
    """Print the logs there are, replica by replica. Raises `UserError` if there is none."""
    wanted, display = chosen_pods(job, selection.ranks), displayed(job, selection.ranks, console, notes)
    members = Found(job.framework, job.body, await pods_of(api, job)).members
    pods = [member for member in members if wanted(member.pod.name)]
    if not pods:
        # Those that the operator has kept of failed replicas.
        kept, _ = await read_kept(api.send_all, job.body)
        for pod in filter(wanted, kept):
            for line in shown_lines(kept[pod]):
                display.line(pod, line)
        if not any(map(wanted, kept)):
            made = await why(api, job)
            raise UserError(f"{job.title} has no pods whose log could be read: {made.reason}: {made.sentence}", JOB_FAILED)
    complaints: list[str] = []
    for member in pods:
        options = _options(member.raw, job, selection)
        try:
            async with aclosing(ContainerLogs(api.transport).lines(member.raw, options)) as lines:
                async for line in lines:
                    display.line(member.pod.name, line)
        except StatusError as error:
            if error.code == 403:
                raise UserError(f"{error.message}; reading logs needs the right to get pods/log", JOB_FAILED) from None
            if error.code == 404:
                continue  # it was deleted after the list had been read, as the pods of a finished job are
            complaints.append(f"{member.replica}: {error.message}")
    if complaints:
        raise UserError("\n".join(complaints), JOB_FAILED)


async def follow_logs(api: Api, job: FoundJob, selection: Selection, console: Console, notes: Console) -> None:
    """Print the logs as they grow, of every run of every container, until the job is over."""
    if job.status.finished:
        await print_logs(api, job, selection, console, notes)
        return
    followed = FollowedJob(job.target, job.read.total_replicas)
    with displayed(job, selection.ranks, console, notes, [followed]) as display:
        await Follower(api.transport, [followed], display, tail=selection.tail).run(until=lambda: followed.over)


def _options(pod: Mapping[str, Any], job: FoundJob, selection: Selection) -> LogOptions:
    containers = [str(c["name"]) for c in pod["spec"]["containers"]]
    inits = [str(c["name"]) for c in pod["spec"].get("initContainers") or ()]
    main = job.framework.container if job.framework.container in containers else containers[0]
    if selection.container and selection.container not in (*containers, *inits):
        raise UserError(
            f"--container {selection.container}: there is no such container; use one of {', '.join((*containers, *inits))}"
        )
    return LogOptions(
        selection.container or main, previous=selection.previous, tail=selection.tail, since_seconds=selection.since
    )
