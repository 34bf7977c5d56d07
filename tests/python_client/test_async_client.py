"""`wait` and `logs` against answers as data."""

import asyncio
import io
import json
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import kubernetes
import pytest

from jobcommon.client import list_watch
from jobcommon.client.errors import StatusError, TransportError
from jobcommon.client.request import MERGE_PATCH, Request, Response
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.sdk import official
from jobcommon.sdk.async_client import AsyncJobClient
from jobcommon.sdk.build import build_job
from jobcommon.sdk.failure import JobFailed
from jobcommon.sdk.following import Timing
from jobcommon.sdk.sync_client import JobClient
from tests.runtime.fakes import Answer, ScriptedTransport, crd, refusal, reply
from tests.runtime.world import World

JOB = build_job("j", image="i", command=["x"], namespace="default")
FAILURE = {"replica": "Master-0", "pod": "j-master-0", "reason": "Error", "exitCode": 3, "message": "boom"}


def job(condition: str, uid: str = "u", **status: Any) -> Response:
    conditions = [{"type": condition, "status": "True", "reason": "Why", "message": "m"}]
    metadata = {"name": "j", "namespace": "default", "uid": uid, "resourceVersion": "7"}
    return reply({**JOB, "metadata": metadata, "status": {"conditions": conditions, **status}})


def event(kind: str, given: Response) -> bytes:
    return json.dumps({"type": kind, "object": json.loads(given.body)}).encode()


DEFAULT = "/api/v1/namespaces/default/pods"
MASTER = reply({"metadata": {"name": "j-master-0", "namespace": "default", "uid": "p"}})


def answers(*jobs: Answer, logs: tuple[Answer, ...] = (), watches: tuple[Answer, ...] = ()) -> ScriptedTransport:
    """A transport with those answers to reads of the job, to watches and to logs; further watches are refused."""
    transport = ScriptedTransport().on("GET", "/", refusal(403, message="not yours")).on("GET", "/apis/kubeflow.org", *jobs)
    transport.on("GET", f"{DEFAULT}/j-master-0", MASTER)
    return transport.on("STREAM", "/", *watches, StatusError(403)).on("STREAM", f"{DEFAULT}/j-master-0/log", *logs, ())


async def pause(_seconds: float) -> None:
    """The next answer is there at once."""


def client(transport: ScriptedTransport) -> AsyncJobClient:
    return AsyncJobClient(transport, timing=Timing(pause))


async def test_wait_survives_server_errors_until_success(capsys: pytest.CaptureFixture[str]) -> None:
    busy = refusal(503, message="busy")
    transport = answers(job("Created"), TransportError("refused"), busy, job("Running"), job("Running"), job("Succeeded"))
    done = await client(transport).wait("j")
    assert done["status"]["conditions"][0]["type"] == "Succeeded"
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" ", 2)[2] for line in lines] == [
        "Created: Master 0/1; m",
        "the API server does not answer: refused",
        "the API server does not answer: 503: busy",
        "Running: Master 0/1",
        "Succeeded: Master 0/1",
    ]


async def without_pause(_seconds: float) -> None:
    raise AssertionError("it polls")


@pytest.mark.parametrize("uid", ["u", ""])
async def test_a_job_is_watched_from_the_state_that_was_read(uid: str) -> None:
    transport = answers(job("Created"), watches=([event("MODIFIED", job("Running")), event("MODIFIED", job("Succeeded"))],))
    done = await AsyncJobClient(transport, timing=Timing(without_pause)).wait({**JOB, "metadata": {"name": "j", "uid": uid}})
    assert done["status"]["conditions"][0]["type"] == "Succeeded"
    read, watched = transport.sent
    assert watched.path == read.path.rpartition("/")[0]
    assert dict(watched.query) == {
        "fieldSelector": "metadata.name=j", "watch": "true", "resourceVersion": "7", "timeoutSeconds": "10",
    }  # fmt: skip


@pytest.mark.parametrize("watches", [(), ([event("DELETED", job("Running"))],)], ids=["read", "watched"])
@pytest.mark.parametrize("then", [refusal(404, message="not found"), job("Running", uid="another")])
async def test_a_job_that_is_deleted_meanwhile_has_failed(then: Response, watches: tuple[Answer, ...]) -> None:
    timing = Timing(without_pause if watches else pause)
    with pytest.raises(JobFailed, match="Deleted: it was deleted"):
        await AsyncJobClient(answers(job("Running"), then, watches=watches), timing=timing).wait("j", progress=False)
    with pytest.raises(StatusError, match="404"):
        await client(answers(refusal(404, message="not found"))).wait("mpijob/j", progress=False)


GONE = [b'{"type": "ERROR", "object": {"code": 410}}']
CUT = [event("MODIFIED", job("Running")), TransportError("cut off")]


@pytest.mark.parametrize("watch", [[], [b"<html>"], GONE, StatusError(500), CUT], ids=["end", "html", "gone", "500", "cut"])
async def test_a_job_is_read_again_when_its_watch_has_ended(watch: Answer) -> None:
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    transport = answers(job("Running"), job("Succeeded"), watches=(watch,))
    await AsyncJobClient(transport, timing=Timing(pause)).wait("j", progress=False)
    assert pauses == [2.0]


async def test_a_watch_that_has_lost_its_connection_without_a_sign_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent(ScriptedTransport):
        async def stream(self, request: Request) -> AsyncGenerator[bytes, None]:
            await asyncio.Event().wait()
            yield b""

    monkeypatch.setattr(list_watch, "SILENCE_SECONDS", -30.0)
    transport = Silent()
    transport.rules = answers(job("Running"), job("Succeeded")).rules
    await client(transport).wait("j", progress=False, interval=30)


@pytest.mark.parametrize("terminal", [True, False])
async def test_a_terminal_gets_one_line_and_a_log_one_for_each_state(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports of the program change the line of a terminal, and make none in a log."""

    class Output(io.StringIO):
        def isatty(self) -> bool:
            return terminal

    monkeypatch.setattr(sys, "stderr", output := Output())
    running = [job("Running", progress={"summary": f"{percent}%"}) for percent in (10, 20)]
    await client(answers(*running, job("Succeeded"))).wait("j")
    shown = [
        f"pytorchjob/j 0:00 {text}"
        for text in ("Running: Master 0/1; 10%", "Running: Master 0/1; 20%", "Succeeded: Master 0/1")
    ]
    if terminal:
        assert output.getvalue() == "".join(f"\r{line}\x1b[K" for line in shown) + "\n"
    else:
        assert output.getvalue() == f"{shown[0]}\n{shown[2]}\n"


async def test_a_failure_says_why() -> None:
    with pytest.raises(JobFailed) as failure:
        await client(answers(job("Failed", failures=[FAILURE]))).wait("j", progress=False)
    found = failure.value
    assert (found.job, found.exit_code) == ("pytorchjob/j", 3)
    assert [one.replica for one in found.failures] == ["Master-0"]
    assert "Master-0" in found.sentence
    assert str(found).startswith(f"pytorchjob/j: {found.reason}: {found.sentence}")
    assert found.advice in str(found)
    assert "pods could not be read: not yours" in found.evidence
    assert "  - pods could not be read: not yours" in str(found)


async def test_a_time_limit_says_what_the_job_does() -> None:
    said = [{"type": "QuotaReserved", "status": "False", "message": "insufficient quota"}]
    workload = {"metadata": {"name": "w", "ownerReferences": [{"uid": "u"}]}, "status": {"conditions": said}}
    held = json.loads(job("Suspended").body)
    held["spec"]["runPolicy"] = {"suspend": True}
    for answer, message in (
        (job("Running"), r"^pytorchjob/j has not finished after 0 s, and continues: Starting: its pods are being created"),
        (TransportError("refused"), "continues: the API server does not answer: refused"),
        (reply(held), r"continues: QueuedByKueue: .*insufficient quota"),
    ):
        transport = answers(answer).on("GET", "/apis/kueue.x-k8s.io/v1beta2", reply({"items": [workload]}))
        with pytest.raises(TimeoutError, match=message):
            await client(transport).wait("j", timeout=0, progress=False)


def line(second: int, text: str) -> bytes:
    return f"2026-01-01T00:00:{second:02}.000000000Z {text}".encode()


async def test_logs_that_are_followed_continue_after_the_last_line() -> None:
    waiting = StatusError(400, "BadRequest", "waiting to start")
    first = [line(1, "one"), line(2, "two"), line(2, "three")]
    cut_off = TransportError("cut off")
    transport = answers(
        *[job("Running")] * 2, *[job("Succeeded")] * 2, logs=(waiting, first, [cut_off], [*first, line(3, "four")])
    )
    assert [said async for said in client(transport).logs("j", follow=True, tail=5)] == ["one", "two", "three", "four"]
    queries = [dict(request.query) for request in transport.sent if request.path.endswith("/log")]
    asked = [query.get("sinceTime", query.get("tailLines")) for query in queries]
    assert asked == ["5", "5", *["2026-01-01T00:00:02Z"] * 2, *["2026-01-01T00:00:03Z"] * (len(asked) - 4)]


async def test_logs_of_what_is_not_there() -> None:
    with pytest.raises(TransportError, match="cut off"):
        [said async for said in client(answers(job("Running"), logs=([TransportError("cut off")],))).logs("j")]
    with pytest.raises(StatusError, match="waiting to start"):
        [said async for said in client(answers(job("Running"), logs=(StatusError(400, "", "waiting to start"),))).logs("j")]
    with pytest.raises(ValueError, match="replica Worker-7: pytorchjob/j has no such replica; it has Master-0"):
        [said async for said in client(answers(job("Running"))).logs("j", replica="Worker-7")]


async def test_the_hook_of_an_official_client_renews_its_token() -> None:
    configuration = kubernetes.client.Configuration(host="http://server/", api_key={"authorization": "Bearer 0"})
    api_client, tokens = kubernetes.client.ApiClient(configuration), iter(("1", "2"))
    api_client.configuration.refresh_api_key_hook = lambda at: at.api_key.update(authorization=f"Bearer {next(tokens)}")
    first, second = await official.load(api_client), await official.load(api_client)
    assert (first.route.base_url, first.namespace) == ("http://server", "default")
    assert [*first.headers, *second.headers] == [("Authorization", "Bearer 1"), ("Authorization", "Bearer 2")]


def test_the_blocking_client_has_the_same_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    world, path = World(), "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs"
    world.ok("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd(PYTORCH))

    @asynccontextmanager
    async def connect(*_: object, kind: str, **_more: object) -> AsyncIterator[AsyncJobClient]:
        yield AsyncJobClient(world.transport, kind=kind)

    monkeypatch.setattr(AsyncJobClient, "connect", connect)
    jobs = JobClient()
    jobs.submit(JOB)
    assert [jobs.suspend("j")["spec"]["runPolicy"]["suspend"], jobs.resume(JOB)["spec"]["runPolicy"]["suspend"]] == [
        True,
        False,
    ]
    status = {"conditions": [{"type": "Succeeded", "status": "True", "message": "m"}]}
    world.ok("PATCH", f"{path}/j/status", {"status": status}, MERGE_PATCH)
    assert [jobs.get("j"), *jobs.list(kind="pytorch")] == [jobs.wait("j", progress=False)] * 2
    assert list(jobs.logs("j", follow=True)) == []
    jobs.delete("j")
    with pytest.raises(StatusError, match="404"):
        jobs.get("pytorchjob/j")
