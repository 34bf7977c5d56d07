"""Roles and bindings: privilege escalation prevention."""

from typing import Any

from localcluster.conformance.case import Case, Expect, Json, Step
from localcluster.conformance.kinds import BINDINGS, CLUSTER_ROLES, RBAC_GROUP, ROLES, obj
from localcluster.conformance.steps import create

_USER = "conformance-jane"
_WRITE_ROLES: Json = {
    "apiGroups": [RBAC_GROUP], "resources": ["roles", "rolebindings"], "verbs": ["create", "update", "patch", "get"],
}  # fmt: skip
_PODS: Json = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}
_EXEC: Json = {"apiGroups": [""], "resources": ["pods/exec"], "resourceNames": ["w-0"], "verbs": ["create"]}
_NO_ROLE = f'rolebindings.{RBAC_GROUP} "missing" not found'
_GRANTING = "is attempting to grant RBAC permissions not currently held:\n"


def _role(name: str, *rules: Json) -> Json:
    return obj(ROLES, name, {"rules": list(rules)})


def _binding(name: str, role: str, kind: str = "Role", who: str = "conformance-joe", **meta: Any) -> Json:
    reference = {"apiGroup": RBAC_GROUP, "kind": kind, "name": role}
    subject = {"apiGroup": RBAC_GROUP, "kind": "User", "name": who}
    return obj(BINDINGS, name, {"roleRef": reference, "subjects": [subject]}, **meta)


def _holding(*rules: Json) -> tuple[Step, ...]:
    """Give the user these rights in namespace ``a``, and wait until they count: the real server takes them from a cache."""
    probe = _role("probe")
    return (
        create(ROLES, _role("own", _WRITE_ROLES, *rules)), create(BINDINGS, _binding("own", "own", who=_USER)),
        Step("POST", ROLES, body=probe, query={"dryRun": "All"}, expect=Expect(201), user=_USER, settle=True),
    )  # fmt: skip


def _try(body: Json, code: int = 201, lacking: str = "", method: str = "POST", **expect: Any) -> Step:
    kind = ROLES if body["kind"] == "Role" else BINDINGS
    name = body["metadata"]["name"] if method == "PUT" else ""
    if lacking:
        told = f'{kind.plural}.{RBAC_GROUP} "{body["metadata"]["name"]}" is forbidden: user "{_USER}" '
        groups = '(groups=["system:authenticated"]) '
        expect["fields"] = {"message": told + groups + _GRANTING + lacking}
        expect["reason"] = "Forbidden"
    return Step(method, kind, name, body, Expect(code, **expect), user=_USER)


CASES = (
    Case("a user without the right to write roles", (
        _try(_role("r"), 403, reason="Forbidden", message="cannot create resource"),
    )),
    Case("a role of rights that its writer does not hold", (
        *_holding(_PODS),
        _try(_role("r", _PODS)),
        _try(_role("s", {**_PODS, "verbs": ["get", "delete", "watch"]}), 403,
             '{APIGroups:[""], Resources:["pods"], Verbs:["delete" "watch"]}'),
        _try(_role("s", {**_PODS, "verbs": ["*"]}), 403, '{APIGroups:[""], Resources:["pods"], Verbs:["*"]}'),
        _try(_role("s", {**_PODS, "resources": ["*"], "verbs": ["get"]}), 403,
             '{APIGroups:[""], Resources:["*"], Verbs:["get"]}'),
        _try(_role("s", {**_PODS, "apiGroups": ["", "apps"], "resources": ["secrets", "pods"], "verbs": ["get"]}), 403,
             '{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}\n{APIGroups:["apps"], Resources:["pods"], Verbs:["get"]}\n'
             '{APIGroups:["apps"], Resources:["secrets"], Verbs:["get"]}'),
        _try(_role("s", _EXEC), 403, '{APIGroups:[""], Resources:["pods/exec"], ResourceNames:["w-0"], Verbs:["create"]}'),
        _try(_role("t", {**_PODS, "resourceNames": ["p"]})), _try(_role("u")),
        _try(_role("s", {"verbs": []}), 422, reason="Invalid"),
        _try(_role("r", {**_PODS, "verbs": ["get", "delete"]}), 403,
             '{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}', "PUT"),
        _try(_role("r", {**_PODS, "verbs": ["get"]}), 200, method="PUT"),
    )),
    Case("rights on subresources and names", (
        *_holding({"apiGroups": [""], "resources": ["*/exec", "pods/log"], "verbs": ["*"]},
                  {"apiGroups": ["*"], "resources": ["configmaps"], "resourceNames": ["a", "b"], "verbs": ["get"]}),
        _try(_role("r", _EXEC)), _try(_role("s", {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]})),
        _try(_role("t", {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}), 403,
             '{APIGroups:[""], Resources:["pods"], Verbs:["get"]}'),
        _try(_role("u", {"apiGroups": ["x"], "resources": ["configmaps"], "resourceNames": ["a"], "verbs": ["get"]})),
        _try(_role("v", {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["a", "c"], "verbs": ["get"]}), 403,
             '{APIGroups:[""], Resources:["configmaps"], ResourceNames:["c"], Verbs:["get"]}'),
        _try(_role("v", {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}), 403,
             '{APIGroups:[""], Resources:["configmaps"], Verbs:["get"]}'),
    )),
    Case("a binding of a role with rights that its writer does not hold", (
        *_holding(_PODS), create(ROLES, _role("strong", _PODS, _EXEC)), create(ROLES, _role("weak", _PODS)),
        # The role must have reached the cache, too.
        Step("POST", BINDINGS, body=_binding("probe", "weak"), query={"dryRun": "All"}, expect=Expect(201), user=_USER,
             settle=True),
        _try(_binding("b", "weak")),
        _try(_binding("c", "strong"), 403,
             '{APIGroups:[""], Resources:["pods/exec"], ResourceNames:["w-0"], Verbs:["create"]}'),
        _try(_binding("c", "missing"), 404, reason="NotFound", message=_NO_ROLE),
        _try(_binding("c", "missing", "ClusterRole"), 404, reason="NotFound", message=_NO_ROLE),
        _try(_binding("c", "cluster-admin", "ClusterRole"), 403,
             '{APIGroups:["*"], Resources:["*"], Verbs:["*"]}\n{NonResourceURLs:["*"], Verbs:["*"]}'),
        _try(_binding("b", "strong"), 403,
             '{APIGroups:[""], Resources:["pods/exec"], ResourceNames:["w-0"], Verbs:["create"]}', "PUT"),
        _try(_binding("b", "weak", who="conformance-jim"), 200, method="PUT"),
    )),
    Case("the right to escalate and to bind", (
        *_holding({"apiGroups": [RBAC_GROUP], "resources": ["roles"], "verbs": ["escalate"]},
            {"apiGroups": [RBAC_GROUP], "resources": ["clusterroles"], "resourceNames": ["cluster-admin"], "verbs": ["bind"]}),
        _try(_role("r", _PODS, {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]})),
        _try(_binding("b", "cluster-admin", "ClusterRole")),
        Step("POST", BINDINGS, body=_binding("c", "r"), expect=Expect(403, "Forbidden", _GRANTING), user=_USER, settle=True),
    )),
    Case("what a collector changes in a role is no grant", (
        create(ROLES, _role("strong", _EXEC)), create(BINDINGS, _binding("strong", "strong", finalizers=["example.com/hold"])),
        *_holding(),
        Step("PATCH", ROLES, "strong", {"metadata": {"finalizers": ["example.com/hold"]}}, Expect(200),
             "application/merge-patch+json", user=_USER),
        Step("PATCH", BINDINGS, "strong", {"metadata": {"finalizers": None}}, Expect(200), "application/merge-patch+json",
             user=_USER),
        Step("PATCH", ROLES, "strong", {"metadata": {"labels": {"a": "b"}}}, Expect(403, "Forbidden", _GRANTING),
             "application/merge-patch+json", user=_USER),
        Step("PATCH", ROLES, "strong", {"apiVersion": ROLES.api_version, "kind": "Role", "metadata": {"name": "strong",
            "labels": {"a": "b"}}}, Expect(403, "Forbidden", _GRANTING), "application/apply-patch+yaml", {"fieldManager": "m"},
             user=_USER),
    )),
    Case("a cluster role by someone who holds rights in a namespace only", (
        *_holding(_PODS),
        Step("POST", CLUSTER_ROLES, body=obj(CLUSTER_ROLES, "conformance-r", {"rules": [_PODS]}),
             expect=Expect(403, "Forbidden", "at the cluster scope"), user=_USER),
    )),
)  # fmt: skip
