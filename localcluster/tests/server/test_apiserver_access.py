"""Who may do what: tokens, RBAC, reviews."""

from typing import Any

import pytest

from localcluster.apiserver.authentication import User
from tests.server.api import CRS, Answer, Api, cr, crd, pod

Json = dict[str, Any]
RBAC = "/apis/rbac.authorization.k8s.io/v1"
PODS = "/api/v1/namespaces/default/pods"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
JANE = User("jane", ("devs",))


def role(api: Api, name: str, *rules: Json, cluster: bool = False) -> None:
    path = f"{RBAC}/clusterroles" if cluster else f"{RBAC}/namespaces/default/roles"
    assert api.post(path, {"metadata": {"name": name}, "rules": list(rules)}).code == 201


def bind(api: Api, name: str, kind: str, subject: Json, *, cluster: bool = False) -> None:
    path = f"{RBAC}/clusterrolebindings" if cluster else f"{RBAC}/namespaces/default/rolebindings"
    body = {"metadata": {"name": f"{name}-{subject['name']}"}, "roleRef": {"kind": kind, "name": name}, "subjects": [subject]}
    assert api.post(path, body).code == 201


@pytest.fixture
def api() -> Api:
    return Api(tokens={"admin-token": User("root", ("system:masters",)), "jane-token": JANE})


def test_a_refusal_in_the_words_of_the_real_server(api: Api) -> None:
    answer = api.send("GET", PODS, user=JANE)
    assert (answer.code, answer.reason) == (403, "Forbidden")
    assert answer.message == (
        'pods is forbidden: User "jane" cannot list resource "pods" in API group "" in the namespace "default"'
    )
    cluster = api.send("GET", "/apis/apps/v1/deployments", user=JANE)
    assert cluster.message.endswith('cannot list resource "deployments" in API group "apps" at the cluster scope')


def test_a_role_grants_its_verbs_in_its_namespace(api: Api) -> None:
    role(api, "reader", {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]})
    bind(api, "reader", "Role", {"kind": "User", "name": "jane"})
    api.post(PODS, pod("a"))
    assert api.send("GET", PODS, user=JANE).code == 200
    assert api.send("GET", f"{PODS}/a", user=JANE).code == 200
    assert api.send("DELETE", f"{PODS}/a", user=JANE).code == 403
    assert api.send("GET", "/api/v1/namespaces/kube-system/pods", user=JANE).code == 403
    assert api.send("GET", "/api/v1/pods", user=JANE).code == 403
    assert api.send("GET", f"{PODS}/a/log", user=JANE).code == 403


def test_subresources_are_rights_of_their_own(api: Api) -> None:
    api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd())
    api.post(CRS, cr("a"))
    role(api, "status", {"apiGroups": ["ex.com"], "resources": ["foos/status"], "verbs": ["update", "patch"]}, cluster=True)
    bind(api, "status", "ClusterRole", {"kind": "Group", "name": "devs"}, cluster=True)
    status = api.send("PATCH", f"{CRS}/a/status", {"status": {}}, content_type="application/merge-patch+json", user=JANE)
    assert status.code == 200
    assert api.send("PATCH", f"{CRS}/a", {}, content_type="application/merge-patch+json", user=JANE).code == 403


def account(api: Api, name: str) -> str:
    api.post(ACCOUNTS, {"metadata": {"name": name}})
    answer = api.post(f"{ACCOUNTS}/{name}/token", {"spec": {"expirationSeconds": 600}})
    assert answer.code == 201
    return str(answer.body["status"]["token"])


def with_token(api: Api, token: str, path: str) -> Answer:
    return api.send("GET", path, headers={"authorization": f"Bearer {token}"}, user=None)


def test_service_account_tokens(api: Api) -> None:
    token = account(api, "robot")
    assert with_token(api, token, PODS).code == 403
    role(api, "reader", {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]})
    bind(api, "reader", "Role", {"kind": "ServiceAccount", "name": "robot", "namespace": "default"})
    assert with_token(api, token, PODS).code == 200
    assert with_token(api, token[:-4] + "AAAA", PODS).code == 401
    api.now += 601
    assert with_token(api, token, PODS).code == 401


def test_a_token_ends_with_its_account(api: Api) -> None:
    token = account(api, "robot")
    api.delete("/api/v1/namespaces/default/serviceaccounts/robot")
    assert with_token(api, token, PODS).code == 401
    account(api, "robot")
    assert with_token(api, token, PODS).code == 401


def test_a_token_for_another_audience_is_not_one_for_the_server(api: Api) -> None:
    account(api, "robot")
    issued = api.post(f"{ACCOUNTS}/robot/token", {"spec": {"audiences": ["vault"]}})
    token = issued.body["status"]["token"]
    assert with_token(api, token, PODS).code == 401


def test_a_token_ends_with_the_pod_that_it_is_bound_to(api: Api) -> None:
    account(api, "robot")
    account(api, "other")
    api.post(PODS, pod("p", spec={"serviceAccountName": "robot"}))
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "p"}

    def issue(name: str = "robot", **changed: str) -> Answer:
        return api.post(f"{ACCOUNTS}/{name}/token", {"spec": {"boundObjectRef": {**reference, **changed}}})

    refused = [issue(name="other"), issue(uid="x"), issue(kind="Secret")]
    assert [answer.code for answer in refused] == [404, 409, 400]
    assert api.post(f"{ACCOUNTS}/robot/token", {"spec": {"boundObjectRef": {**reference, "name": "none"}}}).code == 404
    token = issue().body["status"]["token"]
    assert with_token(api, token, PODS).code == 403
    api.delete(f"{PODS}/p", gracePeriodSeconds="0")
    assert with_token(api, token, PODS).code == 401
