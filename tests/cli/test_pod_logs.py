"""The logs of a container's runs that are followed one after the other."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from jobcommon.cli.jobs import pod_logs
from jobcommon.cli.jobs.access import Api
from jobcommon.cli.jobs.pod_logs import ApiLogs
from jobcommon.client.request import Request, Response
from jobcommon.localcluster.pod_backend import LogOptions

FIRST, SECOND = (f"2026-01-01T00:00:0{n}.000000000Z run {n}".encode() for n in (1, 2))


def pod(restarts: int, state: str) -> dict[str, Any]:
    container = {"name": "c", "restartCount": restarts, "state": {state: {}}}
    return {"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "status": {"containerStatuses": [container]}}


class Server:
    """Gives each request for the log, and each for the pod, the next answer."""

    def __init__(self, logs: list[list[bytes]], pods: list[dict[str, Any]]) -> None:
        self._logs, self._pods = iter(logs), iter(pods)

    async def send(self, _request: Request) -> Response:
        return Response(200, json.dumps(next(self._pods)).encode())

    async def stream(self, _request: Request) -> AsyncIterator[bytes]:
        for line in next(self._logs):
            yield line

    async def close(self) -> None:
        """Nothing to close."""


async def test_a_restart_that_the_status_does_not_show_yet_repeats_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server gives the log of the run that there is when it is asked, not of the one that was meant."""
    monkeypatch.setattr(pod_logs, "PAUSE", 0.0)
    server = Server([[FIRST], [SECOND], [SECOND]], [pod(0, "running"), pod(1, "terminated"), pod(1, "terminated")])
    logs, printed = ApiLogs(Api(server, "n")), list[bytes]()

    async def follow(run: int) -> None:
        printed.extend([line async for line in logs.logs(pod(run, "running"), LogOptions("c", follow=True))])

    await asyncio.gather(follow(0), follow(1))
    assert printed == [b"run 1\n", b"run 2\n"]
