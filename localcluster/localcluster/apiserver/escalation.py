"""Privilege escalation prevention: a user may only grant rights that the user has.

A user may write a role if the user has every right in it or may `escalate` it, and a binding if the user has every right
of its role or may `bind` that role. Source:
https://kubernetes.io/docs/reference/access-authn-authz/rbac/, "Privilege escalation prevention and bootstrapping".
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from localcluster.apiserver.call import Call
from localcluster.apiserver.errors import forbidden_error, not_found
from localcluster.apiserver.rbac import Attributes, covers_path

Obj = Mapping[str, Any]

_GROUP = "rbac.authorization.k8s.io"
_EVERYTHING: tuple[Obj, ...] = (
    {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}, {"nonResourceURLs": ["*"], "verbs": ["*"]},
)  # fmt: skip
#: What the garbage collector must be able to change in an object that others wrote.
_COLLECTED = ("ownerReferences", "finalizers", "managedFields")


@dataclass(frozen=True, slots=True)
class _Right:
    """One verb on one resource or path; `name` is None for all of them."""

    verb: str
    group: str = ""
    resource: str = ""
    name: str | None = None
    path: str | None = None

    def held_by(self, rule: Obj) -> bool:
        """Whether the rule grants it."""
        verbs = rule.get("verbs") or ()
        if "*" not in verbs and self.verb not in verbs:
            return False
        if self.path is not None:
            return any(covers_path(pattern, self.path) for pattern in rule.get("nonResourceURLs") or ())
        groups, resources = rule.get("apiGroups") or (), rule.get("resources") or ()
        names = rule.get("resourceNames") or ()
        _, _, subresource = self.resource.partition("/")
        everywhere = {"*", self.resource, *([f"*/{subresource}"] if subresource else [])}
        return bool(
            ("*" in groups or self.group in groups) and everywhere & set(resources) and (not names or self.name in names)
        )

    @property
    def target(self) -> "_Right":
        """The same without its verb."""
        return _Right("", self.group, self.resource, self.name, self.path)

    def text(self, verbs: Sequence[str]) -> str:
        """The right, with several verbs, as refusals list it."""
        if self.path is not None:
            return f"{{NonResourceURLs:{_listed([self.path])}, Verbs:{_listed(verbs)}}}"
        name = "" if self.name is None else f", ResourceNames:{_listed([self.name])}"
        return f"{{APIGroups:{_listed([self.group])}, Resources:{_listed([self.resource])}{name}, Verbs:{_listed(verbs)}}}"


def _listed(values: Iterable[str]) -> str:
    return "[" + " ".join(f'"{value}"' for value in values) + "]"


def _rights(rules: Iterable[Obj]) -> Iterator[_Right]:
    for rule in rules:
        verbs = rule.get("verbs") or ()
        named = rule.get("resourceNames") or (None,)
        for group, resource, verb, name in itertools.product(
            rule.get("apiGroups") or (), rule.get("resources") or (), verbs, named
        ):
            yield _Right(verb, group, resource, name)
        for path, verb in itertools.product(rule.get("nonResourceURLs") or (), verbs):
            yield _Right(verb, path=path)


def check(call: Call, new: Obj, old: Obj | None) -> None:
    """Raise a 403 ApiError when the write of a role or binding grants more than the caller may grant.

    `new` is an accepted object, not yet validated. Raises 404 when it binds a role that does not exist.
    """
    resource = call.resource
    if resource.group != _GROUP or call.user.is_master or (old is not None and _only_collected(new, old)):
        return
    if resource.plural in ("roles", "clusterroles"):
        _check_role(call, new, old)
    else:
        _check_binding(call, new)


def _only_collected(new: Obj, old: Obj) -> bool:
    return _without_collected(new) == _without_collected(old)


def _without_collected(obj: Obj) -> dict[str, Any]:
    kept = {key: value for key, value in obj["metadata"].items() if key not in _COLLECTED}
    rest = {key: value for key, value in obj.items() if key not in ("apiVersion", "kind")}
    return {**rest, "metadata": kept}


def _check_role(call: Call, new: Obj, old: Obj | None) -> None:
    info = call.info
    wanted = Attributes("escalate", _GROUP, info.resource, namespace=info.namespace, name=info.name)
    if call.authorizer.allows(call.user, wanted):
        return
    _confirm(call, new, new.get("rules") or ())
    aggregated = any(((role or {}).get("aggregationRule") or {}).get("clusterRoleSelectors") for role in (new, old))
    if aggregated and _missing(call, _EVERYTHING):
        raise _refused(call, new, "must have cluster-admin privileges to use the aggregationRule")


def _check_binding(call: Call, new: Obj) -> None:
    reference = new.get("roleRef") or {}
    plural = {"Role": "roles", "ClusterRole": "clusterroles"}.get(reference.get("kind", ""))
    name = reference.get("name", "")
    if plural is None:
        # Validation reports what is wrong with it.
        return
    wanted = Attributes("bind", reference.get("apiGroup", ""), plural, namespace=call.namespace, name=name)
    if call.authorizer.allows(call.user, wanted):
        return
    role = call.storage.table(f"{plural}.{_GROUP}").get(call.namespace if plural == "roles" else "", name)
    if role is None:
        # By the name of the bindings, as the real server's lookup of roles words it.
        raise not_found("rolebindings", _GROUP, name)
    _confirm(call, new, role.obj.get("rules") or ())


def _missing(call: Call, rules: Iterable[Obj]) -> list[_Right]:
    held = list(call.authorizer.rules(call.user, call.namespace))
    return [right for right in _rights(rules) if not any(right.held_by(rule) for rule in held)]


def _confirm(call: Call, new: Obj, rules: Iterable[Obj]) -> None:
    missing = _missing(call, rules)
    if not missing:
        return
    verbs: dict[_Right, list[str]] = {}
    texts = set()
    for right in missing:
        if right.path is None:
            verbs.setdefault(right.target, []).append(right.verb)
        else:
            texts.add(right.text([right.verb]))
    listed = "\n".join(sorted(texts | {target.text(found) for target, found in verbs.items()}))
    who = f'user "{call.user.name}" (groups={_listed(call.user.all_groups)})'
    raise _refused(call, new, f"{who} is attempting to grant RBAC permissions not currently held:\n{listed}")


def _refused(call: Call, new: Obj, why: str) -> Exception:
    return forbidden_error(call.resource.plural, _GROUP, new["metadata"].get("name", ""), why)
