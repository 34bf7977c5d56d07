"""Showing what happens to jobs: plain lines in a pipe, a table below the lines on a terminal."""

import re
from collections.abc import Callable, Sequence
from datetime import datetime

from rich.console import Console, Group
from rich.live import Live
from rich.table import Column, Table
from rich.text import Text

from cli.following import FollowedJob, FollowedPod
from jobcommon.api.status import ConditionType, JobCondition

_STYLES = {
    ConditionType.SUCCEEDED: "green",
    ConditionType.FAILED: "red",
    ConditionType.RESTARTING: "yellow",
    ConditionType.SUSPENDED: "yellow",
    ConditionType.RUNNING: "cyan",
}
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# More rows than this would push the lines off the screen.
MAX_ROWS = 12


class Display:
    """Prints to `console`. As a context manager it keeps a table of jobs and pods up to date below, on a terminal only."""

    def __init__(self, console: Console, clock: Callable[[], datetime]) -> None:
        self.console = console
        self._clock = clock
        self._jobs: Sequence[FollowedJob] = ()
        self._pods: dict[int, FollowedPod] = {}
        self._live: Live | None = None

    def __enter__(self) -> "Display":
        if self.console.is_terminal:
            self._live = Live(self, console=self.console, refresh_per_second=4, transient=True)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def show(self, jobs: Sequence[FollowedJob]) -> None:
        """The jobs for the table."""
        self._jobs = jobs

    def __rich__(self) -> Group:
        jobs = Table("JOB", "STATE", box=None, header_style="bold", pad_edge=False)
        for job in self._jobs:
            jobs.add_row(job.title, _state(job.current))
        pods = Table("POD", "STATE", "RESTARTS", box=None, header_style="bold", pad_edge=False)
        there = [pod for pod in self._pods.values() if not pod.gone]
        for pod in there[:MAX_ROWS]:
            pods.add_row(pod.name, pod.state, str(pod.restarts))
        if len(there) > MAX_ROWS:
            pods.add_row(f"… and {len(there) - MAX_ROWS} more", "", "")
        return Group(Text(), jobs, Text(), pods)

    # -- what happens ------------------------------------------------------------------------------------------------

    def say(self, text: str, style: str = "") -> None:
        """One line with the time."""
        self._print(Text(f"{self._clock():%H:%M:%S} ", style="dim"), Text(clean(text), style=style))

    def condition(self, job: FollowedJob, condition: JobCondition) -> None:
        """A job's state has changed."""
        self.say(f"{job.title} {condition.type}: {condition.message}", _style(condition))

    def pod(self, pod: FollowedPod) -> None:
        """A pod's state has changed."""
        self._pods[id(pod)] = pod
        restarts = f", {pod.restarts} restarts" if pod.restarts else ""
        self.say(f"pod/{pod.name} {'gone' if pod.gone else pod.state + restarts}", "dim")

    def line(self, pod: FollowedPod, text: str) -> None:
        """A pod has printed a line."""
        self._print(Text(f"{pod.name} | ", style="blue"), Text(clean(text)))

    def warning(self, about: str, text: str) -> None:
        """The cluster warns of something."""
        self.say(f"{about} {text}", "yellow")

    def _print(self, *parts: Text) -> None:
        # soft_wrap: a line of a pod stays one line, whatever the width; a pipe has none.
        self.console.print(Text.assemble(*parts), soft_wrap=True)


def clean(text: str) -> str:
    """The text without what would steer the terminal."""
    return _CONTROL.sub("", text)


def _style(condition: JobCondition) -> str:
    return next((style for kind, style in _STYLES.items() if kind == condition.type), "")


def _state(condition: JobCondition | None) -> Text:
    return Text(condition.type, style=_style(condition)) if condition else Text("-")


def summary(console: Console, job: FollowedJob, pods: Sequence[FollowedPod]) -> None:
    """A job's conditions, and for one that failed what failed, why, and the last lines it printed."""
    console.print(Text(f"\n{job.title}", style="bold"))
    short = [Column(title, no_wrap=True) for title in ("TYPE", "STATUS", "SINCE", "REASON")]
    table = Table(*short, "MESSAGE", box=None, pad_edge=False, header_style="bold")
    for c in job.status.conditions:
        table.add_row(Text(c.type, style=_style(c)), c.status, c.last_transition_time or "", c.reason, Text(clean(c.message)))
    console.print(table)
    if job.gone and not job.status.finished:
        console.print("The job was deleted before it was over.")
    if job.succeeded:
        return
    for failure in job.status.failures:
        code = f", exit code {failure.exit_code}" if failure.exit_code is not None else ""
        text = f": {failure.message}" if failure.message else ""
        console.print(
            Text(clean(f"{failure.replica} ({failure.pod}): {failure.reason}{code}{text}"), style="red"), soft_wrap=True
        )
        for pod in pods:
            if pod.name == failure.pod and pod.tail:
                console.print(f"  the last lines of {pod.name}:")
                for line in pod.tail:
                    console.print(Text(f"  | {clean(line)}"), soft_wrap=True)
