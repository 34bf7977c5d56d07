"""Roles and bindings: what authorisation relies on."""

from collections.abc import Sequence
from typing import Any

from localcluster.apiserver.errors import Cause, invalid, required
from localcluster.apiserver.names import path_segment
from localcluster.apiserver.resource import Strategy

Obj = dict[str, Any]

GROUP = "rbac.authorization.k8s.io"


def _default_binding(obj: Obj) -> None:
    obj.setdefault("roleRef", {}).setdefault("apiGroup", GROUP)
    for subject in obj.get("subjects") or ():
        if subject.get("kind") != "ServiceAccount":
            subject.setdefault("apiGroup", GROUP)


def _default_role(obj: Obj) -> None:
    # The one list that the real server sends when there is nothing in it.
    obj["rules"] = obj.get("rules") or None


def _binding(obj: Obj) -> Sequence[Cause]:
    return [] if obj["roleRef"].get("name") else [required("roleRef.name")]


def _same_role(new: Obj, old: Obj) -> Sequence[Cause]:
    if new.get("roleRef") != old.get("roleRef"):
        return [invalid("roleRef", new.get("roleRef"), "cannot change roleRef")]
    return []


ROLE = Strategy(default=_default_role, validate_name=path_segment)
BINDING = Strategy(default=_default_binding, validate=_binding, validate_update=_same_role, validate_name=path_segment)
