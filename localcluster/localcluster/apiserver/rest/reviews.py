"""Questions about users and rights: the review resources, which are answered and not stored."""

from collections.abc import Callable, Mapping
from typing import Any

from localcluster.apiserver.authentication import User
from localcluster.apiserver.call import Call
from localcluster.apiserver.errors import bad_request
from localcluster.apiserver.rbac import Attributes
from localcluster.request import Response

Obj = dict[str, Any]


def _attributes(spec: Obj) -> Attributes:
    resource: Obj | None = spec.get("resourceAttributes")
    path: Obj | None = spec.get("nonResourceAttributes")
    if path is not None and resource is None:
        return Attributes(path.get("verb", ""), path=path.get("path", ""))
    if resource is None or path is not None:
        raise bad_request("spec: exactly one of resourceAttributes and nonResourceAttributes must be given")
    return Attributes(
        resource.get("verb", ""), resource.get("group", ""), resource.get("resource", ""), resource.get("subresource", ""),
        resource.get("namespace", ""), resource.get("name", ""),
    )  # fmt: skip


def _access(call: Call, body: Obj, user: User) -> Response:
    spec = body.get("spec") or {}
    wanted = _attributes(spec)
    allowed = call.authorizer.allows(user, wanted)
    status: Obj = {"allowed": allowed}
    if allowed:
        status["reason"] = "system:masters" if user.is_master else "RBAC: allowed"
    shown = {
        "kind": call.resource.kind,
        "apiVersion": call.resource.api_version,
        "metadata": {},
        "spec": spec,
        "status": status,
    }
    return call.answer(shown, 201)


def self_access(call: Call) -> Response:
    """SelfSubjectAccessReview: ``kubectl auth can-i``."""
    return _access(call, call.body(), call.user)


def access(call: Call) -> Response:
    """SubjectAccessReview."""
    body = call.body()
    spec = body.get("spec") or {}
    return _access(call, body, User(spec.get("user", ""), tuple(spec.get("groups") or ()), spec.get("uid", "")))


HANDLERS: Mapping[tuple[str, str], Callable[[Call], Response]] = {
    ("authorization.k8s.io", "selfsubjectaccessreviews"): self_access,
    ("authorization.k8s.io", "subjectaccessreviews"): access,
}
