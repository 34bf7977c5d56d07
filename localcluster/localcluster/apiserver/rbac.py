"""Authorisation by Role-Based Access Control, read from the stored roles and bindings."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from localcluster.apiserver.authentication import User
from localcluster.apiserver.errors import ApiError
from localcluster.apiserver.storage import Item, Storage

Obj = Mapping[str, Any]

_SUFFIX = ".rbac.authorization.k8s.io"
#: What anybody may do, as the real server's bootstrap role system:public-info-viewer grants.
_PUBLIC: Obj = {"verbs": ["get"], "nonResourceURLs": ["/healthz", "/livez", "/readyz", "/version", "/version/"]}
#: What every authenticated user may do besides, as the roles system:discovery and system:basic-user grant.
_AUTHENTICATED: tuple[Obj, ...] = (
    {"verbs": ["get"], "nonResourceURLs": ["/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*"]},
    {"verbs": ["create"], "apiGroups": ["authorization.k8s.io"], "resources": ["selfsubjectaccessreviews"]},
)


@dataclass(frozen=True, slots=True)
class Attributes:
    """The attributes of a request: for a resource, or for a path that does not belong to a resource."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def full_resource(self) -> str:
        """``pods`` or ``pods/log``."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


class Authorizer:
    """Evaluates RBAC for one server."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def allows(self, user: User, wanted: Attributes) -> bool:
        """Whether any rule that applies to the user covers the attributes."""
        if user.is_master:
            return True
        return any(covers(rule, wanted) for rule in self.rules(user, wanted.namespace))

    def check(self, user: User, wanted: Attributes) -> None:
        """Raise a 403 ApiError in the real server's words when the user may not."""
        if self.allows(user, wanted):
            return
        details = {key: value for key, value in _details(wanted).items() if value}
        message = _refusal(user, wanted)
        raise ApiError(403, "Forbidden", message, details)

    def rules(self, user: User, namespace: str) -> Iterator[Obj]:
        """Every rule that applies to the user in a namespace (cluster-wide ones included)."""
        yield _PUBLIC
        if not user.is_anonymous:
            yield from _AUTHENTICATED
        for binding in self._storage.table("clusterrolebindings" + _SUFFIX).items():
            if _binds(binding, user, ""):
                yield from self._role_rules(binding, "")
        if namespace:
            for binding in self._storage.table("rolebindings" + _SUFFIX).items(namespace):
                if _binds(binding, user, namespace):
                    yield from self._role_rules(binding, namespace)

    def _role_rules(self, binding: Item, namespace: str) -> Iterator[Obj]:
        reference = binding.obj["roleRef"]
        if reference.get("kind") == "ClusterRole":
            role = self._storage.table("clusterroles" + _SUFFIX).get("", reference["name"])
        else:
            role = self._storage.table("roles" + _SUFFIX).get(namespace, reference["name"])
        if role is not None:
            yield from role.obj.get("rules") or ()


def _binds(binding: Item, user: User, namespace: str) -> bool:
    for subject in binding.obj.get("subjects") or ():
        kind, name = subject.get("kind"), subject.get("name")
        if kind == "User" and name == user.name:
            return True
        if kind == "Group" and name in user.all_groups:
            return True
        if kind == "ServiceAccount":
            where = subject.get("namespace") or namespace
            if user.name == f"system:serviceaccount:{where}:{name}":
                return True
    return False


def covers(rule: Obj, wanted: Attributes) -> bool:
    """Whether one rule grants the attributes."""
    verbs = rule.get("verbs") or ()
    if "*" not in verbs and wanted.verb not in verbs:
        return False
    if wanted.path:
        return any(covers_path(pattern, wanted.path) for pattern in rule.get("nonResourceURLs") or ())
    groups, resources = rule.get("apiGroups") or (), rule.get("resources") or ()
    if "*" not in groups and wanted.group not in groups:
        return False
    names = rule.get("resourceNames") or ()
    if names and wanted.name not in names:
        return False
    everywhere = f"*/{wanted.subresource}" if wanted.subresource else "*"
    return "*" in resources or wanted.full_resource in resources or everywhere in resources


def covers_path(pattern: str, path: str) -> bool:
    """Whether a nonResourceURL grants the path."""
    return pattern in ("*", path) or (pattern.endswith("*") and path.startswith(pattern[:-1]))


def _details(wanted: Attributes) -> dict[str, str]:
    return {"name": wanted.name, "group": wanted.group, "kind": wanted.resource}


def _refusal(user: User, wanted: Attributes) -> str:
    if wanted.path:
        return f'forbidden: User "{user.name}" cannot {wanted.verb} path "{wanted.path}"'
    qualified = f"{wanted.resource}.{wanted.group}" if wanted.group else wanted.resource
    what = f'{qualified} "{wanted.name}"' if wanted.name else qualified
    where = f'in the namespace "{wanted.namespace}"' if wanted.namespace else "at the cluster scope"
    return (
        f'{what} is forbidden: User "{user.name}" cannot {wanted.verb} resource "{wanted.full_resource}" '
        f'in API group "{wanted.group}" {where}'
    )
