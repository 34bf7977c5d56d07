"""Server-side apply: merging, ownership, conflicts, removal; managedFields of ordinary writes."""

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localcluster.apiserver import managed_fields, ownership
from localcluster.apiserver.apply import ApplyConflictError, ApplyError, apply, manager_name
from localcluster.apiserver.field_set_schema import FieldSetSchema, builtin, compare
from localcluster.apiserver.field_sets import Path, difference, from_fields_v1, holds, path_text, to_fields_v1, union
from localcluster.apiserver.schema import compile_schema

Json = dict[str, Any]
T1, T2, T3 = "2026-11-21T10:00:00Z", "2026-11-21T11:00:00Z", "2026-11-21T12:00:00Z"


CONFIG_MAP = builtin("", "v1", "ConfigMap")
STRING, OPEN = {"type": "string"}, {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
PORT = {
    "type": "object", "required": ["port"],
    "properties": {"port": {"type": "integer"}, "protocol": {**STRING, "default": "TCP"}, "name": STRING},
}  # fmt: skip
SPEC = {
    "atomic": {"type": "array", "items": STRING},
    "set": {"type": "array", "items": STRING, "x-kubernetes-list-type": "set"},
    "whole": {"type": "object", "additionalProperties": STRING, "x-kubernetes-map-type": "atomic"},
    "ports": {"type": "array", "items": PORT, "x-kubernetes-list-type": "map",
              "x-kubernetes-list-map-keys": ["port", "protocol"]},
}  # fmt: skip
SCHEMA = {"type": "object", "properties": {"spec": {**OPEN, "properties": SPEC}, "status": OPEN}}
CRD = compile_schema({"name": "v1", "schema": {"openAPIV3Schema": SCHEMA}}).field_sets


def config_map(**data: str) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": data}


def custom(status: Json | None = None, **spec: Any) -> Json:
    found = {"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "x"}, "spec": spec}
    return {**found, "status": status} if status else found


def managers(item: Json) -> dict[str, list[str]]:
    return {
        f"{entry['manager']}/{entry['operation']}": sorted(path_text(path) for path in from_fields_v1(entry["fieldsV1"]))
        for entry in item["metadata"].get("managedFields", ())
    }


def written(schema: FieldSetSchema, live: Json | None, new: Json, manager: str, now: str, subresource: str = "") -> Json:
    """`new` as an ordinary write of it leaves it."""
    me = ownership.me(manager, new["apiVersion"], subresource)
    given = new["metadata"].get("managedFields")
    if live is None:
        start = ownership.before(new["kind"], custom=schema is CRD)
        entries = ownership.of_created(schema, new, start, me, now)
    else:
        entries = ownership.of_updated(schema, live, new, given, me, now)
    meta = plain(new)["metadata"]
    return {**new, "metadata": {**meta, "managedFields": entries} if entries else meta}


def plain(item: Json) -> Json:
    meta = {key: value for key, value in item["metadata"].items() if key != "managedFields"}
    return {**item, "metadata": meta}


def test_inputs_do_not_change() -> None:
    live = apply(CONFIG_MAP, None, config_map(a="1", b="2"), manager="me", now=T1)
    config = config_map(a="3")
    before = copy.deepcopy((live, config))
    apply(CONFIG_MAP, live, config, manager="me", now=T2)
    assert (live, config) == before


def test_managers_share_a_list_by_its_keys() -> None:
    live = apply(CRD, None, custom(ports=[{"port": 80, "name": "web"}]), manager="me", now=T1)
    live = apply(CRD, live, custom(ports=[{"port": 80, "protocol": "UDP"}, {"port": 81}]), manager="you", now=T2)
    assert [(one["port"], one.get("protocol")) for one in live["spec"]["ports"]] == [(80, None), (80, "UDP"), (81, None)]
    assert managers(live)["me/Apply"] == [
        '.spec.ports[port=80,protocol="TCP"]',
        '.spec.ports[port=80,protocol="TCP"].name',
        '.spec.ports[port=80,protocol="TCP"].port',
    ]
    live = apply(CRD, live, custom(ports=[{"port": 81}]), manager="you", now=T3)
    assert live["spec"]["ports"] == [{"port": 80, "name": "web"}, {"port": 81}]


def test_several_conflicts_are_grouped_by_manager() -> None:
    live = apply(CONFIG_MAP, None, config_map(a="1", b="2"), manager="me", now=T1)
    new = copy.deepcopy(live)
    new["data"]["c"] = "3"
    new = written(CONFIG_MAP, live, new, "kubectl-edit", T2)
    with pytest.raises(ApplyConflictError) as caught:
        apply(CONFIG_MAP, new, config_map(a="9", b="9", c="9"), manager="you", now=T3)
    assert str(caught.value).splitlines() == [
        f'Apply failed with 3 conflicts: conflicts with "kubectl-edit" using v1 at {T2}:',
        "- .data.c",
        'conflicts with "me":',
        "- .data.a",
        "- .data.b",
    ]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({**custom(), "metadata": {"name": "x", "managedFields": []}}, "managedFields must be nil"),
        (custom(ports=[{"name": "web"}]), "without its key 'port'"),
        (custom(ports=["web"]), "this one is not an object"),
    ],
)
def test_refused(config: Json, message: str) -> None:
    with pytest.raises(ApplyError, match=message):
        apply(CRD, None, config, manager="me", now=T1)


def nested(depth: int) -> Json:
    value: Json = {}
    for _ in range(depth):
        value = {"a": value}
    return value


def test_an_object_too_deep_to_walk_is_an_error_and_no_crash() -> None:
    with pytest.raises(ApplyError, match="nested too deeply"):
        apply(CRD, None, custom(free=nested(5000)), manager="me", now=T1)
    new = written(CRD, None, custom(free=nested(5000)), "kubectl-create", T1)
    assert "managedFields" not in new["metadata"]


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "b"]),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.sampled_from("abc"), below, max_size=3),
    max_leaves=12,
)
PORTS = st.lists(
    st.fixed_dictionaries({"port": st.integers(1, 3)}, optional={"name": st.sampled_from("xy")}),
    min_size=1,
    max_size=3,
    unique_by=lambda port: port["port"],
)
# Without empty lists, which have no manager.
OBJECTS = st.fixed_dictionaries(
    {},
    optional={
        "ports": PORTS,
        "set": st.lists(st.sampled_from("abc"), unique=True, min_size=1),
        "whole": st.just({"k": "v"}),
        "free": JSON_VALUES,
    },
).map(lambda spec: custom(None, **spec))


@settings(derandomize=True, max_examples=150, deadline=None)
@given(first=OBJECTS, second=OBJECTS, other=OBJECTS)
def test_apply_is_idempotent_and_says_what_the_config_says(first: Json, second: Json, other: Json) -> None:
    live = apply(CRD, None, first, manager="me", now=T1)
    live = apply(CRD, live, other, manager="you", now=T1, force=True)
    after = apply(CRD, live, second, manager="me", now=T2, force=True)
    assert apply(CRD, after, second, manager="me", now=T3) == after
    again = apply(CRD, after, second, manager="third", now=T3)
    assert plain(again) == plain(after), "applying the same as another manager changes no value"


@settings(derandomize=True, max_examples=150, deadline=None)
@given(config=OBJECTS)
def test_who_gives_everything_up_leaves_nothing(config: Json) -> None:
    live = apply(CRD, None, config, manager="me", now=T1)
    empty = {key: value for key, value in custom().items() if key != "spec"}
    assert plain(apply(CRD, live, empty, manager="me", now=T2)).get("spec", {}) == {}


def test_order_of_a_granular_list_is_no_change_and_of_an_atomic_one_is() -> None:
    assert not compare(CRD, custom(set=["a", "b"]), custom(set=["b", "a"]))
    assert compare(CRD, custom(atomic=["a", "b"]), custom(atomic=["b", "a"])).written == {"f:spec": {"f:atomic": {}}}


PATHS = st.frozensets(st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map(tuple), max_size=8)


@settings(derandomize=True, max_examples=300, deadline=None)
@given(one=PATHS, two=PATHS)
def test_sets_of_fields_are_sets(one: frozenset[Path], two: frozenset[Path]) -> None:
    left, right = to_fields_v1(one), to_fields_v1(two)
    assert from_fields_v1(left) == one
    assert from_fields_v1(union(left, right)) == one | two
    assert from_fields_v1(difference(left, right)) == one - two
    assert (difference(left, right) is left) == (not one & two)
    assert all(holds(left, path) == (path in one) for path in one | two)
    assert (left, right) == (to_fields_v1(one), to_fields_v1(two)), "trees are shared and must not change"


@pytest.mark.parametrize("value", [None, 3, {"f:a": 3}, {"f:a": {"f:b": None}}])
def test_malformed_entries_are_survived(value: Any) -> None:
    assert isinstance(from_fields_v1(value), set)
    entry = {"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": value}
    assert managed_fields.read([entry], trusted=False) == {}
    live = written(CONFIG_MAP, None, config_map(a="1"), "me", T1)
    sent = {**live, "metadata": {**live["metadata"], "managedFields": [entry]}}
    assert written(CONFIG_MAP, live, sent, "me", T2) == live


@pytest.mark.parametrize(
    ("parameter", "agent", "name"),
    [("me", "kubectl/v1", "me"), (None, "kubectl/v1.32 (linux)", "kubectl"), (None, "", "unknown"), ("", "curl", "curl")],
)
def test_manager_name(parameter: str | None, agent: str, name: str) -> None:
    assert manager_name(parameter, agent) == name
