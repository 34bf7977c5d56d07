"""Roles and bindings."""

from collections.abc import Sequence
from typing import Any

from localcluster.apiserver.errors import Cause, invalid, not_supported, required
from localcluster.apiserver.kinds.scheduling import selector_check
from localcluster.apiserver.kinds.tables import (
    Rules,
    defaults,
    filled,
    in_turn,
    needed,
    needed_name,
    one_of,
    rules,
)
from localcluster.apiserver.names import check, dns1123_subdomain, path_segment
from localcluster.apiserver.resource import Strategy

Obj = dict[str, Any]

GROUP = "rbac.authorization.k8s.io"
_KINDS = ("ServiceAccount", "User", "Group")


def _default_subjects(obj: Obj) -> None:
    for subject in obj.get("subjects") or ():
        subject.setdefault("apiGroup", "" if subject.get("kind") == "ServiceAccount" else GROUP)
        if not subject["apiGroup"]:
            del subject["apiGroup"]


def _default_role(obj: Obj) -> None:
    # The one list that the real server sends when there is nothing in it.
    obj["rules"] = obj.get("rules") or None


def _validate_rules(namespaced: bool) -> Rules:
    def validate(obj: Obj) -> Sequence[Cause]:
        causes: list[Cause] = []
        for index, rule in enumerate(obj.get("rules") or ()):
            path = f"rules[{index}]"
            if not rule.get("verbs"):
                causes.append(required(f"{path}.verbs", "verbs must contain at least one value"))
            urls = rule.get("nonResourceURLs")
            if urls:
                if namespaced:
                    detail = "namespaced rules cannot apply to non-resource URLs"
                    causes.append(invalid(f"{path}.nonResourceURLs", urls, detail))
                if any(rule.get(name) for name in ("apiGroups", "resources", "resourceNames")):
                    detail = "rules cannot apply to both regular resources and non-resource URLs"
                    causes.append(invalid(f"{path}.nonResourceURLs", urls, detail))
                continue
            if not rule.get("apiGroups"):
                causes.append(required(f"{path}.apiGroups", "resource rules must supply at least one api group"))
            if not rule.get("resources"):
                causes.append(required(f"{path}.resources", "resource rules must supply at least one resource"))
        return causes

    return validate


def _subject(namespaced: bool) -> Rules:
    def validate(obj: Obj) -> Sequence[Cause]:
        causes: list[Cause] = []
        for index, subject in enumerate(obj.get("subjects") or ()):
            path, kind, name = f"subjects[{index}]", subject.get("kind", ""), subject.get("name") or ""
            if not name:
                causes.append(required(f"{path}.name"))
            if kind == "ServiceAccount":
                causes += check(dns1123_subdomain, f"{path}.name", name) if name else []
                if subject.get("apiGroup"):
                    causes.append(not_supported(f"{path}.apiGroup", subject["apiGroup"], [""]))
                if not namespaced and not subject.get("namespace"):
                    causes.append(required(f"{path}.namespace"))
            elif kind not in _KINDS:
                causes.append(not_supported(f"{path}.kind", kind, _KINDS))
            elif subject.get("apiGroup") != GROUP:
                causes.append(not_supported(f"{path}.apiGroup", subject.get("apiGroup", ""), [GROUP]))
        return causes

    return validate


def _same_role(new: Obj, old: Obj) -> Sequence[Cause]:
    if new.get("roleRef") != old.get("roleRef"):
        return [invalid("roleRef", new.get("roleRef"), "cannot change roleRef")]
    return []


def _binding(namespaced: bool, *kinds: str) -> Strategy:
    return Strategy(
        default=in_turn(_default_subjects, defaults(*filled("roleRef", kind="", apiGroup=GROUP))),
        validate=rules(
            ("roleRef.apiGroup", one_of(GROUP)),
            ("roleRef.kind", one_of(*kinds)),
            ("roleRef.name", needed_name(path_segment)),
            _subject(namespaced),
        ),
        validate_update=_same_role,
        validate_name=path_segment,
    )


ROLE = Strategy(default=_default_role, validate=_validate_rules(namespaced=True), validate_name=path_segment)
CLUSTER_ROLE = Strategy(
    default=_default_role,
    validate=rules(
        _validate_rules(namespaced=False),
        ("aggregationRule.clusterRoleSelectors", needed("at least one clusterRoleSelector required")),
        ("aggregationRule.clusterRoleSelectors[]", selector_check),
    ),
    validate_name=path_segment,
)
ROLE_BINDING = _binding(True, "Role", "ClusterRole")
CLUSTER_ROLE_BINDING = _binding(False, "ClusterRole")
