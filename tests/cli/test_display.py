"""What is shown: the state of pods in a word, and nothing that steers the terminal."""

from datetime import datetime, timedelta
from io import StringIO

import pytest
from rich.console import Console

from jobcommon.api.status import Failure, JobCondition, JobStatus
from jobcommon.api.text import clean
from jobcommon.cli.display import Display, summary
from jobcommon.cli.pod_state import describe, why
from jobcommon.cli.stalls import State
from jobcommon.cli.watch import FollowedJob, FollowedPod
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.spec import read_job
from jobcommon.testutil.builders import Pod, job_manifest


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"), ("\x1b[2Jgone", "gone"), ("a\tb", "a\tb"), ("bell\x07 and \x9b31m", "bell and 31m"),
        ("50%\r100%", "50%100%"), ("a line\r\n", "a line"), ("right \u202eto left\u2069", "right to left"),
        ("no\n12:00:00 a forged line\u2028and another", "no 12:00:00 a forged line and another"),
        ("\x1b]0;a title\x07and \x1b]8;;http://a.link\x1b\\text", "and text"),
        ("\x1b]0;a title without an end", "]0;a title without an end"),
    ],
)  # fmt: skip
def test_control_sequences_are_taken_out(raw: str, shown: str) -> None:
    assert clean(raw) == shown


START = datetime(2026, 1, 1, 12, 0, 0)  # noqa: DTZ001  what a user's clock on the wall shows


class Screen:
    """A display of one job of `wanted` workers, whose clock stands still unless it is turned."""

    def __init__(self, wanted: int) -> None:
        self.now = START
        self.console = Console(file=StringIO(), width=120, highlight=False)
        self.display = Display(self.console, lambda: self.now)
        self.job = FollowedJob(PYTORCH, "default", "demo", wanted)
        self.pods = [FollowedPod(f"demo-worker-{index}", self.job.key) for index in range(wanted)]
        self.display.show([self.job])

    def pod(self, index: int, state: str, cause: str = "", progress: State = State.WAITS, restarts: int = 0) -> None:
        pod = self.pods[index]
        pod.state, pod.cause, pod.progress, pod.restarts = state, cause, progress, restarts
        self.display.pod(pod)

    def running(self, *indexes: int) -> None:
        for index in indexes:
            self.pod(index, "Running", progress=State.RUNS)

    def condition(self, kind: str, message: str) -> None:
        condition = JobCondition(type=kind, reason=kind, message=message)
        self.job.status = JobStatus(conditions=[condition])
        self.display.condition(self.job, condition)

    @property
    def lines(self) -> list[str]:
        """The lines so far, without their time."""
        text = self.console.file.getvalue()  # type: ignore[attr-defined]
        return [line[9:] for line in text.splitlines()]

    @property
    def table(self) -> list[str]:
        """What stands below the lines on a terminal."""
        console = Console(file=StringIO(), width=120)
        console.print(self.display)
        text = console.file.getvalue()  # type: ignore[attr-defined]
        return [line.rstrip() for line in text.splitlines() if line.strip()]


def test_the_pods_of_a_large_job_are_counted_and_trouble_is_told() -> None:
    screen = Screen(60)
    for index in range(60):
        screen.pod(index, "Pending")
    screen.running(*range(46))
    for index in range(46, 52):
        screen.pod(index, "ErrImagePull", "not found")
    assert screen.lines == [
        "pytorchjob/demo 15/60 Running, 45 Pending",
        "pytorchjob/demo 30/60 Running, 30 Pending",
        "pytorchjob/demo 45/60 Running, 15 Pending",
        "pod/demo-worker-46 ErrImagePull: not found",
        "pod/demo-worker-47 ErrImagePull: not found",
        "pod/demo-worker-48 ErrImagePull: not found",
        "pytorchjob/demo more pods ErrImagePull: not found",
    ]


def test_the_table_counts_shows_problems_first_and_the_time() -> None:
    screen = Screen(60)
    screen.condition("Running", "It runs.")
    screen.running(*range(46))
    for index in range(46, 58):
        screen.pod(index, "Pending")
    for index in (58, 59):
        screen.pod(index, "ErrImagePull", "not found")
    screen.now = START + timedelta(minutes=2, seconds=5)
    table = screen.table
    assert table[:5] == [
        "JOB              STATE    PODS                                       TIME",
        "pytorchjob/demo  Running  46/60 Running, 12 Pending, 2 ErrImagePull  2:05",
        "POD             STATE         RESTARTS  CAUSE",
        "demo-worker-58  ErrImagePull  0         not found",
        "demo-worker-59  ErrImagePull  0         not found",
    ]
    assert table[-1] == "… and 2 more"
    screen.job.status = screen.job.status.model_copy(update={"restarts": 2})
    assert screen.table[0].split() == ["JOB", "STATE", "PODS", "TIME", "RESTARTS"]
    assert screen.table[1].split()[-1] == "2"


def test_the_summary_says_once_what_a_pod_printed_last_and_since_when_the_job_does_not_run() -> None:
    screen, began, ended = Screen(1), "2026-01-01T12:00:00Z", "2026-01-01T12:09:00Z"
    (pod,) = screen.pods
    pod.tail.append("ValueError: no shard")
    conditions = [
        JobCondition(type="Running", status="False", reason="r", last_transition_time=began),
        JobCondition(type="Failed", reason="f", message="Worker-0: exit code 1", last_transition_time=ended),
    ]
    failure = Failure(replica="Worker-0", pod=pod.name, reason="Error", exit_code=1, message="ValueError: no shard")
    screen.job.status = JobStatus(conditions=conditions, completion_time=ended, failures=[failure])
    summary(screen.console, screen.job, [pod])
    text = screen.console.file.getvalue()  # type: ignore[attr-defined]
    assert (text.count(ended), text.count(began), text.count("no shard")) == (2, 0, 1)


POD = Pod.of(PYTORCH, read_job(PYTORCH, job_manifest(PYTORCH, {"Worker": 1})), "Worker", 0)

TRACE = 'Traceback (most recent call last):\n  File "/app/t.py", line 3, in <module>\n    run()\n'


@pytest.mark.parametrize(
    ("pod", "word", "cause"),
    [
        (POD, "Pending", ""),
        (POD.unschedulable("no node fits."), "Pending", "no node fits"),
        (POD.waiting("ErrImagePull", "not found"), "ErrImagePull", "not found"),
        (POD.running(), "Running", ""),
        (POD.running().between_runs(3), "Error", "exit code 3"),
        (POD.running().crash_looping(2), "CrashLoopBackOff", "exited with code 1 (Error)"),
        (POD.running().failed(128, reason="StartError", message="no such file"), "StartError", "exit code 128: no such file"),
        (
            POD.running().failed(1, message=f"step 1\n{TRACE}ValueError: no shard"),
            "Error",
            "exit code 1: ValueError: no shard (t.py, line 3)",
        ),
        (POD.evicted(), "Evicted", "The node was low on resource: memory."),
        (POD.running().succeeded(), "Completed", ""),
        (POD.unschedulable().deleting(), "Terminating", ""),
    ],
)
def test_a_pod_in_a_word_and_why_it_does_not_run(pod: Pod, word: str, cause: str) -> None:
    assert (describe(pod.raw), why(pod.view)) == (word, cause)
