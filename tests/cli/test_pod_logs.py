"""Logs of containers and pods that change while they are read."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from jobcommon.cli.jobs.access import Api
from jobcommon.cli.jobs.logs import Printer, Selection, print_logs
from jobcommon.cli.jobs.lookup import FoundJob
from jobcommon.client.container_log import ContainerLogs, LogOptions
from jobcommon.client.errors import StatusError, TransportError
from jobcommon.client.request import Request, Response
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.reconcile import read_job
from jobcommon.testutil.builders import Pod, job_manifest
from tests.cli.train_cluster import Output

FIRST, SECOND = (f"2026-01-01T00:00:0{n}.000000000Z run {n}".encode() for n in (1, 2))


def pod(restarts: int, state: str) -> dict[str, Any]:
    container = {"name": "c", "restartCount": restarts, "state": {state: {}}}
    return {"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "status": {"containerStatuses": [container]}}


async def pause(_seconds: float) -> None:
    """The next answer is there at once."""


class Server:
    """Gives each request for the log, and each for the pod, the next answer."""

    def __init__(self, logs: list[list[bytes | Exception]], pods: list[dict[str, Any]]) -> None:
        self._logs, self._pods = iter(logs), iter(pods)

    async def send(self, _request: Request) -> Response:
        return Response(200, json.dumps(next(self._pods)).encode())

    async def stream(self, _request: Request) -> AsyncIterator[bytes]:
        for line in next(self._logs):
            if isinstance(line, Exception):
                raise line
            yield line

    async def close(self) -> None:
        """Nothing to close."""


@pytest.mark.parametrize(
    "reads",
    [[[FIRST, TransportError("broken off")], [FIRST, SECOND], [SECOND]], [[FIRST], [FIRST, SECOND]]],
    ids=["broken off", "ended early"],
)
async def test_lines_after_a_cut_log_stream_are_read(reads: list[list[bytes | Exception]]) -> None:
    logs = ContainerLogs(Server(reads, [pod(0, "terminated")]), pause)
    printed = [line async for line in logs.lines(pod(0, "running"), LogOptions("c", follow=True))]
    assert printed == ["run 1", "run 2"]


async def test_a_restart_that_the_status_does_not_show_yet_repeats_no_line() -> None:
    """The server gives the log of the run that there is when it is asked, not of the one that was meant."""
    server = Server([[FIRST], *[[SECOND]] * 4], [pod(0, "running"), pod(1, "terminated"), pod(1, "terminated")])
    logs, printed = ContainerLogs(server, pause), list[str]()

    async def follow(run: int) -> None:
        printed.extend([line async for line in logs.lines(pod(run, "running"), LogOptions("c", follow=True))])

    await asyncio.gather(follow(0), follow(1))
    assert printed == ["run 1", "run 2"]


async def test_a_pod_that_is_deleted_after_the_list_was_read_is_left_out() -> None:
    job = FoundJob(PYTORCH, job_manifest(PYTORCH, {"Master": 1, "Worker": 1}))
    read = read_job(PYTORCH, job.body)
    master, worker = (Pod.of(PYTORCH, read, kind, 0).scheduled().running() for kind in ("Master", "Worker"))

    class Deleting(Server):
        async def stream(self, request: Request) -> AsyncIterator[bytes]:
            if f"/{worker.name}/" in request.path:
                raise StatusError(404, "NotFound", f'pods "{worker.name}" not found')
            yield FIRST

    output = Output.make()
    printer = Printer(output.console, output.console, lambda _: True, job)
    await print_logs(Api(Deleting([], [{"items": [master.raw, worker.raw]}]), "default"), job, Selection(), printer)
    assert output.text == "Master-0 | run 1\n"
