"""Server-side apply: ownership, conflicts, removal."""

import json

from localcluster.conformance.case import Case, Expect, Json, Step
from localcluster.conformance.kinds import CONFIG_MAPS, PODS, SERVICES, WIDGETS, config_map, obj, widget
from localcluster.conformance.steps import UNKNOWN_UID, VERSION, apply, create, delete, get, patch, ref

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_OTHER_VERSION = json.dumps({"apiVersion": "v2", "kind": "ConfigMap", "data": {"a": "1"}})


def _applied(name: str, data: Json, last: Json | str) -> Json:
    """A config map as `kubectl apply` makes it, with what it wrote `last`."""
    said = last if isinstance(last, str) else json.dumps(obj(CONFIG_MAPS, name, {"data": last}))
    return obj(CONFIG_MAPS, name, {"data": data}, annotations={LAST_APPLIED: said})


def _applied_widget(spec: Json) -> Json:
    return widget("n", spec, annotations={LAST_APPLIED: json.dumps(obj(WIDGETS, "n", {"spec": spec}))})


_CONTAINER = {"name": "main", "image": "i"}

CASES = (
    Case("apply creates, then changes nothing", (
        apply(CONFIG_MAPS, "n", {"data": {"k": "v"}}, 201),
        apply(CONFIG_MAPS, "n", {"data": {"k": "v"}}, fields={VERSION: ref(CONFIG_MAPS, "n", VERSION)}),
        apply(CONFIG_MAPS, "n", {"data": {"k": "w"}}, fields={"data.k": "w"}),
    )),
    Case("apply against another manager", (
        apply(CONFIG_MAPS, "n", {"data": {"k": "v"}}, 201),
        apply(CONFIG_MAPS, "n", {"data": {"k": "w"}}, 409, "two", reason="Conflict", causes=("FieldManagerConflict .data.k",)),
        apply(CONFIG_MAPS, "n", {"data": {"k": "v", "l": "w"}}, manager="two", fields={"data": {"k": "v", "l": "w"}}),
        apply(CONFIG_MAPS, "n", {"data": {"k": "w", "l": "w"}}, manager="two", force=True, fields={"data.k": "w"}),
        apply(CONFIG_MAPS, "n", {"data": {"k": "v"}}, 409, reason="Conflict"),
    )),
    Case("what is no longer applied goes", (
        apply(CONFIG_MAPS, "n", {"data": {"k": "v", "l": "w"}, "metadata": {"labels": {"a": "b"}}}, 201),
        apply(CONFIG_MAPS, "n", {"data": {"l": "w"}}, fields={"data": {"l": "w"}, "metadata.labels": None}),
    )),
    Case("what another manager wants too stays", (
        apply(CONFIG_MAPS, "n", {"data": {"k": "v"}}, 201), apply(CONFIG_MAPS, "n", {"data": {"k": "v"}}, manager="two"),
        apply(CONFIG_MAPS, "n", {}, fields={"data.k": "v"}), apply(CONFIG_MAPS, "n", {}, manager="two", fields={"data": None}),
    )),
    Case("an update takes ownership from an apply", (
        apply(CONFIG_MAPS, "n", {"data": {"k": "v"}}, 201), patch(CONFIG_MAPS, "n", {"data": {"k": "patched"}}),
        apply(CONFIG_MAPS, "n", {"data": {"k": "v"}}, 409, reason="Conflict", causes=("FieldManagerConflict .data.k",)),
        apply(CONFIG_MAPS, "n", {"data": {"k": "v"}}, force=True, fields={"data.k": "v"}),
    )),
    Case("apply over an object that was never applied", (
        create(CONFIG_MAPS, config_map("n")),
        apply(CONFIG_MAPS, "n", {"data": {"k": "w"}}, 409, reason="Conflict", causes=("FieldManagerConflict .data.k",)),
        apply(CONFIG_MAPS, "n", {"data": {"l": "w"}}, fields={"data": {"k": "v", "l": "w"}}),
    )),
    Case("who gives up a list item takes along what others own in it", (
        apply(WIDGETS, "n", {"spec": {"size": 1, "parts": [{"name": "p"}]}}, 201),
        patch(WIDGETS, "n", {"spec": {"parts": [{"name": "p", "weight": 2}]}}),
        apply(WIDGETS, "n", {"spec": {"size": 1}}, fields={"spec.parts": None}),
    )),
    Case("an applied empty list has no owner", (
        apply(WIDGETS, "n", {"spec": {"size": 1, "tags": []}}, 201),
        apply(WIDGETS, "n", {"spec": {"size": 1}}, fields={"spec.tags": []}),
    )),
    Case("apply merges lists by their keys", (
        apply(PODS, "n", {"spec": {"containers": [_CONTAINER]}}, 201),
        apply(WIDGETS, "n", {"spec": {"size": 1, "parts": [{"name": "p"}]}}, 201),
        apply(WIDGETS, "n", {"spec": {"size": 1, "parts": [{"name": "q", "weight": 1}]}}, manager="two",
              fields={"spec.parts": [{"name": "p", "weight": 5}, {"name": "q", "weight": 1}]}),
        apply(WIDGETS, "n", {"spec": {"size": 1, "tags": ["a"]}}, manager="three"),
        apply(WIDGETS, "n", {"spec": {"size": 1, "tags": ["b"]}}, manager="four", fields={"spec.tags": ["a", "b"]}),
        apply(WIDGETS, "n", {"spec": {"size": 1}}, manager="three", fields={"spec.tags": ["b"]}),
        apply(SERVICES, "n", {"spec": {"clusterIP": "None", "ports": [{"port": 80}]}}, 201),
        apply(SERVICES, "n", {"spec": {"ports": [{"port": 80, "protocol": "TCP", "name": "web"}]}}, manager="two"),
    )),
    Case("apply that takes all of a pod's spec", (
        apply(PODS, "n", {"spec": {"containers": [_CONTAINER]}}, 201), apply(PODS, "n", {}, 422, reason="Invalid"),
    )),
    Case("apply of a custom object that its schema cannot type", (
        apply(WIDGETS, "n", {"spec": {"size": "many"}}, 500, reason=""),
        apply(WIDGETS, "n", {"spec": {"size": 1, "tags": ["a", "a"]}}, 500, reason=""),
        apply(WIDGETS, "n", {"spec": {"size": 1, "limit": True}}, 422, reason="Invalid"),
    )),
    Case("apply with a uid to what is missing", (
        apply(WIDGETS, "n", {"metadata": {"uid": UNKNOWN_UID}, "spec": {"size": 1}}, 409, reason="Conflict"),
        apply(WIDGETS, "n", {"status": {"phase": "New"}}, 404, subresource="status", reason="NotFound"),
    )),
    Case("apply of a field that the schema does not have", (
        apply(CONFIG_MAPS, "n", {"oops": 1}, 500, reason="", message="field not declared in schema"),
        apply(WIDGETS, "n", {"spec": {"size": 1, "oops": 1}}, 500, reason="",
            message=".spec.oops: field not declared in schema"),
        apply(CONFIG_MAPS, "n", {"data": {"k": 5}}, 500, reason="", message="failed to create typed patch object"),
    )),
    Case("apply without a manager, and of another object", (
        Step("PATCH", CONFIG_MAPS, "n", config_map("n"), Expect(422, "Invalid"), "application/apply-patch+yaml"),
        apply(CONFIG_MAPS, "n", {"metadata": {"name": "m"}}, 400, reason="BadRequest"),
        Step("PATCH", CONFIG_MAPS, "n", {"metadata": {"name": "n"}}, Expect(400, "BadRequest"), "application/apply-patch+yaml",
             {"fieldManager": "one"}),
    )),
    Case("apply of status and of the rest by one manager", (
        apply(WIDGETS, "n", {"spec": {"size": 1}, "status": {"phase": "New"}}, 201, fields={"status": None}),
        apply(WIDGETS, "n", {"status": {"phase": "New"}}, subresource="status", fields={"status.phase": "New"}),
        apply(WIDGETS, "n", {"spec": {"size": 2}}, fields={"status.phase": "New", "metadata.generation": 2}),
    )),
    Case("finalizers by apply", (
        apply(CONFIG_MAPS, "n", {"metadata": {"finalizers": ["example.com/hold"]}}, 201), delete(CONFIG_MAPS, "n"),
        get(CONFIG_MAPS, "n"), apply(CONFIG_MAPS, "n", {"metadata": {}}), get(CONFIG_MAPS, "n", 404),
    )),
    Case("kubectl takes over server-side what it applied client-side", (
        create(CONFIG_MAPS, _applied("n", {"a": "1", "b": "2"}, {"a": "1", "b": "2"})),
        apply(CONFIG_MAPS, "n", {"data": {"a": "9"}}, 409, "two", causes=("FieldManagerConflict .data.a",)),
        apply(CONFIG_MAPS, "n", {"data": {"a": "9", "b": "2"}}, manager="kubectl", fields={"data.a": "9"}),
        apply(CONFIG_MAPS, "n", {"data": {"a": "<8&>", "c": "1"}}, manager="kubectl", fields={"data.b": "2", "data.c": "1"}),
        patch(CONFIG_MAPS, "n", {"data": {"a": "4"}}),
        apply(CONFIG_MAPS, "n", {"data": {"a": "9"}}, 409, "kubectl", causes=("FieldManagerConflict .data.a",)),
        apply(CONFIG_MAPS, "n", {"data": {"c": "5"}, "metadata": {"annotations": {"x": "y"}}}, manager="kubectl"),
        apply(CONFIG_MAPS, "n", {"metadata": {"annotations": {LAST_APPLIED: "mine"}}}, 409, "kubectl"),
        apply(CONFIG_MAPS, "n", {"metadata": {"annotations": {LAST_APPLIED: "mine"}}}, manager="kubectl", force=True),
    )),
    Case("what has changed since kubectl applied it is not taken over", (
        create(CONFIG_MAPS, _applied("n", {"a": "1", "b": "2"}, {"a": "1", "b": "x"})),
        apply(CONFIG_MAPS, "n", {"data": {"a": "5", "b": "9"}}, 409, "kubectl", causes=("FieldManagerConflict .data.b",)),
    )),
    *(Case(f"what kubectl applied is told by {what}", (
        create(CONFIG_MAPS, _applied("n", {"a": "1"}, said)),
        apply(CONFIG_MAPS, "n", {"data": {"a": "2"}}, 409, "kubectl", causes=("FieldManagerConflict .data.a",)),
        apply(CONFIG_MAPS, "n", {"data": {"a": "1"}}, manager="kubectl"),
    )) for what, said in (("no JSON", "not json"), ("a list", "[]"), ("nothing", ""), ("another version", _OTHER_VERSION))),
    Case("kubectl takes over a custom object", (
        create(WIDGETS, _applied_widget({"size": 1, "replicas": 2})),
        apply(WIDGETS, "n", {"spec": {"size": 3}}, manager="kubectl", fields={"spec.size": 3}),
        apply(WIDGETS, "n", {"spec": {"size": 3, "replicas": 4}}, 409, "kubectl",
            causes=("FieldManagerConflict .spec.replicas",)),
    )),
    Case("YAML is taken as well", (
        Step("PATCH", CONFIG_MAPS, "cm", b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: cm\ndata:\n  k: v\n",
            Expect(201), "application/apply-patch+yaml", {"fieldManager": "one"}),
        Step("POST", CONFIG_MAPS, body=b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: other\n", media="application/yaml",
            expect=Expect(201)),
        create(CONFIG_MAPS, obj(CONFIG_MAPS, "other"), 409),
    )),
)  # fmt: skip
