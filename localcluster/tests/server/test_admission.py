"""Admission webhooks and policies: who is asked about what, and what becomes of the answer."""

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest

from localcluster.apiserver import ADMIN
from localcluster.apiserver.questions import Question, Replies, Reply, UnansweredError
from localcluster.request import MERGE_PATCH, Request
from tests.server.api import CRS, Answer, Api, cr, crd, pod

Json = dict[str, Any]
GROUP = "/apis/admissionregistration.k8s.io/v1"
MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"


class Asking(Api):
    """A server whose webhooks are functions: each is called with the AdmissionRequest, by the path of its URL."""

    def __init__(self) -> None:
        super().__init__()
        self.hooks: dict[str, Callable[[Json], Reply]] = {}
        self.asked: list[Json] = []

    def hook(self, name: str, answer: Callable[[Json], Reply], *, mutating: bool = False, **more: Any) -> None:
        self.hooks[f"/{name}"] = answer
        rule = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}
        entry = {
            "name": f"{name}.example.com.x", "clientConfig": {"url": f"https://127.0.0.1/{name}"}, "rules": [rule],
            "sideEffects": "None", "admissionReviewVersions": ["v1"], **more,
        }  # fmt: skip
        plural = "mutatingwebhookconfigurations" if mutating else "validatingwebhookconfigurations"
        answered = self.post(f"{GROUP}/{plural}", {"metadata": {"name": name}, "webhooks": [entry]})
        assert answered.code == 201, answered.body

    def write(self, method: str, path: str, body: Any = None, media: str = "application/json", **query: str) -> Answer:
        """A write as the shell has it handled."""
        request = Request(method, path, tuple(query.items()), None if body is None else json.dumps(body).encode(), media)
        replies = self.server.replies(request)
        while True:
            try:
                found = self.server.handle(request, ADMIN, replies)
            except UnansweredError as waiting:
                assert isinstance(replies, Replies)
                replies.found |= {question.key: self._answer(question) for question in waiting.questions}
                continue
            return Answer(found)

    def _answer(self, question: Question) -> Reply:
        request = json.loads(question.body)["request"]
        self.asked.append(request)
        reply = self.hooks[question.path](request)
        return reply if isinstance(reply, str) else {"uid": request["uid"], **reply}


def allow(_: Json) -> Reply:
    return {"allowed": True}


def deny(_: Json) -> Reply:
    return {"allowed": False, "status": {"code": 418, "message": "no tea"}}


def patch(*operations: Json) -> Callable[[Json], Reply]:
    encoded = base64.b64encode(json.dumps(operations).encode()).decode()
    return lambda _: {"allowed": True, "patchType": "JSONPatch", "patch": encoded}


@pytest.fixture
def api() -> Asking:
    return Asking()


def test_a_webhook_sees_the_request_and_may_deny_it(api: Asking) -> None:
    api.hook("v", deny)
    answer = api.write("POST", MAPS, {"metadata": {"name": "m"}, "data": {"k": "v"}}, dryRun="All")
    assert (answer.code, answer.body["message"]) == (418, 'admission webhook "v.example.com.x" denied the request: no tea')
    (asked,) = api.asked
    assert (asked["operation"], asked["name"], asked["namespace"], asked["dryRun"]) == ("CREATE", "m", "default", True)
    assert asked["object"]["data"] == {"k": "v"}
    assert asked["oldObject"] is None
    assert asked["kind"] == {"group": "", "version": "v1", "kind": "ConfigMap"}
    assert asked["userInfo"]["username"] == ADMIN.name
    assert api.get(MAPS).names == []


@pytest.mark.parametrize(
    ("rule", "asked"),
    [
        ({"resources": ["configmaps"]}, 1), ({"resources": ["pods"]}, 0), ({"resources": ["configmaps/status"]}, 0),
        ({"resources": ["*/*"]}, 1), ({"apiGroups": ["apps"]}, 0), ({"apiVersions": ["v2"]}, 0),
        ({"operations": ["UPDATE"]}, 0), ({"operations": ["UPDATE", "CREATE"]}, 1), ({"scope": "Cluster"}, 0),
        ({"scope": "Namespaced"}, 1),
    ],
)  # fmt: skip
def test_rules(api: Asking, rule: Json, asked: int) -> None:
    every = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}
    api.hook("v", allow, rules=[{**every, **rule}])
    assert api.write("POST", MAPS, {"metadata": {"name": "m"}}).code == 201
    assert len(api.asked) == asked


@pytest.mark.parametrize(
    ("more", "asked"),
    [
        ({"objectSelector": {"matchLabels": {"a": "b"}}}, ["labelled"]),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "other"}}}, []),
        ({"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}}, ["labelled", "plain"]),
        ({"matchConditions": [{"name": "c", "expression": "object.metadata.name.startsWith('pl')"}]}, ["plain"]),
        ({"matchConditions": [{"name": "c", "expression": "request.userInfo.username == 'nobody'"}]}, []),
        ({"rules": []}, []),
    ],
)
def test_selectors_and_conditions(api: Asking, more: Json, asked: list[str]) -> None:
    api.hook("v", allow, **more)
    api.write("POST", MAPS, {"metadata": {"name": "labelled", "labels": {"a": "b"}}})
    api.write("POST", MAPS, {"metadata": {"name": "plain"}})
    assert [one["name"] for one in api.asked] == asked


def test_mutations_build_on_each_other_and_are_validated(api: Asking) -> None:
    api.hook("a", patch({"op": "add", "path": "/metadata/labels", "value": {"a": "1"}}), mutating=True)
    api.hook("b", patch({"op": "add", "path": "/metadata/labels/b", "value": "2"}), mutating=True)
    api.hook("v", allow)
    made = api.write("POST", PODS, pod("p"))
    assert made.body["metadata"]["labels"] == {"a": "1", "b": "2"}
    assert [one["object"]["metadata"].get("labels") for one in api.asked] == [None, {"a": "1"}, {"a": "1", "b": "2"}]
    assert len({one["object"]["metadata"]["uid"] for one in api.asked} | {made.body["metadata"]["uid"]}) == 1
    api.hook("c", patch({"op": "add", "path": "/metadata/labels/c", "value": "no label"}), mutating=True)
    assert api.write("POST", PODS, pod("q")).code == 422


def test_a_webhook_that_wants_it_sees_later_changes(api: Asking) -> None:
    api.hook("a", allow, mutating=True, reinvocationPolicy="IfNeeded")
    api.hook("b", patch({"op": "add", "path": "/data", "value": {"k": "v"}}), mutating=True)
    api.hook("c", allow, mutating=True, reinvocationPolicy="IfNeeded")
    api.write("POST", MAPS, {"metadata": {"name": "m"}})
    assert [one["object"].get("data") for one in api.asked] == [None, None, {"k": "v"}, {"k": "v"}]


def test_updates_and_deletions(api: Asking) -> None:
    api.post(MAPS, {"metadata": {"name": "m"}, "data": {"k": "1"}})
    api.hook("v", allow)
    api.write("PATCH", f"{MAPS}/m", {"data": {"k": "2"}}, MERGE_PATCH)
    api.write("DELETE", f"{MAPS}/m")
    update, delete = api.asked
    assert (update["operation"], update["oldObject"]["data"], update["object"]["data"]) == ("UPDATE", {"k": "1"}, {"k": "2"})
    assert (delete["operation"], delete["oldObject"]["data"], delete["object"]) == ("DELETE", {"k": "2"}, None)


def test_a_collection_is_deleted_only_if_all_of_it_may_be(api: Asking) -> None:
    for name in ("a", "b"):
        api.post(MAPS, {"metadata": {"name": name}})
    api.hook("v", lambda request: {"allowed": request["name"] == "a"})
    assert api.write("DELETE", MAPS).code == 400
    assert api.get(MAPS).names == ["a", "b"]


def test_an_answer_about_a_state_that_is_gone_does_not_count(api: Asking) -> None:
    api.post(MAPS, {"metadata": {"name": "m"}, "data": {"k": "1"}})

    def change_it_meanwhile(_: Json) -> Reply:
        if len(api.asked) == 1:
            api.patch(f"{MAPS}/m", {"data": {"other": "x"}})
        return {"allowed": True}

    api.hook("v", change_it_meanwhile)
    api.write("PATCH", f"{MAPS}/m", {"data": {"k": "2"}}, MERGE_PATCH)
    assert [one["oldObject"]["data"] for one in api.asked] == [{"k": "1"}, {"k": "1", "other": "x"}]
    assert api.get(f"{MAPS}/m").body["data"] == {"k": "2", "other": "x"}


@pytest.mark.parametrize(("policy", "code"), [("Fail", 500), ("Ignore", 201)])
@pytest.mark.parametrize("reply", ["connection refused", {"uid": "another", "allowed": True}])
def test_failures(api: Asking, policy: str, code: int, reply: Reply) -> None:
    api.hook("v", lambda _: reply, failurePolicy=policy)
    answer = api.write("POST", MAPS, {"metadata": {"name": "m"}})
    assert answer.code == code
    assert code == 201 or 'failed calling webhook "v.example.com.x"' in answer.body["message"]


def test_a_generated_name_is_the_same_in_every_attempt(api: Asking) -> None:
    for name in ("a", "b"):
        api.hook(name, allow, mutating=True)
    made = api.write("POST", MAPS, {"metadata": {"generateName": "m-"}}).body["metadata"]["name"]
    assert {one["object"]["metadata"]["name"] for one in api.asked} == {made}


def test_status_is_a_resource_of_its_own(api: Asking) -> None:
    api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd())
    made = api.post(CRS, cr("a")).body
    rule = {"apiGroups": ["ex.com"], "apiVersions": ["*"], "operations": ["*"], "resources": ["foos/status"]}
    api.hook("v", allow, rules=[rule])
    api.write("PUT", f"{CRS}/a/status", {**made, "status": {"phase": "x"}})
    api.write("PATCH", f"{CRS}/a", {"metadata": {"labels": {"l": "m"}}}, MERGE_PATCH)
    assert [one["subResource"] for one in api.asked] == ["status"]


def test_a_webhook_behind_a_service_is_reached_at_its_pods(api: Asking) -> None:
    service = {"name": "hook", "namespace": "default", "path": "/v"}
    api.hook("v", allow, clientConfig={"service": service})
    with pytest.raises(UnansweredError) as nowhere:
        _ask(api)
    assert nowhere.value.questions[0].address == ""
    api.post("/api/v1/namespaces/default/services", {"metadata": {"name": "hook"}, "spec": {"ports": [{"port": 443}]}})
    subset = {"addresses": [{"ip": "127.9.9.9"}], "ports": [{"port": 8443}]}
    api.post("/api/v1/namespaces/default/endpoints", {"metadata": {"name": "hook"}, "subsets": [subset]})
    with pytest.raises(UnansweredError) as found:
        _ask(api)
    (question,) = found.value.questions
    assert (question.address, question.path, question.server_name) == ("https://127.9.9.9:8443", "/v", "hook.default.svc")


def _ask(api: Asking) -> None:
    request = Request("POST", MAPS, body=b'{"metadata": {"name": "m"}}')
    api.server.handle(request, ADMIN, api.server.replies(request))


def test_what_registers_webhooks_is_not_subject_to_them(api: Asking) -> None:
    api.hook("v", deny)
    path = f"{GROUP}/validatingwebhookconfigurations/v"
    assert api.write("DELETE", path).code == 200


# Policies

POLICY = {
    "matchConstraints": {
        "resourceRules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]}
        ]
    },
    "validations": [{"expression": "has(object.data) && size(object.data) <= 1"}],
}


def bind(api: Asking, policy: Json, params: Json | None = None, **binding: Any) -> None:
    assert (
        api.post(f"{GROUP}/validatingadmissionpolicies", {"metadata": {"name": "p"}, "spec": {**POLICY, **policy}}).code == 201
    )
    spec = {"policyName": "p", "validationActions": ["Deny"], **({"paramRef": params} if params else {}), **binding}
    assert api.post(f"{GROUP}/validatingadmissionpolicybindings", {"metadata": {"name": "b"}, "spec": spec}).code == 201


def test_a_policy_denies(api: Asking) -> None:
    bind(api, {})
    assert api.post(MAPS, {"metadata": {"name": "m"}, "data": {"a": "1"}}).code == 201
    refused = api.post(MAPS, {"metadata": {"name": "n"}})
    told = (
        "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: "
        "failed expression: has(object.data) && size(object.data) <= 1"
    )
    assert (refused.code, refused.body["reason"]) == (422, "Invalid")
    assert refused.body["message"] == f'configmaps "n" is forbidden: {told}'
    assert api.patch(f"{MAPS}/m", {"data": {"b": "2"}}).code == 422
    assert api.delete(f"{MAPS}/m").code == 200


@pytest.mark.parametrize(
    ("policy", "code", "message"),
    [
        ({"validations": [{"expression": "false", "message": "never", "reason": "Forbidden"}]}, 403, "never"),
        ({"validations": [{"expression": "false", "messageExpression": "'no ' + object.metadata.name"}]}, 422, "no m"),
        ({"validations": [{"expression": "object.absent == 1"}]}, 422, "resulted in error"),
        ({"validations": [{"expression": "object.absent == 1"}], "failurePolicy": "Ignore"}, 201, ""),
        ({"variables": [{"name": "n", "expression": "object.metadata.name"}],
          "validations": [{"expression": "variables.n == 'x'"}]}, 422, "variables.n"),
        ({"matchConditions": [{"name": "c", "expression": "object.metadata.name != 'm'"}]}, 201, ""),
        ({"validations": [{"expression": "namespaceObject.metadata.name + request.operation == 'defaultCREATE'"}]}, 201, ""),
        ({"validations": [{"expression": "oldObject == null"}]}, 201, ""),
    ],
)  # fmt: skip
def test_validations(api: Asking, policy: Json, code: int, message: str) -> None:
    bind(api, policy)
    answer = api.post(MAPS, {"metadata": {"name": "m"}})
    assert answer.code == code
    assert message in answer.body.get("message", "")


@pytest.mark.parametrize(("action", "code"), [("Deny", 422), ("Allow", 201)])
def test_parameters(api: Asking, action: str, code: int) -> None:
    policy = {
        "paramKind": {"apiVersion": "v1", "kind": "Secret"},
        "validations": [{"expression": "object.metadata.name != params.metadata.name", "message": "taken"}],
    }
    bind(api, policy, {"name": "m", "parameterNotFoundAction": action})
    assert api.post(MAPS, {"metadata": {"name": "m"}}).code == code
    api.post("/api/v1/namespaces/default/secrets", {"metadata": {"name": "m"}})
    assert api.post(MAPS, {"metadata": {"name": "m"}}, dryRun="All").body["message"].endswith("taken")


def test_a_binding_may_warn_and_may_narrow(api: Asking) -> None:
    bind(api, {}, validationActions=["Warn"], matchResources={"objectSelector": {"matchLabels": {"a": "b"}}})
    assert "Warning" not in api.post(MAPS, {"metadata": {"name": "m"}}).headers
    warned = api.post(MAPS, {"metadata": {"name": "n", "labels": {"a": "b"}}})
    assert warned.code == 201
    assert "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b'" in warned.headers["Warning"]
