"""managedFields: the owners of fields after writes other than apply."""

from localcluster.conformance.case import Case, Expect, Json, Seen, Step
from localcluster.conformance.kinds import (
    CONFIG_MAPS,
    JOBS,
    PODS,
    SERVICES,
    WIDGETS,
    bound,
    config_map,
    job,
    pod,
    service,
    widget,
)
from localcluster.conformance.steps import VERSION, apply, create, delete, get, json_patch, patch, put, ref

_MANAGED = "metadata.managedFields"
_OWNED = f"{_MANAGED}.0.fieldsV1"


def _by(manager: str, name: str, change: Json, subresource: str = "", code: int = 200) -> Step:
    """A merge patch of a ConfigMap by someone."""
    return Step(
        "PATCH", CONFIG_MAPS, name, change, Expect(code), "application/merge-patch+json", {"fieldManager": manager}, subresource
    )


def _scaled(count: int) -> Step:
    return patch(WIDGETS, "n", {"spec": {"replicas": count}}, subresource="scale")


CASES = (
    Case("a creator owns what it wrote and the defaults of it", (
        create(CONFIG_MAPS, config_map("n", labels={"a": "b"}), fields={
            f"{_MANAGED}.0.manager": "conformance", f"{_MANAGED}.0.operation": "Update", f"{_MANAGED}.0.subresource": None,
            _OWNED: {"f:data": {".": {}, "f:k": {}}, "f:metadata": {"f:labels": {".": {}, "f:a": {}}}}}),
        create(PODS, pod("n"), fields={_OWNED: {"f:spec": {
            "f:containers": {'k:{"name":"main"}': {".": {}, "f:image": {}, "f:imagePullPolicy": {}, "f:name": {},
                "f:resources": {}, "f:terminationMessagePath": {}, "f:terminationMessagePolicy": {}}},
            "f:dnsPolicy": {}, "f:enableServiceLinks": {}, "f:restartPolicy": {}, "f:schedulerName": {},
            "f:securityContext": {}, "f:terminationGracePeriodSeconds": {}}}}),
        create(PODS, pod("m", {"serviceAccountName": "default", "tolerations": [{"operator": "Exists"}]})),
        create(SERVICES, service("n")), create(WIDGETS, widget("n", {"parts": [{"name": "p"}], "tags": ["a"]})),
        create(SERVICES, service("m", {"clusterIP": "", "type": "NodePort"})),
        create(JOBS, job("n")),
    )),
    Case("the first apply conflicts with who wrote the field", (
        create(CONFIG_MAPS, config_map("n")), _by("editor", "n", {"data": {"l": "v"}}),
        apply(CONFIG_MAPS, "n", {"data": {"k": "w", "l": "w"}}, 409, reason="Conflict",
            causes=("FieldManagerConflict .data.k", "FieldManagerConflict .data.l"),
            message='conflicts with "editor" using v1'),
        apply(CONFIG_MAPS, "n", {"data": {"k": "w"}}, force=True), get(CONFIG_MAPS, "n"),
    )),
    Case("what the server assigned to a pod has no owner", (
        create(PODS, bound("n")),
        apply(PODS, "n", {"status": {"phase": "Running"}}, subresource="status", fields={"status.phase": "Running"}),
        apply(PODS, "n", {"spec": {"priority": 0}}),
    )),
    Case("an update that changes nothing owns nothing", (
        create(CONFIG_MAPS, config_map("n")), _by("other", "n", {"data": {"k": "v"}}),
        get(CONFIG_MAPS, "n", fields={VERSION: ref(CONFIG_MAPS, "n", VERSION), f"{_MANAGED}.1": None}),
    )),
    Case("an update takes what it changes and leaves what it removes", (
        create(CONFIG_MAPS, config_map("n", {"k": "v", "l": "v", "m": "v"})),
        _by("one", "n", {"data": {"k": "w", "l": None}}), _by("two", "n", {"data": {"k": "x"}}),
        put(CONFIG_MAPS, "n", config_map("n", {"m": "v"}, resourceVersion=ref(CONFIG_MAPS, "n", VERSION))),
        _by("one", "n", {"data": None}), json_patch(CONFIG_MAPS, "n", [{"op": "add", "path": "/data", "value": {"z": "1"}}]),
    )),
    Case("status has entries of its own", (
        create(PODS, bound("n")), patch(PODS, "n", {"status": {"phase": "Running"}}, subresource="status",
            fields={f"{_MANAGED}.1.subresource": "status"}),
        patch(PODS, "n", {"status": {"phase": "Failed"}, "metadata": {"labels": {"a": "b"}}}, subresource="status"),
        create(WIDGETS, widget("n")), patch(WIDGETS, "n", {"status": {"phase": "New"}}, subresource="status"),
        patch(WIDGETS, "n", {"metadata": {"labels": {"a": "b"}}, "status": {"replicas": 1}}, subresource="status"),
    )),
    Case("an empty list ends the tracking", (
        create(CONFIG_MAPS, config_map("n")),
        put(CONFIG_MAPS, "n", Seen("configmaps/a/n", {"metadata": {"managedFields": []}}), fields={_MANAGED: None}),
        _by("one", "n", {"data": {"l": "v"}}), get(CONFIG_MAPS, "n", fields={_MANAGED: None}),
        apply(CONFIG_MAPS, "n", {"data": {"k": "w"}}, 409, message='conflict with "before-first-apply"'),
        apply(CONFIG_MAPS, "n", {"data": {"k": "v"}}), create(WIDGETS, widget("n")),
        put(WIDGETS, "n", Seen("widgets/a/n", {"metadata": {"managedFields": [{}]}}), fields={_MANAGED: None}),
        patch(WIDGETS, "n", {"metadata": {"managedFields": []}}), create(WIDGETS, widget("m")),
        put(WIDGETS, "m", Seen("widgets/a/m", {"metadata": {"managedFields": []}})),
    )),
    Case("an update may bring older entries, or nonsense", (
        create(CONFIG_MAPS, config_map("n")), _by("one", "n", {"data": {"l": "v"}}),
        put(CONFIG_MAPS, "n", Seen("configmaps/a/n", {"data": {"l": "v"}, "metadata": {"resourceVersion": None}}, back=1)),
        put(CONFIG_MAPS, "n", Seen("configmaps/a/n", {"metadata": {"resourceVersion": None}}, back=9)),
        put(CONFIG_MAPS, "n", Seen("configmaps/a/n", {"metadata": {"managedFields": [
            {"manager": "x", "operation": "Odd", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {}}]}})),
    )),
    Case("a PUT that creates goes on from the entries that it brings", (
        create(SERVICES, service("n")),
        Step("PATCH", SERVICES, "n", {"metadata": {"labels": {"a": "b"}, "annotations": {"a": "b"}}}, Expect(200),
            "application/merge-patch+json", {"fieldManager": "one"}),
        patch(SERVICES, "n", {"metadata": {"labels": {"c": "d"}}}), get(SERVICES, "n"), delete(SERVICES, "n"),
        put(SERVICES, "n", Seen("services/a/n", {"metadata": {"uid": None, "labels": None}}, back=1), 201,
            fields={f"{_MANAGED}.1.manager": "one"}),
        delete(SERVICES, "n"),
        put(SERVICES, "n", Seen("services/a/n", {"metadata": {"uid": None, "managedFields": []}}, back=1), 201,
            fields={f"{_MANAGED}.0.manager": "conformance"}),
    )),
    Case("an update that changes nothing keeps one of two entries of one manager", (
        create(WIDGETS, widget("n")), _scaled(1), get(WIDGETS, "n"),
        json_patch(WIDGETS, "n", [{"op": "remove", "path": "/spec/nested"}]), get(WIDGETS, "n", fields={f"{_MANAGED}.1": None}),
    )),
    Case("what another manager applied already is applied without a time", (
        apply(CONFIG_MAPS, "n", {"data": {"k": "v"}}, 201),
        apply(CONFIG_MAPS, "n", {"data": {"k": "v"}}, manager="two",
            fields={f"{_MANAGED}.0.manager": "two", f"{_MANAGED}.0.time": None}),
        apply(CONFIG_MAPS, "n", {"data": {"k": "v", "l": "w"}}, manager="two"),
    )),
    Case("a scale takes the count, even one that is there", (
        create(WIDGETS, widget("n", {"size": 5})), _scaled(1),
        get(WIDGETS, "n", fields={f"{_MANAGED}.0.time": None, _OWNED: {"f:spec": {"f:replicas": {}}}}),
        _scaled(1), get(WIDGETS, "n"), _scaled(3), get(WIDGETS, "n"), _scaled(3), _scaled(0), get(WIDGETS, "n"), _scaled(2),
        get(WIDGETS, "n"), apply(WIDGETS, "n", {"spec": {"size": 5, "replicas": 9}}),
        apply(WIDGETS, "n", {"spec": {"size": 5, "replicas": 2}}), _scaled(2), get(WIDGETS, "n"), _scaled(4), get(WIDGETS, "n"),
    )),
    Case("items with one key are owned as one", (
        create(PODS, pod("n", None, {"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}, {"name": "B"}]})),
    )),
    Case("what a Service drops with its type", (
        create(SERVICES, service("n", {"clusterIP": "", "type": "NodePort"})),
        patch(SERVICES, "n", {"spec": {"type": "ClusterIP"}}),
        patch(SERVICES, "n", {"spec": {"type": "ExternalName", "externalName": "example.com", "clusterIP": None}}),
    )),
    Case("a pod that only a finalizer keeps is deleted at once when a propagation removes it", (
        create(PODS, pod("n")), delete(PODS, "n", {"propagationPolicy": "Orphan"}, fields={"metadata.finalizers": ["orphan"]}),
        delete(PODS, "n", {"propagationPolicy": "Background"}, fields={"metadata.finalizers": ["orphan"]}), get(PODS, "n", 404),
    )),
    Case("what is refused before its name is generated", (
        create(PODS, {**pod("x", {"priorityClassName": "missing"}), "metadata": {"generateName": "g1-"}}, 403,
            fields={"details.name": "g1-"}),
        create(PODS, {**pod("x", {"serviceAccountName": "missing"}), "metadata": {"generateName": "g1-"}}, 403,
            fields={"details.name": "g1-"}),
        create(PODS, {**pod("x", {"restartPolicy": "Odd"}), "metadata": {"generateName": "g1-"}}, 422, reason="Invalid"),
    )),
    Case("a null in a map of a custom object is no entry", (
        create(JOBS, job("n")), json_patch(JOBS, "n", [{"op": "add", "path": "/spec/tfReplicaSpecs/PS", "value": None}],
            fields={"spec.tfReplicaSpecs.PS": None}),
        json_patch(JOBS, "n", [{"op": "add", "path": "/spec/tfReplicaSpecs", "value": {"PS": None}}], 422,
            causes=("FieldValueInvalid spec.tfReplicaSpecs",)),
    )),
    Case("what a PUT creates from a copy of a Service that was being deleted is being deleted", (
        create(SERVICES, service("n", finalizers=["example.com/hold"])), delete(SERVICES, "n"),
        patch(SERVICES, "n", {"metadata": {"finalizers": None}}), get(SERVICES, "n", 404),
        put(SERVICES, "n", Seen("services/a/n", {"metadata": {"resourceVersion": None, "uid": None}}), 201,
            fields={"metadata.deletionGracePeriodSeconds": 0}),
        patch(SERVICES, "n", {}), get(SERVICES, "n", 404),
    )),
    Case("a status update from a copy of a pod that was being deleted", (
        create(PODS, pod("n", finalizers=["example.com/hold"])), delete(PODS, "n"),
        patch(PODS, "n", {"metadata": {"finalizers": None}}), create(PODS, pod("n")),
        put(PODS, "n", Seen("pods/a/n", {"metadata": {"resourceVersion": None, "uid": None}}, back=1), 422, "status",
            causes=("FieldValueInvalid metadata.deletionGracePeriodSeconds",)),
    )),
    Case("a second deletion shortens the grace only when it says so", (
        create(PODS, bound("n")), delete(PODS, "n", {"gracePeriodSeconds": 60}),
        delete(PODS, "n", {"propagationPolicy": "Foreground"}, fields={"metadata.deletionGracePeriodSeconds": 60}),
        delete(PODS, "n", {"gracePeriodSeconds": 90}, fields={"metadata.deletionGracePeriodSeconds": 60}),
        delete(PODS, "n", {"gracePeriodSeconds": 5}, fields={"metadata.deletionGracePeriodSeconds": 5}),
        patch(PODS, "n", {"status": {"phase": "Succeeded"}}, subresource="status"), delete(PODS, "n"),
        delete(PODS, "n", {"gracePeriodSeconds": 0}), get(PODS, "n", 404),
    )),
    Case("an empty apply to an untracked object", (
        create(CONFIG_MAPS, config_map("n")),
        put(CONFIG_MAPS, "n", Seen("configmaps/a/n", {"metadata": {"managedFields": []}})), apply(CONFIG_MAPS, "n", {}),
        apply(CONFIG_MAPS, "n", {}, fields={VERSION: ref(CONFIG_MAPS, "n", VERSION)}),
    )),
    Case("a strict status update minds the whole object, even of what is missing", (
        Step("PUT", WIDGETS, "n", widget("n", {"odd": 1}), Expect(400, "BadRequest"), query={"fieldValidation": "Strict"},
             subresource="status"),
        Step("PUT", WIDGETS, "n", widget("n"), Expect(404, "NotFound"), query={"fieldValidation": "Strict"},
             subresource="status"),
    )),
    Case("a strict patch that leaves an unknown field is invalid", (
        create(WIDGETS, widget("n")), create(CONFIG_MAPS, config_map("n")),
        *(Step("PATCH", kind, "n", document, Expect(422, "Invalid"), f"application/{media}+json", {"fieldValidation": "Strict"})
          for kind, document, media in (
              (WIDGETS, {"spec": {"odd": 1}}, "merge-patch"),
              (WIDGETS, [{"op": "add", "path": "/spec/odd", "value": 1}], "json-patch"),
              (CONFIG_MAPS, {"odd": 1}, "strategic-merge-patch"),
              (CONFIG_MAPS, {"odd": 1}, "merge-patch"))),
    )),
    Case("two addresses of a Service that do not agree", (
        Step("POST", SERVICES, body={**service("n"), "spec": {"ports": [{"port": 80}], "clusterIP": "10.97.1.1",
             "clusterIPs": ["10.97.1.2"]}}, expect=Expect(422, "Invalid", causes=("FieldValueInvalid spec.clusterIPs",))),
    )),
    Case("a page of what an index gives has no next one", (
        create(PODS, bound("n1")), create(PODS, pod("n2")),
        Step("GET", PODS, query={"fieldSelector": "spec.nodeName=node-1", "limit": 1},
             expect=Expect(200, items=("n1",), fields={"metadata.continue": None})),
        Step("GET", PODS, query={"fieldSelector": "spec.nodeName!=", "limit": 1}, expect=Expect(200, items=("n1",))),
    )),
    Case("of more than ten updaters the oldest become one", (
        create(CONFIG_MAPS, config_map("n")),
        *(_by(f"u{number:02}", "n", {"data": {f"k{number}": "v"}}) for number in range(13)),
        get(CONFIG_MAPS, "n", fields={f"{_MANAGED}.0.manager": "ancient-changes", f"{_MANAGED}.10": None}),
        apply(CONFIG_MAPS, "n", {"data": {"a": "b"}}), _by("u14", "n", {"data": {"z": "v"}}), get(CONFIG_MAPS, "n"),
    )),
)  # fmt: skip
