"""Pods: defaults, validation, binding, what may change."""

from typing import Any

from localcluster.conformance.case import Case, Expect, Json, Seen, Step
from localcluster.conformance.kinds import NODE, PODS, bound, pod
from localcluster.conformance.steps import VERSION, create, get, json_patch, patch, put, ref
from localcluster.request import MERGE_PATCH, STRATEGIC_PATCH


def _refused(what: str, *causes: str, spec: Json | None = None, container: Json | None = None) -> Case:
    return Case(f"pod with {what}", (create(PODS, pod("n", spec, container), 422, reason="Invalid", causes=causes),))


def _taken(what: str, fields: Json, spec: Json | None = None, container: Json | None = None) -> Case:
    return Case(f"pod with {what}", (create(PODS, pod("n", spec, container), fields=fields),))


def _binding(node: str, **meta: Any) -> Json:
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "n", **meta}, "target": {"kind": "Node", "name": node}}


CASES = (
    Case("a session with a pod that is on no node", (
        create(PODS, pod("n")),
        *(Step("GET", PODS, "n", subresource="log", query=query, expect=Expect(204)) for query in ({}, {"follow": "true"})),
        Step("GET", PODS, "n", subresource="log", query={"container": "x"}, expect=Expect(400, message="is not valid")),
        *(Step("POST", PODS, "n", subresource=what, query={"command": "true", "ports": "80"},
               expect=Expect(400, "BadRequest", "pod n does not have a host assigned"))
          for what in ("exec", "attach", "portforward")),
    )),
    _refused("env A=B", "FieldValueInvalid spec.containers[0].env[0].name", container={"env": [{"name": "A=B"}]}),
    _taken("a duplicate env", {"spec.containers.0.env.1.value": "2"},
           container={"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}),
    _refused("a duplicate volume", "FieldValueDuplicate spec.volumes[1].name",
             spec={"volumes": [{"name": "v", "emptyDir": {}}, {"name": "v", "emptyDir": {}}]}),
    _refused("two containers of one name", "FieldValueDuplicate spec.containers[1].name",
             spec={"containers": [{"name": "c", "image": "i"}, {"name": "c", "image": "i"}]}),
    _refused("no containers", "FieldValueRequired spec.containers", spec={"containers": []}),
    _refused("containers null", "FieldValueRequired spec.containers", spec={"containers": None}),
    _refused("no image", "FieldValueRequired spec.containers[0].image", spec={"containers": [{"name": "c"}]}),
    _refused("a hostname of 64", "FieldValueInvalid spec.hostname", spec={"hostname": "h" * 64}),
    _refused("an unknown restartPolicy", "FieldValueNotSupported spec.restartPolicy", spec={"restartPolicy": "Sometimes"}),
    _refused("a mount of no volume", "FieldValueNotFound spec.containers[0].volumeMounts[0].name",
             container={"volumeMounts": [{"name": "v", "mountPath": "/v"}]}),
    _refused("port 70000", "FieldValueInvalid spec.containers[0].ports[0].containerPort",
        container={"ports": [{"containerPort": 70000}]}),
    _refused("two ports of one name", "FieldValueDuplicate spec.containers[0].ports[1].name",
             container={"ports": [{"name": "p", "containerPort": 1}, {"name": "p", "containerPort": 2}]}),
    _refused("activeDeadlineSeconds 0", "FieldValueInvalid spec.activeDeadlineSeconds", spec={"activeDeadlineSeconds": 0}),
    _refused("a request above its limit", "FieldValueInvalid spec.containers[0].resources.requests",
             container={"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}),
    _taken("its defaults", {
        "spec.restartPolicy": "Always", "spec.terminationGracePeriodSeconds": 30, "spec.dnsPolicy": "ClusterFirst",
            "spec.priority": 0,
        "spec.containers.0.imagePullPolicy": "IfNotPresent", "spec.containers.0.terminationMessagePath": "/dev/termination-log",
        "spec.tolerations.0.key": "node.kubernetes.io/not-ready", "status.qosClass": "BestEffort", "status.phase": "Pending",
        "spec.serviceAccountName": "default",
    }),
    _taken("limits alone", {"spec.containers.0.resources.requests": {"cpu": "1"}, "status.qosClass": "Burstable"},
           container={"resources": {"limits": {"cpu": "1"}}}),
    _taken("guaranteed resources", {"status.qosClass": "Guaranteed"},
        container={"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}),
    _taken("the newest image", {"spec.containers.0.imagePullPolicy": "Always"}, container={"image": "i:latest"}),
    _taken("a scheduling gate", {"status.conditions.0.reason": "SchedulingGated"},
        spec={"schedulingGates": [{"name": "example.com/g"}]}),
    Case("pod with a quantity that is none", (
        create(PODS, pod("n", container={"resources": {"requests": {"cpu": "1x"}}}), 400, reason="BadRequest"),
    )),
    Case("pod with a priority class that is missing", (
        create(PODS, pod("n", {"priorityClassName": "missing"}), 403, reason="Forbidden"),
    )),
    Case("pod with an account that is missing", (create(PODS, pod("n", {"serviceAccountName": "missing"}), 403,
        reason="Forbidden"),)),
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
    Case("tolerations may be added, not changed", (
        create(PODS, pod("n", {"tolerations": [{"operator": "Exists"}]})),
        patch(PODS, "n", {"spec": {"tolerations": [{"key": "k", "operator": "Exists"}]}}, 422,
            causes=("FieldValueForbidden spec.tolerations",)),
        patch(PODS, "n", {"spec": {"tolerations": [{"operator": "Exists"}, {"key": "k", "operator": "Exists"}]}}),
    )),
    Case("a negative grace period is the shortest", (
        create(PODS, pod("n", {"terminationGracePeriodSeconds": -1}), fields={"spec.terminationGracePeriodSeconds": 1}),
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
    Case("every rule that an update of a pod breaks", (
        create(PODS, pod("n", {"tolerations": [{"operator": "Exists"}], "activeDeadlineSeconds": 10})),
        patch(PODS, "n", {"spec": {"tolerations": [{"key": "k"}], "hostname": "h"}}, 422,
            causes=("FieldValueForbidden spec.tolerations", "FieldValueForbidden spec")),
        patch(PODS, "n", {"spec": {"schedulingGates": [{"name": "example.com/g"}], "hostname": "h"}}, 422,
            causes=("FieldValueForbidden spec.schedulingGates[0].name", "FieldValueForbidden spec")),
        patch(PODS, "n", {"spec": {"activeDeadlineSeconds": None, "hostname": "h"}}, 422,
            causes=("FieldValueInvalid spec.activeDeadlineSeconds", "FieldValueForbidden spec")),
        patch(PODS, "n", {"spec": {"activeDeadlineSeconds": 20, "hostname": "h"}}, 422,
            causes=("FieldValueInvalid spec.activeDeadlineSeconds",)),
        patch(PODS, "n", {"spec": {"initContainers": [{"name": "i", "image": "i"}], "containers": [
            {"name": "main", "image": "i"}, {"name": "c", "image": "i"}]}}, 422,
            causes=("FieldValueForbidden spec.containers",)),
    )),
)  # fmt: skip
