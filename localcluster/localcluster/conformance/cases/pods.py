"""Pods: binding, what may change, and what the table of pods at the edge does not hold."""

from localcluster.apiserver.rest.patch import merge
from localcluster.conformance.case import Expect, Json, Step, Steps, case, same
from localcluster.conformance.kinds import NODE, PODS, bound, pod
from localcluster.request import MERGE_PATCH, STRATEGIC_PATCH

_GATED = {"schedulingGates": [{"name": "example.com/g"}]}


def _bind(node: str, code: int, name: str = "n", **expect: object) -> Step:
    target = {"kind": "Node", "name": node}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
    return PODS.act(name, "binding", body, code, **expect)


@case("a session with a pod that is on no node")
def _() -> Steps:
    yield PODS.create(pod("n"))
    for query in ({}, {"follow": "true"}):
        yield Step("GET", PODS, "n", subresource="log", query=query, expect=Expect(204))
    yield PODS.get("n", 400, {"container": "x"}, "log", message="is not valid")
    refused = Expect(400, "BadRequest", "pod n does not have a host assigned")
    yield Step("POST", PODS, "n", subresource="exec", query={"command": "true"}, expect=refused)


@case("pod with a scheduling gate")
def _() -> Steps:
    yield PODS.create(pod("n", _GATED), fields={"status.conditions.0.reason": "SchedulingGated"})


@case("what an update of a pod may change")
def _() -> Steps:
    yield PODS.create(pod("n"))
    for change in ({"restartPolicy": "Never"}, {"nodeName": NODE}, {"terminationGracePeriodSeconds": 5}):
        yield PODS.patch("n", {"spec": change}, 422, causes=("FieldValueForbidden spec",))
    yield PODS.patch("n", {"spec": {"activeDeadlineSeconds": 9}}, fields={"metadata.generation": 2})
    later = {"spec": {"activeDeadlineSeconds": 10}}
    yield PODS.patch("n", later, 422, causes=("FieldValueInvalid spec.activeDeadlineSeconds",))
    image = {"spec.containers.0.image": "i:2", "spec.containers.0.imagePullPolicy": "IfNotPresent"}
    yield PODS.patch("n", {"spec": {"containers": [{"name": "main", "image": "i:2"}]}}, media=STRATEGIC_PATCH, fields=image)


@case("a gated pod is not bound")
def _() -> Steps:
    yield PODS.create(pod("n", _GATED))
    yield _bind(NODE, 409, reason="Conflict")
    yield PODS.patch("n", {"spec": {"schedulingGates": []}})
    yield _bind(NODE, 201)


@case("binding")
def _() -> Steps:
    yield PODS.create(pod("n"))
    yield _bind(NODE, 201, fields={"status": "Success"})
    seen = {"spec.nodeName": NODE, "status.conditions.0.type": "PodScheduled", "metadata.generation": 1}
    yield PODS.get("n", fields=seen)
    yield _bind("other", 409, reason="Conflict")
    yield _bind(NODE, 404, "missing", reason="NotFound")


@case("status of a pod")
def _() -> Steps:
    yield PODS.create(bound("n"))
    running = {"status": {"phase": "Running"}}
    more = {**running, "spec": {"nodeName": "other"}, "metadata": {"labels": {"a": "b"}}}
    seen = {"spec.nodeName": NODE, "status.phase": "Running", "metadata.generation": 1}
    runs = yield PODS.patch("n", more, subresource="status", fields=seen)
    yield PODS.patch("n", running, subresource="status", fields=same(runs))
    yield PODS.patch("n", {"status": {"phase": "Failed"}}, fields={"status.phase": "Running", **same(runs)})
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    yield PODS.patch("n", ready, subresource="status", fields={"status.conditions.0.lastProbeTime": None})


@case("what is added to an update of a pod")
def _() -> Steps:
    def tolerating(*keys: str) -> list[Json]:
        return [{"key": key, "operator": "Exists"} for key in keys]

    yield PODS.create(pod("n"))
    made = yield PODS.patch("n", {"spec": {"tolerations": None}}, fields={"metadata.generation": 1})
    yield PODS.put("n", merge(made, {"spec": {"tolerations": None}}), fields=same(made))
    yield PODS.patch("n", {"spec": {"serviceAccountName": None}}, fields=same(made))
    yield PODS.put("n", pod("n"), 422, causes=("FieldValueForbidden spec",))
    added = yield PODS.patch("n", [{"op": "add", "path": "/spec/tolerations/-", "value": tolerating("k")[0]}])
    seen = {"metadata.generation": 3, "spec.tolerations.0.key": "k"}
    yield PODS.put("n", merge(added, {"spec": {"tolerations": tolerating("k")}}), fields=seen)
    tried = {"spec": {"tolerations": tolerating("k", "l")}}
    yield Step("PATCH", PODS, "n", tried, Expect(200, fields={"metadata.generation": 4}), MERGE_PATCH, {"dryRun": "All"})
    yield PODS.get("n", fields={"metadata.generation": 3})
