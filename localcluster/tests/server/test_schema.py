"""CRD schemas: structural check, pruning, defaults, values, list types."""

import copy
from typing import Any

import pytest

from localcluster.apiserver.schema import CompiledSchema

Json = dict[str, Any]


def string(**more: Any) -> Json:
    return {"type": "string", **more}


def integer(**more: Any) -> Json:
    return {"type": "integer", **more}


def record(required: list[str] | None = None, **properties: Json) -> Json:
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def array(items: Json, **more: Any) -> Json:
    return {"type": "array", "items": items, **more}


def mapping(values: Json, **more: Any) -> Json:
    return {"type": "object", "additionalProperties": values, **more}


def of(spec: Json) -> Json:
    return {"name": "v1", "schema": {"openAPIV3Schema": record(spec=spec)}}


def crd_object(spec: Any) -> Json:
    return {"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "x"}, "spec": spec}


LIST_MAP = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
OPEN = {"x-kubernetes-preserve-unknown-fields": True}


PRUNE = {
    "unknown goes": (record(a=string()), {"a": "1", "b": 2}, {"a": "1"}, ["spec.b"]),
    "nested": (record(a=mapping(record(b=string()))), {"a": {"k": {"b": "1", "c": 1}}}, {"a": {"k": {"b": "1"}}},
        ["spec.a.k.c"]),
    "in a list": (record(a=array(record(b=string()))), {"a": [{"c": 1}]}, {"a": [{}]}, ["spec.a[0].c"]),
    "open keeps": ({**record(a=record()), **OPEN}, {"z": 1, "a": {"y": 1}}, {"z": 1, "a": {}}, ["spec.a.y"]),
    "open below keeps all": (record(a={"type": "object", **OPEN}), {"a": {"x": {"y": 1}}}, {"a": {"x": {"y": 1}}}, []),
    "bare object keeps nothing": (record(a={"type": "object"}), {"a": {"x": 1}}, {"a": {}}, ["spec.a.x"]),
    "free map": (record(a=mapping(string())), {"a": {"x": "1"}}, {"a": {"x": "1"}}, []),
    "embedded": (record(a={**record(spec=record()), "x-kubernetes-embedded-resource": True}),
        {"a": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "n", "zz": 1}, "spec": {"x": 1}, "q": 1}},
        {"a": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "n"}, "spec": {}}},
        ["spec.a.q", "spec.a.metadata.zz", "spec.a.spec.x"]),
    "wrong shape is left for validation": (record(a=record()), {"a": [1]}, {"a": [1]}, []),
}  # fmt: skip


@pytest.mark.parametrize("name", PRUNE)
def test_prune(name: str) -> None:
    spec, before, after, dropped = PRUNE[name]
    value = crd_object(copy.deepcopy(before))
    assert sorted(CompiledSchema(of(spec)).prune(value)) == sorted(dropped)
    assert value["spec"] == after


DEFAULTS = {
    "missing": (record(a=integer(default=3)), {}, {"a": 3}),
    "given": (record(a=integer(default=3)), {"a": 0}, {"a": 0}),
    "null counts as missing": (record(a=integer(default=3)), {"a": None}, {"a": 3}),
    "null stays where allowed": (record(a=integer(default=3, nullable=True)), {"a": None}, {"a": None}),
    "no parent, no default": (record(a=record(b=integer(default=3))), {}, {}),
    "into a default": (record(a={**record(b=integer(default=3)), "default": {}}), {}, {"a": {"b": 3}}),
    "in map values": (
        record(a=mapping(record(b=integer(default=1)))),
        {"a": {"x": {}, "y": {"b": 2}}},
        {"a": {"x": {"b": 1}, "y": {"b": 2}}},
    ),
    "in list items": (record(a=array(record(b=integer(default=1)))), {"a": [{}, {"b": 2}]}, {"a": [{"b": 1}, {"b": 2}]}),
}


@pytest.mark.parametrize("name", DEFAULTS)
def test_default(name: str) -> None:
    spec, before, after = DEFAULTS[name]
    value = crd_object(copy.deepcopy(before))
    CompiledSchema(of(spec)).default(value)
    assert value["spec"] == after


REPLICAS = record(replicaSpecs=mapping(record(replicas=integer(minimum=0))))
INVALID = {
    "valid": (REPLICAS, {"replicaSpecs": {"Worker": {"replicas": 1}}}, []),
    "minimum": (REPLICAS, {"replicaSpecs": {"Worker": {"replicas": -1}}},
        [
            (
                "spec.replicaSpecs.Worker.replicas: Invalid value: -1: "
                "spec.replicaSpecs.Worker.replicas in body should be greater than or equal to 0")]),
    "type": (record(a=integer()), {"a": "1"},
        ['spec.a: Invalid value: "string": spec.a in body must be of type integer: "string"']),
    "null": (record(a=integer()), {"a": None},
        ['spec.a: Invalid value: "null": spec.a in body must be of type integer: "null"']),
    "nullable": (record(a=integer(nullable=True, enum=[1])), {"a": None}, []),
    "whole float is an integer": (record(a=integer()), {"a": 1.0}, []),
    "bool is no integer": (record(a=integer()), {"a": True},
        ['spec.a: Invalid value: "boolean": spec.a in body must be of type integer: "boolean"']),
    "required": (record(["a"], a=string()), {}, ["spec.a: Required value"]),
    "enum": (record(a=string(enum=["x", "y"])), {"a": "z"}, ['spec.a: Unsupported value: "z": supported values: "x", "y"']),
    "pattern": (record(a=string(pattern="^a+$")), {"a": "b"},
        ["spec.a: Invalid value: \"b\": spec.a in body should match '^a+$'"]),
    "pattern is not anchored": (record(a=string(pattern="a")), {"a": "bab"}, []),
    "too long": (record(a=string(maxLength=2)), {"a": "abc"}, ["spec.a: Too long: may not be more than 2 bytes"]),
    "too many": (record(a=array(string(), maxItems=1)), {"a": ["x", "y"]}, ["spec.a: Too many: 2: must have at most 1 items"]),
    "min properties": (record(a=mapping(string(), minProperties=1)), {"a": {}},
        ["spec.a: Invalid value: {}: spec.a in body should have at least 1 properties"]),
    "item index": (record(a=array(integer())), {"a": [1, "x"]},
        ['spec.a[1]: Invalid value: "string": spec.a[1] in body must be of type integer: "string"']),
    "int or string": (record(a={"x-kubernetes-int-or-string": True}), {"a": 1}, []),
    "int or string, other": (record(a={"x-kubernetes-int-or-string": True}), {"a": 1.5},
        ['spec.a: Invalid value: "number": spec.a in body must be of type integer,string: "number"']),
    "format": (record(a=string(format="date-time")), {"a": "now"},
        ['spec.a: Invalid value: "now": spec.a in body must be of type date-time: "now"']),
    "format fine": (record(a=string(format="date-time"), b=string(format="duration"), c=string(format="strange")),
        {"a": "2026-11-21T10:00:00Z", "b": "1h3m", "c": "?"}, []),
    "any of": (record(a={**record(x=string(), y=string()), "anyOf": [{"required": ["x"]}, {"required": ["y"]}]}), {"a": {}},
        ['spec.a: Invalid value: "": "spec.a" must validate at least one schema (anyOf)']),
    "one of": (record(a={**record(x=string(), y=string()), "oneOf": [{"required": ["x"]}, {"required": ["y"]}]}),
        {"a": {"x": "1", "y": "1"}}, ['spec.a: Invalid value: "": "spec.a" must validate one and only one schema (oneOf)']),
    "set": (record(a=array(string(), **{"x-kubernetes-list-type": "set"})), {"a": ["x", "y", "x"]},
        ['spec.a[2]: Duplicate value: "x"']),
    "list map": (record(a=array(record(["name"], name=string()), **LIST_MAP)), {"a": [{"name": "x"}, {"name": "x"}]},
        ['spec.a[1]: Duplicate value: {"name":"x"}']),
    "list map in a map": (record(m=mapping(record(a=array(record(["name"], name=string()), **LIST_MAP)))),
        {"m": {"k": {"a": [{"name": "x"}, {"name": "x"}]}}}, ['spec.m[k].a[1]: Duplicate value: {"name":"x"}']),
    "embedded needs its kind": (record(a={**record(spec=record()), "x-kubernetes-embedded-resource": True}),
        {"a": {"apiVersion": "v1"}}, ["spec.a.kind: Required value"]),
}  # fmt: skip


@pytest.mark.parametrize("name", INVALID)
def test_validate(name: str) -> None:
    spec, value, expected = INVALID[name]
    assert [str(cause) for cause in CompiledSchema(of(spec)).validate(crd_object(value))] == expected
