"""The executor against a scripted API server: what each answer makes of an action, in what order, under what guard."""

import asyncio
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from jobcommon.api import labels
from jobcommon.api.status import Failure, JobCondition, JobStatus, ReplicaStatus
from jobcommon.client.errors import StatusError, TransportError
from jobcommon.client.request import JSON_PATCH, MERGE_PATCH, Request, Response, Transport
from jobcommon.controller.result import Effect, Result, Work
from jobcommon.controller.telemetry import telemetry
from jobcommon.controller.unstored import UnstoredError
from jobcommon.framework import FINALIZER
from jobcommon.reconcile import Action, Create, Delete, Plan, RemoveFinalizer, Update
from jobcommon.reconcile.plan import Get, SetImage, Urgency
from jobcommon.runtime.clock import SystemClock
from jobcommon.runtime.executor import BULK_ACTIONS, Executor
from jobcommon.runtime.flow_control import SHARE, FlowController, PriorityLevel
from jobcommon.runtime.leader import FencedTransport
from jobcommon.runtime.writes import RECHECK_SECONDS
from jobcommon.spec import read_job
from tests.runtime.fakes import TESTJOB, Answer, ScriptedTransport, a_job, refusal, reply, turns

UID = "job-uid"
POD = "/api/v1/namespaces/default/pods"
JOB = "/apis/kubeflow.org/v1/namespaces/default/testjobs/train"
LOST = TransportError("reset")
STATUS = JobStatus(conditions=[JobCondition(type="Running")])


def echo(request: Request) -> Response:
    """What was sent, as it is stored."""
    sent = msgspec.json.decode(request.body or b"")
    return reply({**sent, "metadata": {**sent["metadata"], "resourceVersion": "8"}})


def found(
    name: str = "p",
    *,
    owner: str = UID,
    deleting: bool = False,
    version: str = "50",
    uid: str = "pod-uid",
    kind: str = "X",
    of: str = "",
) -> Response:
    """The answer to a GET of an object, whose controller is the object `of` a `kind`."""
    metadata: dict[str, Any] = {"name": name, "uid": uid, "resourceVersion": version}
    metadata["ownerReferences"] = [
        {"uid": "someone", "kind": "X", "name": "x"},
        {"uid": owner, "controller": True, "kind": kind, "name": of},
    ]
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return reply({"metadata": metadata})


def with_image(image: str, attempt: str = "0", uid: str = "pod-uid") -> Response:
    """The answer to a GET of a pod."""
    metadata = {"name": "p", "uid": uid, "resourceVersion": "50", "annotations": {labels.ATTEMPT: attempt}}
    status = {"containerStatuses": [{"name": "main"}]}
    return reply({"metadata": metadata, "spec": {"containers": [{"name": "main", "image": image}]}, "status": status})


def job_found(version: str = "7", uid: str = UID, **more: Any) -> Response:
    return reply({"metadata": {"name": "train", "uid": uid, "resourceVersion": version}, **more})


def a_pod(name: str = "p", kind: str = "worker") -> Create:
    return Create("v1", "pods", name, {"metadata": {"name": name}}, replica_type=kind)


CREATE = a_pod()
RENAMED = replace(CREATE, otherwise="p-2")
LABELLED = Create(
    "v1", "pods", "p", {"metadata": {"name": "p", "labels": {labels.OPERATOR_NAME: "ours"}}}, replica_type="worker"
)
SERVICE = Create("v1", "services", "train", {"metadata": {"name": "train"}})
DELETE = Delete("v1", "pods", "p", "pod-uid", "test")
RELEASE = RemoveFinalizer("p", "pod-uid", ("other", FINALIZER))
STOP = SetImage("p", "pod-uid", "main", "image", "image:stopped:attempt-1", "0", "test", ((labels.STOP_ORDERED, "now"),))
FOUND = {"metadata": {"name": "c", "uid": "u", "resourceVersion": "3"}, "data": {"a": "1", "b": "2"}}
UPDATE = Update("v1", "configmaps", "c", FOUND, {"data": {"a": "3", "b": None}})


def work(*actions: Action, orphans_of: str | None = None, **plan_fields: Any) -> Work:
    raw = a_job()
    raw["metadata"] |= {"uid": UID, "resourceVersion": "7"}
    plan = Plan(actions, **plan_fields)
    return Work("default", "train", UID, plan, read_job(TESTJOB, raw), raw, orphans_of)


def executor(transport: Transport, **more: Any) -> Executor:
    return Executor(TESTJOB, transport, FlowController(more.pop("concurrency", 100)), **more)


async def run(transport: Transport, work: Work, **more: Any) -> Result:
    return await executor(transport, **more).execute(work)


NO_JOB = refusal(404, "NotFound")
EXISTS = refusal(409, "AlreadyExists")
REDIRECT = Response(302, b"", {"location": "https://login.test/"})
PAGE = Response(200, b"<html>Please log in</html>", {"content-type": "text/html"})
NOTHING = Response(200, b"{}", {"content-type": "application/json"})
EFFECTS: dict[str, tuple[Action, Answer, Answer, Effect, str, int | None]] = {
    # what is done, the answer, what a live read then finds, and the effect, its version and the code of its error
    "created": (CREATE, reply({"metadata": {"resourceVersion": "9"}}, 201), LOST, Effect.APPLIED, "9", None),
    "created before, by us": (CREATE, EXISTS, found(), Effect.ALREADY_EXISTS, "50", None),
    "name taken": (CREATE, EXISTS, found(owner="other"), Effect.NAME_CONFLICT, "", 409),
    "name taken, without an owner": (CREATE, EXISTS, found(owner=""), Effect.NAME_CONFLICT, "", 409),
    "created before, and its labels taken off": (LABELLED, EXISTS, found(), Effect.NAME_CONFLICT, "", 409),
    "predecessor terminating": (CREATE, EXISTS, found(owner="other", deleting=True), Effect.REFUSED, "", 409),
    "another name to take": (RENAMED, EXISTS, found(owner="other", kind="TestJob", of="x"), Effect.NAME_CONFLICT, "", 409),
    "an earlier job's": (RENAMED, EXISTS, found(owner="other", kind="TestJob", of="train"), Effect.REFUSED, "", 409),
    "our own terminating": (CREATE, EXISTS, found(deleting=True), Effect.REFUSED, "", 409),
    "gone again": (CREATE, EXISTS, NO_JOB, Effect.REFUSED, "", 409),
    "cannot look": (CREATE, EXISTS, LOST, Effect.REFUSED, "", 409),
    "over quota": (CREATE, refusal(403, "Forbidden", "exceeded quota"), LOST, Effect.REFUSED, "", 403),
    "invalid": (CREATE, refusal(422, "Invalid"), LOST, Effect.REFUSED, "", 422),
    "another conflict": (CREATE, refusal(409, "Conflict"), LOST, Effect.REFUSED, "", 409),
    "answer lost, there": (CREATE, LOST, found(), Effect.ALREADY_EXISTS, "50", None),
    "answer lost, not there": (CREATE, LOST, NO_JOB, Effect.REFUSED, "", None),
    "answer lost, another's": (CREATE, LOST, found(owner="other"), Effect.NAME_CONFLICT, "", None),
    "deleted": (DELETE, reply({"kind": "Status"}), LOST, Effect.APPLIED, "", None),
    "deleted gracefully": (DELETE, found(deleting=True), LOST, Effect.APPLIED, "", None),
    "deleted before": (DELETE, refusal(404, "NotFound"), LOST, Effect.NOT_FOUND, "", 404),
    "another incarnation": (DELETE, refusal(409, "Conflict"), LOST, Effect.NOT_FOUND, "", 409),
    "may not delete": (DELETE, refusal(403, "Forbidden"), LOST, Effect.REFUSED, "", 403),
    "deletion unknown": (DELETE, LOST, LOST, Effect.REFUSED, "", None),
    "released": (RELEASE, found(version="60"), LOST, Effect.APPLIED, "60", None),
    "released at its end": (RELEASE, found(deleting=True), LOST, Effect.APPLIED, "", None),
    "nothing to release": (RELEASE, refusal(404, "NotFound"), LOST, Effect.NOT_FOUND, "", 404),
    "other finalizers by now": (RELEASE, refusal(422, "Invalid"), LOST, Effect.NOT_FOUND, "", 422),
    "a webhook is down": (RELEASE, refusal(500, "InternalError"), LOST, Effect.REFUSED, "", 500),
    "stopped": (STOP, found(version="60"), LOST, Effect.APPLIED, "60", None),
    "to be stopped, but gone": (STOP, refusal(404, "NotFound"), LOST, Effect.NOT_FOUND, "", 404),
    "another image by now": (STOP, refusal(422, "Invalid"), with_image("other"), Effect.NOT_FOUND, "", 422),
    "another attempt by now": (STOP, refusal(422, "Invalid"), with_image("image", "1"), Effect.NOT_FOUND, "", 422),
    "another pod by now": (STOP, refusal(422, "Invalid"), with_image("image", uid="x"), Effect.NOT_FOUND, "", 422),
    "no image may be changed": (STOP, refusal(422, "Invalid", "denied"), with_image("image"), Effect.REFUSED, "", 422),
    "refused, and it cannot be seen why": (STOP, refusal(422, "Invalid"), LOST, Effect.REFUSED, "", 422),
    "creation redirected": (CREATE, REDIRECT, NO_JOB, Effect.REFUSED, "", None),
    "creation redirected, there": (CREATE, REDIRECT, found(), Effect.ALREADY_EXISTS, "50", None),
    "a page for a pod": (CREATE, PAGE, NO_JOB, Effect.REFUSED, "", None),
    "a page for a pod and for a look": (CREATE, PAGE, PAGE, Effect.REFUSED, "", None),
    "deletion redirected": (DELETE, REDIRECT, LOST, Effect.REFUSED, "", None),
    "nothing for a deletion": (DELETE, NOTHING, LOST, Effect.REFUSED, "", None),
    "a page for a release": (RELEASE, PAGE, LOST, Effect.REFUSED, "", None),
    "nothing for an update": (UPDATE, NOTHING, LOST, Effect.REFUSED, "", None),
    "updated": (UPDATE, found(version="61"), LOST, Effect.APPLIED, "61", None),
    "update in vain": (UPDATE, refusal(404, "NotFound"), LOST, Effect.NOT_FOUND, "", 404),
    "update on an old version": (UPDATE, refusal(409, "Conflict"), LOST, Effect.REFUSED, "", 409),
}


@pytest.mark.parametrize("case", EFFECTS)
async def test_each_answer_of_the_server_has_its_effect(case: str) -> None:
    action, answer, live, effect, version, code = EFFECTS[case]
    transport = ScriptedTransport().on("GET", POD, live)
    for method in ("POST", "DELETE", "PATCH", "PUT"):
        transport.on(method, "/", answer)
    (outcome,) = (await run(transport, work(action))).outcomes
    assert (outcome.action, outcome.effect, outcome.resource_version) == (action, effect, version)
    assert getattr(outcome.error, "code", None) == code
    assert len(transport.sent) <= 2, "a write is never repeated"


def body(request: Request) -> Any:
    return msgspec.json.decode(request.body or b"")


async def test_the_requests_of_each_action() -> None:
    transport = ScriptedTransport()
    for method in ("POST", "DELETE", "PATCH", "PUT"):
        transport.on(method, "/", reply({}))
    unchanged = Delete("kubeflow.org/v1", "testjobs", "train", UID, "ttl", "12")
    await run(transport, work(DELETE, unchanged, UPDATE, CREATE, SERVICE))
    await run(transport, work(RELEASE))
    await run(transport, work(STOP))
    await run(transport, work(replace(STOP, others=(("/spec/initContainers/0", "first", "gate", "data:1"),))))
    await run(transport, work(replace(DELETE, force=True)))
    delete_pod, delete_job, forced = transport.made("DELETE")
    assert "gracePeriodSeconds" not in body(delete_pod)
    assert body(forced) == {**body(delete_pod), "gracePeriodSeconds": 0}
    assert delete_pod.path == f"{POD}/p"
    assert body(delete_pod)["preconditions"] == {"uid": "pod-uid"}
    assert delete_job.path == JOB
    assert body(delete_job)["preconditions"] == {"uid": UID, "resourceVersion": "12"}
    assert body(delete_job)["propagationPolicy"] == "Background"
    update, release, stop, several = transport.made("PATCH")
    assert [operation for operation in body(several) if "initContainers" in operation["path"]] == [
        {"op": "test", "path": "/spec/initContainers/0/name", "value": "first"},
        {"op": "test", "path": "/spec/initContainers/0/image", "value": "gate"},
        {"op": "replace", "path": "/spec/initContainers/0/image", "value": "data:1"},
    ]
    assert (release.path, release.content_type) == (f"{POD}/p", JSON_PATCH)
    assert body(release) == [
        {"op": "test", "path": "/metadata/uid", "value": "pod-uid"},
        {"op": "test", "path": "/metadata/finalizers", "value": ["other", FINALIZER]},
        {"op": "replace", "path": "/metadata/finalizers", "value": ["other"]},
    ]
    assert (stop.path, stop.content_type) == (f"{POD}/p", JSON_PATCH)
    assert body(stop) == [
        {"op": "test", "path": "/metadata/uid", "value": "pod-uid"},
        {"op": "test", "path": "/metadata/annotations/training.kubeflow.org~1attempt", "value": "0"},
        {"op": "test", "path": "/spec/containers/0/name", "value": "main"},
        {"op": "test", "path": "/spec/containers/0/image", "value": "image"},
        {"op": "replace", "path": "/spec/containers/0/image", "value": "image:stopped:attempt-1"},
        {"op": "add", "path": "/metadata/annotations/training.kubeflow.org~1stop-ordered", "value": "now"},
    ]
    assert (update.path, update.content_type) == ("/api/v1/namespaces/default/configmaps/c", MERGE_PATCH)
    assert body(update) == {"metadata": {"uid": "u", "resourceVersion": "3"}, "data": {"a": "3", "b": None}}
    assert UPDATE.manifest == {**FOUND, "data": {"a": "3"}}, "what the server makes of it"
    assert [r.path for r in transport.made("POST")] == ["/api/v1/namespaces/default/services", POD]


async def test_the_status_comes_last_once_with_the_object_it_was_decided_on() -> None:
    transport = ScriptedTransport().on("PUT", JOB, echo).on("DELETE", "/", reply()).on("POST", "/", reply())
    result = await run(transport, work(CREATE, SERVICE, DELETE, status=STATUS))
    assert [r.method for r in transport.sent] == ["DELETE", "POST", "POST", "PUT"]
    put = transport.sent[-1]
    assert put.path == f"{JOB}/status"
    assert body(put)["metadata"] == {"name": "train", "namespace": "default", "uid": UID, "resourceVersion": "7"}
    assert body(put)["status"] == STATUS.to_json()
    assert body(put)["spec"] == a_job()["spec"]
    assert (result.status_version, result.status_error) == ("8", None)
    assert [o.action for o in result.outcomes] == [CREATE, SERVICE, DELETE]


FULL = JobStatus(
    conditions=[JobCondition(type="Restarting")],
    replica_statuses={"Worker": ReplicaStatus(active=1, restarts=2)},
    restarts=2,
    failures=[Failure(replica="Worker-0", reason="Error", exit_code=3)],
    counted_pods=["u1"],
)


@pytest.mark.parametrize(
    ("lost", "fields"),
    [
        ((), set()),
        (("restarts",), {"restarts"}),
        (("failures", "countedPods"), {"failures", "countedPods"}),
        (("replicaStatuses.Worker.restarts",), {"replicaStatuses.restarts"}),
        (("failures.0.exitCode",), {"failures.exitCode"}),
        (("unheardOf",), set()),
    ],
)
async def test_a_status_that_is_not_stored_whole_is_not_written(lost: tuple[str, ...], fields: set[str]) -> None:
    """An older CustomResourceDefinition makes the API server drop fields it does not know, and answer 200."""

    def prunes(request: Request) -> Response:
        sent = msgspec.json.decode(request.body or b"")
        for path in lost:
            *above, name = path.split(".")
            place = sent["status"]
            for step in above:
                place = place[int(step) if step.isdigit() else step]
            place.pop(name, None)
        return reply({**sent, "metadata": {"resourceVersion": "8"}, "more": 1})

    result = await run(ScriptedTransport().on("PUT", JOB, prunes), work(status=FULL))
    assert result.status_version == (None if fields else "8")
    assert ((isinstance(result.status_error, UnstoredError) and set(result.status_error.fields)) or set()) == fields


TOO_LARGE = {
    "body": refusal(413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728"),
    "etcd": refusal(500, "", "etcdserver: request is too large"),
    "client of etcd": refusal(500, "", "rpc error: code = ResourceExhausted desc = trying to send message larger than max"),
    "validation": refusal(422, "Invalid", "metadata: Too long: the object is too large"),
}


@pytest.mark.parametrize("case", TOO_LARGE)
@pytest.mark.parametrize("fits", [True, False], ids=["a shorter one fits", "nothing fits"])
async def test_a_status_that_is_too_large_is_sent_without_failures(case: str, fits: bool) -> None:
    def limited(request: Request) -> Response:
        return echo(request) if fits and "failures" not in body(request)["status"] else TOO_LARGE[case]

    transport, doing = ScriptedTransport().on("PUT", JOB, limited), work(status=FULL)
    result = await run(transport, doing)
    assert (result.status_version, result.shortened) == ("8" if fits else None, True)
    short = body(transport.sent[-1])["status"]
    assert short == {key: value for key, value in FULL.to_json().items() if key != "failures"}, "no record is lost"
    (event,) = telemetry(TESTJOB, doing, result, said := {}, 0.0).events
    assert (event.type, event.reason) == ("Warning", "StatusTooLarge")
    assert ("omits failures" if fits else "cannot be stored") in event.message
    assert telemetry(TESTJOB, doing, result, said, 0.0).events == (), "said once"


async def test_a_status_that_is_refused() -> None:
    transport = ScriptedTransport().on("PUT", JOB, refusal(409, "Conflict"))
    result = await run(transport, work(status=STATUS))
    assert result.status_version is None
    assert isinstance(result.status_error, StatusError)
    assert len(transport.sent) == 1


@pytest.mark.parametrize(
    ("live", "version"),
    [
        (job_found("8", status=STATUS.to_json()), "8"),
        (job_found("8", status={}), None),
        (job_found("8", uid="new", status=STATUS.to_json()), None),
        (LOST, None),
        (PAGE, None),
    ],
)
@pytest.mark.parametrize("answer", [LOST, PAGE, REDIRECT, NOTHING], ids=["lost", "page", "redirect", "nothing"])
async def test_a_status_whose_response_was_lost_is_read_back(answer: Answer, live: Answer, version: str | None) -> None:
    transport = ScriptedTransport().on("PUT", JOB, answer).on("GET", JOB, live)
    result = await run(transport, work(status=STATUS))
    assert result.status_version == version
    assert (result.status_error is None) == (version is not None)
    assert len(transport.made("PUT")) == 1


def end_of(result: Result) -> str:
    """What became of a plan that asks for a live read."""
    if result.read_error is not None:
        return "unread"
    return "stale" if result.stale else "carried out"


CHECKED = work(CREATE, verify_live=True)
LATE = work(status=STATUS)
WITNESSED = replace(LATE, plan=replace(LATE.plan, must_exist=(("p", "pod-uid"),)))
WORKLOADS = "/apis/kueue.x-k8s.io"


def as_cached(version: str) -> Work:
    """A plan that was made on that version of a workload."""
    return replace(LATE, plan=replace(LATE.plan, as_cached=(Get("kueue.x-k8s.io/v1beta2", "workloads", "w"), version)))


WORKLOAD, OTHER = (reply({"metadata": {"resourceVersion": version}}) for version in "78")
#: what is planned, what is read, what that says, and what becomes of the plan
LIVE: dict[str, tuple[Work, str, Answer, str]] = {
    "the job is as it was": (CHECKED, JOB, job_found(), "carried out"),
    "the job has changed": (CHECKED, JOB, job_found("8"), "stale"),
    "another of that name": (CHECKED, JOB, job_found(uid="new"), "stale"),
    "the job is gone": (CHECKED, JOB, NO_JOB, "stale"),
    "the job is not to be read": (CHECKED, JOB, refusal(500), "unread"),
    "orphans, no such job": (work(RELEASE, orphans_of=UID), JOB, NO_JOB, "carried out"),
    "orphans, a later job of that name": (work(RELEASE, orphans_of=UID), JOB, job_found(uid="new"), "carried out"),
    "orphans, it is there after all": (work(RELEASE, orphans_of=UID), JOB, job_found(), "stale"),
    "orphans, not to be read": (work(RELEASE, orphans_of=UID), JOB, refusal(403), "unread"),
    "orphans, no answer": (work(RELEASE, orphans_of=UID), JOB, LOST, "unread"),
    "orphans, a page": (work(RELEASE, orphans_of=UID), JOB, PAGE, "unread"),
    "a failure, its pod is there": (WITNESSED, f"{POD}/p", found(), "carried out"),
    "a failure, another pod of that name": (WITNESSED, f"{POD}/p", found(uid="another"), "stale"),
    "a failure, the pod is gone": (WITNESSED, f"{POD}/p", NO_JOB, "stale"),
    "a failure, no telling": (WITNESSED, f"{POD}/p", LOST, "unread"),
    "a workload, unchanged": (as_cached("7"), WORKLOADS, WORKLOAD, "carried out"),
    "a workload, changed": (as_cached("7"), WORKLOADS, OTHER, "stale"),
    "a workload, gone": (as_cached("7"), WORKLOADS, NO_JOB, "stale"),
    "a workload, still absent": (as_cached(""), WORKLOADS, NO_JOB, "carried out"),
    "a workload, there by now": (as_cached(""), WORKLOADS, OTHER, "stale"),
    "a workload, no telling": (as_cached(""), WORKLOADS, LOST, "unread"),
}


@pytest.mark.parametrize("case", LIVE)
async def test_a_plan_is_carried_out_only_if_a_live_read_shows_what_it_rests_on(case: str) -> None:
    planned, path, live, end = LIVE[case]
    transport = ScriptedTransport().on("GET", path, live).on("PUT", JOB, echo)
    transport.on("POST", "/", reply()).on("PATCH", "/", reply())
    result = await run(transport, planned)
    assert end_of(result) == end
    assert len([request for request in transport.sent if request.method != "GET"]) == (end == "carried out")


def pods(number: int, kind: str = "worker") -> list[Create]:
    return [a_pod(f"{kind}-{i}", kind) for i in range(number)]


async def test_the_number_of_pods_under_way_doubles_with_each_round_trip() -> None:
    at_once: list[int] = []
    transport = ScriptedTransport()

    def answer(request: Request) -> Response:
        at_once.append(transport.under_way + 1)
        return reply({"metadata": {"resourceVersion": "9"}}, 201)

    transport.on("POST", POD, answer)
    result = await run(transport, work(*pods(30)), slow_start_cap=8)
    assert [o.effect for o in result.outcomes] == [Effect.APPLIED] * 30
    # The first answer finds one under way, the second one of two, the fourth one of four: n answers allow n + 1.
    assert all(under_way <= min(number + 1, 8) for number, under_way in enumerate(at_once))
    assert at_once[0] == 1
    assert transport.most_under_way == 8


DOOMED: dict[str, tuple[int, int]] = {"the first": (0, 1), "the second": (1, 3), "the fourth": (3, 6)}


@pytest.mark.parametrize("case", DOOMED)
async def test_the_first_error_ends_the_creation_of_a_type(case: str) -> None:
    good, tried = DOOMED[case]
    transport = ScriptedTransport().on("PUT", JOB, echo)
    fine = {f"worker-{i}" for i in range(good)}
    transport.on("POST", POD, lambda r: reply({}, 201) if body(r)["metadata"]["name"] in fine else refusal(403))
    result = await run(transport, work(*pods(9), status=STATUS), slow_start_cap=4)
    assert len(transport.made("POST")) == tried
    assert [o.effect for o in result.outcomes].count(Effect.SKIPPED) == 9 - tried


async def test_a_type_does_not_wait_for_another_that_fails() -> None:
    transport = ScriptedTransport().on(
        "POST", POD, lambda r: refusal(403) if body(r)["metadata"]["name"].startswith("ps") else reply({}, 201)
    )
    result = await run(transport, work(*pods(4, "ps"), *pods(4)))
    effects = [o.effect for o in result.outcomes]
    assert effects == [Effect.REFUSED, *[Effect.SKIPPED] * 3, *[Effect.APPLIED] * 4]


BESIDE: dict[str, tuple[Action, ...]] = {
    "deletions": tuple(replace(DELETE, name=name) for name in ("bad", "slow")),
    "other objects": tuple(replace(SERVICE, name=n, content={"metadata": {"name": n}}) for n in ("bad", "slow")),
    "pods of two types": (a_pod("bad", "ps"), a_pod("slow", "worker")),
    "pods of one type": (a_pod("first"), a_pod("slow"), a_pod("bad"), a_pod("last")),
    "finalizers": tuple(replace(RELEASE, name=name) for name in ("bad", "slow")),
}


@pytest.mark.parametrize("case", BESIDE)
async def test_an_unexpected_exception_leaves_no_write_in_flight(case: str) -> None:
    transport, answer, answered = ScriptedTransport(), asyncio.Event(), list[str]()

    async def send(request: Request) -> Response:
        name = body(request)["metadata"]["name"] if request.method == "POST" else request.path.rpartition("/")[2]
        if name == "bad":
            raise RuntimeError("a bug")
        if name == "slow":
            await answer.wait()
        answered.append(name)
        return reply({}, 201)

    transport.send = send  # type: ignore[method-assign]
    running = asyncio.create_task(run(transport, work(*BESIDE[case])))
    await turns()
    assert not running.done()
    answer.set()
    with pytest.raises(RuntimeError, match="a bug"):
        await running
    assert answered == ["first", "slow"][case != "pods of one type" :]


TAKEN_NAME: dict[str, tuple[Answer, int]] = {"job unchanged": (job_found(), 4), "job changed": (job_found("8"), 1)}


@pytest.mark.parametrize("case", TAKEN_NAME)
async def test_after_a_taken_name_the_others_are_created_if_the_job_is_unchanged(case: str) -> None:
    live, created = TAKEN_NAME[case]
    transport = ScriptedTransport().on("GET", POD, found(owner="other")).on("GET", JOB, live)
    transport.on("POST", POD, lambda r: EXISTS if body(r)["metadata"]["name"] == "worker-0" else reply({}, 201))
    result = await run(transport, work(*pods(4)))
    assert len(transport.made("POST")) == created
    assert result.outcomes[0].effect is Effect.NAME_CONFLICT


class StoodStill(SystemClock):
    """A clock that jumps ahead by so much when it is read the second time."""

    def __init__(self, seconds: float) -> None:
        self.now, self.seconds = 0.0, seconds

    def monotonic(self) -> float:
        """See `Clock.monotonic`."""
        self.now, before = self.seconds, self.now
        return before


STANDSTILL: dict[str, tuple[float, Answer, int, int]] = {
    # how long it stood still, the job after that, the live reads of the job, and the pods created
    "for a moment": (1.0, job_found("8"), 0, 4),
    "for long, nothing has happened": (RECHECK_SECONDS, job_found(), 1, 4),
    "for long, and the job has changed": (RECHECK_SECONDS, job_found("8"), 1, 0),
    "for long, and the job is gone": (RECHECK_SECONDS, NO_JOB, 1, 0),
}


@pytest.mark.parametrize("first", [a_pod("worker-3"), SERVICE], ids=["a pod", "a service"])
@pytest.mark.parametrize("case", STANDSTILL)
async def test_a_process_that_was_suspended_reads_the_job_before_it_creates(case: str, first: Create) -> None:
    seconds, live, looks, created = STANDSTILL[case]
    transport = ScriptedTransport().on("GET", JOB, live).on("POST", "/", reply({}, 201))
    result = await run(transport, work(first, *pods(3)), clock=StoodStill(seconds))
    assert len(transport.made("GET")) == looks
    assert len(transport.made("POST")) == created
    assert [o.effect for o in result.outcomes].count(Effect.SKIPPED) == 4 - created


async def test_the_lease_is_asked_before_each_write() -> None:
    transport = ScriptedTransport().on("POST", POD, reply({}, 201))
    answers = iter((True, True))
    result = await run(FencedTransport(transport, lambda: next(answers, False)), work(*pods(7), status=STATUS))
    assert len(transport.made("POST")) == 2
    assert result.status_error is not None


async def test_a_release_goes_before_the_deletion_of_the_same_pod() -> None:
    transport = ScriptedTransport().on("PATCH", "/", reply()).on("DELETE", "/", reply())
    release = replace(RELEASE, awaited=True)
    result = await run(transport, work(DELETE, release))
    assert [r.method for r in transport.sent] == ["PATCH", "DELETE"]
    assert [o.action for o in result.outcomes] == [DELETE, release]


@pytest.mark.parametrize("urgency", Urgency)
async def test_the_end_of_a_big_job_does_not_wait_behind_the_pods_of_others(urgency: Urgency) -> None:
    transport, flow_controller = ScriptedTransport().on("PUT", "/", echo), FlowController(SHARE + 1)
    async with (
        flow_controller.seat("others", level=PriorityLevel.BULK),
        flow_controller.seat("x", level=PriorityLevel.BACKGROUND),
    ):
        executor = Executor(TESTJOB, transport, flow_controller)
        running = asyncio.create_task(executor.execute(work(status=STATUS, urgency=urgency)))
        await turns()
        assert len(transport.sent) == (urgency is not Urgency.COUNTS)
    assert (await running).status_error is None


async def test_finalizers_are_removed_last_and_in_the_background() -> None:
    transport = ScriptedTransport().on("PATCH", "/", reply()).on("PUT", "/", echo)
    flow_controller = FlowController(SHARE + 1)
    async with flow_controller.seat("x", level=PriorityLevel.BACKGROUND):
        executor = Executor(TESTJOB, transport, flow_controller)
        running = asyncio.create_task(executor.execute(work(RELEASE, status=STATUS)))
        await turns()
        assert [request.method for request in transport.sent] == ["PUT"]
    result = await running
    assert [request.method for request in transport.sent] == ["PUT", "PATCH"]
    assert [outcome.effect for outcome in result.outcomes] == [Effect.APPLIED]


@pytest.mark.parametrize(("count", "first"), [(BULK_ACTIONS, "big"), (BULK_ACTIONS + 1, "small")])
async def test_a_job_that_wants_much_lets_others_pass(count: int, first: str) -> None:
    transport, flow_controller = ScriptedTransport().on("POST", "/", reply({}, 201)), FlowController(1)
    async with flow_controller.seat("others"):
        big = Executor(TESTJOB, transport, flow_controller).execute(work(*(a_pod(f"big-{i}", "Worker") for i in range(count))))
        small = Executor(TESTJOB, transport, flow_controller).execute(replace(work(a_pod("small-0", "Worker")), uid="another"))
        running = [asyncio.create_task(big), asyncio.create_task(small)]
        await turns()
    await asyncio.gather(*running)
    names = [
        msgspec.json.decode(request.body or b"{}")["metadata"]["name"] for request in transport.sent if request.method == "POST"
    ]
    assert names[0].startswith(first)
    assert len(names) == count + 1


def test_a_pod_that_cannot_be_made_is_refused_and_nothing_is_sent_for_it() -> None:
    def make() -> dict[str, Any]:
        raise KeyError("no such port")

    transport = ScriptedTransport().on("POST", "", found())
    broken = Create("v1", "pods", "p-1", make, replica_type="Worker")
    actions = (a_pod("p-0", "Worker"), broken, a_pod("p-2", "Worker"), a_pod("other", "Master"))
    result = asyncio.run(Executor(TESTJOB, transport, FlowController(9)).execute(work(*actions)))
    effects = {outcome.action.name: outcome.effect for outcome in result.outcomes if isinstance(outcome.action, Create)}
    assert effects == {"p-0": Effect.APPLIED, "p-1": Effect.REFUSED, "p-2": Effect.SKIPPED, "other": Effect.APPLIED}
    assert str(result.outcomes[1].error) == "KeyError: 'no such port'"


# -- what pods need beside them: created first, and no pods without it ---------------------------------------------------------

SECRETS = "/api/v1/namespaces/default/secrets"
SECRET = Create("v1", "secrets", "train-ssh", {"metadata": {"name": "train-ssh"}, "type": "kubernetes.io/ssh-auth"})


STRANGERS, OURS = found(owner="other"), found()


@pytest.mark.parametrize(
    ("answer", "there", "required", "pod"),
    [
        pytest.param(reply({}, 201), OURS, True, Effect.APPLIED, id="created"),
        pytest.param(refusal(409, "AlreadyExists"), OURS, True, Effect.APPLIED, id="there already"),
        pytest.param(refusal(409, "AlreadyExists"), STRANGERS, True, Effect.SKIPPED, id="another owner's"),
        pytest.param(refusal(403, "Forbidden"), OURS, True, Effect.SKIPPED, id="refused"),
        pytest.param(refusal(403, "Forbidden"), OURS, False, Effect.APPLIED, id="refused, not required"),
    ],
)
async def test_no_pods_without_what_they_need(answer: Response, there: Response, required: bool, pod: Effect) -> None:
    transport = ScriptedTransport().on("POST", SECRETS, answer).on("GET", SECRETS, there).on("POST", POD, reply({}, 201))
    result = await run(transport, work(replace(SECRET, required=required), CREATE))
    assert result.outcomes[1].effect is pod
    assert any(request.path == POD for request in transport.made("POST")) == (pod is Effect.APPLIED)


_RBAC = "rbac.authorization.k8s.io/v1"
ROLES, BINDINGS = (f"/apis/{_RBAC}/namespaces/default/{plural}" for plural in ("roles", "rolebindings"))
ROLE = Create(_RBAC, "roles", "train-ssh", {"metadata": {"name": "train-ssh"}, "rules": []})
BINDING = Create(_RBAC, "rolebindings", "train-ssh", {"metadata": {"name": "train-ssh"}}, after=("roles", "train-ssh"))
LOOK = Get(_RBAC, "roles", "train-ssh", known=True)


@pytest.mark.parametrize(
    ("role", "answer", "there", "binding"),
    [
        pytest.param(ROLE, reply({}, 201), OURS, Effect.APPLIED, id="created"),
        pytest.param(ROLE, refusal(409, "AlreadyExists"), OURS, Effect.APPLIED, id="there already"),
        pytest.param(ROLE, refusal(409, "AlreadyExists"), STRANGERS, Effect.SKIPPED, id="another's"),
        pytest.param(LOOK, reply({}, 201), STRANGERS, Effect.SKIPPED, id="another's by now"),
        pytest.param(None, reply({}, 201), STRANGERS, Effect.APPLIED, id="known to be there"),
    ],
)
async def test_rights_are_bound_only_when_they_are_the_jobs_own(
    role: Action | None, answer: Response, there: Response, binding: Effect
) -> None:
    """A Role of that name that another client made may allow anything."""
    transport = ScriptedTransport().on("POST", ROLES, answer).on("GET", ROLES, there).on("POST", BINDINGS, reply({}, 201))
    transport.on("POST", POD, reply({}, 201))
    result = await run(transport, work(*([BINDING, role] if role is not None else [BINDING]), CREATE))
    assert result.outcomes[0].effect is binding
    assert [request.path for request in transport.made("POST")].count(BINDINGS) == (binding is Effect.APPLIED)
