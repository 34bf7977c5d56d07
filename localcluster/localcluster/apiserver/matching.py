"""Which requests a webhook or an admission policy is about."""

from collections.abc import Iterator, Sequence
from typing import Any

from localcluster.apiserver.call import Call
from localcluster.apiserver.resource import Resource
from localcluster.apiserver.selectors import from_object
from localcluster.apiserver.storage import Item

Obj = dict[str, Any]

GROUP = "admissionregistration.k8s.io"
_OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}


def registered(call: Call, plural: str) -> list[Item]:
    """The registrations of a kind, in the order of their names."""
    # A registration cannot keep itself from being changed.
    return [] if call.resource.group == GROUP else call.storage.table(f"{plural}.{GROUP}").sorted()


def version_for(
    call: Call, operation: str, match: Obj, rows: Sequence[Obj] | None, objects: Sequence[Obj | None]
) -> Resource | None:
    """The version of the resource in which the request is to be shown; None if it does not match.

    `match` is a webhook, or the constraints of a policy or binding, and `rows` are its rules (None: it has no such condition);
    `objects` are the new and the old state.
    """
    found: Resource | None = call.resource
    if rows is not None:
        found = next((one for one in _versions(call, match) if any(_covers(rule, one, call, operation) for rule in rows)), None)
    if found is None or any(_covers(rule, found, call, operation) for rule in match.get("excludeResourceRules") or ()):
        return None
    return found if _selected(match, call, [one for one in objects if one is not None]) else None


def _versions(call: Call, match: Obj) -> Iterator[Resource]:
    """The request's version and, unless the match is exact, the others of the same objects."""
    yield call.resource
    if match.get("matchPolicy") != "Exact":
        table = call.resource.storage_key
        yield from call.registry.where(lambda one: one.storage_key == table and one.version != call.resource.version)


def _covers(rule: Obj, resource: Resource, call: Call, operation: str) -> bool:
    def among(part: str, value: str) -> bool:
        listed = rule.get(part) or ()
        return "*" in listed or value in listed

    scope = rule.get("scope", "*")
    names = rule.get("resourceNames")
    return (
        among("operations", operation)
        and among("apiGroups", resource.group)
        and among("apiVersions", resource.version)
        and any(_names(entry, resource.plural, call.info.subresource) for entry in rule.get("resources") or ())
        and scope in ("*", "Namespaced" if resource.namespaced else "Cluster")
        and (not names or call.info.name in names)
    )


def _names(entry: str, plural: str, subresource: str) -> bool:
    """Whether an entry of a rule names the resource: ``pods``, ``pods/status``, ``pods/*``, ``*``, ``*/status``, ``*/*``."""
    name, _, below = entry.partition("/")
    return name in ("*", plural) and (below == subresource or below == "*")


def _selected(match: Obj, call: Call, objects: Sequence[Obj]) -> bool:
    selector = from_object(match.get("objectSelector"))
    if selector is not None and not any(selector.matches(one["metadata"].get("labels") or {}) for one in objects):
        return False
    selector = from_object(match.get("namespaceSelector"))
    if selector is None:
        return True
    if call.resource.plural == "namespaces":
        return selector.matches(objects[0]["metadata"].get("labels") or {})
    return not call.resource.namespaced or selector.matches(namespace_of(call)["metadata"].get("labels") or {})


def namespace_of(call: Call) -> Obj:
    """The namespace of the request's object, which is there: that was checked first."""
    found = call.storage.table("namespaces").get("", call.namespace)
    return {"metadata": {}} if found is None else found.obj


def request_of(call: Call, operation: str, shown: Resource, new: Obj | None, old: Obj | None) -> Obj:
    """The AdmissionRequest, without a uid, with the objects as `shown` has them."""
    asked, sub = call.resource, call.info.subresource
    user = call.user
    name = call.info.name or (new or old or {}).get("metadata", {}).get("name", "")
    request: Obj = {
        "kind": _kind(shown), "resource": _resource(shown), "requestKind": _kind(asked), "requestResource": _resource(asked),
        "operation": operation, "userInfo": {"username": user.name, "groups": list(user.all_groups)},
        "object": None if new is None else shown.typed(new), "oldObject": None if old is None else shown.typed(old),
        "dryRun": call.dry_run, "options": {"kind": _OPTIONS[operation], "apiVersion": "meta.k8s.io/v1"},
    }  # fmt: skip
    more = {"name": name, "namespace": call.namespace, "subResource": sub, "requestSubResource": sub}
    return request | {key: value for key, value in more.items() if value}


def _kind(resource: Resource) -> Obj:
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


def _resource(resource: Resource) -> Obj:
    return {"group": resource.group, "version": resource.version, "resource": resource.plural}
