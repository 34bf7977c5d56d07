"""Keeping the logs of failed replicas: what is read and written, and that nothing waits long for it."""

import asyncio
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from jobcommon.client.errors import TransportError
from jobcommon.client.request import Request, Response, Transport
from jobcommon.controller.result import Result, Work
from jobcommon.controller.telemetry import telemetry
from jobcommon.reconcile import Delete, Plan
from jobcommon.reconcile.failed_logs import MAX_LOG_BYTES
from jobcommon.reconcile.plan import KeepLog
from jobcommon.runtime.executor import Executor
from jobcommon.runtime.failed_logs import LOG_SECONDS
from jobcommon.runtime.flow_control import FlowController
from jobcommon.spec import read_job
from jobcommon.testutil.recording import Passing
from jobcommon.testutil.sim.loop import SimLoop
from tests.runtime.fakes import TESTJOB, ScriptedTransport, a_job, refusal, reply

POD = "/api/v1/namespaces/default/pods"
JOB = "/apis/kubeflow.org/v1/namespaces/default/testjobs/train"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
EVENTS = "/api/v1/namespaces/default/events"
NAME = "train-failed-logs"
LOGS = (KeepLog("p", "test", "run-0", "0.p.log", "uid-p"), KeepLog("q", "test", "run-0", "1.q.log", "uid-q"))
ENDED = {"terminated": {"exitCode": 1, "containerID": "run-0", "finishedAt": "2026-01-01T00:00:09Z"}}
OVER: dict[str, Any] = {"state": ENDED}
AGAIN: dict[str, Any] = {"state": {"running": {}}, "lastState": ENDED}
AFTER_NEXT: dict[str, Any] = {"state": {"running": {}}, "lastState": {"terminated": {"exitCode": 1, "containerID": "run-1"}}}
STAMP = b"2026-01-01T00:00:09.123456789Z "
DELETE = Delete("v1", "pods", "p", "pod-uid", "test")
NOT_FOUND = refusal(404, "NotFound")


def work(*logs: KeepLog) -> Work:
    raw = a_job()
    raw["metadata"] |= {"uid": "job-uid", "resourceVersion": "7"}
    return Work("default", "train", "job-uid", Plan((DELETE,), logs=logs), read_job(TESTJOB, raw), raw)


def events(request: Request) -> Response:
    """On each object one."""
    uid = dict(request.query)["fieldSelector"].removeprefix("involvedObject.uid=")
    return Response(200, msgspec.json.encode({"items": [{"metadata": {}, "message": f"of {uid}"}]}))


def pod(name: str, container: dict[str, Any], uid: str = "") -> Response:
    """A pod and the state of its container."""
    metadata = {"name": name, "uid": uid or f"uid-{name}"}
    return reply({"metadata": metadata, "status": {"containerStatuses": [{"name": "test", **container}]}})


def node(request: Request) -> Response:
    """Of p the failed run is the latest; the container of q runs again. Each printed its name."""
    name = request.path.split("/")[6]
    if request.path.endswith("/log"):
        return Response(200, STAMP + f"{name} fails\n".encode())
    return pod(name, OVER if name == "p" else AGAIN)


def server() -> ScriptedTransport:
    """Has logs, events, and a ConfigMap of the job."""
    transport = ScriptedTransport().on("GET", POD, node)
    transport.on("GET", EVENTS, events)
    return transport.on("DELETE", POD, reply()).on("PATCH", CONFIG_MAPS, reply())


async def executed(transport: Transport, *logs: KeepLog) -> Result:
    return await Executor(TESTJOB, transport, FlowController(9)).execute(work(*logs))


def added(request: Request) -> dict[str, str]:
    return {one["path"]: one["value"] for one in msgspec.json.decode(request.body or b"")}


async def test_logs_are_added_to_the_config_map_before_the_pod_is_deleted() -> None:
    transport = server()
    result = await executed(transport, *LOGS)
    about = [(one.method, one.path) for one in transport.sent]
    assert [entry for entry in about if "/p" in entry[1].removeprefix(POD)] == [
        ("GET", f"{POD}/p"), ("GET", f"{POD}/p/log"), ("GET", f"{POD}/p"), ("DELETE", f"{POD}/p"),
    ]  # fmt: skip
    assert about.count(("GET", EVENTS)) == 3
    assert about[-2:] == [("PATCH", f"{CONFIG_MAPS}/{NAME}"), ("DELETE", f"{POD}/p")]
    assert [dict(one.query)["previous"] for one in transport.sent if one.path.endswith("/log")] == ["false", "true"]
    assert added(transport.sent[-2]) == {
        "/metadata/ownerReferences/0/uid": "job-uid",
        "/data/0.p.log": "p fails\n",
        "/data/1.q.log": "q fails\n",
        "/data/job.events": '{"message":"of job-uid"}\n',
        "/data/0.p.events": '{"message":"of uid-p"}\n',
        "/data/1.q.events": '{"message":"of uid-q"}\n',
    }
    assert result.log_error is None


@pytest.mark.parametrize(("versions", "kept"), [(["8"], 0), (["7", "8"], 1), (["7"], 1)], ids=["before", "meanwhile", "not"])
async def test_a_job_that_changes_before_its_logs_are_kept_loses_no_pod(versions: list[str], kept: int) -> None:
    jobs = [reply({"metadata": {"name": "train", "uid": "job-uid", "resourceVersion": version}}) for version in versions]
    transport = server().on("GET", JOB, *jobs)
    scaled_down = replace(work(*LOGS), plan=Plan((DELETE,), logs=LOGS, verify_live=True))
    result = await Executor(TESTJOB, transport, FlowController(9)).execute(scaled_down)
    assert len(transport.made("PATCH")) == kept
    assert (result.stale, len(transport.made("DELETE"))) == ((False, 1) if versions == ["7"] else (True, 0))


async def test_the_first_log_creates_the_config_map_of_the_job() -> None:
    transport = server().on("PATCH", CONFIG_MAPS, NOT_FOUND).on("POST", CONFIG_MAPS, reply())
    await executed(transport, *LOGS)
    (create,) = transport.made("POST")
    made = msgspec.json.decode(create.body or b"")
    assert [*made["data"]] == ["0.p.log", "1.q.log", "job.events", "0.p.events", "1.q.events"]
    assert [owner["uid"] for owner in made["metadata"]["ownerReferences"]] == ["job-uid"]
    assert made["metadata"]["name"] == NAME


#: how an API server refuses, the part of the path, and the logs that are kept all the same
REFUSALS: dict[str, tuple[str, str, Any, list[str]]] = {
    "may not read logs": ("GET", POD, refusal(403, "Forbidden"), []),
    "a node does not answer": ("GET", f"{POD}/q", refusal(500, "InternalError"), ["0.p.log"]),
    "the log is gone": ("GET", f"{POD}/p", NOT_FOUND, ["1.q.log"]),
    "no connection": ("GET", f"{POD}/p", TransportError("reset"), ["1.q.log"]),
    "another's ConfigMap": ("PATCH", CONFIG_MAPS, refusal(422, "Invalid"), ["0.p.log", "1.q.log"]),
    "may not list events": ("GET", EVENTS, refusal(403, "Forbidden"), ["0.p.log", "1.q.log"]),
    "another's answer": ("GET", EVENTS, Response(200, b"<html>"), ["0.p.log", "1.q.log"]),
    "may not write": ("PATCH", CONFIG_MAPS, refusal(403, "Forbidden"), ["0.p.log", "1.q.log"]),
}


@pytest.mark.parametrize(("method", "path", "answer", "tried"), REFUSALS.values(), ids=REFUSALS)
async def test_a_log_that_cannot_be_kept_holds_nothing_up(method: str, path: str, answer: Any, tried: list[str]) -> None:
    transport = server().on(method, path, answer)
    result = await executed(transport, *LOGS)
    assert transport.sent[-1].method == "DELETE"
    assert result.log_error is not None
    written = [key.removeprefix("/data/") for one in transport.made("PATCH") for key in added(one) if key.endswith(".log")]
    assert written == tried
    (event,) = telemetry(TESTJOB, work(*LOGS), result, {}, 0.0).events[-1:]
    assert event.reason == "FailedKeepLogs"


#: what a pod shows before and after its log is read, what is read in between, and what is kept
RUNS: dict[str, tuple[list[Response], list[bytes], str]] = {
    "it is the latest": ([pod("p", OVER)], [b"a\n"], "a\n"),
    "it runs again": ([pod("p", AGAIN)], [b"a\n"], "a\n"),
    "it is started again meanwhile": ([pod("p", OVER), pod("p", AGAIN)], [b"of the next run\n", b"a\n"], "a\n"),
    "it is started twice meanwhile": ([pod("p", AGAIN), pod("p", AFTER_NEXT)], [b"of the next run\n"], ""),
    "it was started twice": ([pod("p", AFTER_NEXT)], [], ""),
    "another pod has its name": ([pod("p", OVER, uid="another")], [], ""),
    "it does not come to rest": ([pod("p", OVER), pod("p", AGAIN), pod("p", OVER)], [b"x\n", b"x\n"], ""),
}


@pytest.mark.parametrize(("pods", "logs", "kept"), RUNS.values(), ids=RUNS)
async def test_the_log_is_that_of_the_run_that_failed(pods: list[Response], logs: list[bytes], kept: str) -> None:
    """A log is asked for by the position of its run, which changes when the container is started again."""
    transport = server().on("GET", f"{POD}/p", *pods).on("GET", f"{POD}/p/log", *[Response(200, STAMP + log) for log in logs])
    result = await executed(transport, LOGS[0])
    assert added(transport.made("PATCH")[0]).get("/data/0.p.log", "") == kept
    assert len(transport.made("GET", f"{POD}/p/log")) == len(logs)
    (event,) = [e for e in telemetry(TESTJOB, work(*LOGS), result, {}, 0.0).events if e.reason == "FailedKeepLogs"] or [None]
    assert (event is None) == bool(kept)


NEXT, BEFORE = b"2026-01-01T00:00:10Z starting\n", b"2025-12-31T23:59:59Z b\n"
#: what a kubelet that is ahead of the API has of the container's present run and of the one before, and what is kept
AHEAD: dict[str, tuple[bytes, Response, str]] = {
    "the next run has printed nothing": (b"", Response(200, STAMP + b"a\n"), "a\n"),
    "the next run has printed": (NEXT, Response(200, STAMP + b"a\n"), "a\n"),
    "the run has printed nothing": (b"", refusal(400), ""),
    "only the run before has": (b"", Response(200, BEFORE), ""),
}


@pytest.mark.parametrize(("present", "previous", "kept"), AHEAD.values(), ids=AHEAD)
async def test_a_kubelet_that_is_ahead_of_the_api_serves_the_run_as_previous(
    present: bytes, previous: Response, kept: str
) -> None:
    over = pod("p", {"state": {"terminated": {**ENDED["terminated"], "startedAt": "2026-01-01T00:00:00Z"}}})
    transport = server().on("GET", f"{POD}/p", over).on("GET", f"{POD}/p/log", Response(200, present), previous)
    await executed(transport, LOGS[0])
    assert [dict(one.query)["previous"] for one in transport.made("GET", f"{POD}/p/log")] == ["false", "true"]
    assert added(transport.made("PATCH")[0]).get("/data/0.p.log") == kept


async def no_answer(request: Request) -> None:
    """Of a node."""
    if request.path == f"{POD}/q/log":
        await asyncio.get_running_loop().create_future()


def test_a_node_that_does_not_answer_is_waited_for_once() -> None:
    transport, loop = server(), SimLoop()
    result = loop.run(executed(Passing(transport, no_answer), *LOGS))
    assert loop.time() == LOG_SECONDS
    assert str(result.log_error) == "keep log of pods/q as 1.q.log: no answer within 10 s"
    assert added(transport.made("PATCH")[0])["/data/0.p.log"] == "p fails\n"
    assert transport.sent[-1].method == "DELETE"


#: what kubelets answer with 200 in the place of a log, and logs of another run
NO_LOGS = {
    "gone": b"unable to retrieve container logs for containerd://4711",
    "gone, in a line": b"unable to retrieve container logs for docker://4711\n",
    "gone meanwhile": STAMP + b'a\nfailed to try resolving symlinks in path "/var/log/pods/x/0.log": no such file\n',
    "of the next run": b"2026-01-01T00:00:13Z starting\n",
}


@pytest.mark.parametrize("answer", NO_LOGS.values(), ids=NO_LOGS)
async def test_what_a_kubelet_says_in_the_place_of_a_log_is_not_kept(answer: bytes) -> None:
    transport = server().on("GET", f"{POD}/p/log", Response(200, answer))
    result = await executed(transport, *LOGS)
    written = added(transport.made("PATCH")[0])
    assert ("/data/0.p.log" in written, "/data/1.q.log" in written) == (False, True)
    assert "FailedKeepLogs" in [event.reason for event in telemetry(TESTJOB, work(*LOGS), result, {}, 0.0).events]


def lines(count: int, length: int) -> bytes:
    return b"".join(b"%09d %s\n" % (number, b"x" * length) for number in range(count))


#: what the program printed, and what is kept
ENDS = {
    "nothing": (b"", ""),
    "a little": (b"a\nb", "a\nb"),
    "a progress bar": (b"begin\n\r1%\r2%\r\n", "begin\n2%\n"),
    "much": (lines(1000, 200), lines(1000, 200)[-MAX_LOG_BYTES:].decode()),
    "more than is read at once": (lines(1000, 2000), lines(1000, 2000)[-MAX_LOG_BYTES:].decode()),
    "no UTF-8": (b"a\xffb", "a\N{REPLACEMENT CHARACTER}b"),
    "cut inside of a character": ("€".encode() * MAX_LOG_BYTES, "€" * (MAX_LOG_BYTES // 3)),
}


@pytest.mark.parametrize(("printed", "kept"), ENDS.values(), ids=ENDS)
async def test_the_end_of_a_log_is_kept(printed: bytes, kept: str) -> None:
    def log(request: Request) -> Response:
        """As the API server: the last lines, and of them the first bytes."""
        query = dict(request.query)
        assert query["timestamps"] == "true"
        tail = b"".join(STAMP + line for line in printed.splitlines(keepends=True)[-int(query["tailLines"]) :])
        return Response(200, tail[: int(query["limitBytes"])])

    transport = server().on("GET", f"{POD}/p/log", log)
    await executed(transport, LOGS[0])
    text = added(transport.made("PATCH")[0])["/data/0.p.log"]
    assert len(text.encode()) <= MAX_LOG_BYTES
    assert text == kept
