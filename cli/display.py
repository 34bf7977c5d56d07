"""What is shown of jobs that are followed: a line for each thing that happens, and on a terminal progress bars below."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from jobcommon.api.status import ConditionType, JobCondition, JobStatus
from jobcommon.api.text import clean
from jobcommon.api.time_spent import Phase
from jobcommon.cli.followed import FollowedJob, FollowedPod, Key

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
_HUES = "cyan", "green", "magenta", "yellow"
COLOURS = *_HUES, "blue", *(f"bright_{hue}" for hue in _HUES), "red"
# More bars than this would push the lines off the screen.
MAX_BARS = 12
# The pods of a larger job are counted; failing ones have a line each, up to `MAX_LIKE_IT` for each cause.
MANY_PODS = 8
MAX_LIKE_IT = 3
PARTS = 4


class Display:
    """Prints what happens to `jobs`: the lines of their pods to `console`, and what else there is to `notes`.

    Pods are called by `label`; those that are not `wanted` are left out. As a context manager it shows the lines that pods
    overwrite, such as progress bars, below the others, on a terminal only.
    """

    def __init__(
        self,
        console: Console,
        jobs: Sequence[FollowedJob] = (),
        *,
        notes: Console | None = None,
        label: Callable[[str], str] = str,
        wanted: Callable[[str], bool] = lambda _: True,
        clock: Callable[[], datetime] = datetime.now,  # noqa: TID251
    ) -> None:
        self.console = console
        self._notes = notes or console
        self._label, self._wanted, self._clock = label, wanted, clock
        self._begin = clock()
        self._jobs = {job.key: job for job in jobs}
        self._pods: dict[int, FollowedPod] = {}
        self._conditions: dict[Key, tuple[str, ...]] = {}
        self._told: Counter[tuple[Key, str, str]] = Counter()
        self._parts: Counter[Key] = Counter()
        self._colours: dict[str, str] = {}
        self._bars: dict[str, Text] = {}
        self._live: Live | None = None

    def __enter__(self) -> "Display":
        if self.console.is_terminal:
            self._live = Live(self, console=self.console, refresh_per_second=4, transient=True)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def __rich__(self) -> Group:
        return Group(*[*self._bars.values()][:MAX_BARS])

    @property
    def elapsed(self) -> str:
        """The time since the display was made: ``1:05``."""
        return duration_of((self._clock() - self._begin).total_seconds())

    def say(self, text: str, style: str = "") -> None:
        """One line with the time."""
        # soft_wrap: it stays one line at any width.
        line = Text.assemble((f"{self._clock():%H:%M:%S} ", "dim"), (clean(text), style))
        self._notes.print(line, soft_wrap=True)

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
        if not self._wanted(pod.name) or (job is not None and job.wanted > MANY_PODS and not self._is_news(job, pod)):
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

    def line(self, name: str, text: str) -> None:
        """A pod has printed a line."""
        if self._wanted(name):
            self._bars.pop(label := self._label(name), None)
            self.console.print(self._labelled(label, text), soft_wrap=True)

    def frame(self, name: str, text: str) -> None:
        """A pod has overwritten its last line, which is not complete yet; a blank one has been cleared."""
        if self._wanted(name):
            self._bars.pop(label := self._label(name), None)
            if text.strip():
                self._bars[label] = line = self._labelled(label, text)
                line.truncate(self.console.width, overflow="ellipsis")

    def _labelled(self, label: str, text: str) -> Text:
        colour = self._colours.setdefault(label, COLOURS[len(self._colours) % len(COLOURS)])
        return Text.assemble((f"{label} | ", colour), clean(text))

    def warning(self, about: str, text: str) -> None:
        """The cluster has issued a warning."""
        self.say(f"{about} {text}", "yellow")


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
