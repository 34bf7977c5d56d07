"""Creates, updates, patches and deletions beyond the conformance table."""

import base64
from typing import Any

import pytest

from localcluster.request import APPLY_PATCH, JSON_PATCH
from tests.server.api import CRS, Api, cr, crd, pod, service

PODS = "/api/v1/namespaces/default/pods"
SECRETS = "/api/v1/namespaces/default/secrets"


@pytest.fixture
def api() -> Api:
    api = Api()
    api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd())
    return api


def test_a_generated_name_avoids_taken_ones(api: Api) -> None:
    def generated() -> str:
        api.server.env.random.seed(7)
        answer = api.post(PODS, {**pod(""), "metadata": {"generateName": "job-"}})
        assert answer.code == 201
        return str(answer.body["metadata"]["name"])

    first = generated()
    assert generated() != first


BAD_BODIES: dict[str, tuple[Any, int, str]] = {
    "not json": (b"{", 400, "couldn't parse it"),
    "a list": (b"[]", 400, "not a JSON object"),
    "another kind": ({**pod("a"), "kind": "Service"}, 400, "cannot be handled as a Pod"),
    "another version": ({**pod("a"), "apiVersion": "v2"}, 400, "does not match the expected API version (v1)"),
    "another namespace": (pod("a", namespace="other"), 400, "does not match the namespace sent on the request"),
    "a string for a list": ({"metadata": {"name": "a"}, "spec": {"containers": "x"}}, 400,
        "cannot unmarshal string into Go struct field"),
    "a number for a string": (pod("a", labels={"x": 1}), 400,
        "cannot unmarshal number into Go struct field metadata.labels.x of type string"),
    "a time that is none": ({"metadata": {"name": "a"}, "spec": pod("a")["spec"], "status": {"startTime": "soon"}}, 400,
        'parsing time "soon" at status.startTime'),
    "metadata as a list": ({"metadata": []}, 400, "metadata: it must be an object"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_BODIES)
def test_bad_bodies(api: Api, name: str) -> None:
    body, code, message = BAD_BODIES[name]
    answer = api.send("POST", PODS, body)
    assert (answer.code, answer.reason) == (code, "BadRequest")
    assert message in answer.message


def test_the_patched_object_is_not_the_stored_one(api: Api) -> None:
    api.post(CRS, cr("a", labels={"x": "1"}))
    before = api.server.storage.table("foos.ex.com").get("default", "a")
    api.patch(f"{CRS}/a", [{"op": "replace", "path": "/metadata/labels/x", "value": "2"}], JSON_PATCH)
    api.patch(f"{CRS}/a", {"spec": {"unknown": 1, "replicas": 5}})
    assert before is not None
    assert before.obj["metadata"]["labels"] == {"x": "1"}
    assert before.obj["spec"] == {"replicas": 1}


def test_secrets(api: Api) -> None:
    obj = api.post(SECRETS, {"metadata": {"name": "a"}, "stringData": {"x": "1"}}).body
    assert (obj["type"], base64.b64decode(obj["data"]["x"]), "stringData" in obj) == ("Opaque", b"1", False)
    bad = api.post(SECRETS, {"metadata": {"name": "b"}, "data": {"x": "not base64!"}})
    assert (bad.code, "illegal base64 data" in bad.message) == (400, True)
    assert "not base64!" not in bad.message
    assert api.patch(f"{SECRETS}/a", {"type": "other"}).causes == ["type"]


def test_a_definition_is_served_when_its_create_returns(api: Api) -> None:
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/foos.ex.com"
    status = api.get(path).body["status"]
    assert {one["type"]: one["status"] for one in status["conditions"]} == {"NamesAccepted": "True", "Established": "True"}
    assert status["storedVersions"] == ["v1"]
    api.post(CRS, cr("a"))
    spec = api.get(path).body["spec"]
    spec["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["extra"] = {"type": "string"}
    api.patch(path, {"spec": spec})
    assert api.patch(f"{CRS}/a", {"spec": {"extra": "x"}}).body["spec"]["extra"] == "x"


def test_server_side_apply(api: Api) -> None:
    """It makes the object, or merges into it as a forced apply does: another manager's fields are no conflict, and stay."""
    path = "/api/v1/namespaces/default/services/s"
    config = {"apiVersion": "v1", "kind": "Service", **service("s", ports=[{"port": 80, "name": "web"}])}
    made = api.patch(path, config, APPLY_PATCH, fieldManager="me")
    assert (made.code, api.patch(path, config, APPLY_PATCH, fieldManager="me").rv) == (201, made.rv)
    other = {**config, "spec": {"selector": {"tier": "web"}, "ports": [{"port": 81, "name": "more"}]}}
    changed = api.patch(path, other, APPLY_PATCH, fieldManager="you").body["spec"]
    assert changed["selector"] == {"app": "s", "tier": "web"}
    assert sorted(port["port"] for port in changed["ports"]) == [80, 81]
    job = {**cr("f"), "status": {"phase": "Running"}}
    assert "status" not in api.patch(f"{CRS}/f", job, APPLY_PATCH, fieldManager="me").body
    status = api.patch(f"{CRS}/f/status", {**job, "spec": {"replicas": 9}}, APPLY_PATCH, fieldManager="me").body
    assert (status["spec"]["replicas"], status["status"]) == (1, {"phase": "Running"})
