"""What is read for a diagnosis, and what becomes of refusals; against answers as data."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from jobcommon.api.observed import Observed
from jobcommon.api.timestamp import parse_time
from jobcommon.client.request import Request, Response
from jobcommon.diagnosis import Found, Reason, diagnose
from jobcommon.diagnosis.reading import read_found, read_kept
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.reconcile import plan
from jobcommon.reconcile.failed_logs import JOB_EVENTS, key_of_events, key_of_failure
from jobcommon.spec import read_job
from jobcommon.testutil.builders import START, job_manifest
from tests.diagnosis.scenarios import NOW, SCENARIOS, Scenario

CORE, KUEUE = "/api/v1", "/apis/kueue.x-k8s.io"
VOLCANO, COSCHEDULING = "/apis/scheduling.volcano.sh", "/apis/scheduling.x-k8s.io"
OURS = f"{CORE}/namespaces/default"
FORBIDDEN = Response(403, json.dumps({"message": "no"}).encode())
ABSENT = Response(404, b"404 page not found")


def job(suspend: bool = False, **labels: str) -> dict[str, Any]:
    made = job_manifest(PYTORCH, {"Master": {"template": {"spec": {"containers": []}}}}, run_policy={"suspend": suspend})
    made["metadata"] |= {"namespace": "default", "name": "demo", "uid": "u", "labels": labels}
    condition = {"type": "Suspended" if suspend else "Created", "status": "True", "message": "m"}
    return {**made, "status": {"conditions": [condition]}}


def pod(name: str = "demo-master-0", owner: str = "u", phase: str = "Pending", **status: Any) -> dict[str, Any]:
    metadata = {"name": name, "uid": f"uid-{name}", "ownerReferences": [{"controller": True, "uid": owner}]}
    return {"metadata": metadata, "spec": {}, "status": {"phase": phase, **status}}


def listing(*items: object) -> Response:
    return Response(200, json.dumps({"items": items}).encode())


class Server:
    """Gives each path its answers, one after the other, and the last for good; and keeps what was asked."""

    def __init__(self, **answers: Sequence[Response]) -> None:
        self.answers = {path: list(given) for path, given in answers.items()}
        self.asked: list[list[Request]] = []

    async def send(self, requests: Sequence[Request]) -> list[Response]:
        self.asked.append([*requests])
        return [self._answer(request.path) for request in requests]

    def _answer(self, path: str) -> Response:
        given = self.answers.get(path, [ABSENT])
        return given.pop(0) if len(given) > 1 else given[0]


async def test_a_job_in_a_queue_is_read_with_its_workload_of_either_version() -> None:
    theirs = {"metadata": {"ownerReferences": [{"uid": "another"}]}}
    since = "2026-11-24T02:00:00Z"
    condition = {"type": "QuotaReserved", "status": "False", "reason": "WaitingForQuota", "lastTransitionTime": since}
    said = [{**condition, "message": "no nvidia.com/gpu left"}]
    ours = {"metadata": {"name": "w", "ownerReferences": [{"uid": "u"}]}, "status": {"conditions": said}}
    answers = {f"{OURS}/pods": [listing()], f"{KUEUE}/v1beta1/namespaces/default/workloads": [listing(theirs, ours)]}
    found = await read_found(PYTORCH, job(suspend=True), Server(**answers).send)
    made = diagnose(found, START)
    assert made.reason == Reason.QUEUED_BY_KUEUE
    assert f"no nvidia.com/gpu left (WaitingForQuota since {since})" in made.sentence
    assert found.unread == {}


@pytest.mark.parametrize("api", [f"{VOLCANO}/v1beta1", f"{COSCHEDULING}/v1alpha1"])
async def test_a_job_without_placed_pods_is_read_with_its_group(api: str) -> None:
    group = {"kind": "PodGroup", "metadata": {"name": "demo"}, "status": {"phase": "Pending"}}
    answers = {f"{api}/namespaces/default/podgroups/demo": [Response(200, json.dumps(group).encode())]}
    found = await read_found(PYTORCH, job(), Server(**answers).send)
    assert found.pod_groups == [group]


async def test_pods_are_read_with_their_claims_and_those_of_another_job_are_left_out() -> None:
    claim = {**pod("demo-worker-0"), "spec": {"volumes": [{"persistentVolumeClaim": {"claimName": "data"}}]}}
    pods = listing(pod(), claim, pod("demo-worker-1", owner="another"))
    server = Server(**{f"{OURS}/pods": [pods], f"{OURS}/events": [listing()], f"{CORE}/nodes": [listing({"n": 1})]})
    found = await read_found(PYTORCH, job(), server.send)
    assert [one["metadata"]["name"] for one in found.pods] == ["demo-master-0", "demo-worker-0"]
    assert found.nodes == [{"n": 1}]
    events = [dict(request.query)["fieldSelector"] for request in server.asked[1] if request.path.endswith("/events")]
    about = [f"uid={uid}" for uid in ("u", "uid-demo-master-0", "uid-demo-worker-0")]
    assert events == [f"involvedObject.{one}" for one in (*about, "kind=PersistentVolumeClaim,involvedObject.name=data")]


#: what is answered for the log of a run that ended at 00:05:00, and the lines of it
LOGS = {
    "the log": (b"2026-01-01T00:04:59Z one\n2026-01-01T00:05:00Z two\n", ["one", "two"]),
    "nothing printed": (b"", []),
    "the kubelet has none": (b"unable to retrieve container logs for containerd://4711", None),
    "a progress bar": (b"2026-01-01T00:00:00Z \r1%\r2026-01-01T00:00:01Z one\n2026-01-01T00:00:00Z \r1%\r2%\n", ["one", "2%"]),
    "that of the next run": (b"2026-01-01T00:05:09Z one\n", None),
}


@pytest.mark.parametrize(("answer", "lines"), LOGS.values(), ids=LOGS)
async def test_the_last_lines_of_failed_runs_are_read_also_of_one_that_was_started_again(
    answer: bytes, lines: list[str] | None
) -> None:
    ended = {"terminated": {"exitCode": 3, "finishedAt": "2026-01-01T00:05:00Z"}}
    again = [{"name": "main", "state": {"running": {}}, "lastState": ended}]
    server = Server(**{
        f"{OURS}/pods": [listing(pod(phase="Running", containerStatuses=again), pod("demo-worker-0"))],
        f"{OURS}/pods/demo-master-0/log": [Response(200, b""), Response(200, answer)],
    })  # fmt: skip
    found = await read_found(PYTORCH, job(), server.send)
    assert (found.logs.get("demo-master-0"), "demo-master-0" in found.gone) == (lines, lines is None)
    request = next(r for asked in server.asked for r in asked if r.path.endswith("/log") and "previous" in dict(r.query))
    assert dict(request.query) == {"container": "main", "tailLines": "1000", "previous": "true", "timestamps": "true"}


UP, AT = {"running": {"startedAt": "2026-01-01T00:04:00Z"}}, "2026-01-01T00:05:00Z"


async def test_the_log_of_a_run_that_was_stopped_for_a_restart_in_place_is_not_read() -> None:
    ended = {"terminated": {"exitCode": 143}}
    again = [{"name": "main", "state": {"running": {}}, "lastState": ended, "restartCount": 1}]
    own = pod(phase="Running", containerStatuses=again)
    own["metadata"]["annotations"] = {"training.kubeflow.org/attempt": "1", "training.kubeflow.org/earlier-runs": "1"}
    server = Server(**{f"{OURS}/pods": [listing(own)], f"{OURS}/pods/demo-master-0/log": [Response(200, b"")]})
    assert (await read_found(PYTORCH, job(), server.send)).logs == {}


async def test_events_of_a_deleted_pod_on_record_are_read_by_name() -> None:
    failures = [{"replica": "Master-0", "pod": name, "reason": "SIGTERM", "exitCode": 143} for name in ("demo-master-0", "d-1")]
    status = {"conditions": [{"type": "Failed", "status": "True", "message": "m"}], "failures": failures}
    killing = {"involvedObject": {"name": "demo-master-0"}, "message": "Container c failed startup probe", "reason": "Killing"}
    ended = [{"name": "pytorch", "state": {"terminated": {"exitCode": 143}}}]
    server = Server(**{
        f"{OURS}/pods": [listing(pod("d-1", phase="Failed", containerStatuses=ended))],
        f"{OURS}/events": [listing(), listing(killing), listing()],
    })  # fmt: skip
    found = await read_found(PYTORCH, {**job(), "status": status}, server.send)
    asked = [dict(r.query)["fieldSelector"] for r in server.asked[1] if r.path.endswith("/events")]
    assert asked == [f"involvedObject.{one}" for one in ("uid=u", "name=demo-master-0", "name=d-1")]
    assert found.gone == {"demo-master-0", "d-1"}, "the log of one is not served any more"
    assert diagnose(found, START).reason == Reason.STARTUP_PROBE_FAILED


async def test_the_last_line_of_a_running_init_container_is_read() -> None:
    inits = [{"name": "proxy", "state": {"running": {}}}, {"name": "prepare", "state": {"running": {}}}]
    waits = pod(initContainerStatuses=inits)
    waits["spec"] = {"initContainers": [{"name": "proxy", "restartPolicy": "Always"}, {"name": "prepare"}]}
    server = Server(**{
        f"{OURS}/pods": [listing(waits, pod("demo-worker-0"))],
        f"{OURS}/pods/demo-master-0/log": [Response(200, b"2026-01-01T00:05:00Z waiting for db\n")],
    })  # fmt: skip
    found = await read_found(PYTORCH, job(), server.send)
    assert found.last_lines == {"demo-master-0": "waiting for db"}
    (request,) = (request for asked in server.asked for request in asked if request.path.endswith("/log"))
    assert dict(request.query)["container"] == "prepare"


async def test_forbidden_reads_are_named_unless_only_administrators_need_them() -> None:
    group = f"{VOLCANO}/v1beta1/namespaces/default/podgroups/demo"
    answers = {
        f"{OURS}/pods": [listing(pod())],
        f"{OURS}/events": [FORBIDDEN],
        f"{CORE}/nodes": [FORBIDDEN],
        group: [FORBIDDEN],
    }
    found = await read_found(PYTORCH, job(), Server(**answers).send)
    assert found.unread == {"events": "no"}
    workloads = f"{KUEUE}/v1beta2/namespaces/default/workloads"
    answers = {path: [FORBIDDEN] for path in (f"{OURS}/pods", f"{OURS}/events", workloads)}
    found = await read_found(PYTORCH, job(suspend=True), Server(**answers).send)
    assert set(found.unread) == {"pods", "events", "workloads"}
    page = await read_found(PYTORCH, job(), Server(**{f"{OURS}/pods": [Response(200, b"<html>")]}).send)
    assert page.unread == {"pods": "the answer does not come from an API server"}


async def test_the_last_output_of_running_pods_is_dated() -> None:
    ready = {"conditions": [{"type": "Ready", "status": "True"}], "startTime": "2026-01-01T00:00:00Z"}
    pods = [pod(name, phase="Running", **ready) for name in ("demo-master-0", "demo-worker-0", "demo-worker-1")]
    for one in pods:
        one["status"]["containerStatuses"] = [{"name": "pytorch", "state": UP}, {"name": "sidecar", "state": UP}]
        one["spec"] = {"containers": [{"name": "sidecar"}, {"name": "pytorch"}], "nodeName": "n"}
    server = Server(**{
        f"{OURS}/pods": [listing(*pods)],
        f"{OURS}/pods/demo-master-0/log": [Response(200, b"2026-01-01T00:05:00.123456789Z step 7\n")],
        f"{OURS}/pods/demo-worker-0/log": [Response(200, b"")],
        f"{OURS}/pods/demo-worker-1/log": [FORBIDDEN],
    })  # fmt: skip
    found = await read_found(PYTORCH, job(), server.send)
    start = parse_time("2026-01-01T00:00:00Z")
    assert start is not None
    assert found.printed_at == {"demo-master-0": pytest.approx(start + 300.123456), "demo-worker-0": start + 240}
    assert found.last_lines == {"demo-master-0": "step 7", "demo-worker-0": ""}
    queries = [dict(request.query) for asked in server.asked for request in asked if request.path.endswith("/log")]
    assert queries == [{"container": "pytorch", "tailLines": "60", "timestamps": "true"}] * 3


async def test_a_job_without_conditions_has_the_operators_pods_read() -> None:
    fresh = {**job(), "status": {}}
    for answer, runs in ((listing(pod(phase="Running")), True), (listing(), False), (FORBIDDEN, None)):
        found = await read_found(PYTORCH, fresh, Server(**{f"{CORE}/pods": [answer]}).send)
        assert found.operator is runs


# -- after the pods are gone ---------------------------------------------------------------------------------------------------

SEEDED = [one for one in SCENARIOS if one.found.status.finished and one.found.status.failures]


def kept(found: Found) -> Response:
    """The ConfigMap of what the operator keeps when it lets the pods go, or let them go before."""
    job = read_job(found.framework, with_kept_logs(found.job))
    planned = plan(found.framework, job, Observed(pods=tuple(member.pod for member in found.members)), NOW).logs
    keys = {log.key: log.pod for log in planned}
    keys |= {key_of_failure(number, failure.pod or ""): failure.pod or "" for number, failure in enumerate(job.status.failures)}
    data = {key: "\n".join(found.logs.get(pod, ())) for key, pod in keys.items()}
    about = {key_of_events(key): pod for key, pod in keys.items()} | {JOB_EVENTS: job.name}
    told = {key: [event for event in found.events if event["involvedObject"]["name"] == name] for key, name in about.items()}
    data |= {key: "\n".join(map(json.dumps, events)) for key, events in told.items()}
    owner = {"name": "demo-failed-logs", "ownerReferences": [{"uid": job.uid}]}
    return Response(200, json.dumps({"metadata": owner, "data": data}).encode())


def with_kept_logs(job: Mapping[str, Any]) -> dict[str, Any]:
    return {**job, "spec": {**job["spec"], "runPolicy": {**job["spec"].get("runPolicy", {}), "keepFailedLogs": True}}}


async def an_hour_later(scenario: Scenario, config_map: Response) -> str:
    """The reason that is named when pods and events are gone."""
    found = scenario.found
    answers = {f"{OURS}/pods": [listing()], f"{OURS}/events": [listing()], f"{OURS}/configmaps/demo-failed-logs": [config_map]}
    read = await read_found(found.framework, with_kept_logs(found.job), Server(**answers).send)
    return diagnose(read, scenario.now + 3600).reason


async def test_the_cause_is_named_an_hour_after_the_pods_are_gone() -> None:
    """The document says of how many."""
    named = [one.name for one in SEEDED if await an_hour_later(one, kept(one.found)) == one.reason]
    without = [one.name for one in SEEDED if await an_hour_later(one, ABSENT) == one.reason]
    assert len(named) >= 0.94 * len(SEEDED), {one.name for one in SEEDED} - {*named}
    assert len(without) >= 0.8 * len(SEEDED)


KEPT = {"10.p.log": "c", "2.p.log": "b", "0.p.log": "a", "last.q.log": "d", "1.q.log": "e"}


@pytest.mark.parametrize(("owner", "kept"), [("", {}), ("another", {}), ("u", {"p": "c", "q": "d"})])
async def test_kept_logs_are_the_latest_of_each_pod_of_the_job(owner: str, kept: dict[str, str]) -> None:
    made = Response(200, json.dumps({"metadata": {"ownerReferences": [{"uid": owner}]}, "data": KEPT}).encode())
    server = Server(**{f"{OURS}/configmaps/demo-failed-logs": [made if owner else FORBIDDEN]})
    assert await read_kept(server.send, job()) == (kept, [])
