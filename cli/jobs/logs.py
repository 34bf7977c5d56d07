"""``logs``: what all replicas of a job print, each line with its replica."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.text import Text

from jobcommon.api.status import JobCondition
from jobcommon.api.text import clean
from jobcommon.cli.display import Frames
from jobcommon.cli.errors import JOB_FAILED, UserError
from jobcommon.cli.jobs.access import Api, together
from jobcommon.cli.jobs.lookup import FoundJob
from jobcommon.cli.jobs.surroundings import pods_of
from jobcommon.cli.jobs.why import why
from jobcommon.cli.watch import FollowedJob, FollowedPod, Follower
from jobcommon.client.container_log import ContainerLogs, LogOptions
from jobcommon.client.errors import StatusError
from jobcommon.client.lines import shown_lines
from jobcommon.client.request import Request, Response
from jobcommon.diagnosis import Found
from jobcommon.diagnosis.found import Member
from jobcommon.diagnosis.reading import read_kept

_HUES = "cyan", "green", "magenta", "yellow"
COLOURS = *_HUES, "blue", *(f"bright_{hue}" for hue in _HUES), "red"


@dataclass(frozen=True)
class Selection:
    """Which logs: of which ranks ("" for all), which container ("" for the main one), which run, and how much of each."""

    ranks: str = ""
    container: str = ""
    previous: bool = False
    tail: int | None = None
    since: int | None = None


class Printer:
    """Prints lines with the replica before them, in a colour of its own. Also an audience of a `Follower`."""

    def __init__(self, console: Console, notes: Console, wanted: Callable[[str], bool], job: FoundJob) -> None:
        self._console = console
        self._notes = notes
        self._wanted = wanted
        self._job = job
        self._colours: dict[str, str] = {}
        self.frames = Frames(console)

    def replica_line(self, replica: str, text: str) -> None:
        """A line of a replica."""
        self.frames.end(replica)
        self._console.print(Text.assemble((f"{replica} | ", self._colour(replica)), clean(text)), soft_wrap=True)

    def _colour(self, replica: str) -> str:
        return self._colours.setdefault(replica, COLOURS[len(self._colours) % len(COLOURS)])

    def frame(self, pod: FollowedPod, text: str) -> None:
        """See `jobcommon.cli.watch.Audience`."""
        if self._wanted(pod.name):
            replica = replica_of(self._job, pod.name)
            self.frames.show(replica, text, self._colour(replica))

    def line(self, pod: FollowedPod, text: str) -> None:
        """See `jobcommon.cli.watch.Audience`."""
        if self._wanted(pod.name):
            self.replica_line(replica_of(self._job, pod.name), text)

    def condition(self, job: FollowedJob, condition: JobCondition) -> None:
        """See `jobcommon.cli.watch.Audience`."""
        self._note(f"{job.title} {condition.type}: {condition.message}")

    def pod(self, pod: FollowedPod) -> None:
        """See `jobcommon.cli.watch.Audience`."""
        if pod.cause and not pod.gone and self._wanted(pod.name):
            self._note(f"{replica_of(self._job, pod.name)} {pod.state}: {pod.cause}")

    def warning(self, about: str, text: str) -> None:
        """See `jobcommon.cli.watch.Audience`."""
        self._note(f"{about} {text}")

    def _note(self, text: str) -> None:
        self._notes.print(Text(clean(text), style="dim"), soft_wrap=True)


def replica_of(job: FoundJob, pod: str) -> str:
    """The replica of a pod, by its name: ``Worker-0``."""
    return _replicas(job).get(pod, pod)


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


async def print_logs(api: Api, job: FoundJob, selection: Selection, printer: Printer) -> None:
    """Print the logs there are, replica by replica. Raises `UserError` if there is none."""
    wanted = chosen_pods(job, selection.ranks)
    pods = [member for member in await _members(api, job) if wanted(member.pod.name)]
    if not pods and await _print_kept(api, job, wanted, printer):
        return
    if not pods:
        made = await why(api, job)
        raise UserError(f"{job.title} has no pods whose log could be read: {made.reason}: {made.sentence}", JOB_FAILED)
    complaints: list[str] = []
    for member in pods:
        options = _options(member.raw, job, selection)
        try:
            async with aclosing(ContainerLogs(api.transport).lines(member.raw, options)) as lines:
                async for line in lines:
                    printer.replica_line(member.replica, line)
        except StatusError as error:
            if error.code == 403:
                raise UserError(f"{error.message}; reading logs needs the right to get pods/log", JOB_FAILED) from None
            if error.code == 404:
                continue  # it was deleted after the list had been read, as the pods of a finished job are
            complaints.append(f"{member.replica}: {error.message}")
    if complaints:
        raise UserError("\n".join(complaints), JOB_FAILED)


async def _print_kept(api: Api, job: FoundJob, wanted: Callable[[str], bool], printer: Printer) -> bool:
    """Print the logs of failed replicas that the operator has kept; whether there are any."""

    async def send(requests: Sequence[Request]) -> Sequence[Response]:
        return await together(*map(api.transport.send, requests))

    logs, _ = await read_kept(send, job.body)
    kept = {pod: text for pod, text in logs.items() if wanted(pod)}
    for pod, text in kept.items():
        for line in shown_lines(text):
            printer.replica_line(replica_of(job, pod), line)
    return bool(kept)


async def follow_logs(api: Api, job: FoundJob, selection: Selection, printer: Printer) -> None:
    """Print the logs as they grow, of every run of every container, until the job is over."""
    if job.status.finished:
        await print_logs(api, job, selection, printer)
        return
    followed = FollowedJob(job.framework, job.namespace, job.name)
    follower = Follower(api.transport, [followed], printer, tail=selection.tail)
    with printer.frames:
        await follower.run(until=lambda: followed.over)


async def _members(api: Api, job: FoundJob) -> Sequence[Member]:
    return Found(job.framework, job.body, await pods_of(api, job)).members


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
