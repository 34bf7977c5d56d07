"""The pages of a cluster in memory: what they show, that they escape it, and what they cost the cluster."""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
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
from jobcommon.client.request import Request, Response
from jobcommon.diagnosis import Found
from jobcommon.testutil.builders import condition
from tests.runtime.fakes import TESTJOB, ScriptedTransport, a_job, refusal, reply
from tests.runtime.world import JOBS

POD: dict[str, Any] = {
    "metadata": {"name": "p", "namespace": "default", "uid": "u"},
    "spec": {"initContainers": [{"name": "first"}], "containers": [{"name": "main"}]},
}
T = 1_760_000_000.0
EVIL = "<script>alert(1)</script>\"'&"
Page = Callable[[str], Any]
EVERY_JOB = "/apis/kubeflow.org/v1/testjobs"
PODS, EVENTS = "/api/v1/namespaces/default/pods", "/api/v1/namespaces/default/events"
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


def job(name: str, *conditions: dict[str, Any], **status: Any) -> dict[str, Any]:
    """A job of one worker."""
    body = {**a_job(name, workers=1), "status": {"conditions": [*conditions], **status}}
    body["metadata"] |= {"uid": name, "managedFields": [], "creationTimestamp": at(0)}
    return body


def pod_of(name: str, phase: str, container: dict[str, Any]) -> dict[str, Any]:
    """The pod of that job."""
    owner = {"kind": "TestJob", "name": name, "uid": name, "controller": True}
    kept = {labels.REPLICA_TYPE: "worker", labels.REPLICA_INDEX: "0"}
    pod = f"{name}-worker-0"
    metadata = {"name": pod, "namespace": "default", "uid": pod, "ownerReferences": [owner], "labels": kept}
    states = {"phase": phase, "containerStatuses": [{"name": "test", "restartCount": 0, **container}]}
    return {"metadata": metadata, "spec": {"containers": [{"name": "test"}], "nodeName": "n1"}, "status": states}


LINES = ["Traceback (most recent call last):", '  File "train.py", line 3', "ZeroDivisionError: division by zero"]
FAILURE = {
    "replica": "Worker-0",
    "pod": "broken-worker-0",
    "reason": "Error",
    "exitCode": 1,
    "time": at(9),
    "message": LINES[2],
}
ENDED = {"exitCode": 1, "reason": "Error", "startedAt": at(5), "finishedAt": at(9)}
CRASHED = {"exitCode": 3, "reason": "Error", "startedAt": at(5), "finishedAt": at(9)}
CRASHES = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": CRASHED}, "restartCount": 4}
METRICS = [{"name": "loss", "value": "8"}, {"name": "current_step", "value": "1"}]
THERE = [
    job("one", condition("Running", message="It runs."),
        trainerStatus={"progressPercentage": 10, "metrics": METRICS, "lastUpdatedTime": at(9)},
        progress={"step": 1, "summary": "█░ 10% (1/10), 9m left"}),
    job("two", condition("Failed", message="TestJob two has failed because of the weather")),
    job("loops", condition("Running"), replicaStatuses={"Worker": {"active": 1}}, attemptReplicas={"Worker": 5},
        lastResizeTime=at(3)),
    job("broken", condition("Failed", message="TestJob broken has failed"), failures=[FAILURE]),
    job(
        "evil", condition("Failed", reason=EVIL, message=EVIL),
        failures=[{"replica": EVIL, "reason": EVIL, "message": EVIL, "node": EVIL, "time": at(0)}],
        attemptReplicas={EVIL: 1}, progress={"summary": EVIL},
        trainerStatus={"metrics": [{"name": EVIL, "value": EVIL}], "lastUpdatedTime": EVIL},
    ),
]  # fmt: skip
ABOUT = {"kind": "TestJob", "name": "evil", "namespace": "default", "uid": "evil"}
EVENT = {"metadata": {"name": "e"}, "involvedObject": ABOUT, "message": EVIL, "reason": EVIL, "type": "Normal"}


def cluster() -> ScriptedTransport:
    """A cluster of these jobs; what else it is asked for is not there."""
    pods = reply({"items": [pod_of("loops", "Running", CRASHES), pod_of("broken", "Failed", {"state": {"terminated": ENDED}})]})
    transport = ScriptedTransport().on("GET", "/", refusal(404)).on("GET", EVERY_JOB, reply({"items": THERE}))
    for body in THERE:
        transport.on("GET", f"{JOBS}/{body['metadata']['name']}", reply(body))
    log = "".join(f"{at(8)} {line}\n" for line in LINES).encode()
    transport.on("GET", "/api/v1/pods", pods).on("GET", EVENTS, reply({"items": [EVENT]})).on("GET", PODS, pods)
    return transport.on("GET", f"{PODS}/", refusal(404)).on("GET", f"{PODS}/broken-worker-0/log", Response(200, log))


ALL = '<a href="/?namespace=default&amp;kind=TestJob">All 5</a>'
PAGES: list[tuple[str, int, Sequence[str], Sequence[str]]] = [
    ("/", 200, [
        "<caption>5 jobs</caption>", "of the weather",
        '<progress max="100" value="10" aria-label="Progress of one"></progress> <span>10% (1/10), 9m left</span>',
        # The pods and the cause of a crash loop are those of `kubectl train list`.
        ">0/1</td>", '<span class="state running stalled">', '<span class="kind">ProgramFailed</span>', "exit code 3",
    ], ["TestJob two has failed"]),
    ("/?namespace=default&state=Failed&kind=TestJob", 200, [
        "/default/two", "<caption>3 of 5 jobs</caption>", ALL, 'aria-current="true" class="state failed">Failed 3</a>',
    ], ["/default/one"]),
    ("/?state=running&q=one", 200, [">0/1</td>"], ["ProgramFailed", "/default/loops"]),
    ("/?state=suspended", 200, ["No job matches. "], []),
    ("/?q=sun", 200, ["No job matches. "], []),
    ("/?q=Weather+TWO&kind=testjobs", 200, ["/default/two"], ["/default/one"]),
    ("/?kind=foos&state=Dead&order=best&page=x", 200,
     ["unknown kind foos: use TestJob", "unknown state Dead: use Created, ", "unknown order best: use newest"], []),
    (f"/?state={EVIL}&namespace={EVIL}", 200, [], []),
    (f"/?kind={EVIL}&order={EVIL}&page={EVIL}&q={EVIL}", 200, [], []),
    ("/jobs/testjobs/default/one", 200, ["The last report: loss 8.</p>", "There are no pods."], []),
    ("/jobs/testjobs/default/loops", 200, ["Current size: 5 Worker", "/pods/default/loops-worker-0/log", "4s until"], []),
    # It begins with its cause and the last lines, which do not stand among the failures once more.
    ("/jobs/testjobs/default/broken", 200, [
        'class="diagnosis failed"', "train.py",
        '<h3>The last lines of Worker-0 (<a href="/pods/default/broken-worker-0/log">its log</a>)</h3>',
        "<strong>Worker-0: ZeroDivisionError: division by zero; exited with code 1 (Error)</strong>",
    ], ["<pre>ZeroDivisionError"]),
    ("/jobs/testjobs/default/broken/yaml", 200, ["testReplicaSpecs:"], ["managedFields"]),
    ("/jobs/testjobs/default/evil", 200, ["&lt;script&gt;alert(1)"], []),
    ("/jobs/testjobs/default/evil/yaml", 200, [], []),
    *((path, 404, ["<h1>Not found</h1>"], []) for path in (
        "/jobs/testjobs/default/gone", "/jobs/otherjobs/default/x", "/pods/default/gone/log", "/no/such/page")),
]  # fmt: skip


@pytest.mark.parametrize(("path", "code", "there", "absent"), PAGES)
async def test_a_page(path: str, code: int, there: Sequence[str], absent: Sequence[str]) -> None:
    async with pages(cluster()) as page:
        status, text = await page(path)
    assert status == code
    absent = ["<script>alert", 'Traceback (most recent call last):\n  File "/', *absent]
    assert [part for part in there if part not in text] + [part for part in absent if part in text] == []


async def test_what_may_not_be_read_is_named_and_the_list_asks_for_no_more_than_it_shows() -> None:
    transport = cluster().on("GET", EVENTS, refusal(403, "Forbidden", "no"))
    async with pages(transport) as page:
        assert (await page("/jobs/testjobs/default/broken"))[1].count("They cannot be read: ") == 1
        await page("/")
    (asked,) = [request.query for request in transport.sent if request.path == "/api/v1/pods"]
    assert ("labelSelector", f"{labels.JOB_NAME} in (loops,one)") in asked


async def test_jobs_that_are_not_well_come_first_fifty_a_page() -> None:
    well = [job(f"well-{number:02}", condition("Running")) for number in range(48)]
    waits = job("waits", condition("Created", message="TestJob waits is created; waiting: no room."))
    unwell = [job("worse", condition("Failed", message="It broke.")), waits]
    unwell.append(job("hangs", condition("Running"), condition("Stalled")))

    def names(text: str) -> list[str]:
        return re.findall(r'href="/jobs/testjobs/default/([^"/]+)"', text)

    transport = ScriptedTransport().on("GET", "/", refusal(403)).on("GET", EVERY_JOB, reply({"items": [*well, *unwell]}))
    async with pages(transport) as page:
        _, first = await page("/")
        assert names(first)[:4] == ["hangs", "waits", "worse", "well-00"]
        assert "1–50 of 51 jobs" in first
        assert '<a href="/?page=2">Next ›</a>' in first
        for last in ("2", "9"):
            _, text = await page(f"/?page={last}")
            assert names(text) == ["well-47"]
            assert "51–51 of 51 jobs" in text
            assert 'href="/?state=Running"' in text, "another choice begins with its first page"
        assert names((await page("/?order=newest"))[1])[:2] == ["hangs", "waits"], "all are of one second"


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
    pod = pod_of("one", "Running", {})
    env = {"name": "RANK", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations"}}}
    pod["spec"] |= {"containers": [{"name": "test", "env": [env]}, {"name": "log"}], "initContainers": [{"name": "first"}]}
    pod["metadata"]["annotations"] = {f"{labels.VARIABLE}RANK": "7"}
    pod["status"]["containerStatuses"] = [side, main]
    (member,) = Found(TESTJOB, job("one"), [pod]).members
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


async def test_a_path_stays_in_its_namespace() -> None:
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
        (
            Response(200, b"<html>a login page</html>"),
            "TestJobs cannot be read: 200: the answer does not come from an API server",
        ),
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
        async def stream(self, request: Request) -> AsyncGenerator[bytes, None]:
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
