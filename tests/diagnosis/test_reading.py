"""What is read for a diagnosis, and what becomes of refusals; against answers as data."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from jobcommon.api.timestamp import parse_time
from jobcommon.client.request import Request, Response
from jobcommon.diagnosis import Reason, diagnose
from jobcommon.diagnosis.reading import read_found
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.testutil.builders import START, job_manifest

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


def listing(*items: object, more: str = "") -> Response:
    return Response(200, json.dumps({"items": items, "metadata": {"continue": more}}).encode())


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
    said = [{"type": "QuotaReserved", "status": "False", "message": "insufficient quota for nvidia.com/gpu"}]
    ours = {"metadata": {"name": "w", "ownerReferences": [{"uid": "u"}]}, "status": {"conditions": said}}
    answers = {f"{OURS}/pods": [listing()], f"{KUEUE}/v1beta1/namespaces/default/workloads": [listing(theirs, ours)]}
    found = await read_found(PYTORCH, job(suspend=True), Server(**answers).send)
    made = diagnose(found, START)
    assert made.reason == Reason.QUEUED_BY_KUEUE
    assert "insufficient quota for nvidia.com/gpu" in made.sentence
    assert found.unread == {}


@pytest.mark.parametrize("api", [f"{VOLCANO}/v1beta1", f"{COSCHEDULING}/v1alpha1"])
async def test_a_job_without_placed_pods_is_read_with_its_group(api: str) -> None:
    group = {"kind": "PodGroup", "metadata": {"name": "demo"}, "status": {"phase": "Pending"}}
    answers = {f"{api}/namespaces/default/podgroups/demo": [Response(200, json.dumps(group).encode())]}
    found = await read_found(PYTORCH, job(), Server(**answers).send)
    assert found.pod_groups == [group]


async def test_pods_are_read_page_by_page_and_those_of_another_job_are_left_out() -> None:
    pages = [listing(pod(), more="next"), listing(pod("demo-worker-0"), pod("demo-worker-1", owner="another"))]
    server = Server(**{f"{OURS}/pods": pages, f"{OURS}/events": [listing()], f"{CORE}/nodes": [listing({"n": 1})]})
    found = await read_found(PYTORCH, job(), server.send)
    assert [one["metadata"]["name"] for one in found.pods] == ["demo-master-0", "demo-worker-0"]
    assert found.nodes == [{"n": 1}]
    first, second = (dict(asked[0].query) for asked in server.asked[:2])
    assert (first.get("continue"), second.get("continue")) == (None, "next")
    events = [dict(request.query)["fieldSelector"] for request in server.asked[2] if request.path.endswith("/events")]
    assert events == [f"involvedObject.uid={uid}" for uid in ("u", "uid-demo-master-0", "uid-demo-worker-0")]


async def test_the_last_lines_of_failed_runs_are_read_also_of_one_that_was_started_again() -> None:
    ended = {"terminated": {"exitCode": 3}}
    again = [{"name": "main", "state": {"running": {}}, "lastState": ended}]
    server = Server(**{
        f"{OURS}/pods": [listing(pod(phase="Running", containerStatuses=again), pod("demo-worker-0"))],
        f"{OURS}/pods/demo-master-0/log": [Response(200, b"one\ntwo\n")],
    })  # fmt: skip
    found = await read_found(PYTORCH, job(), server.send)
    assert found.logs == {"demo-master-0": ["one", "two"]}
    (request,) = (request for asked in server.asked for request in asked if request.path.endswith("/log"))
    assert dict(request.query) == {"container": "main", "tailLines": "400", "previous": "true"}


async def test_what_may_not_be_read_is_named_unless_it_is_the_business_of_administrators() -> None:
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


async def test_of_pods_that_run_it_is_read_when_they_printed_last() -> None:
    ready = {"conditions": [{"type": "Ready", "status": "True"}], "startTime": "2026-01-01T00:00:00Z"}
    pods = [pod(name, phase="Running", **ready) for name in ("demo-master-0", "demo-worker-0", "demo-worker-1")]
    for one in pods:
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
    assert found.printed_at == {"demo-master-0": pytest.approx(start + 300.123456), "demo-worker-0": start}
    assert found.last_lines == {"demo-master-0": "step 7", "demo-worker-0": ""}
    queries = [dict(request.query) for asked in server.asked for request in asked if request.path.endswith("/log")]
    assert queries == [{"container": "pytorch", "tailLines": "1", "timestamps": "true"}] * 3


async def test_of_a_job_whose_status_does_not_follow_its_pods_the_lease_is_read() -> None:
    over = pod(phase="Succeeded")
    over["metadata"]["labels"] = {"training.kubeflow.org/replica-type": "master"}
    counted = {"replicaStatuses": {"Master": {"active": 1}}}
    path = "/apis/coordination.k8s.io/v1/leases"
    leases = [{"spec": {"renewTime": f"2026-01-01T00:0{minute}:00.000000Z"}} for minute in (1, 2)]
    answers = {f"{OURS}/pods": [listing(over)], path: [listing(*leases)], f"{CORE}/pods": [listing()]}
    found = await read_found(PYTORCH, {**job(), "status": job()["status"] | counted}, Server(**answers).send)
    assert (found.operator, found.lease) == (False, leases[1])
    followed = await read_found(PYTORCH, job(), Server(**answers).send)
    assert (followed.operator, followed.lease) == (None, None)


async def test_of_a_job_without_a_condition_it_is_read_whether_an_operator_runs() -> None:
    fresh = {**job(), "status": {}}
    for answer, runs in ((listing(pod(phase="Running")), True), (listing(), False), (FORBIDDEN, None)):
        found = await read_found(PYTORCH, fresh, Server(**{f"{CORE}/pods": [answer]}).send)
        assert found.operator is runs
