"""Refusals: metadata, sizes, unknown fields."""

from localcluster.conformance.case import Case, Expect, Json, Step
from localcluster.conformance.kinds import (
    CONFIG_MAPS,
    PODS,
    SECRETS,
    SERVICES,
    WIDGETS,
    config_map,
    obj,
    pod,
    service,
    widget,
)
from localcluster.conformance.steps import UNKNOWN_UID, create, patch, put

_MIB = 1024 * 1024


def _owner(name: str) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": UNKNOWN_UID, "controller": True}


CASES = (
    Case("label value of 64", (
        create(CONFIG_MAPS, config_map("n", labels={"a": "x" * 64}), 422, reason="Invalid",
            causes=("FieldValueInvalid metadata.labels",)),
        create(CONFIG_MAPS, config_map("n", labels={"a": "x" * 63})),
        create(CONFIG_MAPS, config_map("m", labels={"a b": "x"}), 422, causes=("FieldValueInvalid metadata.labels",)),
    )),
    Case("service name of 64", (
        create(SERVICES, service("x" * 64), 422, reason="Invalid", causes=("FieldValueInvalid metadata.name",)),
        create(SERVICES, service("x" * 63)),
    )),
    Case("pod name of 254 and of 64", (
        create(PODS, pod("x" * 254), 422, reason="Invalid", causes=("FieldValueInvalid metadata.name",)),
        create(PODS, pod("x" * 64)), create(PODS, pod("Upper"), 422, causes=("FieldValueInvalid metadata.name",)),
    )),
    Case("no name", (
        create(CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}}, 422, reason="Invalid",
               causes=("FieldValueRequired metadata.name",)),
    )),
    Case("two controllers", (
        create(CONFIG_MAPS, config_map("n", ownerReferences=[_owner("x"), _owner("y")]), 422, reason="Invalid",
               causes=("FieldValueInvalid metadata.ownerReferences",)),
        create(CONFIG_MAPS, config_map("n", ownerReferences=[_owner("x")])),
        patch(CONFIG_MAPS, "n", {"metadata": {"ownerReferences": [_owner("x"), _owner("y")]}}, 422, reason="Invalid"),
    )),
    Case("an ownerReference without a uid", (
        create(CONFIG_MAPS, config_map("n", ownerReferences=[{"apiVersion": "v1", "kind": "ConfigMap", "name": "x",
            "uid": ""}]), 422,
               causes=("FieldValueInvalid metadata.ownerReferences.uid",)),
    )),
    Case("annotations of 300 KiB", (
        create(CONFIG_MAPS, config_map("n", annotations={"a": "x" * 300 * 1024}), 422, reason="Invalid",
               causes=("FieldValueTooLong metadata.annotations",)),
    )),
    Case("a custom object of 1.7 MiB and of 3.3 MiB", (
        create(WIDGETS, widget("n", {"extra": {"x": "y" * int(1.7 * _MIB)}}), 500, reason="",
            message="etcdserver: request is too large"),
        create(WIDGETS, widget("n", {"extra": {"x": "y" * int(3.3 * _MIB)}}), 413, reason="RequestEntityTooLarge"),
    )),
    Case("a ConfigMap of 1.2 MiB", (
        create(CONFIG_MAPS, config_map("n", {"k": "x" * int(1.2 * _MIB)}), 422, reason="Invalid",
            causes=("FieldValueTooLong []",)),
    )),
    Case("a ConfigMap's keys and values", (
        create(CONFIG_MAPS, config_map("n", {"bad key": "v"}), 422, causes=("FieldValueInvalid data[bad key]",)),
        create(CONFIG_MAPS, config_map("n", {"k": 1}), 400, reason="BadRequest"),
        create(CONFIG_MAPS, config_map("n") | {"binaryData": {"k": "AAEC"}}, 422, reason="Invalid"),
    )),
    Case("bytes that are not base64", (
        create(SECRETS, obj(SECRETS, "n", {"data": {"k": "not base64!"}}), 400, reason="BadRequest"),
        create(SECRETS, obj(SECRETS, "n", {"stringData": {"k": "plain"}}), fields={"data.k": "cGxhaW4=", "type": "Opaque"}),
    )),
    Case("bytes with line breaks in their base64", (
        create(SECRETS, obj(SECRETS, "n", {"data": {"k": "cGxh\naW4=\n"}}), fields={"data.k": "cGxhaW4="}),
        create(CONFIG_MAPS, config_map("n") | {"binaryData": {"b": "AA\r\nEC"}}, fields={"binaryData.b": "AAEC"}),
    )),
    Case("versions that say nothing", (
        create(CONFIG_MAPS, config_map("n", resourceVersion="v1")), create(CONFIG_MAPS, config_map("m", resourceVersion="0")),
        create(CONFIG_MAPS, config_map("o", resourceVersion="5"), 500, reason=""),
        put(CONFIG_MAPS, "n", config_map("n", {"k": "w"}, resourceVersion="0"), fields={"data.k": "w"}),
        patch(CONFIG_MAPS, "n", {"metadata": {"resourceVersion": "0"}, "data": {"k": "x"}}, fields={"data.k": "x"}),
        put(CONFIG_MAPS, "n", config_map("n", resourceVersion="v1"), 500, reason=""),
    )),
    Case("an immutable ConfigMap", (
        create(CONFIG_MAPS, config_map("n") | {"immutable": True}),
        patch(CONFIG_MAPS, "n", {"data": {"k": "w"}}, 422, causes=("FieldValueForbidden data",)),
        patch(CONFIG_MAPS, "n", {"immutable": None}, 422, causes=("FieldValueForbidden immutable",)),
        patch(CONFIG_MAPS, "n", {"metadata": {"labels": {"a": "b"}}}),
    )),
    *(
        Case(f"an unknown field, {mode}", (
            Step("POST", CONFIG_MAPS, body=config_map("n") | {"oops": 1}, query={"fieldValidation": mode}, expect=Expect(code)),
            Step("POST", WIDGETS, body=widget("n", {"oops": 1}), query={"fieldValidation": mode}, expect=Expect(code)),
        ))
        for mode, code in (("Strict", 400), ("Warn", 201), ("Ignore", 201))
    ),
    Case("empty lists and maps are unset", (
        create(CONFIG_MAPS, config_map("n", labels={}, annotations={}, finalizers=[], ownerReferences=[]) | {"data": {}},
               fields={"data": None, "metadata.labels": None, "metadata.finalizers": None}),
    )),
    Case("a media type that is not served", (
        Step("POST", CONFIG_MAPS, body=b"x", media="text/plain", expect=Expect(415, "UnsupportedMediaType")),
        Step("PATCH", CONFIG_MAPS, "n", b"{}", media="application/json", expect=Expect(415, "UnsupportedMediaType")),
    )),
)  # fmt: skip
