"""Roles and bindings."""

from collections.abc import Sequence
from typing import Any

from jobcommon.localcluster.apiserver.errors import Cause, invalid, not_supported, required
from jobcommon.localcluster.apiserver.names import path_segment
from jobcommon.localcluster.apiserver.resource import Strategy

Obj = dict[str, Any]

GROUP = "rbac.authorization.k8s.io"


def _default_binding(obj: Obj) -> None:
    for subject in obj.get("subjects") or ():
        subject.setdefault("apiGroup", "" if subject.get("kind") == "ServiceAccount" else GROUP)
        if not subject["apiGroup"]:
            del subject["apiGroup"]
    if obj.get("roleRef"):
        obj["roleRef"].setdefault("apiGroup", GROUP)


def _default_role(obj: Obj) -> None:
    # The one list that the real server sends when there is nothing in it.
    obj["rules"] = obj.get("rules") or None


def _validate_role(obj: Obj) -> Sequence[Cause]:
    causes: list[Cause] = []
    for index, rule in enumerate(obj.get("rules") or ()):
        path = f"rules[{index}]"
        if not rule.get("verbs"):
            causes.append(required(f"{path}.verbs", "verbs must contain at least one value"))
        if not rule.get("nonResourceURLs"):
            if not rule.get("apiGroups"):
                causes.append(required(f"{path}.apiGroups", "resource rules must supply at least one api group"))
            if not rule.get("resources"):
                causes.append(required(f"{path}.resources", "resource rules must supply at least one resource"))
    return causes


def _validate_binding(obj: Obj) -> Sequence[Cause]:
    causes: list[Cause] = []
    role = obj.get("roleRef") or {}
    if role.get("kind") not in ("Role", "ClusterRole"):
        causes.append(not_supported("roleRef.kind", role.get("kind", ""), ["ClusterRole", "Role"]))
    if not role.get("name"):
        causes.append(required("roleRef.name"))
    for index, subject in enumerate(obj.get("subjects") or ()):
        if not subject.get("name"):
            causes.append(required(f"subjects[{index}].name"))
        if subject.get("kind") == "ServiceAccount" and not subject.get("namespace"):
            causes.append(required(f"subjects[{index}].namespace"))
    return causes


def _immutable_role(new: Obj, old: Obj) -> Sequence[Cause]:
    if new.get("roleRef") != old.get("roleRef"):
        return [invalid("roleRef", new.get("roleRef"), "cannot change roleRef")]
    return []


ROLE = Strategy(default=_default_role, validate=_validate_role, validate_name=path_segment)
BINDING = Strategy(
    default=_default_binding, validate=_validate_binding, validate_update=_immutable_role, validate_name=path_segment
)
