"""The conformance table of the API server: one test per row (measured on Kubernetes 1.36.2)."""

from collections.abc import Callable
from typing import Any

import pytest

from localcluster.request import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from localcluster.timestamps import format_time
from tests.server.api import CRS, START, Api, cr, crd, pod, service

Json = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
SERVICES = "/api/v1/namespaces/default/services"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def api() -> Api:
    api = Api()
    api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd())
    return api


@pytest.mark.parametrize(("path", "make"), [(PODS, pod), (SERVICES, service), (CRS, cr)])
def test_create_of_an_existing_name(api: Api, path: str, make: Callable[..., Json]) -> None:
    assert api.post(path, make("a")).code == 201
    again = api.post(path, make("a"))
    assert (again.code, again.reason) == (409, "AlreadyExists")
    assert again.message.endswith('"a" already exists')


def test_create_while_the_old_object_is_terminating(api: Api) -> None:
    api.post(PODS, pod("a", finalizers=["ex.com/hold"]))
    api.delete(f"{PODS}/a")
    answer = api.post(PODS, pod("a"))
    assert (answer.code, answer.reason) == (409, "AlreadyExists")
    assert answer.message == 'object is being deleted: pods "a" already exists'


@pytest.mark.parametrize(("path", "make"), [(PODS, pod), (SERVICES, service), (CRS, cr)])
@pytest.mark.parametrize("precondition", [{"uid": "wrong"}, {"resourceVersion": "1"}])
def test_delete_with_a_wrong_precondition(api: Api, path: str, make: Callable[..., Json], precondition: Json) -> None:
    api.post(path, make("a"))
    answer = api.delete(f"{path}/a", {"preconditions": precondition})
    assert (answer.code, answer.reason) == (409, "Conflict")
    assert "Precondition failed" in answer.message
    assert api.get(f"{path}/a").code == 200


def test_delete_of_a_missing_object(api: Api) -> None:
    answer = api.delete(f"{PODS}/a")
    assert (answer.code, answer.reason) == (404, "NotFound")
    assert answer.message == 'pods "a" not found'
    assert answer.body["details"] == {"name": "a", "kind": "pods"}


def test_delete_of_an_unscheduled_pod(api: Api) -> None:
    api.post(PODS, pod("a"))
    watch = api.watch(PODS)
    answer = api.delete(f"{PODS}/a")
    assert answer.code == 200
    events = watch.events()
    assert [event["type"] for event in events] == ["MODIFIED", "DELETED"]
    assert answer.rv == events[1]["object"]["metadata"]["resourceVersion"]


@pytest.mark.parametrize(("phase", "gone"), [("Running", False), ("Succeeded", True), ("Failed", True)])
def test_delete_of_a_scheduled_pod(api: Api, phase: str, gone: bool) -> None:
    api.post(PODS, pod("a"))
    api.bind("a")
    api.patch(f"{PODS}/a/status", {"status": {"phase": phase}})
    meta = api.delete(f"{PODS}/a").body["metadata"]
    assert meta["deletionGracePeriodSeconds"] == (0 if gone else 30)
    assert api.get(f"{PODS}/a").code == (404 if gone else 200)


def test_a_second_deletion_may_shorten_the_grace_period_only(api: Api) -> None:
    api.post(PODS, pod("a"))
    api.bind("a")
    first = api.delete(f"{PODS}/a")
    assert api.delete(f"{PODS}/a", {"gracePeriodSeconds": 60}).rv == first.rv
    shorter = api.delete(f"{PODS}/a", {"gracePeriodSeconds": 5})
    assert shorter.body["metadata"]["deletionGracePeriodSeconds"] == 5
    assert api.delete(f"{PODS}/a", {"gracePeriodSeconds": 0}).code == 200
    assert api.get(f"{PODS}/a").code == 404


@pytest.mark.parametrize(
    ("passed", "asked", "ends", "grace"),
    [(5, 0, 5, 0), (5, 3, 5, 1), (5, 5, 5, 5), (5, 7, 7, 7), (5, -1, 5, 1), (40, 0, 40, 0), (0.5, 0, 0, 0)],
)
def test_a_second_deletion_never_moves_the_time_into_the_past(
    api: Api, passed: float, asked: int, ends: int, grace: int
) -> None:
    api.post(PODS, pod("a", finalizers=["ex.com/hold"]))
    api.bind("a")
    api.delete(f"{PODS}/a")
    api.now += passed
    meta = api.delete(f"{PODS}/a", {"gracePeriodSeconds": asked}).body["metadata"]
    assert (meta["deletionTimestamp"], meta["deletionGracePeriodSeconds"]) == (format_time(START + ends), grace)


@pytest.mark.parametrize(
    ("path", "make"), [(PODS, pod), (CONFIG_MAPS, lambda name, **meta: {"metadata": {"name": name, **meta}}), (CRS, cr)]
)
def test_delete_with_a_finalizer(api: Api, path: str, make: Callable[..., Json]) -> None:
    api.post(path, make("a", finalizers=["ex.com/hold"]))
    first, second = api.delete(f"{path}/a"), api.delete(f"{path}/a")
    assert (first.code, second.code) == (200, 200)
    assert first.body["kind"] != "Status"
    assert first.rv == second.rv
    assert "deletionTimestamp" in first.body["metadata"]


def test_removing_the_last_finalizer_of_a_deleting_object(api: Api) -> None:
    api.post(CRS, cr("a", finalizers=["ex.com/hold"]))
    deleting = api.delete(f"{CRS}/a")
    watch = api.watch(CRS)
    answer = api.patch(f"{CRS}/a", {"metadata": {"finalizers": None}})
    assert answer.code == 200
    (event,) = watch.events()
    assert event["type"] == "DELETED"
    assert answer.rv == deleting.rv
    assert int(event["object"]["metadata"]["resourceVersion"]) > int(answer.rv)


def test_no_new_finalizer_while_deleting(api: Api) -> None:
    api.post(CRS, cr("a", finalizers=["ex.com/hold"]))
    api.delete(f"{CRS}/a")
    answer = api.patch(f"{CRS}/a", {"metadata": {"finalizers": ["ex.com/hold", "ex.com/more"]}})
    assert (answer.code, answer.causes) == (422, ["metadata.finalizers"])


def test_delete_of_a_custom_object_answers_with_a_status(api: Api) -> None:
    uid = api.post(CRS, cr("a")).body["metadata"]["uid"]
    answer = api.delete(f"{CRS}/a")
    assert (answer.code, answer.body["kind"], answer.body["status"]) == (200, "Status", "Success")
    assert answer.body["details"] == {"name": "a", "group": "ex.com", "kind": "foos", "uid": uid}


@pytest.mark.parametrize(
    ("path", "obj"),
    [
        (PODS, pod("a", spec={"serviceAccountName": "default"})),
        (SERVICES, service("a")),
        (CONFIG_MAPS, {"metadata": {"name": "a"}}),
        ("/api/v1/namespaces/default/secrets", {"metadata": {"name": "a"}}),
    ],
)
def test_put_without_a_version_overwrites_core_kinds(api: Api, path: str, obj: Json) -> None:
    api.post(path, obj)
    labelled = {**obj, "metadata": {"name": "a", "labels": {"x": "1"}}}
    answer = api.put(f"{path}/a", labelled)
    assert answer.code == 200
    assert answer.body["metadata"]["labels"] == {"x": "1"}


def test_put_of_a_custom_object_without_a_version(api: Api) -> None:
    api.post(CRS, cr("a"))
    answer = api.put(f"{CRS}/a", cr("a"))
    assert (answer.code, answer.causes) == (422, ["metadata.resourceVersion"])
    assert "must be specified for an update" in answer.message


@pytest.mark.parametrize(("path", "make"), [(PODS, pod), (SERVICES, service), (CRS, cr)])
def test_put_with_a_stale_version(api: Api, path: str, make: Callable[..., Json]) -> None:
    old = api.post(path, make("a")).body
    api.patch(f"{path}/a", {"metadata": {"labels": {"x": "1"}}})
    answer = api.put(f"{path}/a", old)
    assert (answer.code, answer.reason) == (409, "Conflict")
    assert answer.message.endswith(
        "the object has been modified; please apply your changes to the latest version and try again"
    )


def test_wrong_uid_and_version_in_writes(api: Api) -> None:
    obj = api.post(PODS, pod("a")).body
    put = api.put(f"{PODS}/a", {**obj, "metadata": {**obj["metadata"], "uid": "wrong"}})
    assert (put.code, put.reason) == (409, "Conflict")
    patched = api.patch(f"{PODS}/a", {"metadata": {"uid": "wrong"}})
    assert (patched.code, patched.causes) == (422, ["metadata.uid"])
    assert "field is immutable" in patched.message
    stale = api.patch(f"{PODS}/a", {"metadata": {"resourceVersion": "1", "labels": {"x": "1"}}})
    assert (stale.code, stale.reason) == (409, "Conflict")


@pytest.mark.parametrize("keep_uid", [True, False])
def test_put_status_of_an_old_incarnation(api: Api, keep_uid: bool) -> None:
    old = api.post(CRS, cr("a")).body
    api.delete(f"{CRS}/a")
    api.post(CRS, cr("a"))
    meta = old["metadata"] if keep_uid else {key: value for key, value in old["metadata"].items() if key != "uid"}
    answer = api.put(f"{CRS}/a/status", {**old, "metadata": meta, "status": {"phase": "x"}})
    assert (answer.code, answer.reason) == (409, "Conflict")


def test_a_wrong_uid_in_a_status_patch_is_not_noticed(api: Api) -> None:
    uid = api.post(CRS, cr("a")).body["metadata"]["uid"]
    merged = api.patch(f"{CRS}/a/status", {"metadata": {"uid": "wrong"}, "status": {"phase": "one"}})
    applied = api.apply(
        f"{CRS}/a/status", {**cr("a"), "metadata": {"name": "a", "uid": "wrong"}, "status": {"phase": "two"}}, force="true"
    )
    assert (merged.code, applied.code) == (200, 200)
    assert (applied.body["status"]["phase"], applied.body["metadata"]["uid"]) == ("two", uid)


def test_json_patch_test_of_a_wrong_uid(api: Api) -> None:
    api.post(PODS, pod("a"))
    operations = [
        {"op": "test", "path": "/metadata/uid", "value": "wrong"},
        {"op": "add", "path": "/metadata/labels", "value": {}},
    ]
    assert api.patch(f"{PODS}/a", operations, JSON_PATCH).code == 422


def test_apply_to_a_missing_custom_object(api: Api) -> None:
    with_uid = {**cr("a"), "metadata": {"name": "a", "uid": "some"}}
    assert api.apply(f"{CRS}/a", with_uid).code == 409
    assert api.apply(f"{CRS}/a/status", {**cr("a"), "status": {"phase": "x"}}).code == 404
    assert api.apply(f"{CRS}/a", cr("a")).code == 201


def test_a_status_write_that_changes_nothing(api: Api) -> None:
    api.post(CRS, cr("a"))
    first = api.patch(f"{CRS}/a/status", {"status": {"phase": "x"}})
    watch = api.watch(CRS)
    again = api.put(f"{CRS}/a/status", first.body)
    assert (again.code, again.rv) == (200, first.rv)
    assert watch.events() == []


def test_status_and_spec_are_separate(api: Api) -> None:
    created = api.post(CRS, {**cr("a"), "status": {"phase": "x"}})
    assert "status" not in created.body
    changed = {**created.body, "spec": {"replicas": 9}, "status": {"phase": "y"}}
    answer = api.put(f"{CRS}/a/status", changed)
    assert answer.body["spec"] == created.body["spec"]
    assert answer.body["status"] == {"phase": "y"}
    assert answer.body["metadata"]["generation"] == 1
    spec = api.put(f"{CRS}/a", {**answer.body, "spec": {"replicas": 9}, "status": {"phase": "z"}})
    assert (spec.body["status"], spec.body["metadata"]["generation"]) == ({"phase": "y"}, 2)


INVALID: dict[str, tuple[str, Json, list[str]]] = {
    "label value of 64": (PODS, pod("a", labels={"x": "v" * 64}), ["metadata.labels"]),
    "service name of 64": (SERVICES, service("s" * 64), ["metadata.name", "spec.selector"]),
    "service name starting with a digit": (SERVICES, service("1s"), ["metadata.name"]),
    "hostname of 64": (PODS, pod("a", spec={"hostname": "h" * 64}), ["spec.hostname"]),
    "subdomain with an underscore": (PODS, pod("a", spec={"subdomain": "a_b"}), ["spec.subdomain"]),
    "pod name of 254": (PODS, pod("p" * 254), ["metadata.name"]),
    "annotations of 300 KiB": (CRS, cr("a", annotations={"x": "v" * 300 * 1024}), ["metadata.annotations"]),
    "two controllers": (
        PODS,
        pod(
            "a",
            ownerReferences=[
                {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": name, "controller": True} for name in "bc"
            ],
        ),
        ["metadata.ownerReferences"],
    ),
    "env name with =": (PODS, pod("a", container={"env": [{"name": "A=B", "value": "1"}]}), ["spec.containers[0].env[0].name"]),
    "duplicate volume": (
        PODS,
        pod("a", spec={"volumes": [{"name": "v", "emptyDir": {}}, {"name": "v", "emptyDir": {}}]}),
        ["spec.volumes[1].name"],
    ),
    "duplicate container": (
        PODS,
        pod("a", spec={"containers": [{"name": "c", "image": "i"}, {"name": "c", "image": "i"}]}),
        ["spec.containers[1].name"],
    ),
    "no containers": (PODS, pod("a", spec={"containers": []}), ["spec.containers"]),
    "unnamed ports": (SERVICES, service("a", ports=[{"port": 1}, {"port": 2}]), ["spec.ports[0].name", "spec.ports[1].name"]),
    "duplicate ports": (
        SERVICES,
        service("a", ports=[{"name": "a", "port": 1}, {"name": "b", "port": 1}]),
        ["spec.ports[1]"],
    ),
    "no image": (PODS, pod("a", container={"image": ""}), ["spec.containers[0].image"]),
    "unknown mount": (
        PODS,
        pod("a", container={"volumeMounts": [{"name": "x", "mountPath": "/x"}]}),
        ["spec.containers[0].volumeMounts[0].name"],
    ),
    "restart policy": (PODS, pod("a", spec={"restartPolicy": "Sometimes"}), ["spec.restartPolicy"]),
    "request over limit": (
        PODS,
        pod("a", container={"resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}}),
        ["spec.containers[0].resources.requests"],
    ),
    "port 70000": (
        PODS,
        pod("a", container={"ports": [{"containerPort": 70000}]}),
        ["spec.containers[0].ports[0].containerPort"],
    ),
    "no name": (PODS, {"spec": {"containers": [{"name": "c", "image": "i"}]}}, ["metadata.name"]),
    "schema of a custom object": (CRS, cr("a", spec={"replicas": -1}), ["spec.replicas", ".spec.replicas"]),
}


@pytest.mark.parametrize("name", INVALID)
def test_invalid(api: Api, name: str) -> None:
    path, obj, fields = INVALID[name]
    answer = api.post(path, obj)
    assert (answer.code, answer.reason, answer.causes) == (422, "Invalid", fields)
    assert all(field in answer.message for field in fields)


VALID: dict[str, tuple[str, Json]] = {
    "pod name of 64": (PODS, pod("p" * 64)),
    "owner that does not exist": (
        PODS,
        pod("a", ownerReferences=[{"apiVersion": "v1", "kind": "Pod", "name": "b", "uid": "b"}]),
    ),
    "duplicate env": (PODS, pod("a", container={"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]})),
    "headless service without ports": (
        SERVICES,
        {"metadata": {"name": "a"}, "spec": {"clusterIP": "None", "selector": {"a": "b"}}},
    ),
}


@pytest.mark.parametrize("name", VALID)
def test_valid(api: Api, name: str) -> None:
    path, obj = VALID[name]
    assert api.post(path, obj).code == 201


def test_two_controllers_by_patch(api: Api) -> None:
    api.post(PODS, pod("a"))
    owners = [{"apiVersion": "v1", "kind": "Pod", "name": name, "uid": name, "controller": True} for name in "bc"]
    answer = api.patch(f"{PODS}/a", {"metadata": {"ownerReferences": owners}})
    assert (answer.code, answer.causes) == (422, ["metadata.ownerReferences"])


def test_missing_and_terminating_namespace(api: Api) -> None:
    missing = api.post("/api/v1/namespaces/none/pods", pod("a"))
    assert (missing.code, missing.message) == (404, 'namespaces "none" not found')
    api.post("/api/v1/namespaces", {"metadata": {"name": "leaving"}})
    api.delete("/api/v1/namespaces/leaving")
    leaving = api.post("/api/v1/namespaces/leaving/pods", pod("a"))
    assert (leaving.code, leaving.reason) == (403, "Forbidden")
    assert [cause["reason"] for cause in leaving.body["details"]["causes"]] == ["NamespaceTerminating"]


def test_over_quota(api: Api) -> None:
    api.post("/api/v1/namespaces/default/resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}})
    assert api.post(PODS, pod("a")).code == 201
    answer = api.post(PODS, pod("b"))
    assert (answer.code, answer.reason) == (403, "Forbidden")
    assert answer.message == 'pods "b" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1'
    api.patch(f"{PODS}/a/status", {"status": {"phase": "Succeeded"}})
    assert api.post(PODS, pod("b")).code == 201


@pytest.mark.parametrize(("size", "code", "reason"), [(1_700_000, 500, ""), (3_300_000, 413, "RequestEntityTooLarge")])
def test_too_large(api: Api, size: int, code: int, reason: str) -> None:
    answer = api.post(CRS, cr("a", spec={"text": "x" * size}))
    assert (answer.code, answer.reason) == (code, reason)
    if code == 500:
        assert answer.message == "etcdserver: request is too large"


def test_a_version_from_the_future(api: Api) -> None:
    api.post(PODS, pod("a"))
    for path in (PODS, f"{PODS}/a"):
        answer = api.get(path, resourceVersion="999999")
        assert (answer.code, answer.headers["Retry-After"]) == (504, "1")
        assert [cause["reason"] for cause in answer.body["details"]["causes"]] == ["ResourceVersionTooLarge"]
    assert api.watch(PODS, resourceVersion="999999").events() == []


def test_old_versions(api: Api) -> None:
    first = api.post(PODS, pod("a")).rv
    last = api.post(PODS, pod("b")).rv
    exact = api.get(PODS, resourceVersion=first, resourceVersionMatch="Exact")
    assert [item["metadata"]["name"] for item in exact.body["items"]] == ["a"]
    api.server.storage.compact(int(last))
    assert api.get(PODS, resourceVersion=first, resourceVersionMatch="NotOlderThan").code == 200
    compacted = api.get(PODS, resourceVersion=first, resourceVersionMatch="Exact")
    assert (compacted.code, compacted.reason) == (410, "Expired")
    (event,) = api.watch(PODS, resourceVersion=first).events()
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")


def test_bad_token(api: Api) -> None:
    answer = api.send("GET", PODS, headers={"authorization": "Bearer wrong"}, user=None)
    assert (answer.code, answer.reason) == (401, "Unauthorized")


def test_patch_types(api: Api) -> None:
    api.post(PODS, pod("a"))
    api.post(CRS, cr("a"))
    body = {"metadata": {"labels": {"x": "1"}}}
    assert api.patch(f"{PODS}/a", body, STRATEGIC_PATCH).body["metadata"]["labels"] == {"x": "1"}
    assert api.patch(f"{PODS}/a", body, MERGE_PATCH).code == 200
    assert api.patch(f"{CRS}/a", body, STRATEGIC_PATCH).code == 415
    assert api.patch(f"{PODS}/a", body, "text/plain").code == 415
    assert api.send("PATCH", f"{PODS}/a", b"{", content_type=MERGE_PATCH).code == 400
    assert api.send("PATCH", f"{PODS}/a", b"{}", content_type=APPLY_PATCH).causes == ["fieldManager"]
