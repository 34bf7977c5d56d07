"""Custom objects: schema, defaults, CEL, status, scale, generation."""

from typing import Any

from localcluster.conformance.case import Case, Json, Seen
from localcluster.conformance.kinds import WIDGETS, widget
from localcluster.conformance.steps import (
    UID,
    UNKNOWN_UID,
    VERSION,
    apply,
    create,
    delete,
    get,
    json_patch,
    patch,
    put,
    ref,
    watch,
)  # fmt: skip
from localcluster.request import STRATEGIC_PATCH


def _refused(what: str, spec: Json, *causes: str) -> Case:
    return Case(f"custom object with {what}", (create(WIDGETS, widget("n", spec), 422, reason="Invalid", causes=causes),))


def _of_type(name: str, **change: Any) -> Json:
    """A widget that says that it is something else, or (None) not what it is."""
    return {key: value for key, value in {**widget(name), **change}.items() if value is not None}


_UNCHECKED = "FieldValueInvalid <nil>"

CASES = (
    Case("custom object: defaults and pruning", (
        create(WIDGETS, widget("n", {"unknown": 1, "parts": [{"name": "p"}], "extra": {"kept": 1}}),
            fields={"spec.replicas": 1, "spec.mode": "Fast", "spec.nested.depth": 3, "spec.parts.0.weight": 5,
                "spec.unknown": None, "spec.extra.kept": 1, "metadata.generation": 1}),
    )),
    _refused("a value above its maximum", {"size": 101}, "FieldValueInvalid spec.size"),
    _refused("a negative count that is scaled by", {"replicas": -1}, "FieldValueInvalid .spec.replicas",
        "FieldValueInvalid spec.replicas"),
    _refused("a wrong type", {"size": "big"}, _UNCHECKED, "FieldValueTypeInvalid spec.size"),
    _refused("a missing field", {"size": None}, _UNCHECKED, "FieldValueRequired spec.size"),
    _refused("an enum's stranger", {"mode": "Odd"}, _UNCHECKED, "FieldValueNotSupported spec.mode"),
    _refused("a duplicate in a set", {"tags": ["a", "a"]}, "FieldValueDuplicate spec.tags[1]"),
    _refused("a duplicate in a list map", {"parts": [{"name": "p"}, {"name": "p"}]}, "FieldValueDuplicate spec.parts[1]"),
    _refused("too many items", {"tags": list("abcdef")}, _UNCHECKED, "FieldValueTooMany spec.tags"),
    _refused("a string too long", {"owner": "x" * 21}, _UNCHECKED, "FieldValueTooLong spec.owner"),
    _refused("a broken CEL rule", {"size": 1, "replicas": 11}, "FieldValueInvalid spec"),
    Case("a transition rule", (
        create(WIDGETS, widget("n", {"owner": "me"})),
        patch(WIDGETS, "n", {"spec": {"owner": "you"}}, 422, causes=("FieldValueInvalid spec.owner",),
            message="owner is immutable"),
        patch(WIDGETS, "n", {"spec": {"owner": None}}), patch(WIDGETS, "n", {"spec": {"owner": "you"}}),
    )),
    Case("a rule with an optional old value", (
        create(WIDGETS, widget("n", {"level": 6}), 422, causes=("FieldValueInvalid <nil>",)),
        create(WIDGETS, widget("n", {"level": 5})),
        patch(WIDGETS, "n", {"spec": {"level": 6}}, 422, message="level is at most 5, or what it was"),
        patch(WIDGETS, "n", {"metadata": {"labels": {"a": "b"}}}),
        patch(WIDGETS, "n", {"spec": {"level": None}}), patch(WIDGETS, "n", {"spec": {"level": 6}}, 422),
    )),
    Case("generation counts changes of spec", (
        create(WIDGETS, widget("n")),
        patch(WIDGETS, "n", {"metadata": {"labels": {"a": "b"}}}, fields={"metadata.generation": 1}),
        patch(WIDGETS, "n", {"spec": {"size": 2}}, fields={"metadata.generation": 2}),
        patch(WIDGETS, "n", {"status": {"phase": "New"}}, fields={"metadata.generation": 2, "status": None}),
        patch(WIDGETS, "n", {"status": {"phase": "New"}}, subresource="status",
            fields={"metadata.generation": 2, "status.phase": "New"}),
    )),
    Case("status in create is dropped", (create(WIDGETS, widget("n") | {"status": {"phase": "New"}},
        fields={"status": None}),)),
    Case("a status update changes nothing else", (
        create(WIDGETS, widget("n", labels={"a": "b"})),
        put(WIDGETS, "n", Seen("widgets/a/n", {"spec": {"size": 9}, "status": {"phase": "New"},
            "metadata": {"labels": {"a": "z"}}}),
            subresource="status", fields={"spec.size": 1, "status.phase": "New", "metadata.generation": 1,
                "metadata.labels.a": "b"}),
    )),
    Case("a status update that changes nothing is not written", (
        create(WIDGETS, widget("n")), patch(WIDGETS, "n", {"status": {"phase": "New"}}, subresource="status"),
        put(WIDGETS, "n", Seen("widgets/a/n"), subresource="status", fields={VERSION: ref(WIDGETS, "n", VERSION)}),
        watch(WIDGETS, ref(WIDGETS, "n", VERSION)),
    )),
    Case("a status of the old incarnation", (
        create(WIDGETS, widget("n")), delete(WIDGETS, "n"), create(WIDGETS, widget("n")),
        put(WIDGETS, "n", Seen("widgets/a/n", {"status": {"phase": "Done"}}, back=1), 409, subresource="status",
            reason="Conflict"),
        put(WIDGETS, "n", Seen("widgets/a/n", {"status": {"phase": "Done"}, "metadata": {"uid": None}}, back=1), 409,
            subresource="status", reason="Conflict"),
        put(WIDGETS, "n", Seen("widgets/a/n", {"status": {"phase": "Done"}, "metadata": {
            "uid": ref(WIDGETS, "n", UID, 1)}}), 409, subresource="status", reason="Conflict"),
        get(WIDGETS, "n", fields={"status": None}),
    )),
    Case("a patch of status does not mind a wrong uid", (
        create(WIDGETS, widget("n")),
        patch(WIDGETS, "n", {"metadata": {"uid": UNKNOWN_UID}, "status": {"phase": "New"}}, subresource="status",
              fields={"status.phase": "New", UID: ref(WIDGETS, "n", UID)}),
        apply(WIDGETS, "n", {"metadata": {"uid": UNKNOWN_UID}, "status": {"replicas": 2}}, subresource="status",
            fields={"status.replicas": 2}),
    )),
    Case("a patch of status minds a stale version and a JSON test", (
        create(WIDGETS, widget("n")), patch(WIDGETS, "n", {"metadata": {"labels": {"a": "b"}}}),
        patch(WIDGETS, "n", {"metadata": {"resourceVersion": ref(WIDGETS, "n", VERSION, 1)}, "status": {"phase": "New"}}, 409,
              subresource="status", reason="Conflict"),
        json_patch(WIDGETS, "n", [{"op": "test", "path": "/metadata/uid", "value": UNKNOWN_UID}], 422, subresource="status",
            reason="Invalid"),
    )),
    Case("status that its schema refuses", (
        create(WIDGETS, widget("n")),
        patch(WIDGETS, "n", {"status": {"phase": "Odd"}}, 422, subresource="status", reason="Invalid"),
        put(WIDGETS, "missing", widget("missing", resourceVersion="1"), 404, subresource="status", reason="NotFound"),
    )),
    Case("no strategic merge of custom objects", (
        create(WIDGETS, widget("n")), patch(WIDGETS, "n", {"spec": {"size": 2}}, 415, STRATEGIC_PATCH,
            reason="UnsupportedMediaType"),
    )),
    Case("scale", (
        create(WIDGETS, widget("n", {"size": 5})),
        patch(WIDGETS, "n", {"status": {"replicas": 1, "selector": "app=x"}}, subresource="status"),
        get(WIDGETS, "n", subresource="scale", fields={
            "kind": "Scale", "apiVersion": "autoscaling/v1", "spec.replicas": 1, "status.replicas": 1,
                "status.selector": "app=x",
        }),
        patch(WIDGETS, "n", {"spec": {"replicas": 3}}, subresource="scale", fields={"spec.replicas": 3}),
        get(WIDGETS, "n", fields={"spec.replicas": 3, "metadata.generation": 2}),
        patch(WIDGETS, "n", {"spec": {"replicas": -1}}, 422, subresource="scale", reason="Invalid"),
        patch(WIDGETS, "n", {"spec": {"replicas": 0}}, subresource="scale", fields={"spec": {}}),
        put(WIDGETS, "n", {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {
            "name": "n", "resourceVersion": ref(WIDGETS, "n", VERSION, 1)}, "spec": {"replicas": 2}}, 409, subresource="scale",
            reason="Conflict"),
        get(WIDGETS, "missing", 404, subresource="scale", reason="NotFound"),
    )),
    Case("a scale that is both stale and impossible", (
        create(WIDGETS, widget("n")),
        put(WIDGETS, "n", {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "n", "resourceVersion": "1"},
            "spec": {"replicas": -1}}, 409, "scale", reason="Conflict"),
    )),
    Case("custom objects without a type", (
        create(WIDGETS, _of_type("n", kind=None), 400, reason="BadRequest"),
        create(WIDGETS, _of_type("n", kind=""), 400, reason="BadRequest"),
        create(WIDGETS, _of_type("n", apiVersion=None), 400, reason="BadRequest"), create(WIDGETS, widget("n")),
        put(WIDGETS, "n", _of_type("n", kind=None), 400, reason="BadRequest"),
        put(WIDGETS, "n", _of_type("n", kind=None), 400, subresource="status", reason="BadRequest"),
        patch(WIDGETS, "n", {"kind": None}, 422, reason="Invalid", causes=("FieldValueInvalid patch",)),
        patch(WIDGETS, "n", {"kind": 3}, 422, reason="Invalid", causes=("FieldValueInvalid patch",)),
        json_patch(WIDGETS, "n", [{"op": "remove", "path": "/kind"}], 422, reason="Invalid",
            causes=("FieldValueInvalid patch",)),
        patch(WIDGETS, "n", {"apiVersion": None}, 500, reason="InternalError"),
    )),
    Case("custom objects of another type", (
        create(WIDGETS, _of_type("n", kind="Other"), 422, causes=("FieldValueInvalid kind", "FieldValueInvalid spec")),
        create(WIDGETS, {**_of_type("n", kind="Other"), "spec": {"size": "x"}}, 422,
            causes=("FieldValueInvalid kind", "FieldValueInvalid spec")),
        create(WIDGETS, {**_of_type("N!", kind="Other"), "spec": {}}, 422,
            causes=("FieldValueInvalid kind", "FieldValueInvalid spec")),
        create(WIDGETS, _of_type("n", apiVersion="other/v1"), 400, reason="BadRequest"), create(WIDGETS, widget("n")),
        put(WIDGETS, "n", _of_type("n", kind="Other"), 422, causes=("FieldValueInvalid metadata.resourceVersion",)),
        put(WIDGETS, "n", Seen("widgets/a/n", {"kind": "Other"}), 422, causes=("FieldValueInvalid kind",)),
        put(WIDGETS, "n", Seen("widgets/a/n", {"apiVersion": "other/v1"}), 400, reason="BadRequest"),
        patch(WIDGETS, "n", {"kind": "Other", "spec": {"size": "x"}}, 422,
            causes=("FieldValueInvalid kind", "FieldValueInvalid spec")),
        patch(WIDGETS, "n", {"kind": "Other", "metadata": {"labels": {"a": "b!"}}}, 422,
            causes=("FieldValueInvalid kind", "FieldValueInvalid metadata.labels")),
        patch(WIDGETS, "n", {"apiVersion": "other/v1", "kind": "Other"}, 422,
            causes=("FieldValueInvalid apiVersion", "FieldValueInvalid kind")),
        apply(WIDGETS, "n", {"kind": "Other", "spec": {"size": 2}}, 400, reason="BadRequest"),
    )),
    Case("annotations that are too large leave the rules unchecked", (
        create(WIDGETS, widget("n", {"replicas": 50}, annotations={"a": "x" * 300_000}), 422,
            causes=("FieldValueTooLong metadata.annotations", "FieldValueInvalid <nil>")),
    )),
)  # fmt: skip
