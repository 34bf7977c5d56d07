"""Logs of containers and pods that change while they are read."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from jobcommon.cli.jobs.logs import Printer
from jobcommon.cli.jobs.lookup import FoundJob
from jobcommon.cli.watch import FollowedJob, FollowedPod, runs_with_logs
from jobcommon.client.container_log import ContainerLogs, LogOptions
from jobcommon.client.errors import TransportError
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.spec import read_job
from jobcommon.testutil.builders import job_manifest
from tests.cli.train_cluster import Output
from tests.runtime.fakes import Answer, ScriptedTransport, reply

FIRST, SECOND = (f"2026-01-01T00:00:0{n}.000000000Z run {n}".encode() for n in (1, 2))


def pod(restarts: int, state: str) -> dict[str, Any]:
    container = {"name": "c", "restartCount": restarts, "state": {state: {}}}
    return {"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "status": {"containerStatuses": [container]}}


async def pause(_seconds: float) -> None:
    """The next answer is there at once."""


def server(logs: Sequence[Answer], pods: Sequence[dict[str, Any]]) -> ScriptedTransport:
    """With the answers to requests for the log, and for the pod."""
    return ScriptedTransport().on("STREAM", "/", *logs).on("GET", "/", *map(reply, pods))


@pytest.mark.parametrize(
    "reads",
    [[[FIRST, TransportError("broken off")], [FIRST, SECOND], [SECOND]], [[FIRST], [FIRST, SECOND]]],
    ids=["broken off", "ended early"],
)
async def test_lines_after_a_cut_log_stream_are_read(reads: list[list[bytes | Exception]]) -> None:
    logs = ContainerLogs(server(reads, [pod(0, "terminated")]), pause)
    printed = [line async for line in logs.lines(pod(0, "running"), LogOptions("c", follow=True))]
    assert printed == ["run 1", "run 2"]


STAMP = b"2026-01-01T00:00:01.000000000Z "
BAR = [b"1%\r", b"2%\r", STAMP + b"\r1%\r2%\r3%", STAMP + b"\r1%\r" + STAMP + b"of another stream"]


@pytest.mark.parametrize(
    ("live", "lines"),
    [(False, ["3%", "of another stream"]), (True, ["1%\r", "2%\r", "3%", "of another stream"])],
)
async def test_a_saved_log_has_of_a_progress_bar_what_it_showed_last(live: bool, lines: list[str]) -> None:
    logs = ContainerLogs(server([BAR], [pod(0, "terminated")]), pause)
    assert [line async for line in logs.lines(pod(0, "running"), LogOptions("c", live=live))] == lines


def test_progress_bars_of_the_wanted_replicas_stand_below_the_lines() -> None:
    output, job = Output.make(), FoundJob(PYTORCH, job_manifest(PYTORCH, {"Master": 1, "Worker": 1}))
    printer = Printer(output.console, output.console, lambda pod: pod.endswith("master-0"), job)
    read = read_job(PYTORCH, job.body)
    pods = [FollowedPod(read.pod_name(replica), FollowedJob(PYTORCH, "default", job.name).key) for replica in read.replicas]
    for pod in pods:
        printer.frame(pod, "10%\r")
    assert str(printer.frames) == "Master-0 | 10%"
    printer.line(pods[0], "100%")
    assert (str(printer.frames), output.text) == ("", "Master-0 | 100%\n")


async def test_a_restart_that_the_status_does_not_show_yet_repeats_no_line() -> None:
    """The server gives the log of the run that there is when it is asked, not of the one that was meant."""
    transport = server([[FIRST], *[[SECOND]] * 4], [pod(0, "running"), pod(1, "terminated"), pod(1, "terminated")])
    logs, printed = ContainerLogs(transport, pause), list[str]()

    async def follow(run: int) -> None:
        printed.extend([line async for line in logs.lines(pod(run, "running"), LogOptions("c", follow=True))])

    await asyncio.gather(follow(0), follow(1))
    assert printed == ["run 1", "run 2"]


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
