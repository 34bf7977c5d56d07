"""CEL rules in CRD schemas: values, transitions, messages, escapes, and doing without the engine."""

import logging
import sys
from typing import Any

import pytest

from localcluster.apiserver import cel
from localcluster.apiserver.schema import compile_schema
from localcluster.apiserver.schema.structural import rule_causes

Json = dict[str, Any]
MISSING: Any = object()


def version(spec: Json, *rules: Json) -> Json:
    schema = {"type": "object", "properties": {"spec": {**spec, "x-kubernetes-validations": list(rules)}}}
    return {"name": "v1", "schema": {"openAPIV3Schema": schema}}


def record(**properties: Json) -> Json:
    return {"type": "object", "properties": properties}


def crd_object(spec: Any) -> Json:
    return {"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "x"}, "spec": spec}


INTEGER, STRING = {"type": "integer"}, {"type": "string"}
ANY_MAP = {"type": "object", "additionalProperties": INTEGER}
PAIR = record(low=INTEGER, high=INTEGER)

# (schema, rule, new, old or MISSING, causes)
CASES: dict[str, tuple[Json, Json, Any, Any, list[str]]] = {
    "holds": (PAIR, {"rule": "self.low <= self.high"}, {"low": 1, "high": 2}, MISSING, []),
    "fails with its text": (PAIR, {"rule": "self.low <= self.high"}, {"low": 3, "high": 2}, MISSING,
        ['spec: Invalid value: "object": failed rule: self.low <= self.high']),
    "message": (PAIR, {"rule": "false", "message": "no"}, {}, MISSING, ['spec: Invalid value: "object": no']),
    "missing key": (PAIR, {"rule": "self.low > 0"}, {}, MISSING,
        ['spec: Invalid value: "object": no such key: low evaluating rule: failed rule: self.low > 0']),
    "field path": (PAIR, {"rule": "false", "message": "no", "fieldPath": ".high"}, {}, MISSING,
        ['spec.high: Invalid value: "object": no']),
    "transition on create": (STRING, {"rule": "self == oldSelf"}, "a", MISSING, []),
    "transition": (STRING, {"rule": "self == oldSelf", "message": "immutable"}, "b", "a",
        ['spec: Invalid value: "string": immutable']),
    "transition unchanged": (STRING, {"rule": "self == oldSelf"}, "a", "a", []),
    "optional old on create": (INTEGER,
        {"rule": "oldSelf.hasValue() ? self >= oldSelf.value() : self == 0", "optionalOldSelf": True}, 1, MISSING,
        ['spec: Invalid value: "integer": failed rule: oldSelf.hasValue() ? self >= oldSelf.value() : self == 0']),
    "optional old on update": (INTEGER,
        {"rule": "oldSelf.hasValue() ? self >= oldSelf.value() : self == 0", "optionalOldSelf": True}, 3, 2, []),
    "map keys": (ANY_MAP, {"rule": "self.all(k, k in ['Master', 'Worker'])", "message": "Master or Worker"}, {"Chief": 1},
        MISSING, ['spec: Invalid value: "object": Master or Worker']),
    "map keys are not escaped": (ANY_MAP, {"rule": "'a-b' in self"}, {"a-b": 1}, MISSING, []),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_rule(name: str) -> None:
    spec, rule, new, old, expected = CASES[name]
    entry = version(spec, rule)
    assert rule_causes(entry["schema"]["openAPIV3Schema"], "") == []
    before = None if old is MISSING else crd_object(old)
    assert [str(cause) for cause in compile_schema(entry).validate(crd_object(new), before)] == expected


def test_items_of_a_list_map_are_compared_by_key() -> None:
    items = record(name=STRING, n={**INTEGER, "x-kubernetes-validations": [{"rule": "self >= oldSelf", "message": "only up"}]})
    listing = {
        "type": "array",
        "items": {**items, "required": ["name"]},
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
    }
    old = crd_object({"l": [{"name": "a", "n": 5}, {"name": "b", "n": 1}]})
    new = crd_object({"l": [{"name": "b", "n": 2}, {"name": "a", "n": 4}, {"name": "c", "n": 0}]})
    compiled = compile_schema(version(record(l=listing)))
    assert [str(cause) for cause in compiled.validate(new, old)] == ['spec.l[1].n: Invalid value: "integer": only up']


UNCHECKED = (
    "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)


@pytest.mark.parametrize(
    ("low", "fields"),
    [
        ("x", ["spec.low", "<nil>"]),  # a wrong type: a rule could not rely on anything
        (-1, ["spec.low", "spec"]),  # a wrong value: rules run and report as well
    ],
)
def test_rules_run_only_where_they_can_rely_on_the_shape(low: Any, fields: list[str]) -> None:
    spec = record(low={**INTEGER, "minimum": 0}, high=INTEGER)
    found = compile_schema(version(spec, {"rule": "self.low >= self.high"})).validate(crd_object({"low": low, "high": 1}))
    assert [cause.field for cause in found] == fields
    assert fields[1] != "<nil>" or str(found[1]) == UNCHECKED


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"rule": "self.low <="}, "compilation failed"),
        ({"rule": "nothing.low"}, "undeclared reference"),
        ({"rule": "1 + 1"}, "must evaluate to a bool"),
    ],
)
def test_wrong_rule_refuses_the_crd(rule: Json, message: str) -> None:
    schema = version(PAIR, rule)["schema"]["openAPIV3Schema"]
    (cause,) = rule_causes(schema, "s")
    assert cause.field.startswith("s.properties[spec].x-kubernetes-validations[0]")
    assert message in cause.message


def test_transition_rule_needs_items_that_can_be_told_apart() -> None:
    listing = {"type": "array", "items": {**INTEGER, "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}}
    (cause,) = rule_causes(record(a=listing), "s")
    assert "cannot be used on the uncorrelatable portion" in cause.message


def test_what_the_engine_lacks_is_skipped_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    assert compile_schema(version(PAIR, {"rule": "self.__namespace__ == 'n'"})).validate(crd_object({})) == []
    rule = {"rule": "url(self).getHost() == 'skipped-rule-test'"}
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            compiled = compile_schema(version(STRING, rule))
            assert compiled.validate(crd_object("x")) == []
    assert [one.getMessage() for one in caplog.records if "skipped-rule-test" in one.getMessage()] == [
        "CEL rule skipped (the engine lacks a function or macro that it uses): url(self).getHost() == 'skipped-rule-test'"
    ]


def test_without_the_engine_no_rule_is_checked_and_that_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "cel_expr_python", None)
    cel._engine.cache_clear()
    cel.compile_expression.cache_clear()
    with caplog.at_level(logging.WARNING):
        for rule in ("self == 'no-engine'", "no syntax at all )"):
            schema = version(STRING, {"rule": rule})
            assert rule_causes(schema["schema"]["openAPIV3Schema"], "") == []
            assert compile_schema(schema).validate(crd_object("x")) == []
    cel._engine.cache_clear()
    cel.compile_expression.cache_clear()
    (said,) = [one.getMessage() for one in caplog.records]
    assert said.startswith("CEL rules of CustomResourceDefinitions are not checked")
