"""Where a pod may run: tolerations, affinity and spread constraints."""

from collections.abc import Iterator, Sequence
from typing import Any

from localcluster.apiserver.errors import Cause, forbidden, invalid, not_supported, required
from localcluster.apiserver.kinds.rules import between, need, one_of
from localcluster.apiserver.kinds.walk import Action
from localcluster.apiserver.names import (
    check,
    check_labels,
    dns1123_label,
    dns1123_subdomain,
    label_value,
    qualified_name,
)

Obj = dict[str, Any]
_WEIGHT = between("weight", 1, 100, "must be in the range 1-100")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_MATCH_ANY = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
_POSITIVE = "must be greater than zero"


def _toleration(one: Obj, path: str, _: Any) -> Iterator[Cause]:
    key, operator, value, effect = (one.get(name) or "" for name in ("key", "operator", "value", "effect"))
    if key:
        yield from check(qualified_name, f"{path}.key", key)
    elif operator != "Exists":
        yield invalid(f"{path}.operator", operator, _MATCH_ANY)
    if one.get("tolerationSeconds") is not None and effect != "NoExecute":
        yield invalid(f"{path}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
    if operator in ("", "Equal"):
        if problems := label_value(value):
            yield invalid(f"{path}.operator", value, ";".join(problems))
    elif operator == "Exists":
        if value:
            yield invalid(f"{path}.operator", value, "value must be empty when `operator` is 'Exists'")
    else:
        known = ("Equal", "Exists", "Lt", "Gt") if operator in ("Lt", "Gt") else ("Equal", "Exists")
        yield not_supported(f"{path}.operator", operator, known)
    if effect and effect not in _EFFECTS:
        yield not_supported(f"{path}.effect", effect, _EFFECTS)


def _requirement(one: Obj, path: str, operators: Sequence[str]) -> Iterator[Cause]:
    operator, values = one.get("operator") or "", one.get("values") or []
    if operator not in operators:
        yield invalid(f"{path}.operator", operator, "not a valid selector operator")
    elif operator in ("In", "NotIn"):
        if not values:
            yield required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            yield forbidden(f"{path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
    elif len(values) != 1:
        yield required(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
    yield from check(qualified_name, f"{path}.key", one.get("key") or "")


def _values(one: Obj, path: str) -> Iterator[Cause]:
    for index, value in enumerate(one.get("values") or ()):
        yield from check(label_value, f"{path}.values[{index}]", value)


def _label_selector(selector: Obj, path: str, _: Any) -> Iterator[Cause]:
    yield from check_labels(selector.get("matchLabels") or {}, f"{path}.matchLabels")
    for index, one in enumerate(selector.get("matchExpressions") or ()):
        where = f"{path}.matchExpressions[{index}]"
        yield from _requirement(one, where, ("In", "NotIn", "Exists", "DoesNotExist"))
        yield from _values(one, where)


def _node_term(term: Obj, path: str, _: Any) -> Iterator[Cause]:
    for index, one in enumerate(term.get("matchExpressions") or ()):
        where = f"{path}.matchExpressions[{index}]"
        yield from _requirement(one, where, ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
        if "preferred" not in path:
            yield from _values(one, where)
    for index, one in enumerate(term.get("matchFields") or ()):
        yield from _field_requirement(one, f"{path}.matchFields[{index}]")


def _field_requirement(one: Obj, path: str) -> Iterator[Cause]:
    key, values = one.get("key") or "", one.get("values") or []
    if one.get("operator") not in ("In", "NotIn"):
        yield invalid(f"{path}.operator", one.get("operator") or "", "not a valid selector operator")
    elif len(values) != 1:
        yield required(f"{path}.values", "must be only one value when `operator` is 'In' or 'NotIn' for node field selector")
    if key != "metadata.name":
        yield invalid(f"{path}.key", key, "not a valid field selector key")
        return
    for index, value in enumerate(values):
        yield from check(dns1123_subdomain, f"{path}.values[{index}]", value)


def _affinity_term(term: Obj, path: str, _: Any) -> Iterator[Cause]:
    for name in term.get("namespaces") or ():
        yield from check(dns1123_label, f"{path}.namespace", name)
    key = term.get("topologyKey") or ""
    if not key:
        yield required(f"{path}.topologyKey", "can not be empty")
    yield from check(qualified_name, f"{path}.topologyKey", key)


def _spread(one: Obj, path: str, _: Any) -> Iterator[Cause]:
    for name in ("maxSkew", "minDomains"):
        value = one.get(name, 0 if name == "maxSkew" else 1)
        if value <= 0:
            yield invalid(f"{path}.{name}", value, _POSITIVE)
    action = one.get("whenUnsatisfiable") or ""
    if action not in ("DoNotSchedule", "ScheduleAnyway"):
        yield not_supported(f"{path}.whenUnsatisfiable", action, ("DoNotSchedule", "ScheduleAnyway"))
    if one.get("minDomains") is not None and action != "DoNotSchedule":
        told = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        yield invalid(f"{path}.minDomains", one["minDomains"], told)


ACTIONS: dict[str, Sequence[Action]] = {
    "Toleration": (_toleration,),
    "LabelSelector": (_label_selector,),
    "NodeSelector": (need("nodeSelectorTerms", detail="must have at least one node selector term"),),
    "NodeSelectorTerm": (_node_term,),
    "PreferredSchedulingTerm": (_WEIGHT,),
    "WeightedPodAffinityTerm": (_WEIGHT,),
    "PodAffinityTerm": (_affinity_term,),
    "TopologySpreadConstraint": (
        need("topologyKey", detail="can not be empty"), _spread, one_of("nodeAffinityPolicy", "Honor", "Ignore", needed=False),
        one_of("nodeTaintsPolicy", "Honor", "Ignore", needed=False),
    ),
}  # fmt: skip
