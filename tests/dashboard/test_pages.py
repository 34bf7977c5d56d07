"""The pages, on an API server in process: what they show, that they escape it, and what they cost the cluster."""

import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from yarl import URL

from jobcommon.api import labels
from jobcommon.api.labels import SPARE
from jobcommon.api.status import read_status
from jobcommon.api.timestamp import format_time
from jobcommon.cli.dashboard.cluster import KEPT_SECONDS, ClusterReader
from jobcommon.cli.dashboard.job_summary import JobSummary
from jobcommon.cli.dashboard.log_stream import event_of, log_events, waiting_for
from jobcommon.cli.dashboard.pages import event_lines
from jobcommon.cli.dashboard.pod_row import pod_row
from jobcommon.cli.dashboard.server import serve_dashboard
from jobcommon.client.errors import TransportError
from jobcommon.client.request import MERGE_PATCH, Request, Response
from jobcommon.diagnosis import Found
from jobcommon.testutil.builders import condition
from tests.runtime.fakes import TESTJOB, ScriptedTransport, a_job, refusal, reply
from tests.runtime.world import JOBS, World, operating, world_with_testjobs

POD: dict[str, Any] = {
    "metadata": {"name": "p", "namespace": "default", "uid": "u"},
    "spec": {"initContainers": [{"name": "first"}], "containers": [{"name": "main"}]},
}
T = 1_760_000_000.0
EVIL = "<script>alert(1)</script>\"'&"
Page = Callable[[str], Any]
EVERY_JOB = "/apis/kubeflow.org/v1/testjobs"
RUNS = {"containerStatuses": [{"name": "main", "state": {"running": {}}}]}


def at(seconds: float) -> str:
    return format_time(T + seconds)


@asynccontextmanager
async def pages(transport: Any, namespace: str | None = None) -> AsyncIterator[Page]:
    """Reads a page: its status and text."""
    jar = aiohttp.CookieJar(unsafe=True)
    dashboard = serve_dashboard(transport, [TESTJOB], where="https://cluster", namespace=namespace, token="t")
    async with dashboard as address, aiohttp.ClientSession(cookie_jar=jar) as client:
        async with client.get(address):
            pass

        async def page(path: str) -> tuple[int, str]:
            async with client.get(URL(address).origin().join(URL(path))) as answer:
                return answer.status, await answer.text()

        yield page


@pytest.fixture
def world() -> World:
    return world_with_testjobs()


def with_status(world: World, name: str, **status: Any) -> None:
    world.ok("POST", JOBS, a_job(name))
    world.ok("PATCH", f"{JOBS}/{name}/status", {"status": status}, MERGE_PATCH)


async def test_the_list_of_jobs_and_its_filters(world: World) -> None:
    async with pages(world.transport, "default") as page:
        assert "There are no jobs yet" in (await page("/"))[1]
    with_status(world, "one", conditions=[condition("Running", message="It runs.")])
    with_status(world, "two", conditions=[condition("Failed", message="TestJob two has failed because of the weather")])
    async with pages(world.transport) as page:
        for path, there, absent in (
            ("/", ["<caption>2 jobs</caption>", "of the weather"], ["TestJob two has failed"]),
            ("/?namespace=default&state=Failed&kind=TestJob",
             ["/default/two", "<caption>1 of 2 jobs</caption>", '<a href="/?namespace=default&amp;kind=TestJob">All 2</a>',
              'aria-current="true" class="state failed">Failed 1</a>'], ["/default/one"]),
            ("/?state=suspended", ["No job matches state Suspended. "], []),
            ("/?q=sun", ["No job matches “sun”. "], []),
            ("/?q=Weather+TWO&kind=testjobs", ["/default/two"], []),
            ("/?kind=foos&state=Dead&order=best&page=x",
             ["unknown kind foos: use TestJob", "unknown state Dead: use Created, ", "unknown order best: use newest"], []),
        ):  # fmt: skip
            text = (await page(path))[1]
            assert [part for part in there if part not in text] + [part for part in absent if part in text] == [], path


async def test_jobs_that_are_not_well_come_first_fifty_a_page(world: World) -> None:
    for number in range(48):
        with_status(world, f"well-{number:02}", conditions=[condition("Running")])
    with_status(world, "broken", conditions=[condition("Failed", message="It broke.")])
    with_status(world, "waits", conditions=[condition("Created", message="TestJob waits is created; waiting: no room.")])
    with_status(world, "hangs", conditions=[condition("Running"), condition("Stalled")])

    def names(text: str) -> list[str]:
        return re.findall(r'href="/jobs/testjobs/default/([^"/]+)"', text)

    async with pages(world.transport) as page:
        _, first = await page("/")
        assert names(first)[:4] == ["hangs", "waits", "broken", "well-00"]
        assert "1–50 of 51 jobs" in first
        assert '<a href="/?page=2">Next ›</a>' in first
        for last in ("2", "9"):
            _, text = await page(f"/?page={last}")
            assert names(text) == ["well-47"]
            assert "51–51 of 51 jobs" in text
        assert names((await page("/?order=newest"))[1])[:2] == ["broken", "hangs"], "all are of one second"


async def test_progress_and_its_last_numbers(world: World) -> None:
    metrics = [{"name": "loss", "value": "8"}, {"name": "current_step", "value": "1"}]
    trainer = {"progressPercentage": 10, "metrics": metrics, "lastUpdatedTime": "2025-11-23T01:30:00Z"}
    progress = {"step": 1, "summary": "█░ 10% (1/10), 9m left"}
    with_status(world, "one", conditions=[condition("Running")], trainerStatus=trainer, progress=progress)
    async with pages(world.transport) as page:
        text = (await page("/"))[1]
        assert (
            '<progress max="100" value="10" aria-label="Progress of one"></progress> <span>10% (1/10), 9m left</span>' in text
        )
        assert "The last report: loss 8.</p>" in (await page("/jobs/testjobs/default/one"))[1]


def job_with_pod(phase: str, container: dict[str, Any], **status: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """A job of one worker, and its pod."""
    job = {**a_job("one", workers=1), "status": status}
    job["metadata"]["uid"] = "u"
    owner = {"kind": "TestJob", "name": "one", "uid": "u", "controller": True}
    kept = {labels.REPLICA_TYPE: "worker", labels.REPLICA_INDEX: "0"}
    metadata = {"name": "one-worker-0", "namespace": "default", "uid": "p", "ownerReferences": [owner], "labels": kept}
    states = {"phase": phase, "containerStatuses": [{"name": "test", "restartCount": 0, **container}]}
    return job, {"metadata": metadata, "spec": {"containers": [{"name": "test"}], "nodeName": "n1"}, "status": states}


async def test_pods_and_cause_of_a_crash_loop_are_those_of_the_list() -> None:
    last = {"terminated": {"exitCode": 3, "reason": "Error"}}
    crashes = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": last, "restartCount": 4}
    counts = {
        "replicaStatuses": {"Worker": {"active": 1}},
        "attemptReplicas": {"Worker": 5},
        "lastResizeTime": "2025-11-23T01:30:00Z",
    }
    job, pod = job_with_pod("Running", crashes, conditions=[condition("Running")], **counts)
    transport = ScriptedTransport().on("GET", "/", reply({"items": []})).on("GET", EVERY_JOB, reply({"items": [job]}))
    transport.on("GET", f"{JOBS}/one", reply(job))
    async with pages(transport.on("GET", "/api/v1/pods", reply({"items": [pod]}))) as page:
        text = (await page("/"))[1]
        (asked,) = [request.query for request in transport.sent if request.path == "/api/v1/pods"]
        assert "Current size: 5 Worker" in (await page("/jobs/testjobs/default/one"))[1]
    for part in (">0/1</td>", '<span class="state running stalled">', '<span class="kind">ProgramFailed</span>', "exit code 3"):
        assert part in text
    assert ("labelSelector", f"{labels.JOB_NAME} in (one)") in asked


async def test_a_job_that_failed_begins_with_its_cause_and_the_last_lines() -> None:
    at = "2026-11-23T01:30:00Z"
    ended = {"terminated": {"exitCode": 1, "reason": "Error", "startedAt": at, "finishedAt": at}}
    failure = {"replica": "Worker-0", "pod": "one-worker-0", "reason": "Error", "exitCode": 1, "time": at}
    failure["message"] = "ZeroDivisionError: division by zero\n"
    conditions = [condition("Failed", message="TestJob one has failed")]
    job, pod = job_with_pod("Failed", {"state": ended}, conditions=conditions, failures=[failure])
    lines = ["Traceback (most recent call last):", '  File "train.py", line 3', "ZeroDivisionError: division by zero"]
    log = "".join(f"{at} {line}\n" for line in lines).encode()
    pods = "/api/v1/namespaces/default/pods"
    transport = ScriptedTransport().on("GET", "/", refusal(403, "Forbidden", "no")).on("GET", f"{JOBS}/one", reply(job))
    transport.on("GET", pods, reply({"items": [pod]})).on("GET", f"{pods}/one-worker-0/log", Response(200, log))
    async with pages(transport) as page:
        _, text = await page("/jobs/testjobs/default/one")
    shown = text[text.index('class="diagnosis failed"') : text.index('<h2 id="failures">')]
    assert "ZeroDivisionError: division by zero" in shown
    assert '<h3>The last lines of Worker-0 (<a href="/pods/default/one-worker-0/log">its log</a>)</h3>' in shown
    assert "train.py" in shown
    assert "<pre>ZeroDivisionError" not in text, "not once more among the failures"
    assert text.count("They cannot be read: ") == 1, "events"


async def test_the_page_of_a_job(world: World) -> None:
    async with operating(world), pages(world.transport) as page:
        world.ok("POST", JOBS, a_job(workers=2, restart="ExitCode"))
        await world.clock.until(lambda: len(world.pods()) == 2)
        world.play_all("Running")
        await world.clock.until(lambda: "Running" in world.conditions())
        world.play("train-worker-1", "Failed", 137)
        await world.clock.until(lambda: "Restarting" in world.conditions())
        status, text = await page("/jobs/testjobs/default/train")
        assert status == 200
        for wanted in (
            "TestJob train is restarting because Worker-1: exited with code 137 (SIGKILL)",
            "/pods/default/train-worker-0/log",
            "SuccessfulCreatePod",
        ):
            assert wanted in text
        assert text.index("train-worker-0/log") < text.index("train-worker-1/log")
        status, text = await page("/jobs/testjobs/default/train/yaml")
        assert status == 200
        assert "testReplicaSpecs:" in text
        assert "managedFields" not in text


@pytest.mark.parametrize(
    ("state", "last", "times"),
    [
        ({"running": {"startedAt": at(9)}}, {"terminated": {"startedAt": at(3), "finishedAt": at(8)}}, (T + 9, None)),
        ({"waiting": {}}, {"terminated": {"startedAt": at(3), "finishedAt": at(8)}}, (T + 3, T + 8)),
        ({"waiting": {}}, {}, (None, None)),
    ],
)
def test_a_pod_in_a_line(state: dict[str, Any], last: dict[str, Any], times: tuple[float | None, float | None]) -> None:
    main = {"name": "test", "restartCount": 1, "state": state, "lastState": last}
    side = {"name": "log", "restartCount": 5, "state": {"running": {"startedAt": at(1)}}}
    job, pod = job_with_pod("Running", {})
    env = {"name": "RANK", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations"}}}
    pod["spec"] |= {"containers": [{"name": "test", "env": [env]}, {"name": "log"}], "initContainers": [{"name": "first"}]}
    pod["metadata"]["annotations"] = {f"{labels.VARIABLE}RANK": "7"}
    pod["status"]["containerStatuses"] = [side, main]
    (member,) = Found(TESTJOB, job, [pod]).members
    row = pod_row(TESTJOB, member)
    assert (row.began, row.ended) == times, "of the main container"
    assert (row.replica, row.node, row.rank, row.restarts) == ("Worker-0", "n1", "7", 6)
    assert row.containers == ("test", "log", "first")
    env.update(value="3")
    assert pod_row(TESTJOB, member).rank == "3"


def test_an_event_is_shown_once_and_those_that_stop_programs_in_place_are_left_out() -> None:
    event = {"involvedObject": {"kind": "Pod", "name": "p", "uid": "u"}, "reason": "Started", "message": "It began."}
    later = {**event, "lastTimestamp": "2025-11-23T01:30:09Z", "count": 2}
    stops = {**event, "reason": "InspectFailed", "message": "couldn't parse image name: x:stopped:attempt-1"}
    other = {**later, "involvedObject": {"kind": "Pod", "name": "q"}, "lastTimestamp": "2025-11-23T01:30:08Z"}
    lines = event_lines(Found(TESTJOB, a_job(), events=[event, stops, other, later]))
    assert [(line["about"], line["count"]) for line in lines] == [("Pod p", 2), ("Pod q", 2)]


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        ("TestJob default/a is running.", ""),
        ("TestJob default/a is running; waiting: Worker-1: no node has memory.", "Worker-1: no node has memory."),
        ("TestJob a is created; it waits: for its PodGroup.", "it waits: for its PodGroup."),
        ("TestJob a has failed because Worker-1: exited with code 1", "Worker-1: exited with code 1"),
        ("TestJob default/a has reported no progress", "it has reported no progress"),
        ("A foreign operator says this.", "A foreign operator says this."),
    ],
)
def test_a_cause_does_not_repeat_the_state(message: str, cause: str) -> None:
    job = {**a_job("a", workers=3), "status": {"conditions": [condition("Running", message=message)]}}
    job["status"]["replicaStatuses"] = {"Worker": {"active": 1, "succeeded": 1}}
    line = JobSummary(TESTJOB, job, read_status(job["status"]))
    assert (line.cause, line.pods) == (cause, "2/3")


async def test_everything_is_escaped(world: World) -> None:
    failure = {"replica": EVIL, "reason": EVIL, "message": EVIL, "node": EVIL, "time": "2025-10-09T08:53:20Z"}
    conditions = [condition("Failed", reason=EVIL, message=EVIL)]
    metrics = [{"name": EVIL, "value": EVIL}]
    reported = {"trainerStatus": {"metrics": metrics, "lastUpdatedTime": EVIL}, "progress": {"summary": EVIL}}
    with_status(world, "evil", conditions=conditions, failures=[failure], attemptReplicas={EVIL: 1}, **reported)
    uid = world.job("evil")["metadata"]["uid"]
    about = {"kind": "TestJob", "name": "evil", "namespace": "default", "uid": uid}
    event = {"metadata": {"name": "e"}, "involvedObject": about, "message": EVIL, "reason": EVIL, "type": "Normal"}
    world.ok("POST", "/api/v1/namespaces/default/events", event)
    world.ok("PATCH", f"{JOBS}/evil", {"metadata": {"annotations": {"a": EVIL}}}, MERGE_PATCH)
    async with pages(world.transport) as page:
        for path in (
            "/",
            "/jobs/testjobs/default/evil",
            "/jobs/testjobs/default/evil/yaml",
            f"/?state={EVIL}",
            f"/?namespace={EVIL}",
            f"/?kind={EVIL}&order={EVIL}&page={EVIL}&q={EVIL}",
        ):
            status, text = await page(path)
            assert status == 200
            assert "<script>alert" not in text, path
        assert "&lt;script&gt;alert(1)" in (await page("/jobs/testjobs/default/evil"))[1]


async def test_missing_objects_are_not_found(world: World) -> None:
    async with pages(world.transport) as page:
        for path in ("/jobs/testjobs/default/gone", "/jobs/otherjobs/default/x", "/pods/default/gone/log", "/no/such/page"):
            status, text = await page(path)
            assert status == 404, path
            assert "<h1>Not found</h1>" in text
            assert "Traceback" not in text


async def test_a_path_stays_in_its_namespace(world: World) -> None:
    transport = ScriptedTransport().on("GET", "/", refusal(404))
    async with pages(transport) as page:
        transport.sent.clear()
        await page("/pods/default/..%2f..%2fkube-system%2fpods%2fsecret/log")
    assert [request.path for request in transport.sent] == [
        "/api/v1/namespaces/default/pods/..%2F..%2Fkube-system%2Fpods%2Fsecret"
    ]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (refusal(403, "Forbidden", "you may not"), "Name a namespace that you may read: --namespace"),
        (refusal(404, "NotFound"), "TestJobs are not installed in this cluster"),
        (TransportError("connection refused"), "TestJobs cannot be read: connection refused"),
        (Response(200, b"<html>a login page</html>"), "TestJobs cannot be read: 200: the answer is not a JSON object"),
        (Response(200, b'{"items": [1, {}, {"metadata": 5}]}'), "There are no jobs yet"),
    ],
)
async def test_a_cluster_that_does_not_answer_as_wished(answer: Any, said: str) -> None:
    async with pages(ScriptedTransport().on("GET", "/", answer)) as page:
        status, text = await page("/")
        assert status == 200
        assert said in text
        code, text = await page("/jobs/testjobs/default/x")
        assert code in (404, 502, 200)
        assert "Traceback" not in text


async def test_the_log_of_a_container_that_has_not_started_is_followed_once_it_has() -> None:
    class WithLog(ScriptedTransport):
        async def stream(self, request: Request) -> AsyncIterator[bytes]:
            assert request.path == f"{path}/log"
            while printed:
                yield printed.pop(0)

    path, pauses = "/api/v1/namespaces/default/pods/p", list[float]()
    waiting = {"containerStatuses": [{"name": "main", "state": {"waiting": {"reason": "PodInitializing"}}}]}
    printed = [b"begun", b"0 %\r50 %\r", b"\x1b[32m0 %\r90 %\x1b[0m\r", b"0 %\r100 %", b"\r7 %\x1b[A", b"over"]
    running = {"phase": "Running", **RUNS}
    states = [{"phase": "Pending"}, {"phase": "Pending", **waiting}, running, running, {"phase": "Succeeded"}]

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    transport = WithLog().on("GET", path, *(reply({**POD, "status": state}) for state in states))
    reader = ClusterReader(transport, [TESTJOB], clock=lambda: 10.0 * len(pauses))
    assert [event async for event in log_events(reader, "default", "p", "main", sleep)] == [
        *(event_of(f"The container has not started: {why}.", "waiting") for why in ("Pending", "PodInitializing")),
        event_of("begun"), event_of("50 %", "frame"), event_of("90 %", "frame"), event_of("100 %"), event_of("7 %", "frame"),
        event_of("7 %"), event_of("over"),
    ]  # fmt: skip
    assert pauses == [KEPT_SECONDS] * 2


SPARE_POD: dict[str, Any] = {**POD, "metadata": {**POD["metadata"], "annotations": {SPARE: "true"}}}


@pytest.mark.parametrize(
    ("pod", "status", "why"),
    [
        (POD, {"phase": "Failed"}, ""),
        (POD, {"phase": "Running", "containerStatuses": [{"name": "main", "state": {"terminated": {}}}]}, ""),
        (POD, {"containerStatuses": [{"name": "main", "state": {"waiting": {}}, "lastState": {"terminated": {}}}]}, ""),
        (POD, {"initContainerStatuses": [{"name": "first", "state": {"running": {}}}]}, "Pending"),
        (POD, {"containerStatuses": [{"name": "side", "state": {"running": {}}}]}, "Pending"),
        (SPARE_POD, {"containerStatuses": [{"name": "main", "state": {"waiting": {"reason": "InvalidImageName"}}}]}, "Spare"),
    ],
)
def test_a_container_waits_until_it_has_run(pod: dict[str, Any], status: dict[str, Any], why: str) -> None:
    assert waiting_for({**pod, "status": status}, "main") == why
    assert waiting_for({**POD, "status": {}}, "gone") == "", "the API server says what is wrong"
