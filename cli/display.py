"""The output of `run`: a line for each thing that happens, and on a terminal the progress bars of replicas below."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime

from rich.console import Console, Group
from rich.live import Live
from rich.table import Column, Table
from rich.text import Text

from jobcommon.api.status import ConditionType, JobCondition, JobStatus
from jobcommon.api.text import clean
from jobcommon.api.time_spent import Phase
from jobcommon.cli.watch import FollowedJob, FollowedPod, Key

_STYLES = {
    ConditionType.SUCCEEDED: "green",
    ConditionType.FAILED: "red",
    ConditionType.RESTARTING: "yellow",
    ConditionType.SUSPENDED: "yellow",
    ConditionType.STALLED: "red",
    ConditionType.RUNNING: "cyan",
}
# The part of a condition's message about pods, which have lines of their own.
_ABOUT_PODS = re.compile(r"; (waiting: |\S+-\d+ restarted ).*", re.DOTALL)
# More bars than this would push the lines off the screen.
MAX_BARS = 12
# The pods of a larger job are counted; failing ones have a line each, up to `MAX_LIKE_IT` for each cause.
MANY_PODS = 8
MAX_LIKE_IT = 3
PARTS = 4


class Frames:
    """The progress bars of replicas: below the lines that are printed, on a terminal only, until they are complete."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._frames: dict[str, Text] = {}
        self._live: Live | None = None

    def __enter__(self) -> "Frames":
        if self._console.is_terminal:
            self._live = Live(self, console=self._console, refresh_per_second=4, transient=True)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def __rich__(self) -> Group:
        return Group(*[*self._frames.values()][:MAX_BARS])

    def __str__(self) -> str:
        return "\n".join(map(str, self._frames.values()))

    def show(self, name: str, text: str, style: str) -> None:
        """Set the bar of a replica; one that is blank has been cleared."""
        self._frames.pop(name, None)
        if text.strip():
            line = Text.assemble((f"{name} | ", style), clean(text))
            line.truncate(self._console.width, overflow="ellipsis")
            self._frames[name] = line

    def end(self, name: str) -> None:
        """The replica has printed a whole line."""
        self._frames.pop(name, None)


class Display:
    """Prints what happens to `jobs` as lines to `console`."""

    def __init__(self, console: Console, clock: Callable[[], datetime], jobs: Sequence[FollowedJob] = ()) -> None:
        self.console = console
        self.frames = Frames(console)
        self._clock = clock
        self._begin = clock()
        self._jobs = {job.key: job for job in jobs}
        self._pods: dict[int, FollowedPod] = {}
        self._conditions: dict[Key, tuple[str, ...]] = {}
        self._told: Counter[tuple[Key, str, str]] = Counter()
        self._parts: Counter[Key] = Counter()

    @property
    def elapsed(self) -> str:
        """The time since the display was made: ``1:05``."""
        return duration_of((self._clock() - self._begin).total_seconds())

    def say(self, text: str, style: str = "") -> None:
        """One line with the time."""
        self._print(Text(f"{self._clock():%H:%M:%S} ", style="dim"), Text(clean(text), style=style))

    def condition(self, job: FollowedJob, condition: JobCondition) -> None:
        """A job's state has changed. A change of the part about its pods only is not printed: their own lines were."""
        told = (condition.type, condition.status, condition.reason, _ABOUT_PODS.sub("", condition.message).rstrip("."))
        if self._conditions.get(job.key) != told:
            self._conditions[job.key] = told
            self.say(f"{job.title} {condition.type}: {condition.message}", style_of(condition))

    def pod(self, pod: FollowedPod) -> None:
        """A pod's state has changed."""
        self._pods[id(pod)] = pod
        job = self._jobs.get(pod.job)
        if job is not None and job.wanted > MANY_PODS and not self._is_news(job, pod):
            return
        restarts = f", {plural(pod.restarts, 'restart')}" if pod.restarts else ""
        cause = f": {pod.cause}" if pod.cause and not pod.gone else ""
        self.say(f"pod/{pod.name} {'gone' if pod.gone else pod.state + restarts + cause}", "yellow" if cause else "dim")

    def _is_news(self, job: FollowedJob, pod: FollowedPod) -> bool:
        """Whether a pod among many gets a line; running pods are counted in steps of a quarter."""
        if pod.cause and not pod.gone:
            like_it = (pod.job, pod.state, pod.cause)
            self._told[like_it] += 1
            if self._told[like_it] == MAX_LIKE_IT + 1:
                self.say(f"{job.title} more pods {pod.state}: {pod.cause}", "yellow")
            return self._told[like_it] <= MAX_LIKE_IT
        states = Counter(other.state for other in self._pods.values() if other.job == pod.job and not other.gone)
        running = states.pop("Running", 0)
        part = running * PARTS // job.wanted
        if part > self._parts[pod.job]:
            self._parts[pod.job] = part
            others = [f"{count} {state}" for state, count in states.most_common()]
            self.say(f"{job.title} {', '.join([f'{running}/{job.wanted} Running', *others])}", "dim")
        return False

    def frame(self, pod: FollowedPod, text: str) -> None:
        """A pod has overwritten its last line."""
        self.frames.show(pod.name, text, "blue")

    def line(self, pod: FollowedPod, text: str) -> None:
        """A pod has printed a line."""
        self.frames.end(pod.name)
        self._print(Text(f"{pod.name} | ", style="blue"), Text(clean(text)))

    def warning(self, about: str, text: str) -> None:
        """The cluster has issued a warning."""
        self.say(f"{about} {text}", "yellow")

    def _print(self, *parts: Text) -> None:
        # soft_wrap: a pod's line stays one line at any width.
        self.console.print(Text.assemble(*parts), soft_wrap=True)


def plural(count: int, noun: str) -> str:
    """``1 restart``, ``2 restarts``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def duration_of(seconds: float) -> str:
    """``0:09``, ``12:30``, ``1:02:03``."""
    minutes, seconds = divmod(max(int(seconds), 0), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def time_spent(status: JobStatus, now: float) -> str:
    """``queued 0:03, starting 0:12, running 1:02:03, restarting 0:40; availability 98.6 %``; "" if it is not known."""
    spent = status.time_spent
    if spent is None:
        return ""
    # It is divided when the job has run.
    names = {"queued": "queued or starting"} if spent.phase == Phase.PENDING else {}
    parts = [f"{names.get(name, name)} {duration_of(seconds)}" for name, seconds in spent.seconds(now).items()]
    share = spent.availability(now)
    text = ", ".join(parts) + (f"; availability {share * 100:.1f} %" if share is not None else "")
    text += f", goodput {good * 100:.1f} %" if (good := spent.goodput(now)) is not None else ""
    return text + (f", {plural(spent.lost_steps, 'step')} repeated" if spent.lost_steps else "")


def style_of(condition: JobCondition) -> str:
    """The colour of a condition."""
    return next((style for kind, style in _STYLES.items() if kind == condition.type), "")


def summary(console: Console, job: FollowedJob) -> None:
    """A job's conditions. A diagnosis follows that of a job without success, and has their words."""
    explained = not job.succeeded and not job.gone
    console.print(Text(f"\n{job.title}", style="bold"))
    short = [Column(title, no_wrap=True) for title in ("TYPE", "STATUS", "SINCE", "REASON")]
    table = Table(*short, *(() if explained else ("MESSAGE",)), box=None, pad_edge=False, header_style="bold")
    for c in job.status.conditions:
        # The end of a job leaves the times of the condition Running as they are.
        ended = job.status.completion_time if c.type == ConditionType.RUNNING and not c.is_true else None
        others = (c.status, ended or c.last_transition_time or "", c.reason, *(() if explained else (c.message,)))
        table.add_row(Text(clean(c.type), style=style_of(c)), *(Text(clean(text)) for text in others))
    console.print(table)
    if job.gone and not job.status.finished:
        console.print("The job was deleted before it had finished.")
