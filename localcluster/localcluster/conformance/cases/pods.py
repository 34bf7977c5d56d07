"""Pods: binding, priority, what may change, and what the table of pods at the edge does not hold."""

from typing import Any

from localcluster.conformance.case import Case, Expect, Json, Seen, Step
from localcluster.conformance.kinds import NODE, PODS, bound, pod
from localcluster.conformance.steps import VERSION, create, get, json_patch, patch, put, ref
from localcluster.request import MERGE_PATCH, STRATEGIC_PATCH


def _pod(what: str, spec: Json | None = None, container: Json | None = None, code: int = 201, **expect: Any) -> Case:
    return Case(f"pod with {what}", (create(PODS, pod("n", spec, container), code, **expect),))


def _binding(node: str, **meta: Any) -> Json:
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "n", **meta}, "target": {"kind": "Node", "name": node}}


CASES = (
    Case("a session with a pod that is on no node", (
        create(PODS, pod("n")),
        *(Step("GET", PODS, "n", subresource="log", query=query, expect=Expect(204)) for query in ({}, {"follow": "true"})),
        Step("GET", PODS, "n", subresource="log", query={"container": "x"}, expect=Expect(400, message="is not valid")),
        *(Step("POST", PODS, "n", subresource=what, query={"command": "true", "ports": "80"},
               expect=Expect(400, "BadRequest", "pod n does not have a host assigned"))
          for what in ("exec", "portforward")),
    )),
    _pod("a duplicate env", None, {"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]},
        fields={"spec.containers.0.env.1.value": "2"}),
    _pod("the newest image", None, {"image": "i:latest"}, fields={"spec.containers.0.imagePullPolicy": "Always"}),
    _pod("a scheduling gate", {"schedulingGates": [{"name": "example.com/g"}]},
        fields={"status.conditions.0.reason": "SchedulingGated"}),
    Case("what an update of a pod may change", (
        create(PODS, pod("n")),
        patch(PODS, "n", {"spec": {"restartPolicy": "Never"}}, 422, causes=("FieldValueForbidden spec",)),
        patch(PODS, "n", {"spec": {"nodeName": NODE}}, 422, causes=("FieldValueForbidden spec",)),
        patch(PODS, "n", {"spec": {"terminationGracePeriodSeconds": 5}}, 422, causes=("FieldValueForbidden spec",)),
        patch(PODS, "n", {"spec": {"activeDeadlineSeconds": 9}}, fields={"metadata.generation": 2}),
        patch(PODS, "n", {"spec": {"activeDeadlineSeconds": 10}}, 422,
            causes=("FieldValueInvalid spec.activeDeadlineSeconds",)),
        patch(PODS, "n", {"spec": {"containers": [{"name": "main", "image": "i:2"}]}}, media=STRATEGIC_PATCH,
              fields={"spec.containers.0.image": "i:2", "spec.containers.0.imagePullPolicy": "IfNotPresent"}),
    )),
    Case("a gated pod is not bound", (
        create(PODS, pod("n", {"schedulingGates": [{"name": "example.com/g"}]})),
        Step("POST", PODS, "n", _binding(NODE), Expect(409, "Conflict"), subresource="binding"),
        patch(PODS, "n", {"spec": {"schedulingGates": []}}), Step("POST", PODS, "n", _binding(NODE), Expect(201),
            subresource="binding"),
    )),
    Case("binding", (
        create(PODS, pod("n")),
        Step("POST", PODS, "n", _binding(NODE), Expect(201, fields={"status": "Success"}), subresource="binding"),
        get(PODS, "n", fields={"spec.nodeName": NODE, "status.conditions.0.type": "PodScheduled", "metadata.generation": 1}),
        Step("POST", PODS, "n", _binding("other"), Expect(409, "Conflict"), subresource="binding"),
        Step("POST", PODS, "missing", _binding(NODE) | {"metadata": {"name": "missing"}}, Expect(404, "NotFound"),
            subresource="binding"),
    )),
    Case("status of a pod", (
        create(PODS, bound("n")),
        patch(PODS, "n", {"status": {"phase": "Running"}, "spec": {"nodeName": "other"}, "metadata": {"labels": {"a": "b"}}},
              subresource="status", fields={"spec.nodeName": NODE, "status.phase": "Running", "metadata.generation": 1}),
        patch(PODS, "n", {"status": {"phase": "Running"}}, subresource="status", fields={VERSION: ref(PODS, "n", VERSION)}),
        patch(PODS, "n", {"status": {"phase": "Failed"}}, fields={"status.phase": "Running", VERSION: ref(PODS, "n", VERSION)}),
        patch(PODS, "n", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, subresource="status",
              fields={"status.conditions.0.lastProbeTime": None}),
    )),
    Case("what is added to an update of a pod", (
        create(PODS, pod("n")), patch(PODS, "n", {"spec": {"tolerations": None}}, fields={"metadata.generation": 1}),
        put(PODS, "n", Seen("pods/a/n", {"spec": {"tolerations": None}}), fields={VERSION: ref(PODS, "n", VERSION)}),
        patch(PODS, "n", {"spec": {"serviceAccountName": None}}, fields={VERSION: ref(PODS, "n", VERSION)}),
        put(PODS, "n", pod("n"), 422, causes=("FieldValueForbidden spec",)),
        json_patch(PODS, "n", [{"op": "add", "path": "/spec/tolerations/-", "value": {"key": "k", "operator": "Exists"}}]),
        put(PODS, "n", Seen("pods/a/n", {"spec": {"tolerations": [{"key": "k", "operator": "Exists"}]}}),
            fields={"metadata.generation": 3, "spec.tolerations.0.key": "k"}),
        Step("PATCH", PODS, "n", {"spec": {"tolerations": [{"key": key, "operator": "Exists"} for key in ("k", "l")]}},
             Expect(200, fields={"metadata.generation": 4}), MERGE_PATCH, {"dryRun": "All"}),
        get(PODS, "n", fields={"metadata.generation": 3}),
    )),
)  # fmt: skip
