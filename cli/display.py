"""The output of `run`: plain lines in a pipe, a table below the lines on a terminal."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from rich.console import Console, Group
from rich.live import Live
from rich.table import Column, Table
from rich.text import Text

from jobcommon.api.status import ConditionType, JobCondition, JobStatus
from jobcommon.api.text import clean
from jobcommon.api.time_spent import Phase
from jobcommon.causes.error_lines import in_one_line
from jobcommon.cli.stalls import State
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
# More rows than this would push the lines off the screen.
MAX_ROWS = 12
# The pods of a larger job are counted; failing ones have a line each, up to `MAX_LIKE_IT` for each cause.
MANY_PODS = 8
MAX_LIKE_IT = 3
SHOWN_LINES = 20
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
        return Group(*[*self._frames.values()][:MAX_ROWS])

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
    """Prints to `console`. As a context manager it keeps a table of jobs and pods up to date below, on a terminal only."""

    def __init__(self, console: Console, clock: Callable[[], datetime]) -> None:
        self.console = console
        self._clock = clock
        self._begin = clock()
        self._jobs: Sequence[FollowedJob] = ()
        self._pods: dict[int, FollowedPod] = {}
        self._conditions: dict[Key, tuple[str, ...]] = {}
        self._told: Counter[tuple[Key, str, str]] = Counter()
        self._parts: Counter[Key] = Counter()
        self._frames = Frames(console)
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
        """Set the jobs for the table."""
        self._jobs = jobs

    @property
    def elapsed(self) -> str:
        """The time since the display was made: ``1:05``."""
        return duration_of((self._clock() - self._begin).total_seconds())

    def __rich__(self) -> Group:
        reported = [job.status.reported_progress for job in self._jobs]
        restarts = [job.status.restarts or 0 for job in self._jobs]
        more = [*(["RESTARTS"] if any(restarts) else []), *(["PROGRESS"] if any(reported) else [])]
        columns = "JOB", "STATE", "PODS", "TIME", *more
        jobs = Table(*columns, box=None, header_style="bold", pad_edge=False)
        pods = Table(
            *(Column(title, no_wrap=True) for title in ("POD", "STATE", "RESTARTS", "CAUSE")),
            box=None, header_style="bold", pad_edge=False,
        )  # fmt: skip
        for job, count, progress in zip(self._jobs, restarts, reported, strict=True):
            values: dict[str, str | Text] = {"RESTARTS": str(count), "PROGRESS": Text(clean(progress))}
            jobs.add_row(job.title, _state(job.current), self._counts(job), self.elapsed, *(values[column] for column in more))
        shown = self._rows()
        for pod in shown[:MAX_ROWS]:
            pods.add_row(pod.name, clean(pod.state), str(pod.restarts), Text(clean(pod.cause), style="yellow"))
        if len(shown) > MAX_ROWS:
            pods.add_row(f"… and {len(shown) - MAX_ROWS} more", "", "", "")
        return Group(self._frames, Text(), jobs, *((Text(), pods) if shown else ()))

    def _rows(self) -> list[FollowedPod]:
        """The pods for the table, failing ones first; of many pods, the others appear only in the count of their job."""
        there = [pod for pod in self._pods.values() if not pod.gone]
        if len(there) > MAX_ROWS:
            there = [pod for pod in there if pod.cause or pod.progress is State.WAITS]
        return sorted(there, key=lambda pod: (not pod.cause, pod.progress is not State.WAITS))

    def _counts(self, job: FollowedJob) -> str:
        """``46/60 Running, 12 Pending, 2 ErrImagePull``."""
        states = Counter(pod.state for pod in self._pods_of(job.key))
        running = states.pop("Running", 0)
        others = [f"{count} {clean(state)}" for state, count in states.most_common()]
        return ", ".join([f"{running}/{job.wanted} Running", *others])

    def _pods_of(self, job: Key) -> Iterable[FollowedPod]:
        return (pod for pod in self._pods.values() if pod.job == job and not pod.gone)

    # -- what happens ------------------------------------------------------------------------------------------------

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
        job = next((job for job in self._jobs if job.key == pod.job), None)
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
        part = sum(other.state == "Running" for other in self._pods_of(pod.job)) * PARTS // job.wanted
        if part > self._parts[pod.job]:
            self._parts[pod.job] = part
            self.say(f"{job.title} {self._counts(job)}", "dim")
        return False

    def frame(self, pod: FollowedPod, text: str) -> None:
        """A pod has overwritten its last line."""
        self._frames.show(pod.name, text, "blue")

    def line(self, pod: FollowedPod, text: str) -> None:
        """A pod has printed a line."""
        self._frames.end(pod.name)
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


def _state(condition: JobCondition | None) -> Text:
    return Text(clean(condition.type), style=style_of(condition)) if condition else Text("-")


def summary(console: Console, job: FollowedJob, pods: Sequence[FollowedPod], *, causes: bool = True) -> None:
    """A job's conditions, and with `causes`, if it failed, its failures with their causes and the last lines printed.

    A diagnosis follows that of a job without success, and has the words of its conditions.
    """
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
    if job.succeeded or not causes:
        return
    # A replaced pod has the name of its predecessor; failures are in the order of the runs.
    ours = [pod for pod in pods if pod.job == job.key]
    for failure in job.status.failures:
        code = f", exit code {failure.exit_code}" if failure.exit_code is not None else ""
        failed = next((pod for pod in ours if pod.name == failure.pod), None)
        # The last lines have them, too.
        printed = failed is not None and failed.tail
        words = "" if printed else in_one_line(failure.reason, failure.exit_code, failure.message or "")
        text = f": {words}" if words else ""
        console.print(
            Text(clean(f"{failure.replica} ({failure.pod}): {failure.reason}{code}{text}"), style="red"), soft_wrap=True
        )
        if failed is not None:
            ours.remove(failed)
            _last_lines(console, failed)
    if not job.status.failures and not job.suspended:
        for pod in sorted(ours, key=lambda pod: not pod.cause)[:MAX_LIKE_IT]:
            _last_lines(console, pod)


def _last_lines(console: Console, pod: FollowedPod) -> None:
    if pod.tail:
        console.print(f"  the last lines of {pod.name}:")
    for line in [*pod.tail][-SHOWN_LINES:]:
        console.print(Text(f"  | {clean(line)}"), soft_wrap=True)
