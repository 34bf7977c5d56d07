"""What is shown of a job that is followed: lines and a table, when it is stuck, and the logs of its containers."""

import asyncio
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from jobcommon.cli import watch
from jobcommon.cli.display import Display
from jobcommon.cli.followed import FollowedJob, FollowedPod
from jobcommon.cli.pod_state import describe, why
from jobcommon.cli.stalls import STARTED, Stall, State
from jobcommon.cli.watch import runs_with_logs
from jobcommon.client.container_log import ContainerLogs, LogOptions
from jobcommon.client.errors import StatusError, TransportError
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.sdk.following import Target
from jobcommon.spec import read_job
from jobcommon.testutil.builders import Pod, job_manifest
from tests.runtime.fakes import Answer, ScriptedTransport, refusal, reply


@pytest.fixture
def console() -> Console:
    return Console(file=StringIO(), width=120, highlight=False)


def lines(console: Console) -> list[str]:
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined, no-any-return]


def test_the_pods_of_a_large_job_are_counted_and_those_like_the_first_three_are_not_named(console: Console) -> None:
    job = FollowedJob(Target(PYTORCH, "default", "demo"), 60)
    display = Display(console, [job])
    for index in range(60):
        state, cause, progress = ("ErrImagePull", "not found", State.WAITS) if index >= 40 else ("Running", "", State.RUNS)
        display.pod(FollowedPod(f"demo-worker-{index}", job.key, state, cause, progress))
    assert [line[9:] for line in lines(console)] == [
        "pytorchjob/demo 15/60 Running", "pytorchjob/demo 30/60 Running",
        *(f"pod/demo-worker-{index} ErrImagePull: not found" for index in (40, 41, 42)),
        "pytorchjob/demo more pods ErrImagePull: not found",
    ]  # fmt: skip


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


# -- When a run is stuck: by the clock that is handed in, without waiting

AFTER = 300.0
RUNS, WAITS, DONE, GONE = State.RUNS, State.WAITS, State.DONE, State.GONE
#: What was seen of a job that began at 0: at which time, and the states of its pods, or another call.
ROWS: dict[str, tuple[list[tuple[float, set[State] | str]], float | None]] = {
    "no pods: a quota, a gang that waits": ([], AFTER),
    "never started": ([(1, {WAITS})], AFTER),
    "runs, and prints nothing": ([(1, {WAITS}), (5, {RUNS})], None),
    "the others wait for one": ([(1, {RUNS, WAITS})], AFTER),
    "the others get on without it": ([(1, {RUNS, WAITS}), (200, "line")], 200 + AFTER),
    "a crash loop is one stall": ([(1, {WAITS}), (5, {RUNS}), (6, {WAITS}), (60, {RUNS}), (61, {WAITS})], AFTER),
    "it had started": ([(1, {WAITS}), (5, {RUNS}), (5 + STARTED, {WAITS})], 5 + STARTED + AFTER),
    "all pods have ended, and the job has not": ([(1, {RUNS}), (90, {DONE})], 90 + AFTER),
    "made anew, it waits again": ([(1, {WAITS}), (9, {GONE}), (9, {GONE, WAITS})], AFTER),
    "it waited in a queue": ([(600, "suspended"), (601, {WAITS})], 600 + AFTER),
    "the one that waited is gone": ([(1, {RUNS, WAITS}), (9, {RUNS, GONE})], None),
}


@pytest.mark.parametrize("name", ROWS)
def test_when_a_job_is_stuck(name: str) -> None:
    seen, expected = ROWS[name]
    stall = Stall(0.0)
    for now, states in seen:
        if isinstance(states, str):
            getattr(stall, states)(now)
        else:
            stall.pods(states, now)
    assert (stall.stuck_at(AFTER), stall.stuck_at(0)) == (expected, None)


# -- Logs of containers and pods that change while they are read

FIRST, SECOND = (f"2026-01-01T00:00:0{n}.000000000Z run {n}".encode() for n in (1, 2))


def pod(restarts: int, state: str) -> dict[str, Any]:
    container = {"name": "c", "restartCount": restarts, "state": {state: {}}}
    return {"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "status": {"containerStatuses": [container]}}


async def pause(_seconds: float) -> None:
    """The next answer is there at once."""


BUSY = StatusError(503)
CUT: dict[str, tuple[list[Answer], list[Answer]]] = {
    "broken off": ([[FIRST, TransportError("broken off")], [FIRST, SECOND], [SECOND]], []),
    "ended early": ([[FIRST], [FIRST, SECOND]], []),
    "refused by a busy server": ([BUSY, [FIRST, BUSY], [FIRST, SECOND]], []),
    "ended early, and the server is busy": ([[FIRST], [FIRST], [FIRST, SECOND]], [reply(pod(0, "running")), BUSY]),
}


@pytest.mark.parametrize("name", CUT)
async def test_lines_after_a_cut_log_stream_are_read(name: str) -> None:
    reads, pods = CUT[name]
    transport = ScriptedTransport().on("STREAM", "/", *reads).on("GET", "/", *pods, reply(pod(0, "terminated")))
    logs = ContainerLogs(transport, pause)
    printed = [line async for line in logs.lines(pod(0, "running"), LogOptions("c", follow=True))]
    assert printed == ["run 1", "run 2"]


STAMP = b"2026-01-01T00:00:01.000000000Z "
BAR = [b"1%\r", b"2%\r", STAMP + b"\r1%\r2%\r3%", STAMP + b"\r1%\r" + STAMP + b"of another stream"]


@pytest.mark.parametrize(
    ("live", "lines"), [(False, ["3%", "of another stream"]), (True, ["1%\r", "2%\r", "3%", "of another stream"])]
)
async def test_a_saved_log_has_of_a_progress_bar_what_it_showed_last(live: bool, lines: list[str]) -> None:
    transport = ScriptedTransport().on("STREAM", "/", BAR).on("GET", "/", reply(pod(0, "terminated")))
    logs = ContainerLogs(transport, pause)
    assert [line async for line in logs.lines(pod(0, "running"), LogOptions("c", live=live))] == lines


async def test_a_restart_that_the_status_does_not_show_yet_repeats_no_line() -> None:
    """The server gives the log of the run that there is when it is asked, not of the one that was meant."""
    transport = ScriptedTransport().on("STREAM", "/", [FIRST], [SECOND])
    transport.on("GET", "/", reply(pod(0, "running")), reply(pod(1, "terminated")))
    logs, printed = ContainerLogs(transport, pause), list[str]()

    async def follow(run: int) -> None:
        printed.extend([line async for line in logs.lines(pod(run, "running"), LogOptions("c", follow=True))])

    await asyncio.gather(follow(0), follow(1))
    assert printed == ["run 1", "run 2"]


async def test_a_job_whose_end_is_seen_before_its_pods(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "DRAIN_SECONDS", 0)
    job = FollowedJob(Target(PYTORCH, "n", "demo"), 1)
    condition = {"type": "Failed", "status": "True", "reason": "Error", "message": "m"}
    failed = {"metadata": {"uid": "j", "resourceVersion": "1"}, "status": {"conditions": [condition]}}
    found, pods = {"metadata": {"resourceVersion": "1"}, "items": [pod(0, "terminated")]}, "/api/v1/namespaces/n/pods"
    transport = ScriptedTransport().on("GET", pods, TransportError("no answer yet"), reply(found))
    transport.on("GET", f"{pods}/p", reply(pod(0, "terminated"))).on("STREAM", f"{pods}/p/log", [FIRST, SECOND])
    transport.on("GET", job.target.path, reply(failed)).on("GET", "/api/v1/namespaces/n/events", refusal(403))
    await watch.Follower(transport, [job], Display(console, [job])).run(until=lambda: job.over)
    assert [line for line in lines(console) if " | " in line] == ["p | run 1", "p | run 2"]


@pytest.mark.parametrize(
    ("count", "state", "last", "before", "runs"),
    [
        (0, "waiting", "", "x", []),
        (0, "running", "", "x", [(0, False)]),
        (0, "waiting", "terminated", "x", [(0, True)]),
        (1, "running", "terminated", "x", [(0, True), (1, False)]),
        (1, "waiting", "terminated", "x", [(1, True)]),
        (2, "terminated", "terminated", "x", [(1, True), (2, False)]),
        (0, "terminated", "terminated", "present", [(0, True)]),
    ],
)
def test_the_runs_of_a_container_whose_logs_can_be_read(
    count: int, state: str, last: str, before: str, runs: list[tuple[int, bool]]
) -> None:
    states = {"state": {state: {"containerID": "present"}}, "lastState": {last: {"containerID": before}} if last else {}}
    assert [*runs_with_logs({"restartCount": count, **states})] == runs
