"""Server-side apply: merging, owners, conflicts, removal."""

import copy
import json
from typing import Any

import pytest

from localcluster.apiserver import builtin_schemas
from localcluster.apiserver.apply import ApplyConflictError, ApplyError, Manager, apply
from localcluster.apiserver.schema import compile_schema
from localcluster.request import APPLY_PATCH
from tests.server.api import CRS, Api, cr, crd, service

Json = dict[str, Any]
ME, YOU = Manager("me"), Manager("you")
T1, T2, T3 = "2026-11-21T10:00:00Z", "2026-11-21T11:00:00Z", "2026-11-21T12:00:00Z"
CONFIG_MAP = builtin_schemas.root("", "v1", "ConfigMap") or {}
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
    "box": {"type": "object", "properties": {"a": STRING, "b": STRING}},
}  # fmt: skip
SCHEMA = {"type": "object", "properties": {"spec": {**OPEN, "properties": SPEC}, "status": OPEN}}
CRD = compile_schema({"name": "v1", "schema": {"openAPIV3Schema": SCHEMA}}).node


def config_map(**data: str) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": data}


def custom(**spec: Any) -> Json:
    return {"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "x"}, "spec": spec}


def owned(item: Json, manager: str) -> Json:
    found: Json = next(one["fieldsV1"] for one in item["metadata"]["managedFields"] if one["manager"] == manager)
    return found


def test_inputs_do_not_change() -> None:
    live = apply(CONFIG_MAP, None, config_map(a="1", b="2"), me=ME, now=T1)
    config = config_map(a="3")
    before = copy.deepcopy((live, config))
    apply(CONFIG_MAP, live, config, me=ME, now=T2)
    assert (live, config) == before


def test_managers_share_a_list_by_its_keys() -> None:
    live = apply(CRD, None, custom(ports=[{"port": 80, "name": "web"}]), me=ME, now=T1)
    live = apply(CRD, live, custom(ports=[{"port": 80, "protocol": "UDP"}, {"port": 81}]), me=YOU, now=T2)
    assert [(one["port"], one.get("protocol")) for one in live["spec"]["ports"]] == [(80, None), (80, "UDP"), (81, None)]
    item = {'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:name": {}, "f:port": {}}}
    assert owned(live, "me") == {"f:spec": {"f:ports": item}}
    live = apply(CRD, live, custom(ports=[{"port": 81}]), me=YOU, now=T3)
    assert live["spec"]["ports"] == [{"port": 80, "name": "web"}, {"port": 81}]


@pytest.mark.parametrize(
    ("before", "after", "left"),
    [
        ({"box": {"a": "1", "b": "1"}}, {"box": {"a": "1"}}, {"box": {"a": "1"}}),
        ({"box": {"a": "1"}}, {}, {}),
        ({"box": {"a": "1"}}, {"box": {}}, {"box": {}}),
        ({"set": ["a", "b"]}, {"set": ["b"]}, {"set": ["b"]}),
        ({"atomic": ["a", "b"]}, {"atomic": ["b"]}, {"atomic": ["b"]}),
        ({"whole": {"k": "v"}}, {"whole": {"l": "w"}}, {"whole": {"l": "w"}}),
        ({"ports": [{"port": 1}], "box": {"a": "1"}}, {"box": {"a": "2"}}, {"box": {"a": "2"}}),
        ({"free": {"x": {"y": 1}, "z": 1}}, {"free": {"z": 1}}, {"free": {"z": 1}}),
    ],
)
def test_what_is_left_out_is_removed(before: Json, after: Json, left: Json) -> None:
    live = apply(CRD, None, custom(**before), me=ME, now=T1)
    live["spec"]["default"] = "of the server"
    assert apply(CRD, live, custom(**after), me=ME, now=T2)["spec"] == {**left, "default": "of the server"}


def test_conflicts_are_grouped_by_manager_and_force_takes_the_fields() -> None:
    live = apply(CONFIG_MAP, None, config_map(a="1", b="2"), me=ME, now=T1)
    live = apply(CONFIG_MAP, live, config_map(c="3", b="2"), me=Manager("other"), now=T2)
    with pytest.raises(ApplyConflictError) as caught:
        apply(CONFIG_MAP, live, config_map(a="9", b="2", c="9"), me=YOU, now=T3)
    assert str(caught.value).splitlines() == [
        'Apply failed with 2 conflicts: conflicts with "me":', "- .data.a", 'conflicts with "other":', "- .data.c",
    ]  # fmt: skip
    live = apply(CONFIG_MAP, live, config_map(a="9", b="2", c="9"), me=YOU, now=T3, force=True)
    assert live["data"] == {"a": "9", "b": "2", "c": "9"}
    assert owned(live, "me") == owned(live, "other") == {"f:data": {"f:b": {}}}
    # All three have applied b: it stays while one of them does.
    for manager, left in ((ME, {"a": "9", "b": "2", "c": "9"}), (Manager("other"), {"a": "9", "b": "2", "c": "9"}), (YOU, {})):
        live = apply(CONFIG_MAP, live, {key: one for key, one in config_map().items() if key != "data"}, me=manager, now=T3)
        assert live.get("data", {}) == left


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({**custom(), "metadata": {"name": "x", "managedFields": []}}, "managedFields must be nil"),
        (custom(ports=[{"name": "web"}]), "without its key 'port'"),
        (custom(ports=["web"]), "this item is not an object"),
        (custom(ports=[{"port": 1}, {"port": 1, "name": "x"}]), "two items with the same key"),
    ],
)
def test_refused(config: Json, message: str) -> None:
    with pytest.raises(ApplyError, match=message):
        apply(CRD, apply(CRD, None, custom(ports=[{"port": 1}]), me=ME, now=T1), config, me=ME, now=T1)


def test_an_object_too_deep_to_walk_is_an_error_and_no_crash() -> None:
    deep: Json = {}
    for _ in range(5000):
        deep = {"a": deep}
    with pytest.raises(ApplyError, match="nested too deeply"):
        apply(CRD, None, custom(free=deep), me=ME, now=T1)


def test_requests_keep_the_owners_of_what_was_applied() -> None:
    """Ordinary writes have no entry of their own, and an apply that changes nothing is no write."""
    api = Api()
    path = "/api/v1/namespaces/default/services/s"
    config = {"apiVersion": "v1", "kind": "Service", **service("s")}
    made = api.patch(path, config, APPLY_PATCH, fieldManager="me")
    assert made.code == 201
    assert api.patch(path, config, APPLY_PATCH, fieldManager="me").rv == made.rv
    edited = api.patch(path, {"metadata": {"labels": {"a": "b"}, "managedFields": []}})
    assert owned(edited.body, "me") == owned(made.body, "me")
    other = {**config, "spec": {"selector": {"app": "t"}}}
    refused = api.patch(path, other, APPLY_PATCH, fieldManager="you")
    assert (refused.code, refused.causes) == (409, [".spec.selector"])
    assert api.patch(path, other, APPLY_PATCH, fieldManager="you", force="true").code == 200
    assert api.get(path).body["metadata"]["labels"] == {"a": "b"}
    assert api.patch(path, config, APPLY_PATCH).message.endswith("fieldManager: Required value: is required for apply patch")


def test_spec_and_status_are_applied_apart() -> None:
    api = Api()
    api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd())
    config = {**cr("f"), "status": {"phase": "Running"}}
    assert "status" not in api.patch(f"{CRS}/f", config, APPLY_PATCH, fieldManager="me").body
    shown = api.patch(f"{CRS}/f/status", {**config, "spec": {"replicas": 9}}, APPLY_PATCH, fieldManager="me").body
    assert (shown["spec"]["replicas"], shown["status"]) == (1, {"phase": "Running"})
    entries = {one.get("subresource", ""): json.dumps(one["fieldsV1"]) for one in shown["metadata"]["managedFields"]}
    assert entries == {"": '{"f:spec": {"f:replicas": {}}}', "status": '{"f:status": {"f:phase": {}}}'}
